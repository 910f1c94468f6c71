"""Where content may be recorded: what the standard environment variable says."""

from __future__ import annotations

import os
from typing import NamedTuple

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Content(NamedTuple):
    """Where messages, arguments, results and documents are recorded."""

    on_span: bool = True
    in_event: bool = False


_ON_SPAN = Content()
_MODES = {
    "SPAN_ONLY": _ON_SPAN,
    "EVENT_ONLY": Content(on_span=False, in_event=True),
    "SPAN_AND_EVENT": Content(in_event=True),
    "TRUE": _ON_SPAN,  # how older packages said it
}


def content_wanted(explicit: bool | None = None) -> Content | None:
    """Where an explicit argument, else the environment, wants content; None: nowhere, as by default."""
    if explicit is not None:
        return _ON_SPAN if explicit else None
    value = os.environ.get(CAPTURE_CONTENT)
    return _MODES.get(value.strip().upper()) if value else None
