"""Documents, in whatever form a retriever's library gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.trace_builder import run_of, span

J = json.dumps


@pytest.mark.parametrize(
    "found",
    [
        ["Tides turn."],
        [{"page_content": "Tides turn.", "metadata": {}}],
        [{"content": "Tides turn."}],
        {"documents": [{"content": [{"text": "Tides turn."}]}]},  # Genkit
        {"retrievalResults": [{"content": {"text": "Tides turn.", "type": "TEXT"}, "score": 0.5}]},  # Bedrock
        [{"node": {"text": "Tides turn."}, "score": 0.5}],  # LlamaIndex
        {"matches": [{"document": {"text": "Tides turn."}}]},
    ],
)
def test_a_documents_text_is_found_in_every_form(found: Any) -> None:
    attributes = {"openinference.span.kind": "RETRIEVER", "input.value": "tides", "output.value": J(found)}
    run = run_of(span(1, {"openinference.span.kind": "AGENT"}), span(2, attributes))
    assert [(d.content, d.query) for d in run.documents] == [("Tides turn.", "tides")]
