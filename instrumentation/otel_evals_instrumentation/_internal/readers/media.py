"""Images, sounds, videos and files of messages, in any provider's form."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Media, Part
from otel_evals_instrumentation._internal.readers.values import is_masked
from otel_evals_instrumentation._internal.readers.vocabulary import words

MAX_BASE64 = 8_000_000
"""Characters of base64 that are kept; of longer ones, only the size is known."""
_CHUNK = 65_536
"""Characters decoded at a time: decoding keeps the interpreter's lock."""
_KINDS = ("image", "audio", "video")
_MIME_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,80}")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S")
_DATA_URI = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_LANGFUSE = re.compile(r"@@@langfuseMedia:type=([^|]+)\|id=([^|]+)\|")
"""Reference to a file that Langfuse's SDKs upload."""
_FORMATS = {"jpg": "jpeg", "mp3": "mpeg", "mpga": "mpeg", "pdf": "application/pdf"}
_FIELDS = {
    **dict.fromkeys(words("mime_type mimeType media_type mediaType contentType image_mimetype"), "mime_type"),
    **dict.fromkeys(words("url uri file_uri fileUri file_url"), "place"),
    **dict.fromkeys(
        words("image_url data base64 bytes file_data b64_json image audio value result content"), "place"
    ),
    **dict.fromkeys(("file_id", "fileId"), "file_id"),
    **dict.fromkeys(words("filename file_name name title display_name displayName"), "name"),
    "modality": "kind",
    "format": "format",
    "transcript": "transcript",
}
_INSIDE = words(
    """image audio video document file source image_url input_audio inline_data inlineData file_data fileData
    media s3Location binary blob data"""
)
_MOST_LEVELS = 4


def read_media(item: dict[str, Any]) -> Part:
    """Read a part with media; the part's text is a transcript."""
    found: dict[str, str] = {}
    _collect(item, found, 0)
    kind = _kind(item, found)
    media = Media(
        kind=kind,  # type: ignore[arg-type]
        mime_type=_mime_type(found, kind),
        name=found.get("name"),
        file_id=found.get("file_id"),
    )
    place = found.get("place", "")
    if _ADDRESS.match(place, 0, 30):
        media, cut = replace(media, uri=place), False
    else:
        media, cut = _with_bytes(media, place[place.find(",") + 1 :])
    return Part(kind="media", text=found.get("transcript"), media=media, truncated=cut)


def _collect(item: dict[str, Any], found: dict[str, str], level: int) -> None:
    for key, value in item.items():
        field = _FIELDS.get(key)
        if isinstance(value, dict):
            if key in _INSIDE and level < _MOST_LEVELS and value.get("type") != "text":
                _collect(value, found, level + 1)
        elif field is not None and isinstance(value, str) and value and not is_masked(value):
            _place(value, found) if field == "place" else found.setdefault(field, value)


def _place(value: str, found: dict[str, str]) -> None:
    """Note an address or bytes; media types in them count where none is given."""
    # Only the beginning is matched: megabytes may follow.
    embedded = _DATA_URI.match(value, 0, 300)
    uploaded = _LANGFUSE.match(value, 0, 300)
    if embedded and embedded[1]:
        found.setdefault("mime_type", embedded[1])
    if uploaded:
        found.setdefault("mime_type", uploaded[1])
        found.setdefault("file_id", uploaded[2])
    else:
        found.setdefault("place", value)


def _kind(item: dict[str, Any], found: dict[str, str]) -> str:
    """Return the kind by modality, by the part's type, by its keys or by the media type."""
    names = (str(found.get("kind")), str(item.get("type")), *item, found.get("mime_type", ""))
    return next((kind for name in names for kind in _KINDS if kind in name), "file")


def _mime_type(found: dict[str, str], kind: str) -> str | None:
    form = found.get("format", "").lower()
    form = _FORMATS.get(form, form)
    given = found.get("mime_type") or (f"{kind}/{form.rpartition('/')[2]}" if kind in _KINDS else form)
    match = _MIME_TYPE.match(given.strip().lower())
    return match[0] if match else None


def _with_bytes(media: Media, text: str) -> tuple[Media, bool]:
    """Add the bytes of base64; the flag is True for base64 that was cut off, or is none."""
    if not text:
        return media, False
    # Base64 may have line breaks, lack its padding or use the URL-safe alphabet.
    text = "".join(text.split()).rstrip("=").translate(_STANDARD)
    size = len(text) * 3 // 4
    if len(text) > MAX_BASE64:
        return replace(media, size=size), False
    hashed = hashlib.sha256()
    text += "=" * (-len(text) % 4)
    try:
        # The chunk's length is a multiple of 4, so each is base64 by itself.
        for at in range(0, len(text), _CHUNK):
            hashed.update(b64decode(text[at : at + _CHUNK], validate=True))
    except ValueError:
        return media, True
    return replace(media, size=size, digest=f"sha256:{hashed.hexdigest()}", base64=text), False


_STANDARD = str.maketrans("-_", "+/")
