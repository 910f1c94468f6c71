"""Images, sounds, videos and files in messages."""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Literal

from msgspec.structs import asdict

from otel_evals._internal.model.records import ReadOnlyDict, Record

# WebP is not in the table: its mark has the file's size in the middle.
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

MediaKind = Literal["image", "audio", "video", "file"]


class Media(Record, frozen=True, kw_only=True):
    """A reference to an image, a sound, a video or a file in a message.

    Recorded bytes stay in memory with the run. Judges, records and stores leave them out unless configured
    to show or keep them.
    """

    kind: MediaKind
    mime_type: str | None = None
    uri: str | None = None
    """Address of the content; addresses that contain it (`data:`) become `base64`."""
    file_id: str | None = None
    """The provider's id of an uploaded file."""
    name: str | None = None
    size: int | None = None
    """Bytes, if they were recorded."""
    digest: str | None = None
    """`sha256:` and the hex digest of the bytes, if they were recorded."""
    base64: str | None = None
    """The bytes, if they were recorded and are at most 6 MB."""

    def __repr__(self) -> str:
        """Describe the reference, without the bytes."""
        return f"Media({self.describe()})"

    @property
    def raster_type(self) -> str | None:
        """The media type of recorded PNG, JPEG, GIF or WebP bytes, by their beginning; else None."""
        # 16 characters are 12 bytes, as many as WebP's beginning has.
        head = b64decode(self.base64[:16]) if self.base64 else b""
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return "image/webp"
        return next((kind for beginning, kind in _BEGINNINGS if head.startswith(beginning)), None)

    def describe(self) -> str:
        """Return a line for people and judges, such as `image, image/png, 1,234 bytes, sha256:...`.

        Name and address are the sender's words: fence or escape the line.
        """
        size = None if self.size is None else f"{self.size:,} bytes"
        name = self.name and f"named {self.name!r}"
        place = self.uri or (self.file_id and f"file {self.file_id}")
        return ", ".join(filter(None, (self.kind, self.mime_type, size, self.digest, name, place)))

    def in_result(self, part_type: str) -> MediaInResult:
        """Return the reference as a JSON value for the result of a tool, which leaves the bytes out."""
        kept = {n: value for n, value in asdict(self).items() if value is not None and n != "base64"}
        return MediaInResult({"type": part_type, **kept}, self)


class MediaInResult(ReadOnlyDict):
    """A reference in a tool's result. Its items are what judges and records read."""

    __slots__ = ("media",)

    def __init__(self, items: dict[str, Any], media: Media) -> None:
        super().__init__(items)
        self.media = media

    # A plain dict, as other copies are, would lose the media.
    def __deepcopy__(self, _: dict[int, Any]) -> MediaInResult:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self.media)
