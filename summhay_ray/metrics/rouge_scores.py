"""ROUGE-1, -2, -L and -Lsum (Lin, 2004), as `rouge_score` computes them with Porter's stems. Part of the metrics room.

With several references the best one counts, for each type by itself (ODSum, section 3.4; SQuALITY's multi-rouge).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_WORDS_KEPT = 200_000
_TEXTS_KEPT = 256


def rouge(prediction: str, references: Sequence[str], over: Literal["best", "mean"] = "best") -> Mapping[str, float]:
    """F of each type (0 to 1): rouge1, rouge2, rougeL, rougeLsum. A text without a letter or digit scores 0.

    `over`: the best reference of each type, or the mean over the references. Raises ValueError without a reference.
    """
    if isinstance(references, str) or not references:
        raise ValueError("rouge needs a sequence of at least one reference")
    found = [_scorer().score(reference, prediction) for reference in references]
    columns = {kind: [float(one[kind].fmeasure) for one in found] for kind in ROUGE_TYPES}
    return {kind: max(values) if over == "best" else sum(values) / len(values) for kind, values in columns.items()}


@functools.cache
def _scorer() -> Any:
    from rouge_score import rouge_scorer

    return rouge_scorer.RougeScorer(list(ROUGE_TYPES), tokenizer=_Words())


class _Words:
    """rouge_score's own tokenizer, word by word: words come back, and stemming is what takes its time."""

    def __init__(self) -> None:
        from rouge_score import tokenizers

        self._word = functools.lru_cache(_WORDS_KEPT)(tokenizers.DefaultTokenizer(use_stemmer=True).tokenize)
        self.tokenize = functools.lru_cache(_TEXTS_KEPT)(self._tokenize)

    def _tokenize(self, text: str) -> list[str]:
        return [token for word in text.split() for token in self._word(word)]
