"""docs/backends: every backend has its row and page, and the example of another works."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest

from otel_evals._internal.cli.backends import backends
from otel_evals.model import Outcome, Score
from tests.support.recording_server import recording_server
from tests.support.scored import scored_run

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "backends"
OVERVIEW = (FOLDER / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \[[^\]]+\]\((\w+)\.md\) \| (\w+) \|", OVERVIEW, re.M)


def test_every_backend_has_its_row_with_its_kind() -> None:
    kinds = {"API": "api", "OTel": "otel"}
    assert {name: kinds[kind] for name, kind in ROWS} == {
        name: each.kind for name, each in backends().items()
    }


def test_every_backend_has_its_page_and_no_other_does() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*backends(), "README"}


@pytest.mark.parametrize("name", sorted(backends()))
def test_a_page_has_a_short_recipe_and_says_how_it_was_verified(name: str) -> None:
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    (shell,) = re.findall(r"```sh\n(.*?)```", page, re.S)
    (scores,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    assert len((shell + scores).splitlines()) <= 6
    assert scores == f"destinations:\n  - {name}\n"
    takes_spans_only = hasattr(backends()[name], "send")
    assert not (takes_spans_only and "OTLP_ENDPOINT" in shell), "events and metrics would be refused"
    for variable in backends()[name].needs:
        assert variable in page, variable
    assert re.search(r"[Nn]ot\s+checked against a live account|real server", page)


def test_the_example_of_another_destination_works() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", OVERVIEW, re.S)
    names: dict[str, object] = {"__name__": "my_package"}
    exec(compile(code, "docs/backends/README.md", "exec"), names)
    tone: dict[str, Outcome] = {"tone": Score(value=0.5)}
    with recording_server() as server:

        async def send() -> None:
            place = names["ScoreboardDestination"](url=server.url, token="t")  # type: ignore[operator]
            assert await place.export([scored_run(number, tone) for number in range(60)]) == []
            await place.shutdown()

        anyio.run(send)
        sizes = sorted(len(request.body) for request in server.requests)
    assert sizes == [10, 50]
    assert server.requests[0].body[0]["tone"] == 0.5
