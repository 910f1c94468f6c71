"""Records that are quick to make are the frozen dataclasses they were."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace

import pytest

from otel_evals import model
from otel_evals.model.frozen import quick


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    name: str
    size: int = 3
    tags: tuple[str, ...] = field(default_factory=tuple)


@quick
@dataclass(frozen=True)
class Open:
    name: str
    size: int = 3


@pytest.mark.parametrize("made", [Slotted(name="a"), Open("a"), Open(name="a", size=3)])
def test_a_made_record_has_its_fields_and_is_frozen(made: Slotted | Open) -> None:
    assert (made.name, made.size) == ("a", 3)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]  # what is being tested
    with pytest.raises(FrozenInstanceError):
        del made.name


@pytest.mark.parametrize("made", [Slotted(name="a", tags=("x",)), Open("a", 4)])
def test_it_equals_hashes_copies_and_pickles_as_a_dataclass_does(made: Slotted | Open) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert again == made == replace(made)
    assert hash(again) == hash(made)
    assert type(again) is type(made)
    assert replace(made, size=9).size == 9
    assert repr(made).startswith(type(made).__name__ + "(name='a', ")


def test_a_missing_or_unknown_or_positional_field_is_a_type_error() -> None:
    for wrong in (
        lambda: Slotted(),
        lambda: Slotted(name="a", colour=1),
        lambda: Slotted("a"),
        lambda: Open(),
    ):
        with pytest.raises(TypeError):
            wrong()  # type: ignore[no-untyped-call]  # each of them is wrong on purpose


def test_the_signature_is_the_dataclasss_own() -> None:
    for cls in (Slotted, Open, model.Run, model.Operation):
        told = inspect.signature(cls).parameters
        assert list(told) == [f.name for f in fields(cls)]
        assert all(p.annotation for p in told.values())


def test_every_record_of_the_pipeline_is_frozen_once_made() -> None:
    run = model.Run(trace_id="a", root_span_id="b", root_kind=model.OperationKind.AGENT)
    for record in (run, model.Usage(), model.Part(kind="text"), model.SpanRecord(trace_id="a", span_id="b")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, fields(record)[0].name, "other")
