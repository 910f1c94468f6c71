"""Agent frameworks that this process has imported, and the line that turns on the spans of each."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import NamedTuple

from otel_evals._internal.util.installed import package_hint

_FRAMEWORKS = {
    "langgraph": ("LangGraph", "langchain", "LangChain"),
    "langchain_core": ("LangChain", "langchain", "LangChain"),
    "agents.tracing": ("OpenAI Agents", "openai_agents", "OpenAIAgents"),
    "claude_agent_sdk": ("Claude Agent SDK", "claude_agent_sdk", "ClaudeAgentSDK"),
    "crewai": ("CrewAI", "crewai", "CrewAI"),
    "llama_index.core": ("LlamaIndex", "llama_index", "LlamaIndex"),
    "smolagents": ("smolagents", "smolagents", "Smolagents"),
    "autogen_agentchat": ("AutoGen", "autogen_agentchat", "AutogenAgentChat"),
    "agno": ("Agno", "agno", "Agno"),
    "dspy": ("DSPy", "dspy", "DSPy"),
    "haystack": ("Haystack", "haystack", "Haystack"),
}
_CLIENTS = {
    "openai": ("the OpenAI client", "openai", "OpenAI"),
    "anthropic": ("the Anthropic client", "anthropic", "Anthropic"),
    "google.genai": ("the Google GenAI client", "google_genai", "GoogleGenAI"),
    "mistralai": ("the Mistral client", "mistralai", "MistralAI"),
    "groq": ("the Groq client", "groq", "Groq"),
}
"""By module: name, OpenInference's module, and the first part of its class."""
_RECORD_BY_THEMSELVES = {"google.adk": "Google ADK", "strands": "Strands Agents"}
_SPACES = ("openinference.instrumentation.", "opentelemetry.instrumentation.")


class Framework(NamedTuple):
    name: str
    line: str
    """Python that turns its spans on, and the package to install if it is missing."""
    on: bool
    """True if an instrumentation of it is loaded."""

    def line_for_provider(self) -> str:
        """Return the line that sends its spans to a provider that is not global; empty if none does."""
        line = self.line.replace(".instrument()", ".instrument(tracer_provider=PROVIDER)")
        return line.replace("_all()", "_all(pydantic_ai.InstrumentationSettings(tracer_provider=PROVIDER))")


def imported_frameworks() -> list[Framework]:
    """Return the frameworks in `sys.modules`; clients of models only if there is no framework."""
    found = [_by_openinference(*_FRAMEWORKS[module]) for module in _FRAMEWORKS if _imported(module)]
    if _imported("pydantic_ai"):
        on = bool(getattr(getattr(sys.modules["pydantic_ai"], "Agent", None), "_instrument_default", False))
        found.append(Framework("pydantic-ai", "pydantic_ai.Agent.instrument_all()", on))
    found += [Framework(name, "", True) for m, name in _RECORD_BY_THEMSELVES.items() if _imported(m)]
    if not found:
        found = [_by_openinference(*_CLIENTS[module]) for module in _CLIENTS if _imported(module)]
    # Of several with the same line the first stays, and so does the order.
    return list({each.line: each for each in reversed(found)}.values())[::-1]


def _imported(module: str) -> bool:
    judges = sys.modules.get("otel_evals._internal.judges.litellm")  # loads much, if it is not yet
    return module in sys.modules and module not in getattr(judges, "OWN_IMPORTS", ())


def _by_openinference(name: str, package: str, prefix: str) -> Framework:
    module, kind = f"{_SPACES[0]}{package}", f"{prefix}Instrumentor"
    line = f"from {module} import {kind}; {kind}().instrument()"
    if not _is_installed(module):
        distribution = f"{_SPACES[0]}{package}".replace(".", "-").replace("_", "-")
        line += f"  # {package_hint(distribution)}"
    # Without importing it, which could load the whole framework.
    made = getattr(sys.modules.get(module), kind, None)
    on = made is not None and made().is_instrumented_by_opentelemetry
    return Framework(name, line, on or _other_is_loaded(package))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a parent package is missing
        return False


def _other_is_loaded(package: str) -> bool:
    """Return True if OpenTelemetry's or Traceloop's instrumentation of the same package is loaded."""
    plain = package.replace("_", "")
    loaded = (name for name in sys.modules.copy() if name.startswith(_SPACES[1]))
    return any(name.removeprefix(_SPACES[1]).replace("_", "").startswith(plain) for name in loaded)
