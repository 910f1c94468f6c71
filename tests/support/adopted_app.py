"""A small application as its users have it: the code of a page of docs/already, then agent calls.

`python adopted_app.py PAGE ORDER` runs the page's code (`after`), with the lines of otel-evals first
(`before`), or without them (`without`). Only the option that has an evaluation span for every score, in the
same trace, is added. Models are asked at OPENAI_BASE_URL.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "already"
QUESTION = "Where is my order?"


def code_of(page: str, order: str) -> str:
    """The page's code in this order."""
    (code,) = re.findall(r"```python\n(.+?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    library, found, ours = code.partition("import otel_evals\n")
    assert found
    ours = ours.replace("otel_evals.configure(", 'otel_evals.configure(evaluation_spans="same_trace", ')
    return {"after": library + found + ours, "before": found + ours + library, "without": library}[order]


def chat() -> None:
    from openai import OpenAI

    client = OpenAI(api_key="k")
    client.chat.completions.create(model="stub", messages=[{"role": "user", "content": QUESTION}])


def chat_of_langfuse() -> None:
    from langfuse.openai import OpenAI

    client = OpenAI(api_key="k")
    client.chat.completions.create(model="stub", messages=[{"role": "user", "content": QUESTION}])


def ask_agent() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    Agent(TestModel(custom_output_text="It arrives on Monday."), name="support").run_sync(QUESTION)


def request() -> None:
    import fastapi
    from fastapi.testclient import TestClient
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor

    app = fastapi.FastAPI()
    app.get("/ask")(ask_agent)
    FastAPIInstrumentor.instrument_app(app)
    assert TestClient(app).get("/ask").status_code == 200


WORK: dict[str, Callable[[], None]] = {
    "azure": ask_agent,
    "fastapi": request,
    "langfuse": chat_of_langfuse,
    "logfire": ask_agent,
}


def main() -> None:
    page, order = sys.argv[1:]
    exec(compile(code_of(page, order), f"{page}.md", "exec"), {"__name__": "__main__"})
    for _ in range(int(os.environ["CALLS"])):
        WORK.get(page, chat)()
        time.sleep(0.01)


if __name__ == "__main__":
    main()
