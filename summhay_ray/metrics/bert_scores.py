"""BERTScore (Zhang et al., 2020), as `bert_score` computes it: no idf, no rescaling. Needs an extra.

With several references the best score counts (ODSum, section 5.2). For a folder, or a model unknown to `bert_score`, the layer
with the vectors to compare must be given.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any

_ONE_AT_A_TIME = threading.Lock()


def has_bertscore() -> bool:
    """Whether the extra `bertscore` is installed."""
    return importlib.util.find_spec("bert_score") is not None


def bertscore(prediction: str, references: Sequence[str], model: str, layer: int | None = None) -> float:
    """F1 against the best reference. Thread-safe: one call computes at a time. Raises ValueError without a reference."""
    if isinstance(references, str) or not references:
        raise ValueError("bertscore needs a sequence of at least one reference")
    with _ONE_AT_A_TIME:
        _, _, found = _scorer(model, layer).score([prediction], [list(references)])
    return float(found[0])


def check_bertscore(model: str, layer: int | None = None) -> None:
    """Load the model, so that errors are reported before any call. Raises ValueError, in one line."""
    try:
        bertscore("a word", ["a word"], model, layer)
    except KeyError:
        raise ValueError(f"bertscore: the best layer of {model!r} is not known; write layer: N") from None
    # bert_score asserts its layers; transformers raises OSError or ValueError for an invalid model, RuntimeError for weights.
    except (AssertionError, OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"bertscore: {model!r} cannot be used ({type(error).__name__}: {why})") from error


@functools.lru_cache(maxsize=2)
def _scorer(model: str, layer: int | None) -> Any:
    from bert_score import BERTScorer

    return BERTScorer(model_type=model, num_layers=layer, idf=False, rescale_with_baseline=False)
