"""The tables of the results store, and the statements that bring an older store up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

MINUTE, HOUR = 60, 3600
"""Widths of the buckets that rollups are kept for, in seconds."""

metadata = MetaData()
# SQLite numbers the rows of an INTEGER PRIMARY KEY itself, but not those of a BIGINT.
_Id = BigInteger().with_variant(Integer, "sqlite")

settings = Table("settings", metadata, Column("name", String, primary_key=True), Column("value", Text))

slices = Table(
    "slices",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # a hash of all other columns
    Column("scorer_id", Text, nullable=False),
    Column("scorer_version", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("scale", Float),  # scores lie in 0..scale; NULL where every number is allowed
    Column("rule", Text, nullable=False),
    Column("sampler", Text, nullable=False),
    Column("agent_name", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("judge_model", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("key", BigInteger, nullable=False, unique=True),  # a hash of the judged span, or conversation
    Column("trace_id", Text, nullable=False),
    Column("span_id", Text, nullable=False),
    Column("conversation_id", Text),
    Column("user_id", Text),
    Column("agent_name", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("start_time", BigInteger, nullable=False),  # nanoseconds since the Unix epoch
    Column("duration", Float),
    Column("error_type", Text),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("recorded", BigInteger, nullable=False),  # when its scores were, in nanoseconds
    Column("content", Text),  # JSON: what was said, where content is kept
    Index("runs_by_trace", "trace_id"),
    Index("runs_by_user", "user_id"),
    Index("runs_by_time", "recorded"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("evaluation_id", Text, nullable=False, unique=True),
    Column("run_key", BigInteger, nullable=False),
    Column("slice_id", BigInteger, nullable=False),
    Column("time", BigInteger, nullable=False),  # when the outcome was known, in nanoseconds
    Column("revision", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("missing", Boolean, nullable=False),  # whether a score should have been there
    Column("value", Float),  # the score as the scorer gave it
    Column("x", Float),  # the score divided by its scale
    Column("weight", Float),  # one over the probability; NULL where that is unknown
    Column("label", Text),
    Column("explanation", Text),
    Column("cost", Float),  # US dollars
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("duration", Float),
    Column("cluster", Integer, nullable=False),  # group of its conversation or user
    Column("details", Text),  # JSON: the scorer's steps, where content is kept
    Index("evaluations_by_run", "run_key"),
    Index("evaluations_by_time", "slice_id", "time"),
    Index("evaluations_by_score", "slice_id", "x", text("time DESC")),
)

_SUMS = ("w", "wx", "wxx", "ww", "wwx", "wwxx", "w_max")
rollups = Table(
    "rollups",
    metadata,
    Column("width", Integer, primary_key=True),
    Column("bucket", BigInteger, primary_key=True),  # its start, seconds since the Unix epoch
    Column("slice_id", BigInteger, primary_key=True),
    Column("status", String, primary_key=True),
    Column("reason", String, primary_key=True),
    Column("missing", Boolean, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False),
    *(Column(name, Float, nullable=False) for name in _SUMS),
    Column("x_min", Float),
    Column("x_max", Float),
    Column("cost", Float, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
)

clusters = Table(
    "clusters",
    metadata,
    Column("bucket", BigInteger, primary_key=True),  # of an hour
    Column("slice_id", BigInteger, primary_key=True),
    Column("cluster", Integer, primary_key=True),
    Column("w", Float, nullable=False),
    Column("wx", Float, nullable=False),
)

feedback = Table(
    "feedback",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("trace_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Float, nullable=False),
    Column("comment", Text),
    Column("source", Text, nullable=False),
    Column("time", BigInteger, nullable=False),
    UniqueConstraint("trace_id", "name", "source"),
)

labels = Table(
    "labels",
    metadata,
    Column("evaluation_id", Text, primary_key=True),
    Column("label", Float, nullable=False),  # on the scorer's scale
    Column("probability", Float),  # with which it was chosen for labelling; NULL where nobody chose by chance
    Column("expected", Text),
    Column("comment", Text),
    Column("time", BigInteger, nullable=False),
)

alarms = Table(
    "alarms",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("monitor", Text, nullable=False),
    Column("since", BigInteger, nullable=False),  # seconds since the Unix epoch
    Column("raised", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("details", Text, nullable=False),
    Index("alarms_by_monitor", "monitor", "ended"),
)

notices = Table(
    "notices",
    metadata,
    Column("alarm_id", BigInteger, primary_key=True),
    Column("receiver", Text, primary_key=True),
    Column("told", Integer, nullable=False),  # 0 not yet, 1 its start, 2 its end
    Column("claimed", BigInteger, nullable=False),  # seconds since the Unix epoch, of whoever is telling it
)

picks = Table(
    "picks",
    metadata,
    Column("bucket", BigInteger, primary_key=True),  # start of the minute, seconds since the Unix epoch
    Column("rule", Text, primary_key=True),
    Column("process", Text, primary_key=True),
    Column("runs", BigInteger, nullable=False),
    Column("picked", BigInteger, nullable=False),
    Column("expected", Float, nullable=False),
    Column("variance", Float, nullable=False),
)

draws = Table(
    "draws",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("after", BigInteger, nullable=False),  # the pool: scored runs whose number is above this one,
    Column("last", BigInteger, nullable=False),  # up to this one
    Column("pool", BigInteger, nullable=False),  # how many there were
    Column("drawn", Integer, nullable=False),  # how many of them were drawn
    Column("time", BigInteger, nullable=False),
)

drawn = Table(
    "drawn",
    metadata,
    Column("evaluation_id", Text, primary_key=True),
    Column("draw_id", BigInteger, nullable=False),
    Column("position", Integer, nullable=False),
    Index("drawn_by_draw", "draw_id"),
)


def _second(connection: Connection) -> None:
    """Notices by receiver instead of one for each alarm; picks; draws for the label queue."""
    metadata.create_all(connection)
    if "told" in {column["name"] for column in inspect(connection).get_columns("alarms")}:
        connection.execute(text("ALTER TABLE alarms DROP COLUMN told"))


MIGRATIONS: Sequence[Callable[[Connection], None]] = (metadata.create_all, _second)
"""What makes each version of the schema from the one before; `settings.schema` counts them."""
