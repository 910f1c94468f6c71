"""Images, sounds, videos and files in messages."""

from __future__ import annotations

from typing import Literal

from otel_evals._internal.model.spans import Record

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

    def describe(self) -> str:
        """Return a line for people and judges, such as `image, image/png, 1,234 bytes, sha256:...`.

        Name and address are the sender's words: fence or escape the line.
        """
        size = None if self.size is None else f"{self.size:,} bytes"
        name = self.name and f"named {self.name!r}"
        place = self.uri or (self.file_id and f"file {self.file_id}")
        return ", ".join(filter(None, (self.kind, self.mime_type, size, self.digest, name, place)))
