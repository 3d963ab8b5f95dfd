"""The base class of extractors that run a model.

Running a model takes time, so a caller may pass a cache (`Numbers`) that keeps its results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from summhay_ray.encoders import Comparing, Encoding, Vectors, known_revision
from summhay_ray.extract.base import AsReleased

Compute = Callable[[Sequence[str], int, int | None], Vectors]
"""(texts, most tokens of a batch, most texts of a batch) -> one row of numbers per text."""
BATCH_TOKENS = 4096


class Numbers(Protocol):
    """Returns one row of numbers per text: computes it, or looks it up."""

    def __call__(self, made_by: Encoding | Comparing, texts: Sequence[str], compute: Compute) -> Vectors:
        """`made_by`: everything that the numbers depend on except the texts."""
        ...


def computed(made_by: Encoding | Comparing, texts: Sequence[str], compute: Compute) -> Vectors:
    """`Numbers` without a cache: compute in this process, keep nothing."""
    return compute(texts, BATCH_TOKENS, None)


class WithWeights:
    """An extractor that runs a model. `model`: a folder or hub name; None: `own_model`."""

    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased()
    own_model: ClassVar[str]
    """The default model."""

    def __init__(self, model: str | None = None) -> None:
        self.model, self.layers = named_layers(model or self.own_model)
        self.rows: Numbers = computed

    @functools.cached_property
    def revision(self) -> str:
        """The content hash of a folder of weights; empty for a model of a hub. Raises NoModel if there is no such model."""
        return known_revision(self.model)


def named_layers(model: str) -> tuple[str, int | None]:
    """(name, layers) of a model: `NAME@18` reads 18 layers; without a number layers is None, and all are read."""
    name, _, layers = model.rpartition("@")
    return (name, int(layers)) if name and layers.isdigit() else (model, None)
