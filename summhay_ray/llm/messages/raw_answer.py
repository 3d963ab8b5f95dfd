"""A model's answer as it is stored: a row of the table `raw_answers` of every run. For all rooms above `llm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


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
        """All texts of the call. A provider may give fewer than were asked for."""
        return (self.text, *self.further_texts)
