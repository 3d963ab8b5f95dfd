"""Overlap with reference texts: ROUGE and BERTScore. With several references, the best score counts.

ROUGE-1, -2, -L and -Lsum (Lin, 2004) give the results of `rouge_score` with Porter's stems, separately for each type (ODSum,
section 3.4; SQuALITY's multi-rouge). The longest common subsequence takes nearly all of the library's time, so it is computed
here; every figure equals the library's to the bit.

BERTScore (Zhang et al., 2020; ODSum, section 5.2) is computed by `bert_score`: no idf, no rescaling. It needs an extra. For a
folder, or a model unknown to `bert_score`, the layer with the vectors to compare must be given.
"""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from summhay_ray.text import Script, is_latin, whole_nltk, words_of

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_WORDS_KEPT = 200_000
_TEXTS_KEPT = 256


def rouge(
    prediction: str, references: Sequence[str], over: Literal["best", "mean"] = "best", script: Script = "auto"
) -> Mapping[str, float]:
    """Return the F1 (0 to 1) of each type: rouge1, rouge2, rougeL, rougeLsum. A text without words scores 0. Raises ValueError
    without a reference.

    `over`: the best or the mean over references. `script`: with `latin`, words consist of ASCII letters, as in rouge_score;
    with `auto`, ICU finds the words of other scripts.
    """
    if isinstance(references, str) or not references:
        raise ValueError("rouge needs a sequence of at least one reference")
    latin = script == "latin" or is_latin(prediction, *references)
    found = [_scores(prediction, reference, latin) for reference in references]
    columns = {kind: [scores[kind] for scores in found] for kind in ROUGE_TYPES}
    return {kind: max(values) if over == "best" else sum(values) / len(values) for kind, values in columns.items()}


def _scores(prediction: str, reference: str, latin: bool) -> dict[str, float]:
    scored = _scorer(latin, "rouge1", "rouge2").score(reference, prediction)
    found = {kind: float(score.fmeasure) for kind, score in scored.items()}
    found["rougeL"] = _longest(prediction, reference, latin)
    # For texts of one line, ROUGE-Lsum equals ROUGE-L.
    lines = [sum(1 for line in text.split("\n") if line) for text in (prediction, reference)]
    several = _scorer(latin, "rougeLsum").score(reference, prediction) if max(lines) > 1 else {}
    found["rougeLsum"] = float(several["rougeLsum"].fmeasure) if several else found["rougeL"]
    return found


def _longest(prediction: str, reference: str, latin: bool) -> float:
    from rouge_score import scoring

    target, predicted = _words(latin).tokenize(reference), _words(latin).tokenize(prediction)
    if not target or not predicted:
        return 0.0
    length = common_length(target, predicted)
    return float(scoring.fmeasure(length / len(predicted), length / len(target)))


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, computed bit-parallel (Hyyro, 2004)."""
    places: dict[str, int] = defaultdict(int)
    for place, token in enumerate(one):
        places[token] |= 1 << place
    every = (1 << len(one)) - 1
    row = every
    for token in other:
        matched = row & places.get(token, 0)
        row = ((row + matched) | (row - matched)) & every
    return len(one) - row.bit_count()


@functools.cache
def _scorer(latin: bool, *kinds: str) -> Any:
    words = _words(latin)
    from rouge_score import rouge_scorer

    return rouge_scorer.RougeScorer(list(kinds), tokenizer=words)


@functools.cache
def _words(latin: bool) -> _Words:
    return _Words(latin)


class _Words:
    """rouge_score's tokenizer with a cache by word, since stemming dominates its time. Without `latin`, ICU finds the words."""

    def __init__(self, latin: bool) -> None:
        whole_nltk()
        from rouge_score import tokenizers

        self._latin = latin
        self._word = functools.lru_cache(_WORDS_KEPT)(tokenizers.DefaultTokenizer(use_stemmer=True).tokenize)
        self.tokenize = functools.lru_cache(_TEXTS_KEPT)(self._tokenize)

    def _tokenize(self, text: str) -> list[str]:
        words = text.split() if self._latin else words_of(text)
        return [token for word in words for token in (self._word(word) if self._latin or word.isascii() else [word])]


_ONE_AT_A_TIME = threading.Lock()


def bertscore(prediction: str, references: Sequence[str], model: str, layer: int | None = None) -> float:
    """Return F1 against the best reference. Thread-safe: one call computes at a time. Raises ValueError without a reference."""
    if isinstance(references, str) or not references:
        raise ValueError("bertscore needs a sequence of at least one reference")
    with _ONE_AT_A_TIME:
        _, _, found = _bert_scorer(model, layer).score([prediction], [list(references)])
    return float(found[0])


def check_bertscore(model: str, layer: int | None = None) -> None:
    """Load the model, so that errors are reported before any call. Raises ValueError, with a message of one line."""
    try:
        bertscore("a word", ["a word"], model, layer)
    except KeyError:
        raise ValueError(f"bertscore: the best layer of {model!r} is not known; write layer: N") from None
    # bert_score asserts its layers. transformers raises OSError or ValueError for an invalid model, RuntimeError for its weights.
    except (AssertionError, OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:200]
        raise ValueError(f"bertscore: {model!r} cannot be used ({type(error).__name__}: {why})") from error


@functools.lru_cache(maxsize=2)
def _bert_scorer(model: str, layer: int | None) -> Any:
    from bert_score import BERTScorer

    return BERTScorer(model_type=model, num_layers=layer, idf=False, rescale_with_baseline=False)
