"""Finish reasons of providers and frameworks in one vocabulary."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.model.finish_reasons import finish_reason

WORDS = {
    "stop": """
        stop STOP end_turn stop_sequence COMPLETE eos_token FinishReason.STOP FINISH_REASON_STOP completed
    """,
    "length": """
        length max_tokens MAX_TOKENS max_output_tokens model_context_window_exceeded model_length token_limit
        FinishReasonMaxTokens REASON_MAX_LEN
    """,
    "refused": "refusal Refusal REFUSED",
    "blocked": """
        content_filter content-filter content_filtered ContentFilter SAFETY safety FinishReason.SAFETY
        RECITATION PROHIBITED_CONTENT BLOCKLIST SPII guardrail_intervened sensitive IMAGE_SAFETY MODEL_ARMOR
        blocked ERROR_TOXIC FINISH_REASON_SAFETY FinishReasonBlocklist
    """,
    "tool_calls": """
        tool_calls tool-calls tool_call tool_use function_call TOOL_CALL TOOL_EXECUTION TOOL_CALLS
    """,
    "error": """
        error ERROR MALFORMED_FUNCTION_CALL malformed_model_output UNEXPECTED_TOOL_CALL
        insufficient_system_resource
    """,
    "paused": "pause_turn interrupted requires_action suspended interrupt",
    "other": "other OTHER unknown FINISH_REASON_UNSPECIFIED cancelled",
}


@pytest.mark.parametrize(
    ("recorded", "word"), [(recorded, word) for word, listed in WORDS.items() for recorded in listed.split()]
)
def test_a_reason_has_its_word(recorded: str, word: str) -> None:
    assert finish_reason(recorded) == word
    assert finish_reason(f"<FinishReason.{recorded.rpartition('.')[2]}: 3>") == word


@pytest.mark.parametrize("recorded", ['Some("max_tokens")', "Some(MaxTokens)", '[Some("max_tokens")]'])
def test_a_reason_may_be_in_rusts_option(recorded: str) -> None:
    assert finish_reason(recorded) == "length"


@given(st.text())
def test_any_text_has_a_word_that_is_its_own(recorded: str) -> None:
    word = finish_reason(recorded)
    assert word in WORDS
    assert finish_reason(word) == word
