"""The settings that determine a vector or a score, and the type of vectors."""

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
    """A model cannot be loaded on this machine; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """All settings that determine a text's vector. An equal encoding of an equal text gives the same vector."""

    model: str
    """A name on a model hub, a folder, or `openai/...` for a service."""
    revision: str = ""
    """The commit on the hub. For a folder, it is `sha256:` and the digest of the folder's files."""
    max_tokens: int | None = None
    """Maximum tokens of a text, by the model's tokenizer; None: the model's limit."""
    precision: Precision = "float32"
    positions: Positions = ""
    """For a model with extended positions (LongEmbed). `stretched`: the positions of a text within the original 512 tokens are
    spread over the extended range. `plain`: positions are consecutive, as in a batch with a longer text. Empty: the model's
    default."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """All settings that determine a text's score for a query."""

    model: str
    revision: str = ""
    max_tokens: int | None = None
    precision: Precision = "float32"


@dataclass(frozen=True, slots=True)
class Comparing:
    """The settings that determine the numbers of a model for a pair of texts."""

    what: Literal["classes", "entailment", "tokens"]
    """classes: class probabilities (natural language inference). entailment: the probability of this class alone. tokens:
    similarities of tokens (BERTScore)."""
    model: str
    revision: str = ""
    layers: int | None = None
    """Number of the model's layers that are used; None: all."""
    special: bool = False
    """Whether special tokens around a text count."""
    precision: Precision = "float32"


@dataclass(frozen=True)
class Vectors:
    """One vector per text."""

    values: NDArray[np.float32]
    """(texts, dimensions)"""
    n_tokens: NDArray[np.int64]
    """(texts,) tokens of each text by the model's tokenizer, after truncation."""
    n_cut: NDArray[np.int64] | None = None
    """(texts,) tokens of each text beyond the model's limit, which it does not read; None if nothing is cut."""
