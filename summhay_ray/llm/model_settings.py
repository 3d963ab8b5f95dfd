"""The settings of a model: price, context window, limits, endpoint, transport.

None of these settings is part of a request's key.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from summhay_ray.llm import prices as pricing
from summhay_ray.llm.provider_table import PROVIDERS, Transport, address_of, is_local, origin_of, place_of, provider_of
from summhay_ray.llm.request import Sampling, Task, Usage, schema_tokens
from summhay_ray.text import count_tokens

TOKEN_MARGIN = 1.15
"""Factor by which OpenAI's token count of a text may exceed ours (cl100k). Reservations for a call's worst case include it."""

OTHER_TOKEN_MARGIN = 1.5
"""The same factor for all other providers, since tokenizers with smaller vocabularies need up to 50 % more tokens for English."""

TIMEOUT_S = 600.0

SPARE_TOKENS = 16
"""Maximum number of tokens that a provider adds to a text, for roles and separators."""

_OPENAI = re.compile(r"(^|/)(gpt-|chatgpt-|o\d)")


@dataclass(frozen=True, slots=True)
class Limits:
    """A model's limits: requests, input tokens and output tokens per minute, and concurrent calls. None: no limit."""

    rpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    concurrency: int = 64
    """Maximum number of calls in flight in the whole cluster; for a model that generates in the worker, prompts per batch."""

    def minutes(self, calls: float, input_tokens: float, output_tokens: float) -> float | None:
        """Return the minimum minutes for this many calls and tokens by the limits per minute; None without limits per minute."""
        shares = ((calls, self.rpm), (input_tokens, self.input_tpm), (output_tokens, self.output_tpm))
        return max((amount / rate for amount, rate in shares if rate), default=None)


@dataclass(frozen=True, slots=True)
class Batching:
    """Settings of a model's requests to its provider's batch API."""

    price_factor: float
    """The price of a request in a batch, as a fraction of the standard price."""
    max_wait_h: float = 24.0
    """Hours after which a batch is cancelled. Its missing answers are requested again."""
    min_requests: int = 1
    """If fewer requests than this wait, they are sent synchronously."""


@dataclass(frozen=True)
class ModelSettings:
    """The settings of one model: endpoint, limits and price."""

    model: str
    price: pricing.Price
    context_window: int | None = None
    """Maximum tokens of prompt plus answer; None if unknown."""
    api_base: str | None = None
    api_key_env: str | None = None
    """Name of the worker's environment variable that has the key; never the key itself."""
    timeout_s: float = TIMEOUT_S
    limits: Limits = field(default_factory=Limits)
    transport: Transport | None = None
    """The transport, if the spec sets it; see `transport_of`."""
    reasoning: bool = False
    """Whether the model may generate reasoning tokens, which are billed but not shown."""
    max_answer_bytes: int | None = None
    """Maximum size of a decompressed response body; None: computed from `max_tokens`."""
    token_margin: float = 1.0
    """Factor by which the reserved tokens of prompt and answer are multiplied, for a tokenizer that exceeds the default
    margins."""
    service_tier: pricing.ServiceTier | None = None
    """The service tier of each call, to which `price` applies; None: the standard tier."""
    standard_price: pricing.Price | None = None
    """The price of the standard tier, if there is a `service_tier`."""
    falls_back: bool = False
    """Whether calls are sent in the standard tier if the requested tier is unavailable."""
    cache: Literal["", "5m", "1h"] = ""
    """The cache's lifetime to request, for a provider that caches only marked prompts; empty if no prompt is marked."""
    cache_minimum: int = 1024
    """Tokens of the shortest prefix that the provider caches."""
    batch: Batching | None = None
    """Settings for batches; None: every request is sent synchronously."""

    @classmethod
    def written(
        cls, model: str, entry: Mapping[str, Any], limits: Limits, priced_by: Sequence[str] = pricing.PRICED_BY
    ) -> ModelSettings:
        """Return the settings of a model from its entry in a spec. Missing fields are looked up or have defaults.

        `priced_by`: see `find_price`. Raises Unpriced if the model has no known price.
        """
        api_base, transport, tier, batch = (entry.get(name) for name in ("api_base", "transport", "service_tier", "batch"))
        price, local = entry.get("price"), is_local(model)
        standard = pricing.FREE if local and price is None else pricing.find_price(model, price, priced_by)
        cache: Literal["", "5m", "1h"] = ""
        if not local and needs_cache_control(model, api_base, transport):
            wish: bool | Literal["5m", "1h"] = entry.get("cache", True)
            cache = wish if isinstance(wish, str) else ("1h" if batch is not None else "5m") if wish else ""
            standard = _with_cache_rates(standard, cache)
        return cls(
            model=model,
            price=pricing.find_price(model, price, priced_by, tier) if tier else standard,
            cache=cache,
            cache_minimum=1024 if local else pricing.find_cache_minimum(model),
            service_tier=tier,
            standard_price=standard if tier else None,
            falls_back=entry.get("fallback") is not None,
            context_window=entry.get("context_window") if local else pricing.find_window(model, entry.get("context_window")),
            api_base=api_base,
            api_key_env=entry.get("api_key_env"),
            timeout_s=entry.get("timeout_s") or (math.inf if local else TIMEOUT_S),
            max_answer_bytes=entry.get("max_answer_bytes"),
            limits=limits,
            # An explicit default must give the same settings as a missing value.
            transport=None if transport == transport_of(model, "chat", api_base) else transport,
            reasoning=not local and pricing.may_reason(model),
            token_margin=entry.get("token_margin", 1.0),
            batch=None if batch is None else Batching(pricing.find_batch_factor(model, price), **batch),
        )

    @property
    def in_batch(self) -> ModelSettings:
        """The settings of a request in a batch, which has another price."""
        return self if self.batch is None else replace(self, price=self.price.times(self.batch.price_factor))

    @functools.cached_property
    def local(self) -> bool:
        """Whether the model runs in the worker."""
        return is_local(self.model)

    @property
    def caches(self) -> bool:
        """Whether the provider is known to discount a prompt's prefix that it has read before."""
        discounts = self.price.cached_input_per_mtok is not None and self.price.cached_input_per_mtok < self.price.input_per_mtok
        return discounts and (bool(self.cache) or not needs_cache_control(self.model, self.api_base, self.transport))

    @functools.cached_property
    def origin(self) -> str:
        """The model's endpoint: scheme, host and port; or the provider's name if it has several hosts; empty for a local
        model."""
        return "" if self.local else origin_of(provider_of(self.model), self.api_base)

    @functools.cached_property
    def tokenizer_margin(self) -> float:
        """Factor by which the provider's token count of a text may exceed ours."""
        return TOKEN_MARGIN if _OPENAI.search(self.model) else OTHER_TOKEN_MARGIN

    def prompt_tokens(self, prompt: str, sampling: Sampling) -> int:
        """Count a call's input tokens with our tokenizer: the prompt, and the schemas, tools and similar parameters that are
        billed with it."""
        return count_tokens(prompt) + (0 if self.local else schema_tokens(sampling))

    def most_tokens(self, counted: int) -> int:
        """Return the maximum that the provider may count for a text in which we count `counted` tokens."""
        return math.ceil((math.ceil(counted * self.tokenizer_margin) + SPARE_TOKENS) * self.token_margin)

    def reserved_tokens(self, prompt_tokens: int, max_tokens: int) -> tuple[int, int]:
        """Return the (tokens of the prompt, tokens of the answer) to reserve for a call. Higher usage is not credible."""
        return self.most_tokens(prompt_tokens), math.ceil(max_tokens * self.token_margin)

    def worst_micros(self, prompt_tokens: int, max_tokens: int, searches: int = 0) -> int:
        """Return the maximum cost of a call in micro-dollars: the reserved tokens of prompt and answer, each at its highest
        rate."""
        prices = (self.price, *([self.standard_price] if self.falls_back and self.standard_price else []))
        return max(price.dearest_micros(*self.reserved_tokens(prompt_tokens, max_tokens), searches) for price in prices)

    def standard(self) -> ModelSettings:
        """Return the settings of a call in the standard tier."""
        return replace(self, price=self.standard_price or self.price, service_tier=None, standard_price=None, falls_back=False)

    def expected_micros(self, prompt_tokens: int, answer_tokens: int, searches: int = 0) -> int:
        """Return the cost of a call in micro-dollars, by our token counts and without a cache."""
        return self.price.micros(Usage(prompt_tokens, answer_tokens, searches=searches))

    def least_micros(self, prompt_tokens: int, searches: int = 0) -> int:
        """Return the minimum cost of a call in micro-dollars. It assumes that the prompt has our token count divided by
        `tokenizer_margin`, that the whole prompt is cached, and that the answer has one token."""
        return self.price.cheapest_micros(math.floor(prompt_tokens / self.tokenizer_margin), 1, searches)


# The result is cached, since every call needs it and a run has few models.
@functools.lru_cache
def transport_of(model: str, task: Task, api_base: str | None, written: Transport | None = None) -> Transport:
    """Return the transport for this task of the model: the one `written` in the spec, else direct if possible.

    Direct is possible for an `api_base` and for the provider's base URL, unless the provider has its own protocol for the task. A
    reranking at the user's own endpoint always uses Cohere's format. OpenAI's models without chat completions also need litellm.
    """
    if is_local(model):
        return "local"
    if written is not None:
        return written
    # With an `api_base`, a name without a prefix does not indicate a provider.
    provider = model.partition("/")[0] if api_base else provider_of(model)
    known = PROVIDERS.get(provider)
    if known and task in known.translated and (task != "rerank" or place_of(provider, api_base) == "own"):
        return "litellm"
    return "direct" if api_base or address_of(model, None) and not pricing.needs_responses(model) else "litellm"


def batch_wire(model: str, api_base: str | None, transport: Transport | None) -> Literal["openai", "anthropic", ""]:
    """Return the protocol of the model's batch API; empty if this package supports none for its endpoint."""
    way = transport_of(model, "chat", api_base, transport)
    if way == "direct":
        return "openai"
    return "anthropic" if way == "litellm" and provider_of(model) == "anthropic" else ""


_CLAUDE_AT = ("bedrock", "vertex_ai", "azure_ai", "openrouter")
"""Other providers of Anthropic's models, which accept its `cache_control`."""
_READ, _WRITE, _WRITE_1H = 0.1, 1.25, 2.0
"""Anthropic's rates for cache reads and writes, as multiples of the input rate."""


def needs_cache_control(model: str, api_base: str | None = None, transport: Transport | None = None) -> bool:
    """Return whether the provider caches a prompt's prefix only if `cache_control` marks it."""
    provider = provider_of(model)
    if provider != "openrouter" and transport_of(model, "chat", api_base, transport) != "litellm":
        return False
    return provider == "anthropic" or (provider in _CLAUDE_AT and "claude" in model)


def _with_cache_rates(price: pricing.Price, cache: str) -> pricing.Price:
    """Return the price with the rates for a cache of this lifetime. Unknown rates are Anthropic's usual multiples."""
    fresh = price.input_per_mtok
    read, write, longer = price.cached_input_per_mtok, price.cache_write_per_mtok, price.cache_write_1h_per_mtok
    if not cache:
        return replace(price, cache_write_per_mtok=None, cache_write_1h_per_mtok=None)
    return replace(
        price,
        cached_input_per_mtok=_READ * fresh if read is None else read,
        cache_write_per_mtok=_WRITE * fresh if write is None else write,
        cache_write_1h_per_mtok=None if cache == "5m" else _WRITE_1H * fresh if longer is None else longer,
    )
