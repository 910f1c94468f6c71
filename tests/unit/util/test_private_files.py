"""Files of ours are their owner's alone, and no link, pipe or folder is taken for one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from otel_evals._internal.util.sqlite_file import make_private

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other systems have other rights")


@pytest.mark.parametrize("before", [None, 0o600, 0o644, 0o666, 0o660])
def test_a_file_is_its_owners_alone_and_keeps_what_it_holds(tmp_path: Path, before: int | None) -> None:
    path = tmp_path / "new" / "file"
    if before is not None:
        path.parent.mkdir()
        path.write_text("held")
        path.chmod(before)
    make_private(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == ("" if before is None else "held")


@pytest.mark.parametrize("what", ["link", "dangling link", "pipe", "folder"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, what: str) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        if what == "link":
            other.touch()
        path.symlink_to(other)
    with pytest.raises(OSError, match="not a regular file"):
        make_private(path)
    assert other.exists() is (what == "link")
