"""Images and sounds that a judge is shown, after the text of a question and in fences of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Literal, get_args

from otel_evals._internal.judges.judge import Judge, JudgeRequest
from otel_evals._internal.model import Media, NotScored, Run
from otel_evals.errors import ConfigError

Shown = Literal["image", "audio", "link"]
"""Kinds of media that a judge may be shown; `link` is an image's https address, which the provider opens."""

_LONGEST = 12_000_000
"""Characters of base64 in one question."""
_IMAGE_TOKENS = 50_000
"""More than any provider's largest image has: a small file may be a large picture."""
_SOUND = re.compile(r"audio/(?:x-|vnd\.)?([a-z0-9]{2,10})$")
_FORMATS = {"mpeg": "mp3", "wave": "wav"}
_QUESTION = frozenset(("input", "question", "context", "source", "prompts", "ask", "history", "turns"))
_ANSWER = frozenset(("output", "turns"))
_EARLIER = frozenset(("history", "turns"))


def check_shown(kinds: Collection[str]) -> None:
    """Raise ConfigError if a kind cannot be shown."""
    unknown = sorted(set(kinds) - set(get_args(Shown)))
    if unknown or isinstance(kinds, str):
        problem = f"must be a list of {', '.join(get_args(Shown))}, not {kinds!r}"
        raise ConfigError("judge.media", problem)


def media_needed(run: Run, slots: Collection[str]) -> list[Media]:
    """Return the media of the texts that fill these slots of a prompt."""
    said = [
        *(run.history if not _EARLIER.isdisjoint(slots) else ()),
        *(run.input_messages if not _QUESTION.isdisjoint(slots) else ()),
        *(run.output_messages if not _ANSWER.isdisjoint(slots) else ()),
    ]
    return [media for message in said for media in message.media]


def media_of_tools(run: Run, shown: Sequence[str]) -> list[Media]:
    """Return the media of tool results that these texts of a prompt refer to, each once."""
    found = {media.digest: media for call in run.tool_calls for media in call.media if media.digest}
    return [media for digest, media in found.items() if any(digest in text for text in shown)]


def not_shown(needed: Sequence[Media], judge: Judge) -> NotScored | None:
    kinds: Collection[str] = getattr(judge, "takes", ())
    unseen = next((media for media in needed if _kind(media) not in kinds or _part(media) is None), None)
    if unseen is None and sum(len(media.base64 or "") for media in needed) <= _LONGEST:
        return None
    if unseen is None:
        why = f"{len(needed)} media are too large for one question"
    elif _part(unseen) is None:
        why = f"{unseen.kind}: no content was recorded that a judge can be shown"
    else:
        kind = _kind(unseen)
        why = (
            f"{judge.model} is not shown {kind}; fix: add {kind!r} to the judge's media if the model takes it"
        )
    return NotScored(reason="media_not_shown", explanation=why)


def user_content(request: JudgeRequest) -> str | list[dict[str, Any]]:
    """Return the content of the user's message, in OpenAI's form."""
    if not request.media:
        return request.prompt
    parts: list[dict[str, Any]] = [_text(request.prompt)]
    for number, media in enumerate(request.media, 1):
        part = _part(media)
        if part is not None:
            name = f"media {number}"
            parts += [_text(f'<data-{request.mark} name="{name}">'), part, _text(f"</data-{request.mark}>")]
    return parts


def most_tokens(media: Sequence[Media]) -> int:
    return sum(len(each.base64 or "") if each.kind == "audio" else _IMAGE_TOKENS for each in media)


def _kind(media: Media) -> str:
    return media.kind if media.base64 is not None else "link"


def _part(media: Media) -> dict[str, Any] | None:
    """Return a part whose content has its declared type, otherwise None."""
    if media.kind == "image" and media.raster_type is not None:
        return _image(f"data:{media.raster_type};base64,{media.base64}")
    if media.kind == "image" and media.base64 is None and (media.uri or "").startswith("https://"):
        return _image(str(media.uri))
    sound = _SOUND.match(media.mime_type or "")
    if media.kind == "audio" and sound and media.base64:
        form = _FORMATS.get(sound[1], sound[1])
        return {"type": "input_audio", "input_audio": {"data": media.base64, "format": form}}
    return None


def _image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
