"""What the extractors share that read weights. Part of the extract room.

A model's numbers cost time: who runs an extractor may keep them (`Numbers`), so that nothing is computed twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

from summhay_ray.encoders import Comparing, Encoding, Vectors, known_revision
from summhay_ray.extract.base import AsReleased

Compute = Callable[[Sequence[str], int, int | None], Vectors]
"""Texts, tokens of a batch, texts of a batch at most -> a row of numbers a text."""
BATCH_TOKENS = 4096


class Numbers(Protocol):
    """Who sees to it that a row of numbers a text is there: computes it, or has it already."""

    def __call__(self, made_by: Encoding | Comparing, texts: Sequence[str], compute: Compute) -> Vectors:
        """`made_by`: all that the numbers depend on beside the texts."""
        ...


def computed(made_by: Encoding | Comparing, texts: Sequence[str], compute: Compute) -> Vectors:
    """`Numbers` in this process, of which nothing is kept."""
    return compute(texts, BATCH_TOKENS, None)


class WithWeights:
    """An extractor that reads weights. `model`: a folder or hub name; the method's own where None."""

    takes_model: ClassVar[bool] = True
    released: ClassVar[AsReleased] = AsReleased()
    own_model: ClassVar[str]
    """The weights that it takes where nobody names others."""

    def __init__(self, model: str | None = None) -> None:
        self.model, self.layers = named_layers(model or self.own_model)
        self.rows: Numbers = computed

    @functools.cached_property
    def revision(self) -> str:
        """What tells a folder's weights apart. Raises NoModel where it is none."""
        return known_revision(self.model)


def named_layers(model: str) -> tuple[str, int | None]:
    """`NAME@18` is a model of which 18 layers are read, a name without a number is read whole."""
    name, _, layers = model.rpartition("@")
    return (name, int(layers)) if name and layers.isdigit() else (model, None)
