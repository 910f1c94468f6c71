"""A span that several conventions could claim is read by the first of a stated order."""

from __future__ import annotations

from itertools import combinations

import pytest

from otel_evals.dialects import Dialect
from tests.support.trace_builder import DIALECTS

FRAMEWORKS = [
    "claude_code",
    "codex",
    "flue",
    "gemini_cli",
    "genkit",
    "google_adk",
    "haystack",
    "langsmith",
    "litellm",
    "livekit",
    "logfire",
    "mastra",
    "mcp",
    "openlit",
    "openllmetry_vector_stores",
    "pydantic_ai",
    "quarkus",
    "spring_ai",
    "vercel_ai",
    "voltagent",
]
LIBRARIES = ["loongsuite", "monocle", "openinference", "openllmetry", "smolagents"]
PLATFORMS = ["braintrust", "laminar", "langfuse", "langwatch", "mlflow"]
ORDER = [*FRAMEWORKS, *LIBRARIES, *PLATFORMS, "otel_genai"]
"""What a span's own author says of it, libraries that instrument, platforms that mark anybody's spans,
and OpenTelemetry's names, which most write."""

MARKED: list[Dialect] = [dialect for dialect in DIALECTS if dialect.markers]


def test_every_convention_has_its_place() -> None:
    assert [dialect.name for dialect in DIALECTS] == ORDER


@pytest.mark.parametrize(("one", "other"), list(combinations(MARKED, 2)), ids=lambda dialect: dialect.name)
def test_the_first_of_two_whose_markers_a_span_has_reads_it(one: Dialect, other: Dialect) -> None:
    """Whichever attribute comes first, and whatever the scope, if nobody knows it."""
    for mine in one.markers:
        for theirs in other.markers:
            for keys in ((mine, theirs), (theirs, mine)):
                assert DIALECTS.choose("my.app", dict.fromkeys(keys, "x")) is one


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.scopes], ids=lambda dialect: dialect.name)
def test_a_scope_that_is_known_decides_whatever_the_markers(dialect: Dialect) -> None:
    markers = dict.fromkeys((d.markers[0] for d in MARKED), "x")
    for scope in dialect.scopes:
        chosen = DIALECTS.choose(scope, markers)
        longer = chosen is not None and any(
            scope.startswith(s) and len(s) >= len(scope) for s in chosen.scopes
        )
        assert chosen is dialect or longer
