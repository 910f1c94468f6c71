"""Where each backend shows a trace."""

from __future__ import annotations

import pytest

from tests.support.destinations import destination
from tests.support.scored import SPAN, TRACE

ALWAYS = {
    "datadog": f"https://app.datadoghq.com/llm/traces?query=%40trace_id%3A{TRACE}",
    "langfuse": f"http://x/trace/{TRACE}",
    "mlflow": f"http://x/#/experiments/0/traces?selectedEvaluationId=tr-{TRACE}",
    "phoenix": f"http://x/redirects/traces/{TRACE}",
    "posthog": f"http://x/llm-analytics/traces/{TRACE}",
}


@pytest.mark.parametrize("name", sorted(ALWAYS))
def test_a_backend_whose_addresses_have_no_ids_of_its_own_tells_them(name: str) -> None:
    assert destination(name, "http://x").trace_url(TRACE, SPAN) == ALWAYS[name]


def test_posthog_shows_traces_beside_where_it_takes_them() -> None:
    place = destination("posthog", "https://eu.i.posthog.com")
    assert place.trace_url(TRACE, SPAN) == f"https://eu.posthog.com/llm-analytics/traces/{TRACE}"
