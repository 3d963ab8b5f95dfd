"""What the gateway must know of a model beside the request: price, window, limits, endpoint, transport. Part of the llm room.

Nothing here is part of a request's key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.llm.homes import origin_of
from summhay_ray.llm.prices import FREE, Price, Unpriced, find_price, find_window, may_reason
from summhay_ray.llm.providers import Transport, is_local, provider_of, transport_of, wire_name
from summhay_ray.llm.reply import Usage
from summhay_ray.llm.sampling import beside, most_bytes
from summhay_ray.text import count_tokens

__all__ = [
    "FREE",
    "Limits",
    "ModelSettings",
    "Price",
    "Transport",
    "Unpriced",
    "find_price",
    "find_window",
    "is_local",
    "may_reason",
    "transport_of",
    "wire_name",
]

TOKEN_MARGIN = 1.15
"""How far OpenAI's count of a prompt may exceed ours (cl100k) in the worst case that is reserved."""

OTHER_TOKEN_MARGIN = 1.5
"""The same for every other tokenizer: smaller vocabularies take up to half as many tokens again for English."""

SPARE_TOKENS = 16
"""What a provider may add to any text: roles, separators."""

_OPENAI = re.compile(r"(^|/)(gpt-|chatgpt-|o\d)")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model may be asked: a minute (requests, input and output tokens), and at once. None: no limit."""

    rpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    concurrency: int = 64
    """Calls at once over the whole cluster."""

    def minutes(self, calls: float, input_tokens: float, output_tokens: float) -> float | None:
        """How long the limits a minute make so much take; None where there is none."""
        shares = ((calls, self.rpm), (input_tokens, self.input_tpm), (output_tokens, self.output_tpm))
        return max((amount / rate for amount, rate in shares if rate), default=None)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How to reach one model, and what it costs."""

    model: str
    price: Price
    context_window: int | None = None
    """Tokens of prompt and answer together; None where nobody says."""
    api_base: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable of the worker that holds the key: never the key."""
    timeout_s: float = 600.0
    limits: Limits = field(default_factory=Limits)
    transport: Transport = "litellm"
    """`local` for every model that runs in the worker, whatever is given."""
    reasoning: bool = False
    """Whether the model may write tokens that are billed and not shown."""
    max_answer_bytes: int | None = None
    """Of one response body, decompressed; None for what `max_tokens` implies."""
    token_margin: float = 1.0
    """So many times more tokens are reserved, of prompt and answer: for a tokenizer that counts more than was expected of it."""

    def __post_init__(self) -> None:
        if is_local(self.model):
            object.__setattr__(self, "transport", "local")

    @classmethod
    def written(cls, model: str, entry: Mapping[str, Any], limits: Limits) -> ModelSettings:
        """Settings of a spec's entry: what it says of price, window, endpoint, key, time-out, transport and bounds.

        Raises Unpriced.
        """
        return cls(
            model=model,
            price=find_price(model, entry.get("price")),
            context_window=find_window(model, entry.get("context_window")),
            api_base=entry.get("api_base"),
            api_key_env=entry.get("api_key_env"),
            timeout_s=entry.get("timeout_s", 600.0),
            max_answer_bytes=entry.get("max_answer_bytes"),
            limits=limits,
            transport=transport_of(model, entry.get("api_base"), entry.get("transport")),
            reasoning=may_reason(model),
            token_margin=entry.get("token_margin", 1.0),
        )

    @property
    def local(self) -> bool:
        """Whether the model runs in the worker."""
        return is_local(self.model)

    @property
    def origin(self) -> str:
        """Where it answers: scheme, host and port; the provider's name where that has several; empty in the worker."""
        return "" if self.local else origin_of(provider_of(self.model), self.api_base)

    @property
    def margin(self) -> float:
        """How far the provider's count of a text may exceed ours."""
        return TOKEN_MARGIN if _OPENAI.search(self.model) else OTHER_TOKEN_MARGIN

    def prompt_tokens(self, prompt: str, sampling: Mapping[str, Any]) -> int:
        """Our count of what goes in with a call: the prompt, and schemas and the like that are billed with it."""
        return count_tokens(prompt) + (0 if self.local else count_tokens(beside(sampling)))

    def body_limit(self, sampling: Mapping[str, Any], n: int = 1, logprobs: int | None = None) -> int:
        """The most bytes of a response body that are read."""
        return most_bytes(sampling, n, logprobs) if self.max_answer_bytes is None else self.max_answer_bytes

    def most_tokens(self, counted: int) -> int:
        """The most tokens that the provider may count in a text that has `counted` by our count."""
        return math.ceil((math.ceil(counted * self.margin) + SPARE_TOKENS) * self.token_margin)

    def reserved_tokens(self, prompt_tokens: int, max_tokens: int) -> tuple[int, int]:
        """The most tokens of prompt and answer that are believed of a call."""
        return self.most_tokens(prompt_tokens), math.ceil(max_tokens * self.token_margin)

    def worst_micros(self, prompt_tokens: int, max_tokens: int, searches: int = 0) -> int:
        """The most that a call can cost: a longer count than ours and the longest answer, both at their dearest rate."""
        return self.price.dearest_micros(*self.reserved_tokens(prompt_tokens, max_tokens), searches)

    def expected_micros(self, prompt_tokens: int, answer_tokens: int, searches: int = 0) -> int:
        """What a call costs by our counts, with nothing cached."""
        return self.price.micros(Usage(prompt_tokens, answer_tokens, searches=searches))

    def least_micros(self, prompt_tokens: int, searches: int = 0) -> int:
        """The least that a call can cost: a shorter count than ours, all of it cached, and an answer of one token."""
        return self.price.cheapest_micros(math.floor(prompt_tokens / self.margin), 1, searches)
