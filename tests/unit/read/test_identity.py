"""Identities: the same wherever and whenever they are asked for, and different for whatever differs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.read.conversation import conversation_key
from otel_evals._internal.read.runs import evaluation_id
from tests.support.replacing import replace
from tests.support.runs import a_run

RUN = replace(a_run(), conversation_id="c1", resource={"service.name": "shop"})
TALK = replace(RUN, turns=(RUN,))


def test_an_evaluations_id_is_fixed() -> None:
    """It is the key under which destinations overwrite: it may not change from release to release."""
    assert evaluation_id(RUN, "judge", "1") == "9256db56d1acb6452b159e627d9b356d"
    assert evaluation_id(TALK, "judge", "1") == "2c200406224ca1b9c6bb691dd8634efc"


def test_it_tells_targets_scorers_and_versions_apart() -> None:
    other = [
        evaluation_id(replace(RUN, trace_id="3" * 32), "judge", "1"),
        evaluation_id(replace(RUN, root_span_id="3" * 16), "judge", "1"),
        evaluation_id(RUN, "another", "1"),
        evaluation_id(RUN, "judge", "2"),
        evaluation_id(TALK, "judge", "1"),
        evaluation_id(replace(TALK, conversation_id="c2"), "judge", "1"),
        evaluation_id(replace(TALK, resource={"service.name": "bank"}), "judge", "1"),
        evaluation_id(RUN, "judge", "1"),
    ]
    assert len(set(other)) == len(other)


def test_a_conversation_keeps_its_id_when_it_goes_on() -> None:
    later = replace(TALK, trace_id="4" * 32, root_span_id="5" * 16, turns=(RUN, RUN))
    assert evaluation_id(later, "judge", "1") == evaluation_id(TALK, "judge", "1")


@given(st.text(), st.text())
def test_any_text_is_an_id(conversation: str, service: str) -> None:
    """Lone surrogates, as broken input brings them, included."""
    run = replace(TALK, conversation_id=conversation, resource={"service.name": service})
    assert conversation_key(run) == (service, conversation, "")
    assert len(evaluation_id(run, "judge\ud800", "1")) == 32


def test_what_is_not_told_is_empty() -> None:
    assert conversation_key(replace(RUN, conversation_id=None, resource={})) == ("", "", "")


@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_users_of_one_conversation_id_have_conversations_of_their_own(
    conversation: str, user: str, other_conversation: str, other_user: str
) -> None:
    """Whatever ids they chose: none can write over another's evaluations."""
    one = replace(TALK, conversation_id=conversation, user_id=user)
    other = replace(TALK, conversation_id=other_conversation, user_id=other_user)
    same = (conversation, user) == (other_conversation, other_user)
    assert (evaluation_id(one, "judge", "1") == evaluation_id(other, "judge", "1")) is same
