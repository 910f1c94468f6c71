"""Records are immutable values: they compare, copy and pickle as such; the collector passes them over."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
from typing import Any

import pytest
from msgspec import structs

from otel_evals import model
from otel_evals.conventions import Record

CLASSES = [each for name in model.__all__ if inspect.isclass(each := getattr(model, name))]
RECORDS = [cls for cls in CLASSES if issubclass(cls, Record)]


def values_of(cls: type[Record]) -> dict[str, Any]:
    """A text for each field that has no default."""
    return {field.name: "x" for field in structs.fields(cls) if field.required}


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_a_record_is_frozen_and_equals_its_copies(cls: type[Record]) -> None:
    record = cls(**values_of(cls))
    with pytest.raises(AttributeError):
        setattr(record, cls.__struct_fields__[0], "other")
    for again in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert again == record
        assert type(again) is cls
    assert repr(record).startswith(f"{cls.__name__}(")


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_the_collector_does_not_look_at_it(cls: type[Record]) -> None:
    assert not gc.is_tracked(cls(**values_of(cls)))


def test_records_and_views_tell_their_fields_to_editors() -> None:
    for cls in (*RECORDS, model.Run, model.Operation):
        told = inspect.signature(cls).parameters
        assert told
        assert all(parameter.annotation for parameter in told.values())
