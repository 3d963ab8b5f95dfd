"""`nli`: sentences that a sentence of the summary entails or contradicts (section 2). Part of the extract room.

A sentence's score is the greatest probability of entailment or contradiction with a sentence of the summary as the premise.
Scores are of single sentences: redundancy costs nothing. The paper's code leaves the text in the order of the scores
(`release`), where the paper, and `default`, put it into source order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from summhay_ray.encoders import NoModel, load_pair_classifier
from summhay_ray.extract.base import AsReleased, Document
from summhay_ray.text import punkt_sentences

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL, MOST_TOKENS = "cross-encoder/nli-deberta-v3-base", 2048

Classify = Callable[[Sequence[tuple[str, str]]], Any]
"""Pairs (premise, hypothesis) -> (pairs, 3) probabilities: contradiction, entailment, neutral."""


class Nli:
    """`model`: a folder or hub name of a classifier whose labels name contradiction and entailment; or a function, `Classify`."""

    name: ClassVar[str] = "nli"
    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased(newline=False, source_order=False)

    def __init__(self, model: str | Classify = MODEL) -> None:
        self._model = model

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`. Of equal scores the first sentence comes first; in `release` the last, as NumPy's sort reversed."""
        import numpy as np

        premises = punkt_sentences(summary)
        if not document.sentences or not premises:
            return iter(range(len(document.sentences)))
        pairs = [(premise, hypothesis) for premise in premises for hypothesis in document.sentences]
        classify = classifier(self._model) if isinstance(self._model, str) else self._model
        found: NDArray[np.float64] = np.asarray(classify(pairs), dtype=np.float64)
        scores = found[:, :2].max(axis=1).reshape(len(premises), -1).max(axis=0)
        order = np.argsort(scores, kind="stable")[::-1] if compat == "release" else np.argsort(-scores, kind="stable")
        return iter(order.tolist())


def classifier(name: str) -> Classify:
    """The model's probabilities with the columns in our order. Raises NoModel where its labels name no such classes."""
    model = load_pair_classifier(name, MOST_TOKENS)
    columns = []
    for wanted in ("contradiction", "entailment", "neutral"):
        found = [place for place, label in enumerate(model.labels) if label == wanted]
        if len(found) != 1:
            raise NoModel(
                f"model {name!r}: its classes are {', '.join(model.labels)}; expected contradiction, entailment, neutral"
            )
        columns += found
    return lambda pairs: model.probabilities(pairs)[:, columns]
