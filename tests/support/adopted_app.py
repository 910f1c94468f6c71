"""A small application as its users have it: the code of a page about another SDK, then agent calls.

`python -m tests.support.adopted_app PAGE ORDER` runs the page's code (`after`), with the lines of otel-evals
first (`before`), or without them (`without`). Added are only options: one for slow machines, the destinations
named after ORDER, and those in the environment variable OPTIONS. With README as the page, what stands there
under "Use it" is run as it is. Models are asked at OPENAI_BASE_URL.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.setups import note_warnings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SECTIONS = {
    **{
        name: (DOCS / "backends" / f"{name}.md", "Next to its SDK")
        for name in ("azure", "langfuse", "logfire", "mlflow", "phoenix")
    },
    "fastapi": (DOCS / "existing-tracing.md", "FastAPI, and a provider of your own"),
    "openlit": (DOCS / "existing-tracing.md", "OpenLIT"),
    "traceloop": (DOCS / "existing-tracing.md", "Traceloop (OpenLLMetry)"),
}
"""Page and heading of each SDK that has a tracer provider of its own."""
QUESTION = "Where is my order?"


def section(page: str) -> str:
    """The section of the docs about this SDK."""
    path, heading = SECTIONS[page]
    return path.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]


def code_of(page: str, order: str, *destinations: str) -> str:
    """The page's code in this order."""
    if page == "README":
        return code_of_readme()
    (code,) = re.findall(r"```python\n(.+?)```", section(page), re.DOTALL)
    library, found, ours = code.partition("import otel_evals\n")
    assert found
    more = f"no_traffic_after=900, destinations={list(destinations)}, {os.environ.get('OPTIONS', '')}"
    ours = ours.replace("otel_evals.configure(", f"otel_evals.configure({more}")
    return {"after": library + found + ours, "before": found + ours + library, "without": library}[order]


def code_of_readme() -> str:
    """What the README shows under 'Use it', with the framework's instrumentation that it names after it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(
        r"^## Use it\n.*?```python\n(.+?)```.*?`(Agent\.instrument_all\(\))`", text, re.M | re.S
    )
    assert found
    return f"{found[1]}\nfrom pydantic_ai import Agent\n\n{found[2]}\n"


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
    "README": ask_agent,
    "azure": ask_agent,
    "fastapi": request,
    "langfuse": chat_of_langfuse,
    "logfire": ask_agent,
}


def main() -> None:
    page, order, *destinations = sys.argv[1:]
    note_warnings()
    exec(compile(code_of(page, order, *destinations), f"{page}.md", "exec"), {"__name__": "__main__"})
    for _ in range(int(os.environ["CALLS"])):
        WORK.get(page, chat)()
        time.sleep(0.01)


if __name__ == "__main__":
    main()
