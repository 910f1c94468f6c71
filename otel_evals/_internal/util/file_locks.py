"""File locks that end with their process."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

HAS_FILE_LOCKS = fcntl is not None
"""False on systems without such locks, such as Windows."""


def try_lock(file: int) -> bool:
    """Lock an open file; return False if another process holds the lock, or without file locks.

    Args:
        file: descriptor; closing it releases the lock.
    """
    if not HAS_FILE_LOCKS:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
