"""NLTK's tokenizers without the rest of NLTK. Part of the text room; any room may use it.

Importing NLTK as a whole also imports SciPy's statistics and scikit-learn, which takes more than a second in every process.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import types
from typing import Any

_LOCK = threading.Lock()
_PARTS: dict[str, types.ModuleType] = {}
"""The modules imported here, by name, with an empty package `nltk` around them."""


def nltk_part(name: str) -> Any:
    """A module of NLTK, by its name within it.

    One of `tokenize` is imported with only those that it imports itself: NLTK stays unimported, and whoever imports it later
    gets all. The others need the whole of NLTK, and get it.
    """
    with _LOCK:
        if "nltk" in sys.modules or not name.startswith("tokenize."):
            return importlib.import_module(f"nltk.{name}")
        if not _PARTS:
            spec = importlib.util.find_spec("nltk")
            assert spec is not None and spec.submodule_search_locations is not None
            _PARTS["nltk"] = types.ModuleType("nltk")
            _PARTS["nltk"].__path__ = list(spec.submodule_search_locations)
        sys.modules.update(_PARTS)
        try:
            return importlib.import_module(f"nltk.{name}")
        finally:
            # A later `import nltk` must run the package's own code. Other threads may import while the names are looked through.
            for known in list(sys.modules):
                if known == "nltk" or known.startswith("nltk."):
                    _PARTS[known] = sys.modules.pop(known)
