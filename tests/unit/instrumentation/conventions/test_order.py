"""A span that several conventions could claim is read by the first of a stated order."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import combinations
from pkgutil import iter_modules
from types import ModuleType

import pytest

from otel_evals._internal.util.installed import entry_points
from otel_evals.conventions import Convention
from otel_evals_instrumentation._internal import conventions as package
from otel_evals_instrumentation._internal.readers.convention import LAST
from tests.support.trace_builder import KNOWN_CONVENTIONS

MARKED: list[Convention] = [convention for convention in KNOWN_CONVENTIONS if convention.markers]


def test_every_convention_has_its_place() -> None:
    """Frameworks come first, then libraries that instrument, platforms, and OpenTelemetry's names."""
    places = [(getattr(convention, "order", 0), convention.name) for convention in KNOWN_CONVENTIONS]
    assert places == sorted(places)
    assert places[-1] == (LAST, "otel_genai")


def test_every_convention_is_registered() -> None:
    written = dict(conventions_in(package))
    installed = {point.name: point.value for point in entry_points(group="otel_evals_convention")}
    assert written == installed, (
        "register each convention in pyproject.toml, [project.entry-points.otel_evals_convention],"
        " then run: pip install --no-deps -e ."
    )


def conventions_in(folder: ModuleType) -> Iterator[tuple[str, str]]:
    """Each function in the folder that returns a SpanConvention, with its place."""
    for found in iter_modules(folder.__path__, folder.__name__ + "."):
        for name, each in vars(import_module(found.name)).items():
            returns = getattr(each, "__annotations__", {}).get("return")
            if returns == "SpanConvention" and each.__module__ == found.name:
                yield name, f"{found.name}:{name}"


@pytest.mark.parametrize(
    ("one", "other"), list(combinations(MARKED, 2)), ids=lambda convention: convention.name
)
def test_the_first_of_two_whose_markers_a_span_has_reads_it(one: Convention, other: Convention) -> None:
    """Whichever attribute comes first, and whatever the scope, if nobody knows it."""
    for mine in one.markers:
        for theirs in other.markers:
            for keys in ((mine, theirs), (theirs, mine)):
                assert KNOWN_CONVENTIONS.choose("my.app", dict.fromkeys(keys, "x")) is one


@pytest.mark.parametrize(
    "convention", [d for d in KNOWN_CONVENTIONS if d.scopes], ids=lambda convention: convention.name
)
def test_a_scope_that_is_known_decides_whatever_the_markers(convention: Convention) -> None:
    markers = dict.fromkeys((d.markers[0] for d in MARKED), "x")
    for scope in convention.scopes:
        chosen = KNOWN_CONVENTIONS.choose(scope, markers)
        longer = chosen is not None and any(
            scope.startswith(s) and len(s) >= len(scope) for s in chosen.scopes
        )
        assert chosen is convention or longer
