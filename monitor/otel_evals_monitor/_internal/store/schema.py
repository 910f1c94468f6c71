"""Tables of the results store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

MINUTE, HOUR = 60, 3600
"""Widths of rollup buckets, in seconds."""
NANO = 1_000_000_000
"""Nanoseconds per second."""
COUNTED = ("n", "unknown", "w", "wx", "wxx", "ww", "wwx", "wwxx", "cost")
"""Columns of rollups that add up."""

metadata = MetaData()


def products(w: Any, x: Any) -> dict[str, Any]:
    """Return what a run of weight `w` and score `x` adds to the sums, as numbers or as SQL."""
    return {"w": w, "wx": w * x, "wxx": w * x * x, "ww": w * w, "wwx": w * w * x, "wwxx": w * w * x * x}


# SQLite numbers the rows of an INTEGER PRIMARY KEY itself, but not of a BIGINT key.
_Id = BigInteger().with_variant(Integer, "sqlite")


def _id() -> Column[Any]:
    return Column("id", _Id, primary_key=True)


def _columns(kind: Any, *names: str, nullable: bool = False) -> Iterator[Column[Any]]:
    return (Column(name, kind, nullable=nullable) for name in names)


def _keys(kind: Any, *names: str) -> Iterator[Column[Any]]:
    return (Column(name, kind, primary_key=True) for name in names)


# Times are in nanoseconds since the Unix epoch, except where a comment says seconds. Evaluations, rollups and
# clusters have the time of their run: its end.

settings = Table("settings", metadata, *_keys(String, "name"), Column("value", Text))

slices = Table(
    "slices",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # a hash of all other columns
    *_columns(Text, "scorer_id", "scorer_version", "direction"),
    Column("scale", Float),  # scores lie in 0..scale; NULL if every number is allowed
    *_columns(Text, "rule", "sampler", "agent_name", "agent_version", "prompt_version", "model"),
    *_columns(Text, "service", "tenant", "judge_model"),
    *_columns(Boolean, "live"),  # False for scores of a backfill, long after the run
)

runs = Table(
    "runs",
    metadata,
    _id(),
    Column("key", BigInteger, nullable=False, unique=True),  # a hash of the judged span or conversation
    *_columns(Text, "trace_id", "span_id"),
    *_columns(Text, "conversation_id", "user_id", nullable=True),
    *_columns(Text, "agent_name", "agent_version", "prompt_version", "model", "tenant"),
    *_columns(BigInteger, "start_time", "time"),
    Column("duration", Float),
    Column("error_type", Text),
    *_columns(BigInteger, "input_tokens", "output_tokens"),
    Column("content", Text),  # JSON: messages and tool calls, if content is kept
    Column("attributes", JSON),  # short attributes of the root span
    Index("runs_by_trace", "trace_id"),
    Index("runs_by_user", "user_id"),
    Index("runs_by_time", "time"),
)

evaluations = Table(
    "evaluations",
    metadata,
    _id(),
    Column("evaluation_id", Text, nullable=False, unique=True),
    *_columns(BigInteger, "run_key", "slice_id", "time", "scored"),
    *_columns(Integer, "revision"),
    *_columns(Text, "status", "reason"),
    *_columns(Boolean, "missing"),  # whether the run should have a score and has none
    Column("value", Float),  # the scorer's score
    Column("x", Float),  # the score divided by its scale
    Column("weight", Float),  # one over the probability; NULL if unknown
    *_columns(Text, "label", "explanation", nullable=True),
    Column("cost", Float),  # US dollars
    Column("duration", Float),
    *_columns(Integer, "cluster"),  # hash of the user or conversation; its group modulo CLUSTER_GROUPS
    Column("details", Text),  # JSON: the scorer's steps, if content is kept
    Column("review", Text),  # the rule's condition if the score sends the run to review
    Column("effect", Text),  # the application's use of a checked answer
    Column("evidence_cut", Boolean),
    Index("evaluations_by_run", "run_key"),
    Index("evaluations_by_time", "slice_id", "time"),
    Index(
        "evaluations_to_review",
        "time",
        sqlite_where=text("review IS NOT NULL"),
        postgresql_where=text("review IS NOT NULL"),
    ),
    Index("evaluations_by_score", "slice_id", "x", text("time DESC")),
)

rollups = Table(
    "rollups",
    metadata,
    *_keys(Integer, "width"),
    *_keys(BigInteger, "bucket", "slice_id"),  # the bucket's start in seconds
    *_keys(String, "status", "reason"),
    *_columns(Boolean, "missing"),
    *_columns(BigInteger, "n", "unknown"),
    *_columns(Float, "w", "wx", "wxx", "ww", "wwx", "wwxx", "w_max"),
    *_columns(Float, "x_min", "x_max", nullable=True),
    *_columns(Float, "cost"),
)

clusters = Table(
    "clusters",
    metadata,
    *_keys(BigInteger, "bucket", "slice_id"),  # the hour's start in seconds
    *_keys(Integer, "cluster"),
    *_columns(Float, "w", "wx"),
)

feedback = Table(
    "feedback",
    metadata,
    _id(),
    *_columns(Text, "trace_id", "name"),
    *_columns(Float, "value"),
    Column("comment", Text),
    *_columns(Text, "source"),
    *_columns(BigInteger, "time"),
    UniqueConstraint("trace_id", "name", "source"),
)

labels = Table(
    "labels",
    metadata,
    *_keys(Text, "evaluation_id"),
    *_columns(Float, "label"),  # on the scorer's scale
    *_columns(Text, "expected", "comment", nullable=True),
    *_columns(BigInteger, "time"),
    *_columns(Text, "verdict", "failure_type", nullable=True),  # verdict: pass or fail
)

alarms = Table(
    "alarms",
    metadata,
    _id(),
    *_columns(Text, "monitor"),
    *_columns(BigInteger, "since", "raised"),  # in seconds
    Column("ended", BigInteger),
    *_columns(Text, "details"),
    Index("alarms_by_monitor", "monitor", "ended"),
)

notices = Table(
    "notices",
    metadata,
    *_keys(BigInteger, "alarm_id"),
    *_keys(Text, "receiver"),
    *_columns(Integer, "told"),  # notified of: 0 nothing, 1 the start, 2 the end
    *_columns(BigInteger, "claimed"),  # when a process began to notify, in seconds
)

picks = Table(
    "picks",
    metadata,
    *_keys(BigInteger, "bucket"),  # the minute's start in seconds
    *_keys(Text, "rule", "agent_name", "process"),
    *_columns(BigInteger, "runs", "picked"),
    *_columns(Float, "expected", "variance", "represented", "represented_variance"),
)

sliced = evaluations.join(slices, slices.c.id == evaluations.c.slice_id)
labelled = labels.join(evaluations, evaluations.c.evaluation_id == labels.c.evaluation_id)
labelled_runs = labelled.join(runs, runs.c.key == evaluations.c.run_key)


# A store of another version is refused: a changed table needs a higher number.
VERSION = 8
