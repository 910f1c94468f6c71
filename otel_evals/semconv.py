"""The attribute, event and metric names that this package reads or writes.

Names are plain strings: the constants of the semantic-convention packages move and get deprecated, the
names on the wire do not. The first part is OpenTelemetry's (GenAI semantic conventions, status Development),
the last part, `otel_evals.*`, is this package's own.
"""

from typing import Final

# --- OpenTelemetry GenAI: https://github.com/open-telemetry/semantic-conventions-genai ---

GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_SYSTEM: Final = "gen_ai.system"  # name of gen_ai.provider.name before 1.37
GEN_AI_AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
GEN_AI_AGENT_ID: Final = "gen_ai.agent.id"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_AGENT_VERSION: Final = "gen_ai.agent.version"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
GEN_AI_DATA_SOURCE_ID: Final = "gen_ai.data_source.id"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_RETRIEVAL_QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
GEN_AI_RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
GEN_AI_OPERATION_DETAILS: Final = "gen_ai.client.inference.operation.details"  # event name
ERROR_TYPE: Final = "error.type"
USER_ID: Final = "user.id"
SESSION_ID: Final = "session.id"
SERVICE_NAME: Final = "service.name"

GEN_AI_EVALUATION_RESULT: Final = "gen_ai.evaluation.result"  # event name
GEN_AI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GEN_AI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
GEN_AI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
GEN_AI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

# --- proposals to these conventions, written with `semconv: proposed` ---

OPERATION_EVALUATION: Final = "evaluation"
"""`gen_ai.operation.name` of evaluation spans: pull request 185 of semantic-conventions-genai."""
GEN_AI_EVALUATOR_ID: Final = "gen_ai.evaluation.evaluator.id"
"""This and the next two: pull request 359 of semantic-conventions-genai."""
GEN_AI_EVALUATOR_VERSION: Final = "gen_ai.evaluation.evaluator.version"
GEN_AI_EVALUATOR_TYPE: Final = "gen_ai.evaluation.evaluator.type"
"""`llm_judge` or `deterministic`; the proposal's third value, `human`, is for people's labels."""
GEN_AI_EVALUATION_SCORE_RANGE: Final = "gen_ai.evaluation.score.range"
"""Lowest and highest score. Issue 39 of semantic-conventions-genai has the name and leaves the type open.

Issue 43, a score's confidence interval, has names in a comment only, and a single evaluation has no interval.
"""

# --- OpenInference: https://github.com/Arize-ai/openinference/tree/main/spec ---

OPENINFERENCE_SPAN_KIND: Final = "openinference.span.kind"

# --- this package's own ---

SCOPE_NAME: Final = "otel_evals"
"""Instrumentation scope of everything that this package emits; spans of this scope are never scored."""

MARK: Final = "otel_evals.internal"
"""Span attribute and baggage key of everything that happens inside a scorer; never scored."""
MARK_PROOF: Final = "otel_evals.internal.proof"
"""Span attribute next to the mark: a signature of this span's ids. Without it, the mark does not count."""
MARK_IN_TRACE_STATE: Final = "otel_evals"
"""The same as a tracestate key, for services to which baggage is not propagated."""

SCORE_PREFIX: Final = "otel_evals.score."
"""`otel_evals.score.<scorer>` (double), `.label`, `.explanation`, on the judged span."""

CHECK_VERDICT: Final = "otel_evals.check.verdict"
"""Verdict about an answer that was checked before it left: `pass`, `fail` or `undecided`."""
CHECK_EFFECT: Final = "otel_evals.check.effect"
"""What the application did with that answer: `allowed`, `blocked` or `rewritten`."""
EVALUATION_ID: Final = "otel_evals.evaluation.id"
EVALUATION_OUTCOME: Final = "otel_evals.evaluation.outcome"
EVALUATION_REASON: Final = "otel_evals.evaluation.reason"
EVALUATION_REVISION: Final = "otel_evals.evaluation.revision"
CONVERSATION_TURNS: Final = "otel_evals.conversation.turns"
SCORER_VERSION: Final = "otel_evals.scorer.version"
SCORER_DIRECTION: Final = "otel_evals.scorer.direction"
SAMPLING_PROBABILITY: Final = "otel_evals.sampling.probability"
SAMPLING_RULE: Final = "otel_evals.sampling.rule"
JUDGE_MODEL: Final = "otel_evals.judge.model"
JUDGE_COST: Final = "otel_evals.judge.cost"
SCORE_OPERATION: Final = "otel_evals.score.operation"
"""Id of the span that a score is about, for instance the step that failed."""
EVIDENCE_CUT: Final = "otel_evals.judge.evidence_cut"
JUDGE_AGREEMENT: Final = "otel_evals.judge.agreement"
CONTEXT_DIGEST: Final = "otel_evals.context.digest"
STEP_NAME: Final = "otel_evals.step.name"
STEP_PROMPT: Final = "otel_evals.step.prompt"
STEP_RESULT: Final = "otel_evals.step.result"

METRIC_SCORE: Final = "otel_evals.score"
METRIC_ESTIMATE_RUNS: Final = "otel_evals.estimate.runs"
METRIC_ESTIMATE_RUNS_SQUARED: Final = "otel_evals.estimate.runs_squared"
METRIC_ESTIMATE_SCORE: Final = "otel_evals.estimate.score"
METRIC_ESTIMATE_SCORE_CROSS: Final = "otel_evals.estimate.score_cross"
METRIC_ESTIMATE_SCORE_SQUARED: Final = "otel_evals.estimate.score_squared"
METRIC_RUNS: Final = "otel_evals.runs"
METRIC_EVALUATIONS: Final = "otel_evals.evaluations"
METRIC_EVALUATION_DURATION: Final = "otel_evals.evaluation.duration"
METRIC_JUDGE_TOKENS: Final = "otel_evals.judge.tokens"
METRIC_JUDGE_COST: Final = "otel_evals.judge.cost"
METRIC_QUEUE_SIZE: Final = "otel_evals.queue.size"
METRIC_CONVERSATIONS_WAITING: Final = "otel_evals.conversations.waiting"
METRIC_RULES_FAILING: Final = "otel_evals.rules.failing"
METRIC_SPANS_HELD: Final = "otel_evals.spans.held"
METRIC_SPANS_LOST: Final = "otel_evals.spans.lost"
METRIC_EXPORTS: Final = "otel_evals.exports"
SHARED_SERVER: Final = "otel_evals.shared.server"
METRIC_SHARED_FAILURES: Final = "otel_evals.shared.failures"

ALARM_EVENT: Final = "otel_evals.alarm"
"""Log event of an alarm's start and of its end."""
ALARM_KIND: Final = "otel_evals.alarm.kind"
ALARM_STATE: Final = "otel_evals.alarm.state"
ALARM_MONITOR: Final = "otel_evals.alarm.monitor"
ALARM_SINCE: Final = "otel_evals.alarm.since"
ALARM_EVIDENCE: Final = "otel_evals.alarm.evidence"
ALARM_TRACES: Final = "otel_evals.alarm.traces"

OUTCOME: Final = "otel_evals.outcome"
REASON: Final = "otel_evals.reason"
DESTINATION: Final = "otel_evals.destination"
