"""Settings of a model: price, context window, limits, endpoint, transport.

Nothing here is part of a request's key.
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
"""Factor by which OpenAI's token count of a text may exceed ours (cl100k). It is part of the reservation for a call's worst
case."""

OTHER_TOKEN_MARGIN = 1.5
"""The same factor for all other providers: tokenizers with smaller vocabularies need up to 50 % more tokens for English."""

TIMEOUT_S = 600.0

SPARE_TOKENS = 16
"""Tokens that a provider may add to a text: roles, separators."""

_OPENAI = re.compile(r"(^|/)(gpt-|chatgpt-|o\d)")


@dataclass(frozen=True, slots=True)
class Limits:
    """A model's limits: requests, input tokens and output tokens per minute, and concurrent calls. None: no limit."""

    rpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    concurrency: int = 64
    """Maximum number of calls in flight over the whole cluster; for a model that generates in the worker, prompts per batch."""

    def minutes(self, calls: float, input_tokens: float, output_tokens: float) -> float | None:
        """Minimum minutes for this many calls and tokens under the limits per minute; None without such limits."""
        shares = ((calls, self.rpm), (input_tokens, self.input_tpm), (output_tokens, self.output_tpm))
        return max((amount / rate for amount, rate in shares if rate), default=None)


@dataclass(frozen=True, slots=True)
class Batching:
    """Settings of a model's requests to its provider's batch API."""

    price_factor: float
    """The price of a request in a batch, as a part of the standard price."""
    max_wait_h: float = 24.0
    """A batch is cancelled after this many hours, and what it has not answered is asked again."""
    min_requests: int = 1
    """Fewer waiting requests are asked synchronously."""


@dataclass(frozen=True)
class ModelSettings:
    """The settings of one model: endpoint, limits and price."""

    model: str
    price: pricing.Price
    context_window: int | None = None
    """Tokens of prompt and answer together; None if unknown."""
    api_base: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable, on the worker, that holds the key; never the key itself."""
    timeout_s: float = TIMEOUT_S
    limits: Limits = field(default_factory=Limits)
    transport: Transport | None = None
    """The transport, if the spec sets it; see `transport_of`."""
    reasoning: bool = False
    """Whether the model may write reasoning tokens, which are billed but not shown."""
    max_answer_bytes: int | None = None
    """The largest response body that is accepted, decompressed; None: a bound computed from `max_tokens`."""
    token_margin: float = 1.0
    """Factor on the reserved tokens of prompt and answer, for a tokenizer that counts more than the default margins allow."""
    service_tier: pricing.ServiceTier | None = None
    """The service tier that each call requests, of which `price` is the price; None: the standard tier."""
    standard_price: pricing.Price | None = None
    """With a `service_tier`: the price of the standard tier."""
    falls_back: bool = False
    """Whether calls are served by the standard tier when the requested one is unavailable."""
    cache: Literal["", "5m", "1h"] = ""
    """For a provider that caches only marked prompts: the lifetime to ask for; empty if no prompt is marked."""
    cache_minimum: int = 1024
    """Tokens of the shortest beginning that the provider caches."""
    batch: Batching | None = None
    """None: every request is asked synchronously."""

    @classmethod
    def written(
        cls, model: str, entry: Mapping[str, Any], limits: Limits, priced_by: Sequence[str] = pricing.PRICED_BY
    ) -> ModelSettings:
        """The settings of a model from its entry in a spec. Missing fields are looked up, or take their defaults.

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
            # Setting a default value explicitly must give the same settings.
            transport=None if transport == transport_of(model, "chat", api_base) else transport,
            reasoning=not local and pricing.may_reason(model),
            token_margin=entry.get("token_margin", 1.0),
            batch=None if batch is None else Batching(pricing.find_batch_factor(model, price), **batch),
        )

    @property
    def in_batch(self) -> ModelSettings:
        """The settings of a request in a batch: those of the model, at the price of a batch."""
        return self if self.batch is None else replace(self, price=self.price.times(self.batch.price_factor))

    @functools.cached_property
    def local(self) -> bool:
        """Whether the model runs in the worker."""
        return is_local(self.model)

    @property
    def caches(self) -> bool:
        """Whether the provider is known to discount a beginning of a prompt that it has read before."""
        discounts = self.price.cached_input_per_mtok is not None and self.price.cached_input_per_mtok < self.price.input_per_mtok
        return discounts and (bool(self.cache) or not needs_cache_control(self.model, self.api_base, self.transport))

    @functools.cached_property
    def origin(self) -> str:
        """The model's endpoint: scheme, host and port; the provider's name if it has several hosts; empty if local."""
        return "" if self.local else origin_of(provider_of(self.model), self.api_base)

    @functools.cached_property
    def tokenizer_margin(self) -> float:
        """Factor by which the provider's token count of a text may exceed ours."""
        return TOKEN_MARGIN if _OPENAI.search(self.model) else OTHER_TOKEN_MARGIN

    def prompt_tokens(self, prompt: str, sampling: Sampling) -> int:
        """Our count of a call's input tokens: the prompt, and the schemas, tools and the like that are billed with it."""
        return count_tokens(prompt) + (0 if self.local else schema_tokens(sampling))

    def most_tokens(self, counted: int) -> int:
        """Maximum token count of the provider for a text for which we count `counted` tokens."""
        return math.ceil((math.ceil(counted * self.tokenizer_margin) + SPARE_TOKENS) * self.token_margin)

    def reserved_tokens(self, prompt_tokens: int, max_tokens: int) -> tuple[int, int]:
        """(Tokens of the prompt, tokens of the answer) that are reserved for a call. A higher usage is not credible."""
        return self.most_tokens(prompt_tokens), math.ceil(max_tokens * self.token_margin)

    def worst_micros(self, prompt_tokens: int, max_tokens: int, searches: int = 0) -> int:
        """Maximum cost of a call, in micro-dollars: the reserved tokens of prompt and answer, each at its highest rate."""
        prices = (self.price, *([self.standard_price] if self.falls_back and self.standard_price else []))
        return max(price.dearest_micros(*self.reserved_tokens(prompt_tokens, max_tokens), searches) for price in prices)

    def standard(self) -> ModelSettings:
        """The settings of a call that the standard tier serves."""
        return replace(self, price=self.standard_price or self.price, service_tier=None, standard_price=None, falls_back=False)

    def expected_micros(self, prompt_tokens: int, answer_tokens: int, searches: int = 0) -> int:
        """Cost of a call by our token counts with nothing cached, in micro-dollars."""
        return self.price.micros(Usage(prompt_tokens, answer_tokens, searches=searches))

    def least_micros(self, prompt_tokens: int, searches: int = 0) -> int:
        """Minimum cost of a call, in micro-dollars: our count divided by the margin, all cached, and an answer of one token."""
        return self.price.cheapest_micros(math.floor(prompt_tokens / self.tokenizer_margin), 1, searches)


# Cached, since every call asks for it and a run has few models.
@functools.lru_cache
def transport_of(model: str, task: Task, api_base: str | None, written: Transport | None = None) -> Transport:
    """The transport for this task of the model: as `written` in the spec, else direct if possible.

    It is possible at an `api_base` and at the provider's base URL, unless the provider has its own protocol for the task. A
    reranking at the user's own endpoint always has Cohere's form. OpenAI's models without chat completions need litellm, too.
    """
    if is_local(model):
        return "local"
    if written is not None:
        return written
    # At an `api_base`, a name without a prefix does not indicate a provider.
    provider = model.partition("/")[0] if api_base else provider_of(model)
    known = PROVIDERS.get(provider)
    if known and task in known.translated and (task != "rerank" or place_of(provider, api_base) == "own"):
        return "litellm"
    return "direct" if api_base or address_of(model, None) and not pricing.needs_responses(model) else "litellm"


def batch_wire(model: str, api_base: str | None, transport: Transport | None) -> Literal["openai", "anthropic", ""]:
    """The wire of the model's batch API; empty if this package speaks none with its endpoint."""
    way = transport_of(model, "chat", api_base, transport)
    if way == "direct":
        return "openai"
    return "anthropic" if way == "litellm" and provider_of(model) == "anthropic" else ""


_CLAUDE_AT = ("bedrock", "vertex_ai", "azure_ai", "openrouter")
"""Further providers with models of Anthropic, which take its `cache_control`."""
_READ, _WRITE, _WRITE_1H = 0.1, 1.25, 2.0
"""Anthropic's rates of cache reads and writes, as multiples of the input's."""


def needs_cache_control(model: str, api_base: str | None = None, transport: Transport | None = None) -> bool:
    """Whether the provider caches the beginning of a prompt only if `cache_control` marks it."""
    provider = provider_of(model)
    if provider != "openrouter" and transport_of(model, "chat", api_base, transport) != "litellm":
        return False
    return provider == "anthropic" or (provider in _CLAUDE_AT and "claude" in model)


def _with_cache_rates(price: pricing.Price, cache: str) -> pricing.Price:
    """The price with the rates of a cache of this lifetime; rates that are not known are Anthropic's usual multiples."""
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
