"""Prices of calls, from the spec, from litellm's price map, or from our dated file with the papers' models.

Money is integer micro-dollars. A token at p dollars per million tokens costs p micro-dollars; a call's price is rounded up. Rates
are integers, in billionths of a micro-dollar, so that their sums are exact.
"""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from summhay_ray.llm.provider_table import PROVIDERS, is_local, provider_of
from summhay_ray.llm.request import Usage

_TIER = re.compile(r"(?:in|out)put_cost_per_token_above_(\d+)k_tokens")
_WRITTEN = ("input", "output", "cached_input", "cache_write", "cache_write_1h")
_NANO = 10**9
ServiceTier = Literal["flex"]
"""A service tier other than the standard one, which is slower and cheaper."""
FLEX_FACTOR = 0.5
"""The default price in the flex tier, as a fraction of the standard price in a spec."""


class Unpriced(ValueError):
    """Raised if a model has no known price. The message names the spec's field for it."""


@dataclass(frozen=True)
class Price:
    """A price in US dollars per million tokens. If a cache rate is None, it equals the input rate. If the reasoning rate is None,
    it equals the output rate."""

    input_per_mtok: float
    output_per_mtok: float
    cached_input_per_mtok: float | None = None
    cache_write_per_mtok: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()
    """(tokens, price) in ascending order, where `price` applies to calls whose prompt has more than `tokens` tokens."""
    reasoning_per_mtok: float | None = None
    """The rate of reasoning tokens, if they cost more than other tokens of the answer."""
    per_search: float = 0.0
    """US dollars per search (reranking), in addition to the tokens."""
    cache_write_1h_per_mtok: float | None = None
    """The rate of tokens that the cache keeps for an hour; None: the rate of other cache writes."""

    def times(self, factor: float) -> Price:
        """Return the price with all rates multiplied by a factor."""
        rates: dict[str, Any] = {name: rate * factor for name, rate in vars(self).items() if isinstance(rate, float | int)}
        return Price(**{**rates, "tiers": tuple((tokens, tier.times(factor)) for tokens, tier in self.tiers)})

    def micros(self, usage: Usage) -> int:
        """Return the price of a call in micro-dollars, rounded up. The length of the prompt selects the tier."""
        tier = self._tier(usage.input_tokens)
        cached = min(max(usage.cached_tokens, 0), usage.input_tokens)
        written = min(max(usage.cache_write_tokens, 0), usage.input_tokens - cached)
        reasoned = min(max(usage.reasoning_tokens, 0), usage.output_tokens)
        longer = min(max(usage.cache_write_1h_tokens, 0), written)
        fresh, read, write, write_1h, answer, reasoning = tier._nanos
        nanos = (usage.input_tokens - cached - written) * fresh + cached * read + (written - longer) * write + longer * write_1h
        nanos += usage.searches * round(self.per_search * 10**6 * _NANO)
        return -(-(nanos + (usage.output_tokens - reasoned) * answer + reasoned * reasoning) // _NANO)

    def saved_micros(self, usage: Usage) -> int:
        """Return what the provider's cache saved on this call in micro-dollars, minus the cost of cache writes. Negative if the
        cache was only written."""
        if not usage.cached_tokens and not usage.cache_write_tokens:
            return 0
        uncached = replace(usage, cached_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
        return self.micros(uncached) - self.micros(usage)

    def dearest_micros(self, input_tokens: int, output_tokens: int, searches: int = 0) -> int:
        """Return the maximum cost in micro-dollars of a call with at most this many tokens.

        The prompt costs its highest rate, and the answer the rate of text or of reasoning, whichever is higher. All tiers are
        tried, since a lower tier may cost more.
        """
        lengths = [input_tokens, *(mark for mark, _ in self.tiers if mark < input_tokens)]
        return self._extreme_micros(max, lengths, output_tokens, searches)

    def cheapest_micros(self, input_tokens: int, output_tokens: int, searches: int = 0) -> int:
        """Return the minimum cost in micro-dollars of a call with at least this many tokens, with the prompt at its lowest rate.

        All tiers are tried, since a higher tier may be cheaper.
        """
        lengths = [input_tokens, *(mark + 1 for mark, _ in self.tiers if mark >= input_tokens)]
        return self._extreme_micros(min, lengths, output_tokens, searches)

    def _extreme_micros(
        self, extreme: Callable[[Iterable[int]], int], lengths: Sequence[int], output_tokens: int, searches: int
    ) -> int:
        """Return the highest or lowest price (`extreme`: max or min) of a call whose prompt has one of these lengths, by the
        highest or lowest rates of each tier."""
        rates = [(length, self._tier(length)._nanos) for length in lengths]
        nanos = extreme(length * extreme(rate[:4]) + output_tokens * extreme(rate[4:]) for length, rate in rates)
        return -(-(nanos + searches * round(self.per_search * 10**6 * _NANO)) // _NANO)

    def _tier(self, input_tokens: int) -> Price:
        if not self.tiers:
            return self
        return next((price for tokens, price in reversed(self.tiers) if input_tokens > tokens), self)

    @functools.cached_property
    def _nanos(self) -> tuple[int, int, int, int, int, int]:
        """Billionths of a micro-dollar per token: uncached input, cache reads, cache writes, cache writes for an hour, answer,
        reasoning."""
        fresh, answer = self.input_per_mtok, self.output_per_mtok
        read = fresh if self.cached_input_per_mtok is None else self.cached_input_per_mtok
        write = fresh if self.cache_write_per_mtok is None else self.cache_write_per_mtok
        write_1h = write if self.cache_write_1h_per_mtok is None else self.cache_write_1h_per_mtok
        reasoning = answer if self.reasoning_per_mtok is None else self.reasoning_per_mtok
        rates = (fresh, read, write, write_1h, answer, reasoning)
        first, second, third, fourth, fifth, sixth = (round(rate * _NANO) for rate in rates)
        return first, second, third, fourth, fifth, sixth


FREE = Price(0, 0, 0)


_FEES = ("input_cost_per_request", "output_cost_per_request", "citation_cost_per_token")


PRICED_BY = ("input_per_mtok", "output_per_mtok")
"""The fields of a price that a chat model needs."""


def find_price(
    model: str, written: Mapping[str, Any] | None, priced_by: Sequence[str] = PRICED_BY, tier: ServiceTier | None = None
) -> Price:
    """Return the price of a model: from the spec; zero for a local model; else from litellm's map or our dated file.

    `priced_by`: the fields of a price for which the error message asks. `tier`: the service tier; None: the standard tier. Raises
    Unpriced if there is no price, or if the provider also charges fees that do not depend on tokens. A zero in litellm's map
    means that the price is unknown; only the spec can declare a model free.
    """
    factor = (written or {}).get("flex_factor")
    if tier and (factor or _states_rates(written)):
        return find_price(model, written, priced_by).times(factor or FLEX_FACTOR)
    if written is not None and _states_rates(written):
        fresh, answer, read, write, longer = (written.get(f"{name}_per_mtok") for name in _WRITTEN)
        search = written.get("per_search") or 0.0
        if not (fresh or answer or read or write or longer or search):
            return FREE
        return Price(fresh or 0, answer or 0, read, write, per_search=search, cache_write_1h_per_mtok=longer)
    if is_local(model):
        return FREE
    entry = _entry(_litellm_map(), model)
    if tier:
        entry = _in_tier(entry, tier)
        if not (entry.get("input_cost_per_token") and entry.get("output_cost_per_token")):
            mend = "leave service_tier out, or add price: {...}, the standard price"
            raise Unpriced(f"model {model!r} has no known price for service_tier: {tier}; {mend}")
    if (service := _price_of_service(entry)) is not None:
        return service
    fee = next((name for name in _FEES if entry.get(name)), None)
    if fee or (entry.get("litellm_provider") == "perplexity" and entry.get("search_context_cost_per_query")):
        mend = "a token price cannot bound its bill; add price: {...}, high enough to cover the fees"
        raise Unpriced(f"model {model!r} has fees besides its tokens ({fee or 'for each search'}): {mend}")
    price = _price_in(entry) or _dated_price(model)
    if price is None:
        fields = ", ".join(f"{field}: ..." for field in priced_by)
        raise Unpriced(f"model {model!r} has no known price; add price: {{{fields}}} (0 if free)")
    return price


def _states_rates(written: Mapping[str, Any] | None) -> bool:
    """Return whether a price in a spec has rates, and not only factors."""
    return written is not None and any(written.get(f"{name}_per_mtok") is not None for name in _WRITTEN)


def _in_tier(entry: Mapping[str, Any], tier: ServiceTier) -> dict[str, Any]:
    """Return an entry of litellm's map with the prices of a service tier. If the tier has no rate for long prompts, they cost the
    standard rate."""
    longer = {name: value for name, value in entry.items() if re.search(r"_above_\d+k_tokens$", name)}
    others = {name: value for name, value in entry.items() if "cost" not in name}
    return others | longer | {name.removesuffix(f"_{tier}"): value for name, value in entry.items() if name.endswith(f"_{tier}")}


BATCH_FACTOR = 0.5
"""The default price in a batch, as a fraction of the standard price. Providers with batches charge half."""


def find_batch_factor(model: str, written: Mapping[str, Any] | None) -> float:
    """Return the price of a request in a batch, as a fraction of the standard price: from the spec, from litellm's map, or one
    half."""
    if written is not None:
        factor = written.get("batch_factor")
        if factor is not None or _states_rates(written):
            return BATCH_FACTOR if factor is None else float(factor)
    entry = _entry(_litellm_map(), model)
    pairs = ((entry.get(f"{name}_batches"), entry.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
    return max((batch / standard for batch, standard in pairs if batch and standard), default=BATCH_FACTOR)


def _price_of_service(entry: Mapping[str, Any]) -> Price | None:
    """Return the price of an embedding or reranking model, which has no output tokens; None for other models, or without a
    price."""
    if entry.get("mode") not in ("embedding", "rerank"):
        return None
    fresh = round((entry.get("input_cost_per_token") or 0.0) * 1e6, 9)
    search = entry.get("input_cost_per_query") or 0.0
    return Price(fresh, 0.0, per_search=search) if fresh or search else None


def _price_in(entry: Mapping[str, Any]) -> Price | None:
    """Return the price in an entry of litellm's map; None if it is missing or zero, since zero means unknown there."""
    ranges = entry.get("tiered_pricing")
    # Minimum number of tokens -> price. An entry has tiers either as fields or as a list of ranges.
    if entry.get("input_cost_per_token") is None and isinstance(ranges, list):
        tiers = {int(tier["range"][0]): _mapped_price(tier, "") for tier in ranges if "range" in tier}
    else:
        marks = {int(match[1]) for match in map(_TIER.fullmatch, entry) if match}
        tiers = {0: _mapped_price(entry, ""), **{mark * 1000: _mapped_price(entry, f"_above_{mark}k_tokens") for mark in marks}}
    steps = sorted(tiers.items())
    if not steps or not (steps[0][1].input_per_mtok and steps[0][1].output_per_mtok):
        return None
    return replace(steps[0][1], tiers=tuple(steps[1:]))


def _mapped_price(entry: Mapping[str, Any], tier: str) -> Price:
    def mtok(name: str, longer: str = tier) -> float | None:
        # A zero in the map means that the price is unknown.
        return round((entry.get(f"{name}{longer}") or 0.0) * 1e6, 9) or None

    fresh = mtok("input_cost_per_token") or mtok("input_cost_per_token", "") or 0.0
    answer = mtok("output_cost_per_token") or mtok("output_cost_per_token", "") or 0.0
    reasoning = mtok("output_cost_per_reasoning_token") or mtok("output_cost_per_reasoning_token", "") or 0.0
    read = mtok("cache_read_input_token_cost") or mtok("input_cost_per_token_cache_hit")
    write, first = mtok("cache_creation_input_token_cost"), mtok("cache_creation_input_token_cost", "")
    write_1h = mtok("cache_creation_input_token_cost_above_1hr") or mtok("cache_creation_input_token_cost_above_1hr", "")
    # If a tier has no cache rates in the map, reads have no discount, and writes cost at least as much as input.
    write = max(first, fresh) if write is None and first is not None else write
    dearer = reasoning if reasoning > answer else None
    return Price(fresh, answer, read, write, reasoning_per_mtok=dearer, cache_write_1h_per_mtok=write_1h)


def _dated_price(model: str) -> Price | None:
    entry = _entry(_paper_models(), model)
    if not entry:
        return None
    longer = entry.get("above", [])
    tiers = tuple((tier["tokens"], Price(tier["input_per_mtok"], tier["output_per_mtok"])) for tier in longer)
    return Price(entry["input_per_mtok"], entry["output_per_mtok"], tiers=tiers)


def find_window(model: str, written: int | None) -> int | None:
    """Return the model's context window in tokens, from the spec, from litellm's map, or from our dated file; None if unknown."""
    if written is not None or is_local(model):
        return written
    entry = _entry(_litellm_map(), model)
    mapped = entry.get("max_input_tokens") or entry.get("max_tokens")
    return int(mapped) if mapped else _entry(_paper_models(), model).get("context_window")


def may_reason(model: str) -> bool:
    """Return whether the model reasons before it answers, according to litellm's map or our dated file."""
    if is_local(model):
        return False
    return bool(_entry(_litellm_map(), model).get("supports_reasoning") or _entry(_paper_models(), model).get("reasoning"))


def needs_responses(model: str) -> bool:
    """Return whether the provider offers the model only in OpenAI's Responses API, according to litellm's map."""
    entry = _entry(_litellm_map(), model)
    return entry.get("mode") == "responses" and entry.get("litellm_provider") == provider_of(model)


def find_cache_minimum(model: str) -> int:
    """Return the tokens of the shortest prefix that the provider caches, from litellm's map, else 1,024."""
    return int(_entry(_litellm_map(), model).get("prompt_cache_min_tokens") or 1024)


def default_effort(model: str) -> str | None:
    """Return the model's default reasoning effort, from litellm's map; None if unknown."""
    return _entry(_litellm_map(), model).get("default_reasoning_effort")


def _entry(models: Mapping[str, dict[str, Any]], model: str) -> dict[str, Any]:
    """Find the model's entry by its name: unchanged, with its provider's prefix in the price map, or without one or more
    prefixes. Returns {} if there is none."""
    parts = model.split("/")
    known = PROVIDERS.get(parts[0])
    listed = ["/".join([known.prices, *parts[1:]])] if known and known.prices else []
    names = [model, *listed, *("/".join(parts[start:]) for start in range(1, len(parts)))]
    return next((models[name] for name in names if name in models), {})


@functools.cache
def _litellm_map() -> dict[str, dict[str, Any]]:
    # Read the map as a file, since importing litellm takes seconds, which is too long for a plan.
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return {}
    path = Path(spec.submodule_search_locations[0]) / "model_prices_and_context_window_backup.json"
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return {name: entry for name, entry in loaded.items() if isinstance(entry, dict)}


@functools.cache
def _paper_models() -> dict[str, dict[str, Any]]:
    text = importlib.resources.files("summhay_ray.llm").joinpath("paper_models.json").read_text(encoding="utf-8")
    models = json.loads(text)["models"]
    return {str(name): dict(entry) for name, entry in models.items()}
