"""`nli`: rank sentences by entailment or contradiction with the summary (paper, section 2).

A sentence's score is its greatest probability of entailment or contradiction, over all sentences of the summary as the premise.
Each sentence is scored separately, so redundancy has no cost. `default` puts the extract into source order, as the paper
describes. `release` keeps the order of the scores, as in the paper's code.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from summhay_ray.encoders import Comparing, NoModel, Vectors, load_pair_classifier
from summhay_ray.extract.base import AsReleased, Document, WithWeights

MOST_TOKENS = 2048
ENTAILMENT: Final = "entailment"
CLASSES = ("contradiction", ENTAILMENT, "neutral")
SUPPORTED_LABELS = frozenset({"supported", "support", "attributable", "entailed", "consistent", "label_1"})
"""Names of the entailment class in models with two classes. `label_1` is an unnamed class, as in MiniCheck."""

Classify = Callable[[Sequence[tuple[str, str]]], Any]
"""(premise, hypothesis) pairs -> probabilities of shape (pairs, 3), in the order of `CLASSES`."""


class Nli(WithWeights):
    """Ranks by a classifier. `model`: a folder or hub name of one with the labels of `CLASSES`, or a function (`Classify`)."""

    name: ClassVar[str] = "nli"
    own_model: ClassVar[str] = "cross-encoder/nli-deberta-v3-base"
    released: ClassVar[AsReleased] = AsReleased(newline=False, source_order=False)

    def __init__(self, model: str | Classify | None = None) -> None:
        super().__init__(model if isinstance(model, str) else None)
        self._classify = model if callable(model) else None

    def rank(self, document: Document, summary: str, compat: str = "default") -> Iterator[int]:
        """See `Extractor`. Ties go to the first sentence; in `release` they go to the last, since its sort is reversed."""
        premises = document.split(summary)
        if not document.sentences or not premises:
            return iter(range(len(document.sentences)))
        sentences = document.sentences

        def compute(texts: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            pairs = [(premise, json.loads(text)[1]) for text in texts for premise in premises]
            made = probabilities(self.model, pairs, batch_tokens, batch_size)
            return Vectors(made.values.reshape(len(texts), -1), made.n_tokens.reshape(len(texts), -1).sum(axis=1))

        if self._classify is not None:
            pairs = [(premise, sentence) for sentence in sentences for premise in premises]
            found: NDArray[Any] = np.asarray(self._classify(pairs), dtype=np.float64)
        else:
            texts = [json.dumps([summary, sentence]) for sentence in sentences]
            found = self.rows(Comparing("classes", self.model, self.revision), texts, compute).values
        scores = found.reshape(len(sentences), len(premises), len(CLASSES))[:, :, :2].max(axis=(1, 2))
        order = np.argsort(scores, kind="stable")[::-1] if compat == "release" else np.argsort(-scores, kind="stable")
        return iter(order.tolist())

    def entailment(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Return the probability that each premise entails its hypothesis (pairs,). Raise NoModel if the model has no such
        class."""

        def compute(texts: Sequence[str], batch_tokens: int, batch_size: int | None) -> Vectors:
            return probabilities(self.model, [tuple(json.loads(text)) for text in texts], batch_tokens, batch_size, (ENTAILMENT,))

        made: NDArray[np.float32] = self.rows(
            Comparing(ENTAILMENT, self.model, self.revision), [json.dumps(pair) for pair in pairs], compute
        ).values
        return made[:, 0]


def probabilities(
    name: str,
    pairs: Sequence[tuple[str, str]],
    batch_tokens: int,
    batch_size: int | None,
    classes: Sequence[str] = CLASSES,
) -> Vectors:
    """Return probabilities of shape (pairs, classes), in the order of `classes`. Raise NoModel if the model lacks one of these
    labels."""
    model = load_pair_classifier(name, MOST_TOKENS)
    labels = model.labels
    if len(labels) == 2:
        labels = [ENTAILMENT if label in SUPPORTED_LABELS else label for label in labels]
    columns = []
    for wanted in classes:
        found = [place for place, label in enumerate(labels) if label == wanted]
        if len(found) != 1:
            raise NoModel(f"model {name!r}: its classes are {', '.join(model.labels)}; expected {', '.join(classes)}")
        columns += found
    made = model.probabilities(pairs, batch_tokens, batch_size)
    return Vectors(made.values[:, columns], made.n_tokens)
