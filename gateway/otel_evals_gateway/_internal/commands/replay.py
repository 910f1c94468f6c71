"""`otel-evals replay`: sends recorded traffic as if it happened now."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, exit_on, visible

if TYPE_CHECKING:
    from otel_evals_gateway._internal.replay.recording import RecordedTraffic
    from otel_evals_gateway._internal.replay.sender import Sent

_ANSWER_SECONDS = 30.0
_NAMES = {"traces": "spans", "logs": "log records"}


def replay(
    files: Annotated[
        list[str], typer.Argument(help="OTLP as JSON, JSON lines or protobuf, gzip or not; - is stdin.")
    ],
    to: Annotated[
        str,
        typer.Option(
            envvar="OTEL_EXPORTER_OTLP_ENDPOINT", help="Base URL of an OTLP/HTTP endpoint, such as a gateway."
        ),
    ],
    speed: Annotated[
        str, typer.Option(help="Factor over the recorded speed; max or 0: as fast as possible.")
    ] = "1",
    max_gap: Annotated[
        float, typer.Option(min=0, help="Maximum seconds between two spans; longer pauses are shortened.")
    ] = 60.0,
    patience: Annotated[
        float, typer.Option(min=0, help="Maximum seconds to wait for an unavailable or full endpoint.")
    ] = 30.0,
    header: Annotated[
        list[str] | None,
        typer.Option(help="Header as NAME=VALUE, in addition to OTEL_EXPORTER_OTLP_HEADERS."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Send recorded traffic as live OTLP, with new ids and times.

    Exits with 0 if the endpoint accepted everything, with 1 if not, and with 2 if nothing could be sent.
    """
    with exit_on(command="replay", extra="gateway"):
        url, factor, headers = _url(to), _factor(speed), _headers(header)
        from otel_evals_gateway._internal.replay.recording import read_recording

        recording = read_recording(files, _report_skipped)
        if not recording.items:
            raise ConfigError(", ".join(files), f"no span or log record found{_because(recording.unusable)}")
        sent = _send(recording, url, headers, factor, max_gap, patience)
    echo(json.dumps(_as_json(recording, sent)) if as_json else _as_text(recording, sent))
    if sent.unsent or sent.rejected.total() or sent.refused.total():
        raise typer.Exit(1)


def _send(
    recording: RecordedTraffic,
    url: str,
    headers: dict[str, str],
    speed: float,
    max_gap: float,
    patience: float,
) -> Sent:
    from otel_evals_gateway._internal.forwarder import Forwarder
    from otel_evals_gateway._internal.replay.sender import Replay

    def waits(answer: Any) -> None:
        echo(
            f"otel-evals replay: {visible(answer.message)}; sending again for up to {patience:g} s", err=True
        )

    forwarder = Forwarder(url, headers, _ANSWER_SECONDS, "the endpoint")
    sending = Replay(recording.items, forwarder, speed, max_gap, patience, waits)
    with suppress(KeyboardInterrupt):
        asyncio.run(sending.run())
        return sending.sent
    sending.sent.stopped = "interrupted"
    return sending.sent


def _url(to: str) -> str:
    url = urlsplit(to)
    if url.scheme not in ("http", "https") or not url.netloc:
        raise ConfigError(
            "--to", f"must be an http or https URL, as in http://127.0.0.1:4318, got {to!r:.100}"
        )
    if url.path.rstrip("/").endswith(("/v1/traces", "/v1/logs")):
        raise ConfigError("--to", "must be the base URL, without /v1/traces")
    return to.rstrip("/")


def _factor(speed: str) -> float:
    try:
        factor = math.inf if speed == "max" else float(speed)
    except ValueError:
        factor = math.nan
    if not factor >= 0:
        raise ConfigError("--speed", f"must be a factor such as 1, 10 or 0.5, or max, got {speed!r:.100}")
    return factor or math.inf


def _headers(given: list[str] | None) -> dict[str, str]:
    from opentelemetry.util.re import parse_env_headers

    headers = dict(parse_env_headers(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""), liberal=True))
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise ConfigError("--header", "must be NAME=VALUE, as in 'authorization=Bearer ...'")
        headers[name.strip()] = value
    return headers


def _report_skipped(path: str, line: int) -> None:
    echo(f"otel-evals replay: {path}:{line}: not OTLP, skipped", err=True)


def _because(unusable: Counter[str]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in unusable.items())
    return f": {reasons}" if reasons else ""


def _counted(counts: Counter[str]) -> str:
    found = [(counts[signal], name) for signal, name in _NAMES.items() if counts[signal]]
    return " and ".join(f"{count} {name if count > 1 else name[:-1]}" for count, name in found)


def _as_text(recording: RecordedTraffic, sent: Sent) -> str:
    lines = [f"{_counted(sent.accepted) or 'nothing'} accepted, in {sent.seconds:.1f} s"]
    if sent.rejected.total():
        lines.append(f"{_counted(sent.rejected)} rejected")
    if sent.refused.total():
        lines.append(f"{_counted(sent.refused)} refused")
    lines += [f"  {count}: {visible(reason[:300])}" for reason, count in sent.reasons.most_common(10)]
    if sent.unsent:
        lines.append(f"{sent.unsent} not sent or not answered: {visible(sent.stopped[:300])}")
    if recording.unusable:
        lines.append(f"left out of the recording{_because(recording.unusable)}")
    if sent.again:
        lines.append(f"{sent.again} of {sent.requests} requests were repetitions")
    if sent.behind > 1:
        lines.append(f"at most {sent.behind:.1f} s behind the recording's pace")
    return "\n".join(lines)


def _as_json(recording: RecordedTraffic, sent: Sent) -> dict[str, Any]:
    read = {name: recording.count(name) for name in _NAMES}
    return {
        "recorded": {**read, "traces_by_id": recording.traces},
        "left_out": dict(recording.unusable),
        **{name: getattr(sent, name) for name in sent.__slots__},
    }
