"""What a model answered, as it is kept: a row of every run's table `raw_answers`. For all rooms above `llm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What a model answered to one request, before anything was parsed out of it."""

    key: Annotated[str, "content hash of the request"]
    model: Annotated[str, "model as the spec names it"]
    text: Annotated[str, "the answer's text, unchanged"]
    finish_reason: Annotated[str, "why the model stopped: stop, length, content_filter, ..."]
    input_tokens: Annotated[int, "prompt tokens as the provider counts them"]
    cached_tokens: Annotated[int, "of those, read from the provider's prefix cache"]
    output_tokens: Annotated[int, "completion tokens as the provider counts them"]
    usd_micros: Annotated[int, "price of the answer in millionths of a dollar"]
    attempts: Annotated[int, "HTTP attempts that it took"]
    cache_write_tokens: Annotated[int, "of the prompt tokens, written to the provider's prefix cache"] = 0
    reasoning_tokens: Annotated[int, "of the completion tokens, reasoning that the text does not show"] = 0
    claimed_tokens: Annotated[
        int, "tokens that the provider claims where they were not credible, and the reservation is charged; else 0"
    ] = 0
    claimed_micros: Annotated[int, "what such a claim would cost in millionths of a dollar, else 0"] = 0
    further_texts: Annotated[
        tuple[str, ...], "the texts after the first where a call asks for several; empty for one that was refused"
    ] = ()
    logprobs: Annotated[str, "log probabilities of the first text's tokens as the provider lists them, JSON; empty without"] = ""
    origin: Annotated[
        str, "where it was answered: scheme, host and port, else the provider; empty for a model in this process, or unknown"
    ] = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the call: as many as the provider gave, which may be fewer than were asked for."""
        return (self.text, *self.further_texts)
