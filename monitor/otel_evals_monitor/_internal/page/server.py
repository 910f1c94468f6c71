"""Serves the page of `otel-evals monitor`."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Sequence

import uvicorn

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, trace_link
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.app import Page
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.store.database import Database


def serve(
    database: Database,
    limits: AlarmLimits,
    receivers: Sequence[Receiver] = (),
    *,
    link: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    browser: bool = False,
) -> None:
    page = Page(
        database,
        access=Access(token, host),
        limits=limits,
        link=TraceLink.parse(trace_link(link)),
        receivers=receivers,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen(128)  # before the address is printed
        except OSError as error:
            raise ConfigError("--port", f"cannot listen on {host}:{port}: {error}; give another") from None
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        page.alarm_check.run_once()  # the first view already shows alarms
        echo(f"The page is at {address}  (Ctrl-C ends it)")
        ended = threading.Event()
        threading.Thread(target=_check_until, args=(page.alarm_check, ended), daemon=True).start()
        if browser:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(page.app, log_level="warning", access_log=False))
        try:
            server.run(sockets=[listening])
        finally:
            ended.set()


def _check_until(check: AlarmCheck, ended: threading.Event) -> None:
    while not ended.wait(60.0):
        check.run_once(54.0)
