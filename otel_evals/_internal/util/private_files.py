"""Creates files that only their owner can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(path: Path) -> None:
    """Create a file with mode 0600, or remove the permissions of others from an existing one.

    Raises:
        OSError: it is a symbolic link, not a regular file, or belongs to another user.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Do not open an existing file: closing it would release the locks of this process's connections.
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
