"""Locks on files that end with the process that has them."""

from __future__ import annotations

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

HAS_FILE_LOCKS = fcntl is not None
"""Whether this system has such locks."""


def try_lock(file: int) -> bool:
    """Lock an open file for this process, unless another has it.

    Args:
        file: its descriptor; closing it gives up the lock.

    Returns:
        Whether the lock was free; False where there are no such locks.
    """
    if not HAS_FILE_LOCKS:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
