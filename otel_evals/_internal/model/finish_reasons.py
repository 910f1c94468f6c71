"""One vocabulary for the reasons with which providers and frameworks end a model's response."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORDS: Final = {
    "stop": """
        stop stopped stopsequence end endturn endofturn endofsequence eos eostoken eosbyte complete
        completed completion finish finished done success succeeded normal natural final finalanswer
        maxturns
    """,
    "length": """
        length maxtokens maxtoken maxoutputtokens maxcompletiontokens maxlength maxlen maxcontext
        maxcontextlength tokenlimit outputlimit limit modellength modelcontextwindowexceeded
        contextwindowexceeded contextlength contextlengthexceeded contextlimit incomplete truncated
        timelimit
    """,
    "refused": "refusal refused refuse modelrefusal decline declined",
    "blocked": """
        contentfilter contentfiltered contentfilterviolation contentpolicy contentpolicyviolation
        contentblocked filter filtered safety safetyfilter safetyviolation recitation language
        blocklist prohibitedcontent spii pii sensitive sensitiveinformation guardrail guardrails
        guardrailintervened guardrailblocked guardrailsviolated inputguardrail outputguardrail
        blocked block blockedprompt modelarmor jailbreak imagesafety imageprohibitedcontent
        imagerecitation errortoxic toxic moderation moderated moderationblocked policyviolation
        ipviolation copyright
    """,
    "tool_calls": """
        toolcall toolcalls tooluse tooluses functioncall functioncalls toolexecution toolexecutions
        toolinvocation toolresult call actions
    """,
    "error": """
        error errored errors failed failure fail exception malformedfunctioncall malformedtoolcall
        malformedtooluse malformedmodeloutput malformedresponse malformedoutput unexpectedtoolcall
        toomanytoolcalls missingthoughtsignature noimage insufficientsystemresource networkerror
        servererror errorlimit errorunknown timeout timedout
    """,
    "paused": """
        pause paused pauseturn interrupt interrupted suspend suspended waiting waitingforinput
        pending deferred requiresaction inputrequired needsapproval approvalrequired toolapproval
        toolapprovalrequest
    """,
}
_KNOWN: Final = {word: name for name, words in _WORDS.items() for word in words.split()}
_PREFIXES: Final = ("chatfinishreason", "chatcompletionfinishreason", "finishreason", "stopreason", "reason")
_TEXT: Final = re.compile(r"\b(?!Some\()[A-Za-z][\w .-]*")


@lru_cache(maxsize=1_000)
def finish_reason(recorded: str) -> str:
    """Return the word for a recorded reason: `stop`, `length`, `refused`, `blocked`, `tool_calls`, `error`,
    `paused` or `other`.

    Case, separators, an enum's name and Rust's option do not count: `content-filter`, `FinishReason.SAFETY`,
    `<FinishReason.SAFETY: 3>`, `FINISH_REASON_SAFETY` and `Some("safety")` are all `blocked`.
    """
    # A sender's text of any length takes the same time.
    text = _TEXT.search(recorded[:200])
    if text is None:
        return "other"
    word = re.sub(r"[^a-z]", "", text[0].rstrip(". ").rpartition(".")[2].casefold())
    if word not in _KNOWN:
        word = next((word[len(each) :] for each in _PREFIXES if word.startswith(each)), word)
    return _KNOWN.get(word, "other")
