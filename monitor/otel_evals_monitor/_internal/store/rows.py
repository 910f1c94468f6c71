"""Rows of the results store from the records of scored runs.

A record is a JSON object made by `otel_evals.destinations.run_record`, such as a line of a JSONL file, and
may come from another program. Unknown fields are ignored; an invalid record raises an error that names the
field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, cast

from otel_evals.model import is_missing
from otel_evals_monitor._internal.store import schema

Record = Mapping[str, Any]
"""An object of a record, of any origin."""
Row = dict[str, Any]
"""The values of a row by column."""
Status = Literal["scored", "not_scored", "failed", "dropped"]
STATUSES = ("scored", "not_scored", "failed", "dropped")
_EFFECTS = ("allowed", "blocked", "rewritten")
_LONGEST_TEXT = 8_000
LARGEST_CONTENT = 256 * 1024
_LARGEST = 2**63 - 1
_SMALLEST = 2.0**-56
"""Smallest probability that a sampler of OpenTelemetry's 56 random bits can have."""
_ESCAPE = re.compile(r"\\u0000|(\\.)")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
_CONTENT = ("input", "output", "system", "history", "tool_calls", "documents", "error", "turns", "models")
_LATE, _LATE_TURN = 3_600 * schema.NANO, 86_400 * schema.NANO
"""Nanoseconds after its end from which a score of a run or conversation is a backfill."""
_SOON = 60 * schema.NANO
"""Nanoseconds within which runs of live traffic are scored."""
_MOST_MEDIA, _LARGEST_IMAGE = 20, 1_400_000
_KIN = 2**30
"""Fits a 32-bit column, and is a multiple of the number of groups of users, so each group stays the same."""


@dataclass(frozen=True, slots=True)
class RecordRows:
    run: Row
    parts: tuple[int, ...]
    """Keys that the run has if it is read from a backend that does not have its root yet."""
    slices: dict[int, Row]
    """By id."""
    evaluations: list[Row]


def rows_of(record: Any, *, content: bool = True) -> RecordRows:
    """Return the rows of a record, without messages, explanations and prompts unless `content`.

    A record that is not of a scored run raises ValueError with the field's name.
    """
    if not isinstance(record, Mapping):
        raise ValueError("record: must be an object")
    trace_id, span_id = _text(record, "trace_id"), _text(record, "span_id")
    if not trace_id or not isinstance(record.get("evaluations"), list):
        raise ValueError("trace_id, evaluations: are needed; this is not the record of a scored run")
    whole = _text(record, "conversation_id") if record.get("turns") else ""
    run = _run(record, hash_of(trace_id, span_id, whole), trace_id, span_id, content)
    late = run["time"] + (_LATE_TURN if whole else _LATE)
    found: list[Row] = []
    slices: dict[int, Row] = {}
    for index, evaluation in enumerate(record["evaluations"]):
        try:
            live = _whole(evaluation.get("time")) <= late
            slice_id, columns = _slice(record, evaluation, run, live)
            found.append(_evaluation(evaluation, run, slice_id, columns["scale"], content))
        # An evaluation that is no object has no `get`: AttributeError.
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"evaluations[{index}].{error}") from None
        slices[slice_id] = columns
    parts: tuple[int, ...] = ()
    # Live runs are scored within a minute; later scores may be of an incomplete trace of a backend.
    if not whole and any(each["scored"] > run["time"] + _SOON for each in found):
        parts = tuple(hash_of(trace_id, span, "") for span in record.get("spans", ()))
    return RecordRows(run, parts, slices, found)


def hash_of(*parts: Any) -> int:
    """Return a hash of 63 bits of these values, the same in every process."""
    # The separator keeps ("ab", "c") apart from ("a", "bc").
    text = "\x1f".join(map(str, parts)).encode("utf-8", "replace")
    # BIGINT is signed, so 64 bits would not fit.
    return int.from_bytes(blake2b(text, digest_size=8).digest()) >> 1


def _run(record: Record, key: int, trace_id: str, span_id: str, content: bool) -> Row:
    start, duration = _whole(record.get("start_time")), _number(record.get("duration"))
    attributes, usage = _object(record, "attributes"), _object(record, "usage")
    names = sorted(set(map(str, record.get("models") or ())))
    return {
        "key": key,
        "trace_id": trace_id,
        "span_id": span_id,
        **{name: _text(record, name) or None for name in ("conversation_id", "user_id", "error_type")},
        "agent_name": _text(record, "agent"),
        "agent_version": _text(record, "agent_version"),
        "tenant": _text(record, "tenant"),
        "prompt_version": _text(record, "prompt_version"),
        "model": storable(", ".join(names)[:200]),
        "start_time": start,
        "duration": duration,
        "time": start + int((duration or 0.0) * schema.NANO) if start else _scored_at(record),
        **{name: _whole(usage.get(name)) for name in ("input_tokens", "output_tokens")},
        "content": _content(record) if content else None,
        "attributes": _json(attributes) if attributes else None,
    }


def _scored_at(record: Record) -> int:
    """Return the time of the first score, for the records of programs that do not give the run's time."""
    times = [_whole(each.get("time")) for each in objects(record["evaluations"])]
    return min(filter(None, times), default=0)


def _content(record: Record) -> str | None:
    kept = {name: record[name] for name in _CONTENT if record.get(name)}
    if len(_json(kept)) > LARGEST_CONTENT:
        kept = {name: _cut(value) for name, value in kept.items()} | {"cut": True}
    given = objects(record.get("media"))[:_MOST_MEDIA]
    media = [each for each in given if len(_json(each)) <= _LARGEST_IMAGE]
    if media:
        kept["media"] = media
    return _json(kept) if kept else None


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else _json(value)
    return value if len(text) <= LARGEST_CONTENT // 8 else text[: LARGEST_CONTENT // 8]


def _slice(record: Record, evaluation: Record, run: Record, live: bool) -> tuple[int, Row]:
    scorer = _needed(evaluation, "scorer")
    return _known_slice(
        scorer,
        _text(evaluation, "version"),
        _text(evaluation, "direction") or "higher_is_better",
        _scale(evaluation),
        _text(evaluation, "rule") or scorer,
        _text(_object(evaluation, "sampling"), "rule"),
        run["agent_name"],
        run["agent_version"],
        run["prompt_version"],
        run["model"],
        _text(record, "service"),
        run["tenant"],
        next((_text(step, "model") for step in objects(evaluation.get("steps")) if step.get("model")), ""),
        live,
    )


_SLICE = [column.name for column in schema.slices.columns if column.name != "id"]


@lru_cache(maxsize=2_000)
def _known_slice(*values: Any) -> tuple[int, Row]:
    """Return the id and the columns of a slice; most runs are of a cached one."""
    return hash_of(*values), dict(zip(_SLICE, values, strict=True))


def live_slice(columns: Record) -> tuple[int, Row]:
    """Return the slice of live scores with these columns, given that of a backfill."""
    return _known_slice(*({**columns, "live": True}[name] for name in _SLICE))


def _scale(evaluation: Record) -> float | None:
    """Return the recorded scale; without one, 1 for scores in 0..1 and None for others."""
    if "scale" in evaluation:
        scale = _number(evaluation["scale"])
        if scale is not None and scale <= 0.0:
            raise ValueError(f"scale: must be above zero, not {scale!r}")
        return scale
    value = _number(evaluation.get("value"))
    return 1.0 if value is None or 0.0 <= value <= 1.0 else None


def _evaluation(evaluation: Record, run: Record, slice_id: int, scale: float | None, content: bool) -> Row:
    status, reason = _text(evaluation, "status"), _text(evaluation, "reason")
    if status not in STATUSES:
        raise ValueError(f"status: must be one of {', '.join(STATUSES)}, not {status!r}")
    value = x = None
    if status == "scored":
        value = _number(evaluation.get("value"))
        if value is None:
            raise ValueError(f"value: must be a finite number, not {evaluation.get('value')!r}")
        x = value / (scale or 1.0)
        if scale is not None and not 0.0 <= x <= 1.0:
            raise ValueError(f"value: must lie in 0..{scale:g}, not {value!r}")
    steps = evaluation.get("steps")
    why = _text(evaluation, "explanation") or _text(evaluation, "message") or None
    return {
        "evaluation_id": _needed(evaluation, "evaluation_id"),
        "run_key": run["key"],
        "slice_id": slice_id,
        "time": run["time"],
        "scored": _whole(evaluation.get("time")) or run["time"],
        "revision": _whole(evaluation.get("revision")) or 1,
        "status": status,
        "reason": reason,
        "missing": is_missing(cast("Status", status), reason),
        "value": value,
        "x": x,
        "weight": _weight(_object(evaluation, "sampling")),
        "label": _text(evaluation, "label") or None,
        "explanation": why if content else None,
        "cost": _number(evaluation.get("cost")),
        "duration": _number(evaluation.get("duration")),
        # The largest group of runs that may be alike: a user may have several conversations.
        "cluster": hash_of(run["user_id"] or run["conversation_id"] or run["trace_id"]) % _KIN,
        "review": _text(evaluation, "review") or None,
        "effect": _text(evaluation, "effect") if evaluation.get("effect") in _EFFECTS else None,
        "evidence_cut": evaluation.get("evidence_cut") is True,
        "details": _json(steps)[:LARGEST_CONTENT] if content and steps else None,
    }


def _weight(sampling: Record) -> float | None:
    """Return one over the probability; None if it is unknown."""
    probability = _number(sampling.get("probability"))
    if probability is None:
        return None
    if not _SMALLEST <= probability <= 1.0:
        raise ValueError(f"sampling.probability: must be at least 2^-56 and at most 1, not {probability!r}")
    return 1.0 / probability


def objects(value: Any) -> list[Record]:
    """Return the objects of a list; records of other programs may contain anything."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _object(record: Record, name: str) -> Record:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}


def _needed(record: Record, name: str) -> str:
    text = _text(record, name)
    if not text:
        raise ValueError(f"{name}: is needed")
    return text


def _text(record: Record, name: str) -> str:
    """Return a field as text that a database can store; empty if it is missing."""
    value = record.get(name)
    if value is None:
        return ""
    return storable(str(value)[:_LONGEST_TEXT])


def storable(text: str) -> str:
    """Return a text that every database takes, without NUL characters and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _json(value: Any) -> str:
    # PostgreSQL's JSON functions fail on an escaped NUL too. Other escapes stay, such as that of the
    # backslash in a text that has an escaped NUL of its own.
    text = _encode(value)
    return storable(_ESCAPE.sub(r"\1", text) if "\\u0000" in text else text)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: a whole number may exceed every float.
    return float(value) if abs(value) <= 1e50 else None


def _whole(value: Any) -> int:
    # NaN fails both comparisons.
    return int(value) if isinstance(value, int | float) and 0 <= value <= _LARGEST else 0
