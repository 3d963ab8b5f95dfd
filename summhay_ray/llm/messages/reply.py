"""A provider's reply, in one form for all transports. Part of the llm room, for the room alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MOST_TOKENS = 20_000_000
"""No model reads or writes more tokens in one call; larger counts are taken for this number."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call, as counted by the provider: whole numbers from 0 to `MOST_TOKENS`."""

    input_tokens: int
    """Tokens of the prompt, including those read from or written to a cache."""
    output_tokens: int
    """Tokens of the answer, including reasoning."""
    cached_tokens: int = 0
    """The part of `input_tokens` that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of `input_tokens` that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of `output_tokens` that is reasoning."""
    searches: int = 0
    """Searches of a reranking that is billed by searches."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a provider. `usage` is None if the provider does not report it, or reports no valid counts."""

    text: str
    finish_reason: str
    usage: Usage | None
    raw: Any = None
    """The parsed JSON body; None for a model that runs in this process."""
    further: tuple[str, ...] = ()
    """The texts after the first, if the call asked for several."""
    logprobs: Any = None
    """Log probabilities of the first text's tokens in the form of OpenAI's protocol; None if there are none."""
    numbers: bool = False
    """Whether the text holds numbers (vectors, scores), whose tokens are not counted."""
    flaw: str = ""
    """Why the numbers cannot be used; the text is then the beginning of the body."""
    zero_vectors: int = 0
    """Vectors that are all zeros."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call."""
        return (self.text, *self.further)
