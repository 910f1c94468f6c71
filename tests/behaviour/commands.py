"""The `otel-evals` command, in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib.metadata import entry_points
from unittest import mock

__all__ = ["otel_evals_command"]

(_COMMAND,) = entry_points(group="console_scripts", name="otel-evals")


def otel_evals_command(*arguments: object, stdin: bytes = b"") -> tuple[int, str]:
    """Run a command; returns its exit code and what it prints on stdout and stderr."""
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    argv = ["otel-evals", *map(str, arguments)]
    with (
        mock.patch.multiple(sys, argv=argv, stdin=given),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        try:
            _COMMAND.load()()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    printed.seek(0)
    return code, printed.read()
