"""Returns freed memory to the system. Part of the engine room."""

from __future__ import annotations

import ctypes
import sys


def give_back_memory() -> None:
    """Return to the system what was freed, which glibc keeps: 40 MiB after 2,000 items are answered."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
