"""All scorers in code, with options as YAML gives them."""

from __future__ import annotations

from typing import Any

__all__ = ["CODE_OPTIONS"]

CODE_OPTIONS: dict[str, dict[str, Any]] = {
    "answered": {"refusals": ["not today"]},
    "called_tool": {"name": "search", "times": 2},
    "completeness": {"reference": "input"},
    "content_similarity": {"ignore_case": False},
    "did_not_call": {"name": "delete"},
    "equals": {"text": "yes"},
    "excludes": {"text": "error", "id": "no_error"},
    "grounded_in_tools": {},
    "includes": {"text": "order"},
    "keyword_coverage": {"stop_words": ["the"]},
    "matches": {"pattern": r"\d+"},
    "max_tool_calls": {"most": 3},
    "no_secrets": {"personal": True},
    "no_tool_errors": {},
    "repeated_calls": {"loop_from": 2},
    "same_language": {"languages": ["en", "de"]},
    "similarity": {"expected": "yes", "threshold": 0.5},
    "textual_difference": {},
    "tone_consistency": {"reference_tone": "we are glad to help"},
    "tool_call_accuracy": {"expected_order": ["search", "book"]},
    "tool_error_rate": {},
    "tool_order": {"names": ["search", "book"]},
    "trajectory_accuracy": {"expected": ["search", {"name": "book", "arguments": {"seat": 1}}]},
    "trajectory_quality": {"plan": {"steps": ["search"], "max_steps": 2, "forbidden_tools": ["delete"]}},
    "unrecovered_tool_errors": {},
    "used_no_tools": {},
    "valid_json": {"schema": {"type": "object"}},
    "within_budget": {"max_tokens": 10, "max_usd": 1.0, "prices": {"gpt": [1, 2]}},
}
