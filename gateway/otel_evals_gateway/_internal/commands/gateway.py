"""`otel-evals gateway`: receives OTLP and scores it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otel_evals.sdk.commands import exit_on

if TYPE_CHECKING:
    from otel_evals_gateway._internal.service import Gateway


def gateway(
    config: Annotated[
        Path,
        typer.Option(envvar="OTEL_EVALS_CONFIG", help="YAML file with rules, destinations and `gateway`."),
    ],
) -> None:
    """Receive OTLP from agents in any language, and score it."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Not of other libraries: LiteLLM and HTTP clients log each call at this level.
    for name in ("otel_evals", "otel_evals_gateway"):
        logging.getLogger(name).setLevel(logging.INFO)
    with exit_on(command="gateway", extra="gateway"):
        _run(config)


def _run(path: Path) -> None:
    from otel_evals import load_config
    from otel_evals.sdk.pipeline import Providers, make_missing
    from otel_evals_gateway._internal.service import Gateway

    os.environ.setdefault("OTEL_SERVICE_NAME", "otel-evals-gateway")
    loaded = load_config(path)
    made = Providers()
    used = make_missing(Providers(), made)
    try:
        asyncio.run(_serve(Gateway(loaded, used, path)))
    finally:
        made.force_flush(int(loaded.shutdown_timeout * 1000))
        made.shutdown(loaded.shutdown_timeout)


async def _serve(service: Gateway) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, service.reload)
    except NotImplementedError:  # Windows has only Ctrl-C and Ctrl-Break; a changed file reloads
        for number in (signal.SIGINT, getattr(signal, "SIGBREAK", signal.SIGINT)):
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
    # Full collections need not visit what lives as long as the process.
    await service.serve(stop, gc.freeze)
