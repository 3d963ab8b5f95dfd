"""What a vector, or a score of a text for a query, is made by. Part of the encoders room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from summhay_ray.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Precision = Literal["float32", "float16", "bfloat16"]
Positions = Literal["", "stretched", "plain"]


class NoModel(UserError):
    """A model that cannot be loaded here; the message says, in one line, why and what to do."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """All that a text's vector depends on beside the text: equal encodings of one text are one vector."""

    model: str
    """As a model hub names it, a folder, or `openai/...` for a service."""
    revision: str = ""
    """The hub's commit; of a folder, `sha256:` and the digest of its files."""
    max_tokens: int | None = None
    """Where a text is cut, in the model's own tokens; None: where the model says."""
    precision: Precision = "float32"
    positions: Positions = ""
    """For a model whose positions are stretched (LongEmbed): `stretched` for a text within the original 512 positions, `plain` as
    beside a longer one. Empty: the model's own."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """All that a text's score for a query depends on beside the two."""

    model: str
    revision: str = ""
    max_tokens: int | None = None
    precision: Precision = "float32"


@dataclass(frozen=True, slots=True)
class Comparing:
    """All that the numbers depend on which a model gives for two texts, beside the two."""

    what: Literal["classes", "tokens"]
    """Probabilities of classes (natural language inference), or the nearness of tokens (BERTScore)."""
    model: str
    revision: str = ""
    layers: int | None = None
    """How many of its layers are read; None: all."""
    special: bool = False
    """Whether the tokens that the model puts around a text count."""
    precision: Precision = "float32"


@dataclass(frozen=True)
class Vectors:
    """One vector a text."""

    values: NDArray[np.float32]
    """(texts, dimensions)"""
    n_tokens: NDArray[np.int64]
    """The model's own tokens that each text was read by, cut ones not counted."""
