"""A provider's reply, in one form for all transports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

MOST_TOKENS = 20_000_000
"""No model reads or writes more tokens in one call; larger counts are reduced to this number."""


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
    cache_write_1h_tokens: int = 0
    """The part of `cache_write_tokens` that the cache keeps for an hour."""


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


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """A model's answer to one request, before anything is parsed out of it."""

    key: Annotated[str, "content hash of the request"]
    model: Annotated[str, "model as the spec names it"]
    text: Annotated[str, "the answer's text, unchanged"]
    finish_reason: Annotated[str, "why the model stopped: stop, length, content_filter, ..."]
    input_tokens: Annotated[int, "prompt tokens, as counted by the provider"]
    cached_tokens: Annotated[int, "prompt tokens that were read from the provider's prefix cache"]
    output_tokens: Annotated[int, "completion tokens, as counted by the provider"]
    usd_micros: Annotated[int, "price of the answer in millionths of a dollar"]
    attempts: Annotated[int, "number of HTTP attempts"]
    cache_write_tokens: Annotated[int, "prompt tokens that were written to the provider's prefix cache"] = 0
    reasoning_tokens: Annotated[int, "completion tokens spent on reasoning, which the text does not show"] = 0
    claimed_tokens: Annotated[
        int, "tokens that the provider reported, if they were not credible (then the reservation is charged); else 0"
    ] = 0
    claimed_micros: Annotated[int, "price of the tokens that were not credible in millionths of a dollar; else 0"] = 0
    further_texts: Annotated[
        tuple[str, ...], "the texts after the first, if the call asked for several; a refused one is empty"
    ] = ()
    logprobs: Annotated[
        str, "log probabilities of the first text's tokens as JSON in the provider's form; empty if there are none"
    ] = ""
    origin: Annotated[
        str, "where it was answered: scheme, host and port, else the provider; empty for a local model, or if unknown"
    ] = ""
    zero_vectors: Annotated[int, "embeddings that are all zeros, of which a similarity means nothing"] = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call. A provider may return fewer than requested."""
        return (self.text, *self.further_texts)
