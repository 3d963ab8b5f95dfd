"""`nli`: sentences that a sentence of the summary entails or contradicts (section 2). Part of the extract room.

A sentence's score is the greatest probability of entailment or contradiction with a sentence of the summary as the premise.
Scores are of single sentences: redundancy costs nothing. The paper's code leaves the text in the order of the scores
(`release`), where the paper, and `default`, put it into source order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from summhay_ray.encoders import Comparing, NoModel, Vectors, load_pair_classifier
from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.extract.weights import WithWeights
from summhay_ray.text import punkt_sentences

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_TOKENS = 2048
CLASSES = ("contradiction", "entailment", "neutral")

Classify = Callable[[Sequence[tuple[str, str]]], Any]
"""Pairs (premise, hypothesis) -> (pairs, 3) probabilities, in the order of `CLASSES`."""


class Nli(WithWeights):
    """`model`: a folder or hub name of a classifier whose labels name contradiction and entailment; or a function, `Classify`."""

    name: ClassVar[str] = "nli"
    own_model: ClassVar[str] = "cross-encoder/nli-deberta-v3-base"
    released: ClassVar[AsReleased] = AsReleased(newline=False, source_order=False)

    def __init__(self, model: str | Classify | None = None) -> None:
        super().__init__(model if isinstance(model, str) else None)
        self._classify = model if callable(model) else None

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`. Of equal scores the first sentence comes first; in `release` the last, as NumPy's sort reversed."""
        import numpy as np

        premises = punkt_sentences(summary)
        if not document.sentences or not premises:
            return iter(range(len(document.sentences)))
        found = self._probabilities(document.sentences, summary, premises)
        scores = found.reshape(len(document.sentences), len(premises), len(CLASSES))[:, :, :2].max(axis=(1, 2))
        order = np.argsort(scores, kind="stable")[::-1] if compat == "release" else np.argsort(-scores, kind="stable")
        return iter(order.tolist())

    def _probabilities(self, sentences: Sequence[str], summary: str, premises: Sequence[str]) -> NDArray[Any]:
        """(sentences, premises x classes)"""
        import numpy as np

        if self._classify is not None:
            pairs = [(premise, sentence) for sentence in sentences for premise in premises]
            return np.asarray(self._classify(pairs), dtype=np.float64)

        def compute(texts: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            pairs = [(premise, json.loads(text)[1]) for text in texts for premise in premises]
            made = probabilities(self.model, pairs, batch_tokens, batch_size)
            return Vectors(made.values.reshape(len(texts), -1), made.n_tokens.reshape(len(texts), -1).sum(axis=1))

        texts = [json.dumps([summary, sentence]) for sentence in sentences]
        return self.rows(Comparing("classes", self.model, self.revision), texts, compute).values


def probabilities(name: str, pairs: Sequence[tuple[str, str]], batch_tokens: int, batch_size: int | None) -> Vectors:
    """(pairs, classes), in the order of `CLASSES`. Raises NoModel where the model's labels name no such classes."""
    model = load_pair_classifier(name, MOST_TOKENS)
    columns = []
    for wanted in CLASSES:
        found = [place for place, label in enumerate(model.labels) if label == wanted]
        if len(found) != 1:
            raise NoModel(f"model {name!r}: its classes are {', '.join(model.labels)}; expected {', '.join(CLASSES)}")
        columns += found
    made = model.probabilities(pairs, batch_tokens, batch_size)
    return Vectors(made.values[:, columns], made.n_tokens)
