"""Bearer tokens come from a file that may be replaced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.receiver.access import BearerTokens


def write(path: Path, text: str, stamp: int) -> Path:
    path.write_text(text)
    os.utime(path, ns=(stamp, stamp))
    return path


def test_any_token_of_the_file_is_accepted_and_nothing_else(tmp_path: Path) -> None:
    tokens = BearerTokens(write(tmp_path / "tokens", "# ours\nfirst\n\n second \n", 1))
    assert tokens.accept("Bearer first")
    assert tokens.accept("bearer  second")
    for wrong in (
        "",
        "first",
        "Bearer",
        "Bearer ",
        "Bearer firs",
        "Bearer first2",
        "Basic first",
        "Bearer # ours",
    ):
        assert not tokens.accept(wrong)
    assert not tokens.accept("Bearer \udce9")


def test_tokens_are_replaced_without_a_restart_but_never_by_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "tokens", "old", 1)
    tokens = BearerTokens(path)
    write(path, "new", 2)
    tokens.reload()
    assert (tokens.accept("Bearer new"), tokens.accept("Bearer old")) == (True, False)
    write(path, "", 3)
    tokens.reload()
    path.unlink()
    tokens.reload()
    assert tokens.accept("Bearer new")


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_a_file_without_a_token_is_a_wrong_configuration(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.tokens: .*write one per line"):
        BearerTokens(write(tmp_path / "tokens", text, 1))
    with pytest.raises(ConfigError, match="cannot be read"):
        BearerTokens(tmp_path / "none")
