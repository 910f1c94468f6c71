"""The one configuration model, for code and for YAML. It fails when it is built, naming the field.

In code a rule takes objects; in YAML the same fields take words:

    rules:
      - scorer: keyword_coverage
        sample: ratio(0.1) | errors()
      - scorer: hallucination
        options: {model: openai/gpt-5-mini, get_context: tool_results}
        when: {agent_name: support}
    destinations:
      - console
      - jsonl: {path: scores.jsonl}
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import pydantic
from pydantic import BeforeValidator, ConfigDict, Field, PositiveFloat, PositiveInt, SkipValidation
from pydantic.dataclasses import dataclass

from otel_evals import plugins, sampling
from otel_evals.errors import ConfigError
from otel_evals.export import Destination
from otel_evals.isolation.portable import NotPortableError, pack
from otel_evals.model import Run
from otel_evals.sampling import Sampler
from otel_evals.scorer import Scorer

__all__ = ["Config", "Rule", "build_config", "load_config"]

_Model = TypeVar("_Model")
_MODEL = ConfigDict(arbitrary_types_allowed=True, extra="forbid")


def _sampler(value: Any) -> Any:
    if isinstance(value, str):
        return sampling.parse(value)
    return sampling.ratio(value) if isinstance(value, int | float) else value


class _Equal:
    """A condition that has a name, and so can be sent to another process."""

    def __init__(self, wanted: dict[Any, Any]) -> None:
        self.wanted = wanted

    def __call__(self, run: Run) -> bool:
        return all(getattr(run, name) == wish for name, wish in self.wanted.items())


def _condition(value: Any) -> Any:
    """A mapping of run fields to values means: all of them equal."""
    if not isinstance(value, Mapping):
        return value
    unknown = [name for name in value if name not in Run.__dataclass_fields__]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), Run.__dataclass_fields__, n=1)
        raise ConfigError(
            "when", f"a run has no field {unknown[0]!r}" + (f"; meant {near[0]!r}?" if near else "")
        )
    wanted = dict(value)
    return _Equal(wanted)


def _raises_config_errors(model: type[_Model]) -> type[_Model]:
    """Have a model's constructor raise ConfigError where pydantic raises its own."""
    build = model.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **values: Any) -> None:
        try:
            build(self, *args, **values)
        except pydantic.ValidationError as error:
            raise _config_error(error) from None

    model.__init__ = init  # type: ignore[method-assign]  # wraps the generated constructor
    return model


def _config_error(error: pydantic.ValidationError) -> ConfigError:
    first = error.errors()[0]
    loc = ("scorer", *first["loc"][1:]) if first["loc"][:1] == (0,) else first["loc"]  # the one positional
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, ConfigError):
        return ConfigError(path or ours.field, ours.problem)
    return ConfigError(path, f"{first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r:.100}")


@_raises_config_errors
@dataclass(frozen=True, config=_MODEL)
class Rule:
    """A scorer, where it applies, and how its runs are sampled.

    Raises:
        ConfigError: an option is wrong.
    """

    scorer: Scorer
    """What judges the runs."""
    _: KW_ONLY
    sample: Annotated[Sampler, BeforeValidator(_sampler)] = Field(default_factory=sampling.always)
    """Which share of the runs it applies to is scored."""
    when: Annotated[Callable[[Run], Any] | None, BeforeValidator(_condition)] = None
    """Which runs it applies to; all by default."""
    scope: Literal["run", "agent", "conversation"] = "run"
    """`run` judges whole runs; `agent` judges each nested agent's part as well, as a run of its own;
    `conversation` judges all runs of a conversation together, each time it falls idle."""
    idle: PositiveFloat = 300.0
    """Seconds without a new run after which a conversation is judged; for the scope `conversation`."""
    timeout: PositiveFloat = 30.0
    """Seconds one attempt may take."""
    concurrency: PositiveInt = 16
    """How many runs this rule scores at once."""
    attempts: PositiveInt = 3
    """How often a judge that is unavailable is asked in all."""
    isolation: Literal["thread", "process"] = "thread"
    """`process` scores in processes of their own: for scorers that compute for long or may crash."""

    def __post_init__(self) -> None:
        self.scorer.check()
        if self.scope != "conversation" and self.idle != Rule.idle:
            raise ConfigError(
                "idle", f"goes with scope='conversation', not with {self.scope!r}; leave it out"
            )
        if self.isolation == "process":
            _check_portable(self.scorer)

    @property
    def unit(self) -> str:
        """The scope, with what sets a conversation's rules apart: rules of one unit are asked together."""
        return f"conversation, idle {self.idle:g} s" if self.scope == "conversation" else self.scope


@_raises_config_errors
@dataclass(frozen=True, config=_MODEL, kw_only=True)
class Config:
    """Everything that can be configured; the defaults suit a busy production service."""

    rules: tuple[Rule, ...] = ()
    """What is scored, and how."""
    destinations: tuple[SkipValidation[Destination], ...] = ()
    """Where scored runs go besides OpenTelemetry."""
    span_attributes: bool = True
    """Attach scores to the judged span as attributes (it is held until they are there, or `hold` is over)."""
    evaluation_events: bool = True
    """Emit a `gen_ai.evaluation.result` log event per evaluation."""
    evaluation_spans: bool = True
    """Record an `evaluate <scorer>` span per evaluation, as a child of the judged span."""
    metrics: bool = True
    """Record metrics."""
    hold: Annotated[float, Field(ge=0)] = 10.0
    """Seconds after its end that a judged span may wait for its scores before it is exported."""
    hold_limit: PositiveInt = 2048
    """How many spans are held at most; more pass on without attributes."""
    grace: Annotated[float, Field(ge=0)] = 0.5
    """Seconds after its root's end in which a run's other spans and log records may still arrive."""
    max_age: PositiveFloat = 600.0
    """Seconds after which a trace whose root never ended is given up."""
    max_open_traces: PositiveInt = 10_000
    """How many traces are gathered at once."""
    max_spans_per_trace: PositiveInt = 2_000
    """How many spans of one trace are kept."""
    isolation: Literal["thread", "process"] = "thread"
    """`process` moves everything but capture and the hold into a process of its own."""
    max_bytes: PositiveInt = 256 * 1024 * 1024
    """How many bytes of attributes the gathered spans may hold together."""
    max_conversations: PositiveInt = 10_000
    """How many conversations are remembered at once, for rules of scope `conversation`."""
    max_conversation_bytes: PositiveInt = 256 * 1024 * 1024
    """How much memory, in bytes, the runs of these conversations may take, roughly."""
    conversation_keep: Annotated[float, Field(ge=0)] = 3_600.0
    """Seconds after its last run that a judged conversation is kept, to be judged whole if it goes on."""
    queue_size: PositiveInt = 2048
    """How many sampled evaluations wait for their scorers at most; more are dropped and counted."""
    capture_content: bool = True
    """Keep prompts, contexts and explanations on the scores; the scores themselves never depend on it."""
    explain_traces: PositiveInt = 10_000
    """How many of the last traces `explain` remembers; within 24 MiB."""
    shutdown_timeout: PositiveFloat = 10.0
    """Seconds that leaving may take."""
    handle_sigterm: bool = False
    """Leave in order on SIGTERM as well, then do what the process would have done without us."""
    store: Path | None = None
    """File that keeps sampled runs until they are scored and delivered, over crashes too; none by default."""
    store_max_bytes: Annotated[int, Field(ge=1024 * 1024)] = 1024 * 1024 * 1024
    """How large that file may grow; the oldest runs that nobody scores make room, and are counted."""
    store_max_age: PositiveFloat = 86_400.0
    """Seconds after which a run that could not be scored is given up."""
    store_keep: Annotated[float, Field(ge=0)] = 600.0
    """Seconds that a scored run is kept, so that late spans have it scored again."""
    store_lease: PositiveFloat = 15.0
    """Seconds without a sign of life after which another process takes a process's runs over."""
    store_attempts: PositiveInt = 3
    """How often scoring a run may fail, other than by a judge that is unavailable, before it is set aside."""

    def __post_init__(self) -> None:
        seen: dict[tuple[str, str], int] = {}
        for index, rule in enumerate(self.rules):
            first = seen.setdefault((rule.scorer.id, rule.scope), index)
            if first != index:
                problem = (
                    f"{rule.scorer.id!r} is the id of rules[{first}] too; give one of the scorers another id"
                )
                raise ConfigError(f"rules[{index}].scorer", problem)
        sampling.in_order([(rule.scorer.id, rule.unit, rule.sample) for rule in self.rules])

    @property
    def holds(self) -> bool:
        """Whether spans may wait for scores as attributes; a conversation's are never waited for."""
        return self.span_attributes and any(rule.scope != "conversation" for rule in self.rules)

    @property
    def ceiling(self) -> float:
        """The highest probability any rule can give a run before the run is known.

        A conversation's id is not known at a trace's start: any trace may belong to one that is picked.
        """
        ceilings = (r.sample.ceiling for r in self.rules)
        any_trace = any(r.scope == "conversation" and r.sample.ceiling > 0 for r in self.rules)
        return 1.0 if any_trace else max(ceilings, default=0.0)


def build_config(
    rules: Sequence[Any] = (),
    destinations: Sequence[Any] = (),
    *,
    field: str = "",
    **options: Any,
) -> Config:
    """Build a Config from objects, words, or both.

    Args:
        rules: rules, scorers, or mappings as in YAML.
        destinations: destinations, names, or `{name: options}` mappings.
        field: path that errors are to name in front of the fields.
        options: the other fields of Config.

    Raises:
        ConfigError: something is wrong; names the field and the fix.
    """
    rules = _listed(rules, f"{field}rules")
    destinations = _listed(destinations, f"{field}destinations")
    built = [_rule(rule, f"{field}rules[{i}]") for i, rule in enumerate(rules)]
    places = [_destination(place, f"{field}destinations[{i}]") for i, place in enumerate(destinations)]
    unknown = sorted(set(options) - set(Config.__dataclass_fields__))
    if unknown:
        raise ConfigError(
            f"{field}{unknown[0]}",
            "there is no such option" + _meant(unknown[0], Config.__dataclass_fields__),
        )
    return cast("Config", _checked(Config, field, rules=tuple(built), destinations=tuple(places), **options))


def load_config(path: str | Path) -> Config:
    """Read a Config from a YAML file.

    Raises:
        ConfigError: the file cannot be read, or something in it is wrong; names the file and the field.
    """
    import yaml

    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(str(path), f"is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(str(path), "must be a mapping with `rules` and, if you like, `destinations`")
    return build_config(field=f"{path}: ", **{str(key): value for key, value in data.items()})


def _check_portable(scorer: Scorer) -> None:
    try:
        pack(scorer)
    except NotPortableError as error:
        raise ConfigError("isolation", f"{scorer.id!r} {error}") from None


def _listed(value: Any, field: str) -> Sequence[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ConfigError(field, f"must be a list, not {type(value).__name__}")
    return value


def _rule(value: Any, field: str) -> Rule:
    if isinstance(value, Rule):
        return value
    if isinstance(value, Scorer):
        return Rule(value)
    if isinstance(value, str):
        value = {"scorer": value}
    if not isinstance(value, Mapping) or "scorer" not in value:
        raise ConfigError(field, "must be a Rule, a scorer, or a mapping with `scorer`")
    fields = {str(key): each for key, each in value.items()}
    options = fields.pop("options", None)
    if isinstance(fields["scorer"], str):
        fields["scorer"] = plugins.build_scorer(fields["scorer"], options or {}, field)
    elif options is not None:
        raise ConfigError(f"{field}.options", "only go with a scorer that is given by name")
    unknown = sorted(set(fields) - (set(Rule.__dataclass_fields__) - {"_"}))
    if unknown:
        raise ConfigError(
            f"{field}.{unknown[0]}", "there is no such option" + _meant(unknown[0], Rule.__dataclass_fields__)
        )
    return cast("Rule", _checked(Rule, f"{field}.", **fields))


def _destination(value: Any, field: str) -> Destination:
    if isinstance(value, str):
        return plugins.build_destination(value, {}, field)
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ConfigError(field, "must name one destination, as in `jsonl: {path: scores.jsonl}`")
        name, options = next(iter(value.items()))
        return plugins.build_destination(str(name), options or {}, field)
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("name", "export", "shutdown")):
        raise ConfigError(
            field, f"{value!r:.100} is no destination: it needs `name`, `export` and `shutdown`"
        )
    return cast("Destination", value)


def _meant(wrong: str, known: Any) -> str:
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"; meant {near[0]!r}?" if near else f"; known are {', '.join(k for k in known if k != '_')}"


def _checked(model: Any, field: str, **values: Any) -> Any:
    """Build a model; its errors name the whole path of the field."""
    try:
        return model(**values)
    except ConfigError as error:
        path = error.field if error.field.startswith(field) else f"{field}{error.field}"
        raise ConfigError(path, error.problem) from None
