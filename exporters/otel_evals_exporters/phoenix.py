"""Scores as span annotations in Arize Phoenix."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Evaluation, Score, ScoredRun
from otel_evals.util.retry import retry_after

if TYPE_CHECKING:
    import httpx

__all__ = ["PhoenixDestination"]

_RESERVED = "note"  # Phoenix keeps this name for notes and refuses the whole batch for it
_WORTH_ANOTHER_TRY = {408, 425, 429}


class PhoenixDestination:
    """Annotates judged spans in Phoenix, one annotation per score, and the traces they are in.

    The trace's own annotation is what Phoenix shows in its list of traces and at the top of a trace's page,
    where a judged agent stands below, say, the span of an HTTP server.
    Phoenix answers at once and attaches the annotation when the span has arrived, for about ten minutes.
    A score sent twice overwrites itself; another version of the scorer makes an annotation of its own.
    """

    name = "phoenix"

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        traces: bool = True,
        content: bool = True,
        timeout: float = 10.0,
    ) -> None:
        """Name the server; nothing is sent yet.

        Args:
            endpoint: base URL; PHOENIX_COLLECTOR_ENDPOINT, or http://localhost:6006, unless given.
            api_key: sent as a bearer token; PHOENIX_API_KEY unless given.
            headers: sent with every request.
            traces: whether to annotate the trace as well, with the scores of whole runs.
            content: whether to send explanations, which may quote the conversation.
            timeout: seconds a request may take.

        Raises:
            ConfigError: `endpoint` is no http URL, `timeout` is not positive, or httpx is not installed.
        """
        if importlib.util.find_spec("httpx") is None:
            raise ConfigError("phoenix", "needs httpx: pip install 'otel-evals[phoenix]'")
        if not timeout > 0:
            raise ConfigError("timeout", "must be greater than zero")
        url = endpoint or os.environ.get("PHOENIX_COLLECTOR_ENDPOINT") or "http://localhost:6006"
        if not re.match(r"https?://[^/\s]", url):
            raise ConfigError("endpoint", f"{url!r} is not a URL such as http://localhost:6006")
        self._url = re.sub(r"(/v1/traces)?/*$", "", url)
        self._headers = {"content-type": "application/json", **(headers or {})}
        if key := api_key or os.environ.get("PHOENIX_API_KEY"):
            self._headers["authorization"] = f"Bearer {key}"
        self._traces = traces
        self._content = content
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Send the scores of a batch; other outcomes are not sent, since Phoenix would average them.

        Raises:
            DestinationError: Phoenix was not reached or refused the batch.
        """
        scores = [
            (scored.run, evaluation, outcome)
            for scored in batch
            for evaluation in scored.evaluations
            if isinstance(outcome := evaluation.outcome, Score) and math.isfinite(outcome.value)
        ]
        spans = [self._of_span(evaluation, score) for _, evaluation, score in scores]
        await self._post("/v1/span_annotations", spans)
        if self._traces:
            runs = [(e, score) for run, e, score in scores if e.span_id == run.root_span_id]
            await self._post("/v1/trace_annotations", [self._of_trace(e, score) for e, score in runs])

    async def shutdown(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, path: str, annotations: Sequence[Mapping[str, Any]]) -> None:
        import httpx

        if not annotations:
            return
        if self._client is None:
            self._client = httpx.AsyncClient(headers=self._headers, timeout=self._timeout)
        # A lone surrogate, as broken input brings, has no UTF-8 form.
        content = json.dumps({"data": annotations}, ensure_ascii=False, allow_nan=False).encode(
            "utf-8", "replace"
        )
        url = self._url + path
        try:
            response = await self._client.post(url, content=content)
        except httpx.TransportError as error:
            problem = f"{url} was not reached: {type(error).__name__} {error}".rstrip()
            raise DestinationError(problem, retryable=True) from error
        if not response.is_success:
            raise DestinationError(
                f"{url} answered {response.status_code}: {response.text[:200]}",
                retryable=response.status_code >= 500 or response.status_code in _WORTH_ANOTHER_TRY,
                retry_after=retry_after(response.headers),
            )

    def _of_span(self, evaluation: Evaluation, score: Score) -> dict[str, Any]:
        return {
            "span_id": evaluation.span_id,
            "identifier": _identifier(evaluation),
            **self._annotation(evaluation, score),
        }

    def _of_trace(self, evaluation: Evaluation, score: Score) -> dict[str, Any]:
        # A trace may hold several runs: each keeps its own annotation, and Phoenix shows their mean.
        return {
            "trace_id": evaluation.trace_id,
            "identifier": f"{_identifier(evaluation)}/{evaluation.span_id}",
            **self._annotation(evaluation, score),
        }

    def _annotation(self, evaluation: Evaluation, score: Score) -> dict[str, Any]:
        name = evaluation.scorer_id
        result = {
            "score": float(score.value),
            "label": _text(score.label),
            "explanation": _text(score.explanation) if self._content else None,
        }
        return {
            "name": f"otel_evals.{name}" if name == _RESERVED else name,
            "annotator_kind": "LLM" if any(step.model for step in score.steps) else "CODE",
            "result": {key: value for key, value in result.items() if value is not None},
            "metadata": _metadata(evaluation, score),
        }


def _identifier(evaluation: Evaluation) -> str:
    """A run's score and that of the conversation it ends stand on the same span."""
    whole = "/conversation" if evaluation.conversation_id is not None else ""
    return f"{evaluation.scorer_id}@{evaluation.scorer_version}{whole}"


def _metadata(evaluation: Evaluation, score: Score) -> dict[str, Any]:
    models = {step.model for step in score.steps if step.model}
    facts = {
        "evaluation_id": evaluation.evaluation_id,
        "scorer_version": evaluation.scorer_version,
        "direction": evaluation.direction.value,
        "revision": evaluation.revision,
        "conversation_id": evaluation.conversation_id,
        "sampling_probability": evaluation.sampled.probability,
        "sampling_rule": evaluation.sampled.rule,
        "judge_model": ", ".join(sorted(models)) or None,
        "judge_tokens": score.usage.total_tokens or None,
        "judge_cost_usd": score.cost,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _text(text: str | None) -> str | None:
    """Without NUL characters, which PostgreSQL does not store."""
    return text and text.replace("\x00", "")
