"""Files that hold what was said: private to their owner, and no others' in disguise."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(path: Path) -> None:
    """Make the file, or see that an existing one is a file of ours that nobody else reads.

    Raises:
        OSError: it is a symbolic link, no plain file, or somebody else's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # An existing file is not opened here: closing it would give up the locks of this process's connections.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("is a symbolic link, or no plain file") from None
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise OSError("belongs to another user") from None
        if os.name == "posix" and found.st_mode & 0o077:
            os.chmod(path, stat.S_IMODE(found.st_mode) & 0o700)
