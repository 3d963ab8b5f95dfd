"""NLTK, for functions that are not reimplemented here: Snowball's stems, WordNet, the stemmer behind `rouge_score`.

Its import takes seconds, so nothing imports it before it is needed.
"""

from __future__ import annotations

import threading
from typing import Any

_LOCK = threading.Lock()


def whole_nltk() -> Any:
    """The package `nltk`, imported by one thread at a time.

    Call it before importing anything that imports a module of NLTK: two threads that import two of its modules for the first time
    can deadlock.
    """
    with _LOCK:
        import nltk
    return nltk
