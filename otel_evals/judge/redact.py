"""Taking secrets out of text before it leaves the process."""

from __future__ import annotations

import re

__all__ = ["redact_secrets"]

# What comes before the secret is kept, so that a reader still sees what kind of thing stood there.
_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        r"(?s:()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))",
        r"()\b(?:sk|pk|rk)-(?:[a-z]+-)*[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, OpenRouter, Langfuse
        r"()\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
        r"()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS access key
        r"()\bAIza[A-Za-z0-9_-]{35}\b",  # Google
        r"()\b(?:gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
        r"()\bglpat-[A-Za-z0-9_-]{20,}",
        r"()\bxox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
        r"()\bhf_[A-Za-z0-9]{30,}",
        r"()\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",  # JSON web token
        r"(?i:(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+))[A-Za-z0-9._~+/=-]{8,}",
        r"(?i:(\b(?:api[_-]?key|token|secret|passw(?:or)?d)[\"']?\s*[:=]\s*[\"']?))(?=\S*[0-9])[^\s\"',;]{8,}",
        r"(\b[a-z][a-z0-9+]*://[^\s:/@]+:)[^\s@/]+(?=@)",  # password in a URL
    )
)


def redact_secrets(text: str) -> str:
    """Replace what has the common shape of a key, token or password by `[redacted]`."""
    for shape in _SHAPES:
        text = shape.sub(r"\1[redacted]", text)
    return text
