"""What a provider said, whatever carried it: the same for every transport. Part of the llm room, for the room alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call as the provider counts them."""

    input_tokens: int
    """Of the prompt, those read from or written to a cache included."""
    output_tokens: int
    """Of the answer, reasoning included."""
    cached_tokens: int = 0
    """Part of `input_tokens`: read from the provider's cache."""
    cache_write_tokens: int = 0
    """Part of `input_tokens`: written to the provider's cache."""
    reasoning_tokens: int = 0
    """Part of `output_tokens`."""
    searches: int = 0
    """Of a reranking, where it is billed by searches."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a provider; `usage` is None where it does not say, or says what cannot be."""

    text: str
    finish_reason: str
    usage: Usage | None
    raw: Any = None
    """The body as JSON; None for a model that runs in this process."""
    further: tuple[str, ...] = ()
    """The texts after the first, of a call that asks for several."""
    logprobs: Any = None
    """Of the first text's tokens, as OpenAI's protocol lists them; None without."""
    numbers: bool = False
    """Whether the text is numbers (vectors, scores), of which nobody counts tokens."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call."""
        return (self.text, *self.further)
