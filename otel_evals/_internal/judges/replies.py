"""Answers of models as they write them: thoughts, drafts, fences, almost-JSON, refusals and cut texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from math import inf
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from otel_evals._internal.judges.refusals import RefusedError, status_inside
from otel_evals._internal.model import Usage
from otel_evals._internal.model.finish_reasons import finish_reason
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import (
    JudgeCutError,
    JudgeEmptyError,
    JudgeError,
    JudgeRefusalError,
    JudgeUnavailableError,
)

_Model = TypeVar("_Model", bound=BaseModel)

_OTHERS = "provider_specific_fields"
"""Where LiteLLM keeps fields that it does not know."""
_MOST_TOKENS = 10**9
_MAX_CHARS = 400_000
_MAX_WORK = 4 * _MAX_CHARS
"""Characters that the search for objects in one answer may read, with those that it reads again."""
_ATTEMPT = 500
"""Characters that an attempt counts for at least: an error counts the lines before it."""
_MAX_LENIENT = 100_000
"""Characters of them that may be read as almost-JSON, which is slow."""
_MAX_OBJECTS = 50
_MAX_FIXES = 3
_TAGS = "think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think"
_TAG = re.compile(rf"(?i)(?P<end></(?:{_TAGS})>|◁/think▷|<\|message\|>)|<(?:{_TAGS})>|◁think▷")
"""Begins or ends thoughts."""
_MAYBE_OBJECT = re.compile(r"""\{\s*(?:["'}/]|[\w$]+\s*:)""")
_TOKEN = re.compile(
    r"""(?s)"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|//[^\n]*|/\*.{0,500}?\*/|\d[\w.]*|[A-Za-z_$][\w$]*|\s+|."""
)
_CONSTANTS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}
_LITERALS = {"true", "false", "null", "NaN", "Infinity"}
_REASONS = {
    *("reason", "reasoning", "reasons", "explanation", "rationale", "justification"),
    *("comment", "note", "evidence"),
}
"""Fields whose content decides nothing."""
_SORRY = r"(?:(?:i.?m|i am|we are)? ?(?:very )?sorry\b|i apologi[sz]e|unfortunately|as an ai\b)"
_CANNOT = r"\b(?:i (?:can.?t|cannot|won.?t|will not)|i(?: am|.?m) (?:not able|unable))\b"
_ANSWER = r"\b(?:answer|assist|comply|continue|do that|engage|evaluate|fulfil|help|judge|provide)"
_REFUSAL = re.compile(rf"(?i)\W{{0,5}}(?:{_SORRY}.{{0,40}})?{_CANNOT}.{{0,40}}{_ANSWER}")
_DECODER = JSONDecoder(strict=False)  # models write line breaks into strings


@dataclass(frozen=True)
class Completion:
    """One answer."""

    text: str
    model: str
    finish_reason: str
    usage: Usage | None
    """None if the server reported no possible usage."""
    cost: float | None
    """US dollars; None if the price or the usage is unknown."""
    refusal: str = ""


def completion_of(response: Any, headers: Mapping[str, str]) -> Completion:
    """Return the answer in a chat completion: an object of LiteLLM, or a mapping.

    Raises:
        RefusedError: it, or its first choice, contains a provider's error, whatever its status is.
    """
    choice = first_of(field_of(response, "choices"))
    message, usage, others = (
        field_of(choice, "message"),
        field_of(response, "usage"),
        field_of(choice, _OTHERS),
    )
    for place in (response, choice, others):
        if inside := field_of(place, "error"):
            raise RefusedError(status_inside(inside), headers, str(inside))
    return Completion(
        text=_text_of(message),
        model=_text(response, "model"),
        finish_reason=_text(others, "native_finish_reason") or _text(choice, "finish_reason"),
        usage=usage_of(usage),
        cost=cost_of(field_of(usage, "cost")),
        refusal=_text(message, "refusal") or _text(field_of(message, _OTHERS), "refusal"),
    )


def _text(value: Any, name: str) -> str:
    found = field_of(value, name)
    return found if isinstance(found, str) else ""


def _text_of(message: Any) -> str:
    """Return a message's text, or the arguments of the tool call that stands for it."""
    call = first_of(field_of(message, "tool_calls"))
    text = field_of(field_of(call, "function"), "arguments") or field_of(message, "content")
    if isinstance(text, Mapping):  # some servers decode the arguments
        return json.dumps(text)
    if isinstance(text, list):
        parts = [field_of(part, "text") for part in text]
        text = "".join(part for part in parts if isinstance(part, str))
    return text if isinstance(text, str) else ""


def usage_of(usage: Any) -> Usage | None:
    """Return the token counts of an answer; None unless both are possible: every call has some of each."""
    counts = [field_of(usage, name) for name in ("prompt_tokens", "completion_tokens")]
    # By type and not by isinstance: True is an int too.
    if not all(type(count) is int and 0 < count <= _MOST_TOKENS for count in counts):
        return None
    return Usage(
        input_tokens=counts[0],
        output_tokens=counts[1],
        cache_read_tokens=_detail(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_detail(usage, "completion_tokens_details", "reasoning_tokens"),
    )


def _detail(usage: Any, group: str, name: str) -> int:
    count = field_of(field_of(usage, group), name)
    return min(max(count, 0), _MOST_TOKENS) if type(count) is int else 0


def field_of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def first_of(value: Any) -> Any:
    """Return the first item of a list; None if it is empty or no list."""
    return value[0] if isinstance(value, list) and value else None


def cost_of(dollars: Any) -> float | None:
    """Return a server's cost in US dollars; None if it is no amount."""
    known = type(dollars) in (int, float) and 0 <= dollars < inf
    return float(dollars) if known else None


# --- typed answers ---


def parse_reply(text: str, schema: type[_Model]) -> tuple[_Model | None, str]:
    """Return the last object of an answer that fits, or None and the problem without quoting the answer."""
    if len(text) > _MAX_CHARS:
        return None, f"the answer is longer than {_MAX_CHARS} characters"
    complaint = ""
    # From the end: models write their drafts first and the answer last.
    for value in reversed(_objects(text)[-_MAX_OBJECTS:]):
        found, problem = _fit(_unwrapped(value, schema), schema)
        if found is not None:
            return found, ""
        # Of the last object: those before it may be drafts.
        complaint = complaint or problem
    return None, complaint or "it holds no JSON object"


def without_thoughts(text: str) -> str:
    """Cut off thoughts. Without its first tag, a thought begins with the text; or it never ends."""
    text = text[:_MAX_CHARS]
    parts, begin, thinks = list[str](), 0, False
    for tag in _TAG.finditer(text):
        if tag["end"]:
            if not thinks:
                parts.clear()
            begin, thinks = tag.end(), False
        elif not thinks:
            parts.append(text[begin : tag.start()])
            thinks = True
    return "".join(parts if thinks else [*parts, text[begin:]]).strip()


def no_answer(completion: Completion, model: str, *, typed: bool = True) -> JudgeError | None:
    """Return the error of an answer that the model withheld or could not finish; None for any other.

    A text may begin like a refusal, and is of use if it is cut; a typed answer has been read in vain before.
    """
    said = without_thoughts(completion.text)
    why = f"{model} ({completion.finish_reason or 'no finish reason'})"
    finish = finish_reason(completion.finish_reason)
    if completion.refusal or finish in ("refused", "blocked") or (typed and _REFUSAL.match(said)):
        why_not = redact_secrets(completion.refusal or said)[:200]
        return JudgeRefusalError(f"{why} refused to answer: {why_not!r}")
    if finish == "error":
        return JudgeUnavailableError(f"{why}: the server broke its answer off")
    if finish == "length" and (typed or not said):
        return JudgeCutError(f"{why}: the answer was cut off; fix: raise the judge's max_tokens")
    if not said:
        return JudgeEmptyError(f"{why} gave an empty answer")
    return None


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost objects outside of thoughts, in order."""
    whole, end = _decoded(text, len(text) - len(text.lstrip()))
    if isinstance(whole, dict) and not text[end:].strip():  # its texts may quote the tags of thoughts
        return [whole]
    text = without_thoughts(text)
    found = list[dict[str, Any]]()
    work = lenient_work = 0
    maybe = _MAYBE_OBJECT.search(text)
    while maybe is not None and work < _MAX_WORK:
        start = maybe.start()
        value, end = _decoded(text, start)
        work += max(end - start, _ATTEMPT)
        if value is None and lenient_work < _MAX_LENIENT:
            value, end = _decoded_leniently(text, start, start + _MAX_LENIENT)
            lenient_work += end - start
        if isinstance(value, dict):
            found.append(value)
        maybe = _MAYBE_OBJECT.search(text, start + 1 if value is None else end)
    return found


def _decoded(text: str, start: int) -> tuple[Any, int]:
    """Decode the JSON value at a position; None if there is none, with the end of what was read."""
    try:
        return _DECODER.raw_decode(text, start)
    except JSONDecodeError as error:
        return None, error.pos
    except (RecursionError, ValueError):  # nested too deeply; a number of too many digits
        return None, min(len(text), start + 10_000)


def _decoded_leniently(text: str, start: int, stop: int) -> tuple[Any, int]:
    """Decode an object with trailing commas, comments, bare keys or single quotes, as in JSON5 and Python."""
    pieces: list[str] = []
    depth, end = 0, start
    for token in _TOKEN.finditer(text, start, stop):
        piece, end = token[0], token.end()
        if piece.isspace() or piece.startswith(("//", "/*")):
            continue
        # JSON has no trailing commas.
        if piece in ("}", "]") and pieces[-1] == ",":
            pieces.pop()
        pieces.append(_json_token(piece))
        depth += (piece in ("{", "[")) - (piece in ("}", "]"))
        if depth == 0:
            return _decoded("".join(pieces), 0)[0], end
    return None, end


def _json_token(piece: str) -> str:
    """Convert a token of JSON5 or Python to JSON."""
    if piece.startswith("'"):
        return json.dumps(re.sub(r"\\(.)", r"\1", piece[1:-1]))
    if piece[0].isalpha() or piece[0] in "_$":
        word = _CONSTANTS.get(piece, piece)
        return word if word in _LITERALS else f'"{word}"'
    return piece


def _unwrapped(value: dict[str, Any], schema: type[BaseModel]) -> dict[str, Any]:
    """Return the object inside of a wrapper of one key."""
    fields = schema.model_fields
    known = fields.keys() | {f.alias for f in fields.values()}
    inner = next(iter(value.values())) if len(value) == 1 and not value.keys() & known else None
    return inner if isinstance(inner, dict) else value


def _fit(value: dict[str, Any], schema: type[_Model]) -> tuple[_Model | None, str]:
    # A corrected reason may reveal another problem. Only what decides nothing is corrected.
    for _ in range(_MAX_FIXES):
        try:
            # Half of a surrogate pair, which models write as an escape, is no text.
            encoded = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
            return schema.model_validate_json(encoded), ""
        except ValidationError as error:
            errors = error.errors(include_url=False)
            complaint = "; ".join(_problem(dict(item)) for item in errors[:5])
            mended = [_mended(value, item["loc"], item["input"]) for item in errors]
            if not all(mended):
                break
    return None, complaint


def _mended(value: Any, path: tuple[Any, ...], given: Any) -> bool:
    """Make the reason at a path a text, or leave out a null; return False for all that may decide."""
    *above, name = path or (None,)
    for key in above:
        # Other parts of the path name a member of a union.
        if isinstance(value, list) or (isinstance(value, dict) and key in value):
            value = value[key]
    if name in _REASONS:
        given = value.get(name, [])
        parts = given if isinstance(given, list) else [given]
        value[name] = " ".join(as_text(part) for part in parts if part is not None)
        return True
    left_out = given is None and isinstance(value, dict) and name in value
    if left_out:
        del value[name]
    return left_out


def _problem(error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    return f"{path}: {error['msg']}" if path else str(error["msg"])
