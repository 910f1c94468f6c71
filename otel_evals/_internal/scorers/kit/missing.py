"""Why a run cannot be judged: the content that it lacks."""

from __future__ import annotations

from otel_evals._internal.model import Availability, NotScored, Run
from otel_evals._internal.model.convention import content_setting


def missing(run: Run, *fields: str) -> NotScored | None:
    """Return a NotScored for the first of these fields that is missing; None if the run has all.

    Fields: `input`, `output`, `system_instructions`, `ground_truth`. An image without words is an input or
    an output. The reason is `run_waiting` for the output of a run that waits, or else `<field>_empty`,
    `<field>_refused`, `<field>_truncated`, `<field>_captured_off` or `<field>_not_recorded`.
    """
    for name in fields:
        value = getattr(run, name)
        if name == "output" and run.waiting:
            return NotScored(reason="run_waiting", explanation="the run waits for an approval or a result")
        if value == "" and any(m.media for m in getattr(run, f"{name}_messages", ())):
            continue
        if value is None or (isinstance(value, str) and not value.strip()):
            return _without(run, name, recorded=value is not None)
    return None


def _without(run: Run, name: str, *, recorded: bool) -> NotScored:
    """Return why a field has no content."""
    match run.availability.get("system" if name == "system_instructions" else name):
        case Availability.CAPTURED_OFF:
            setting = content_setting(run.scope_name, run.convention)
            explanation = f"{name} was left out; content capture: {setting}"
            return NotScored(reason=f"{name}_captured_off", explanation=explanation)
        case Availability.TRUNCATED:
            fix = "raise OTEL_ATTRIBUTE_COUNT_LIMIT or OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
            explanation = f"{name} was cut off; fix: {fix}"
            return NotScored(reason=f"{name}_truncated", explanation=explanation)
        case Availability.REFUSED:
            return NotScored(reason=f"{name}_refused", explanation="the answer was refused or blocked")
        case Availability.EMPTY:
            recorded = True
    if recorded:
        return NotScored(reason=f"{name}_empty", explanation=f"{name} is empty")
    return NotScored(reason=f"{name}_not_recorded", explanation=f"the run has no {name}")
