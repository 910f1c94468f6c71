"""Evaluators of other products on the examples of labelled_answers.py, asking the same server."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from labelled_answers import Example

Row = dict[str, Any]
_spent = threading.local()


def phoenix_faithfulness(example: Example, url: str, model: str) -> Row:
    from phoenix.evals.metrics.faithfulness import FaithfulnessEvaluator

    return _phoenix(FaithfulnessEvaluator, _answer(example, context="context"), url, model)


def phoenix_toxicity(example: Example, url: str, model: str) -> Row:
    """Its score is 1 for what is not toxic or the reverse, by version: the label decides."""
    from phoenix.evals.metrics.toxicity import ToxicityEvaluator

    text = example.row["text"]
    return _phoenix(
        ToxicityEvaluator, {"text": text, "input": text, "output": text}, url, model, good="non-toxic"
    )


def phoenix_document_relevance(example: Example, url: str, model: str) -> Row:
    from phoenix.evals.metrics.document_relevance import DocumentRelevanceEvaluator

    given = {"input": example.row["question"], "document_text": example.row["source"]}
    return _phoenix(DocumentRelevanceEvaluator, given, url, model)


def phoenix_tool_selection(example: Example, url: str, model: str) -> Row:
    from phoenix.evals.metrics.tool_selection import ToolSelectionEvaluator

    return _phoenix(ToolSelectionEvaluator, _call(example), url, model)


def phoenix_tool_invocation(example: Example, url: str, model: str) -> Row:
    from phoenix.evals.metrics.tool_invocation import ToolInvocationEvaluator

    return _phoenix(ToolInvocationEvaluator, _call(example), url, model)


def deepeval_faithfulness(example: Example, url: str, model: str) -> Row:
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.test_case import LLMTestCase

    row = example.row
    case = LLMTestCase(input=row["question"], actual_output=row["text"], retrieval_context=[row["source"]])
    return _deepeval(FaithfulnessMetric, case, url, model)


def deepeval_toxicity(example: Example, url: str, model: str) -> Row:
    from deepeval.metrics import ToxicityMetric

    return _deepeval(ToxicityMetric, _said(example), url, model)


def deepeval_bias(example: Example, url: str, model: str) -> Row:
    from deepeval.metrics import BiasMetric

    return _deepeval(BiasMetric, _said(example), url, model)


def deepeval_answer_relevancy(example: Example, url: str, model: str) -> Row:
    from deepeval.metrics import AnswerRelevancyMetric

    return _deepeval(AnswerRelevancyMetric, _said(example), url, model)


def deepeval_prompt_alignment(example: Example, url: str, model: str) -> Row:
    """The whole prompt is the one instruction."""
    from deepeval.metrics import PromptAlignmentMetric

    kind = partial(PromptAlignmentMetric, prompt_instructions=[example.row["question"]])
    return _deepeval(kind, _said(example), url, model)


def deepeval_conversational_g_eval(example: Example, url: str, model: str) -> Row:
    """It has ten degrees: its own threshold decides."""
    from deepeval.metrics import ConversationalGEval
    from deepeval.test_case import ConversationalTestCase, MultiTurnParams, Turn

    row, shown = example.row, [MultiTurnParams.ROLE, MultiTurnParams.CONTENT]
    case = ConversationalTestCase(turns=[Turn(**turn) for turn in row["turns"]])
    kind = partial(ConversationalGEval, name=row["kind"], criteria=row["criterion"], evaluation_params=shown)
    return _deepeval(kind, case, url, model, by_threshold=True)


def deepeval_g_eval(example: Example, url: str, model: str) -> Row:
    """It has ten degrees: its own threshold decides."""
    from deepeval.metrics import GEval
    from deepeval.test_case import LLMTestCase, SingleTurnParams

    row, criteria = example.row, "The actual output is factually correct, judged by the expected output."
    case = LLMTestCase(input=row["question"], actual_output=row["text"], expected_output=row["expected"])
    shown = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT]
    kind = partial(GEval, name="Correctness", criteria=criteria, evaluation_params=shown)
    return _deepeval(kind, case, url, model, by_threshold=True)


def _said(example: Example) -> Any:
    from deepeval.test_case import LLMTestCase

    return LLMTestCase(input=example.row["question"], actual_output=example.row["text"])


Rival = Callable[[Example, str, str], Row]
_SOURCED: dict[str, Rival] = {
    "phoenix_faithfulness": phoenix_faithfulness,
    "deepeval_faithfulness": deepeval_faithfulness,
}
RIVALS: dict[str, dict[str, Rival]] = {
    "FaithBench": _SOURCED,
    "SummEdits": _SOURCED,
    "BEGIN": _SOURCED,
    "WikiQAPassages": {"phoenix_document_relevance": phoenix_document_relevance},
    "QAGS": _SOURCED,
    "EVOUNA": {"deepeval_g_eval": deepeval_g_eval},
    "FED": {"deepeval_conversational_g_eval": deepeval_conversational_g_eval},
    "WikiQA": {"deepeval_answer_relevancy": deepeval_answer_relevancy},
    "IFEval": {"deepeval_prompt_alignment": deepeval_prompt_alignment},
    "BBQ": {"deepeval_bias": deepeval_bias},
    "HateCheck": {"phoenix_toxicity": phoenix_toxicity, "deepeval_toxicity": deepeval_toxicity},
    "When2Call": {
        "phoenix_tool_selection": phoenix_tool_selection,
        "phoenix_tool_invocation": phoenix_tool_invocation,
    },
}


def _answer(example: Example, **names: str) -> Row:
    row = example.row
    return {"input": row["question"], "output": row["text"], names["context"]: row["source"]}


def _call(example: Example) -> Row:
    tools = "\n".join(f"{name}: {tool}" for name, tool in (example.tools or {}).items())
    call = json.dumps(example.row["call"])
    return {"input": example.row["question"], "available_tools": tools, "tool_selection": call}


def load() -> None:
    """Import the libraries that are installed: two threads at once may each find half a module."""
    for module in ("phoenix.evals", "phoenix.evals.metrics", "deepeval.metrics", "deepeval.test_case"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def _phoenix(kind: Any, data: Row, url: str, model: str, good: str | None = None) -> Row:
    from phoenix.evals import LLM

    os.environ.setdefault("OPENAI_API_KEY", "none")
    client = {"base_url": url, "timeout": 100_000, "http_client": _http()}
    found = kind(llm=LLM(provider="openai", model=model, sync_client_kwargs=client)).evaluate(data)[0]
    value = found.score if good is None else float(found.label == good)
    return {"value": value, "label": found.label, "outcome": "score", **_taken()}


def _deepeval(kind: Any, case: Any, url: str, model: str, *, by_threshold: bool = False) -> Row:
    options = {} if by_threshold else {"include_reason": False}
    metric = kind(model=_deepeval_model(url, model), async_mode=False, **options)
    metric.measure(case, _show_indicator=False)
    value = float(metric.is_successful()) if by_threshold else metric.score
    return {"value": value, "outcome": "score", **_taken()}


@cache
def _deepeval_model(url: str, model: str) -> Any:
    os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES", ERROR_REPORTING="NO")
    import openai
    from deepeval.models import DeepEvalBaseLLM

    client = openai.OpenAI(
        base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"), timeout=100_000, http_client=_http()
    )

    class Model(DeepEvalBaseLLM):  # type: ignore[misc]  # not in the environment of the checks
        """Asks the server for JSON of the metric's schema."""

        def load_model(self) -> None:
            return None

        def get_model_name(self) -> str:
            return model

        def generate(self, prompt: str, schema: Any = None, **_: Any) -> Any:
            form: Row = {}
            if schema is not None:
                asked = {"name": schema.__name__, "schema": schema.model_json_schema()}
                form = {"response_format": {"type": "json_schema", "json_schema": asked}}
            messages: Any = [{"role": "user", "content": prompt}]
            text = (
                client.chat.completions.create(model=model, messages=messages, **form)
                .choices[0]
                .message.content
            )
            return text if schema is None else schema.model_validate_json(text)

        async def a_generate(self, prompt: str, schema: Any = None, **_: Any) -> Any:
            return self.generate(prompt, schema)

    return Model()


def _http() -> Any:
    """Return a client that counts the calls and tokens of its thread."""
    import httpx

    def count(response: Any) -> None:
        response.read()
        usage = response.json().get("usage") or {}
        calls = getattr(_spent, "calls", [])
        _spent.calls = [*calls, (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))]

    return httpx.Client(event_hooks={"response": [count]}, timeout=100_000)


def _taken() -> Row:
    """Return what this thread's calls cost since the last time."""
    calls = getattr(_spent, "calls", [])
    _spent.calls = []
    given, written = (sum(column) for column in zip(*calls, strict=True)) if calls else (0, 0)
    return {"calls": len(calls), "input_tokens": given, "output_tokens": written}
