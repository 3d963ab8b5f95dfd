"""What the gateway must know of a model beside the request: price, window, endpoint. Part of the llm room.

Nothing here is part of a request's key. Money is integer micro-dollars: a token at p dollars a million tokens costs p
micro-dollars, and a call's price is rounded up.
"""

from __future__ import annotations

import functools
import importlib.resources
import importlib.util
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

LOCAL_PREFIXES = ("offline/", "replay/")
"""Models that run in the worker: no key, no price, no limit."""

TOKEN_MARGIN = 1.15
"""How far OpenAI's count of a prompt may exceed ours (cl100k) in the worst case that is reserved."""

OTHER_TOKEN_MARGIN = 1.5
"""The same for every other tokenizer: smaller vocabularies take up to half as many tokens again for English."""

_OPENAI = re.compile(r"(^|/)(gpt-|chatgpt-|o\d)")
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")


class Unpriced(ValueError):
    """A model has no price that anybody wrote down; the message says where to write one."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens."""

    input_per_mtok: float
    output_per_mtok: float
    cached_input_per_mtok: float | None = None
    tiers: tuple[tuple[int, Price], ...] = ()
    """(tokens, price) from the shortest prompt to the longest: what a call costs whose prompt is longer than that."""

    def micros(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
        """The price of a call in micro-dollars, rounded up. `cached_tokens` are part of `input_tokens`."""
        price = next((price for tokens, price in reversed(self.tiers) if input_tokens > tokens), self)
        cached_rate = price.input_per_mtok if price.cached_input_per_mtok is None else price.cached_input_per_mtok
        fresh = max(input_tokens - cached_tokens, 0)
        exact = fresh * price.input_per_mtok + cached_tokens * cached_rate + output_tokens * price.output_per_mtok
        # 100 tokens at 1.1 dollars are 110.00000000000001 to a float, and must not become 111.
        return math.ceil(round(exact, 6))


FREE = Price(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model may be asked: a minute (requests, input and output tokens), and at once. None: no limit."""

    rpm: float | None = None
    input_tpm: float | None = None
    output_tpm: float | None = None
    concurrency: int = 16


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

    @property
    def local(self) -> bool:
        """Whether the model runs in the worker."""
        return is_local(self.model)

    def worst_micros(self, prompt_tokens: int, max_tokens: int) -> int:
        """The most that a call can cost: the price of a longer count than ours and of the longest answer."""
        margin = TOKEN_MARGIN if _OPENAI.search(self.model) else OTHER_TOKEN_MARGIN
        return self.price.micros(math.ceil(prompt_tokens * margin) + 16, max_tokens)


def is_local(model: str) -> bool:
    """Whether the model runs in the worker and needs no key."""
    return model.startswith(LOCAL_PREFIXES)


def find_price(model: str, written: Mapping[str, float] | None) -> Price:
    """The price of a model: what the spec writes, a local model's zero, litellm's map, our dated file.

    Raises Unpriced where none of them has it, or where a map says zero and nobody wrote that.
    """
    if written is not None:
        return Price(written["input_per_mtok"], written["output_per_mtok"], written.get("cached_input_per_mtok"))
    if is_local(model):
        return FREE
    entry = _mapped(model)
    if entry and entry.get("input_cost_per_token") and entry.get("output_cost_per_token"):
        marks = sorted(int(found[1]) for found in map(_TIER.fullmatch, entry) if found)
        tiers = tuple((mark * 1000, _mapped_price(entry, f"_above_{mark}k_tokens")) for mark in marks)
        return replace(_mapped_price(entry, ""), tiers=tiers)
    dated = _dated(model)
    if dated:
        longer = dated.get("above", [])
        tiers = tuple((tier["tokens"], Price(tier["input_per_mtok"], tier["output_per_mtok"])) for tier in longer)
        return Price(dated["input_per_mtok"], dated["output_per_mtok"], tiers=tiers)
    raise Unpriced(
        f"model {model!r} has no known price; write price: {{input_per_mtok: ..., output_per_mtok: ...}} beside it (0 if free)"
    )


def _mapped_price(entry: Mapping[str, Any], tier: str) -> Price:
    def mtok(name: str) -> float | None:
        found = entry.get(f"{name}{tier}") or entry.get(name)
        return None if found is None else found * 1e6

    return Price(mtok("input_cost_per_token") or 0.0, mtok("output_cost_per_token") or 0.0, mtok("cache_read_input_token_cost"))


def find_window(model: str, written: int | None) -> int | None:
    """The model's context window in tokens: the spec's, litellm's, our dated file's, else None."""
    if written is not None or is_local(model):
        return written
    entry = _mapped(model)
    mapped = entry.get("max_input_tokens") or entry.get("max_tokens") if entry else None
    return int(mapped) if mapped else (_dated(model) or {}).get("context_window")


def _names(model: str) -> list[str]:
    parts = model.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _mapped(model: str) -> dict[str, Any] | None:
    prices = _litellm_map()
    return next((prices[name] for name in _names(model) if name in prices), None)


def _dated(model: str) -> dict[str, Any] | None:
    models = _paper_models()
    return next((models[name] for name in _names(model) if name in models), None)


@functools.cache
def _litellm_map() -> dict[str, dict[str, Any]]:
    # Read as a file: importing litellm takes seconds, and a plan must not.
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
