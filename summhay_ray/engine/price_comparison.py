"""Compares what a plan's calls cost as standard, flex and batch calls, each with and without the provider's cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from summhay_ray.engine.spec.spec import ModelSpec, Reach
from summhay_ray.llm import Limits, ModelSettings, Unpriced, Usage, batch_wire, is_local
from summhay_ray.outcome import MICROS

BATCH_H = 24
"""Providers answer a batch within this many hours."""
Channel = Literal["standard", "flex", "batch"]
CHANNELS: Mapping[Channel, Mapping[str, Any]] = {
    "standard": {},
    "flex": {"service_tier": "flex"},
    "batch": {"batch": {}},
}
"""Channel -> the fields of a model's entry that select this channel."""
PlannedCalls = Mapping[tuple[str, str, int, int, int, int], float]
"""(stage, model, prompt tokens, answer tokens, tokens read from the cache, tokens written to the cache) -> expected calls."""


@dataclass(frozen=True)
class ComparedWay:
    """The cost of a plan's calls in one channel, with or without cache, for the expected calls and tokens."""

    channel: Channel
    cache: bool
    usd: float
    hours: float | None
    """Minimum hours at the rate limits or, if longer, maximum hours of the batches; None if neither applies."""
    waves: int
    """Number of batches that must run one after another: one for each stage that sends batches; 0 without batches."""
    unavailable: Mapping[str, str]
    """Model -> why it cannot be asked in this way. The model's standard price is used instead."""

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return {**vars(self), "unavailable": dict(self.unavailable)}


def compare_ways(entries: Sequence[ModelSpec], calls: PlannedCalls, minutes: float | None) -> list[ComparedWay]:
    """Return the cost of these calls in every way. `entries`: the spec's models. `minutes`: the minimum at the rate limits."""
    found = []
    for channel in CHANNELS:
        settings: dict[str, ModelSettings] = {}
        missing: dict[str, str] = {}
        for entry in entries:
            if entry.model not in settings:
                settings[entry.model], why = _settings_in(entry, channel)
                missing |= {entry.model: why} if why and any(call[1] == entry.model for call in calls) else {}
        batched = {call[0] for call in calls if settings[call[1]].batch is not None}
        others = channel != "batch" or any(settings[call[1]].batch is None and not is_local(call[1]) for call in calls)
        limited = [*([] if minutes is None or not others else [minutes / 60]), *([BATCH_H * len(batched)] if batched else [])]
        for cache in (False, True):
            unable = dict(missing)
            if cache:
                lacking = {call[1] for call in calls if not settings[call[1]].caches and not is_local(call[1])}
                unable |= {model: unable.get(model) or "no price of a cache is known" for model in sorted(lacking)}
            micros = sum(n * _micros(settings[call[1]], call, cache) for call, n in calls.items())
            found.append(ComparedWay(channel, cache, micros / MICROS, max(limited, default=None), len(batched), unable))
    return found


def _settings_in(entry: ModelSpec, channel: Channel) -> tuple[ModelSettings, str]:
    """Return (the settings of a model in this channel with its cache, an empty text). If the model cannot be asked in this
    channel: (its standard settings, the reason)."""
    reach = {**entry.model_dump(include=set(Reach.model_fields)), "service_tier": None, "fallback": None, "batch": None}
    reach |= {"cache": entry.cache or True}
    standard = ModelSettings.written(entry.model, reach, Limits(), entry.PRICED_BY)
    if channel == "standard" or standard.local:
        return standard, ""
    if channel == "batch" and (entry.TASK != "chat" or not batch_wire(entry.model, entry.api_base, entry.transport)):
        return standard, "no batch API is known"
    try:
        return ModelSettings.written(entry.model, {**reach, **CHANNELS[channel]}, Limits(), entry.PRICED_BY).in_batch, ""
    except Unpriced:
        return standard, "no price is known"


def usage_with_cache(settings: ModelSettings, tokens: int, answer: int, reads: int, writes: int) -> Usage:
    """Return the usage of a call. `reads`, `writes`: tokens of its prompt that are read from the provider's cache and written to
    it."""
    written = writes if settings.cache else 0
    return Usage(tokens, answer, reads, written, cache_write_1h_tokens=written if settings.cache == "1h" else 0)


def _micros(settings: ModelSettings, call: tuple[str, str, int, int, int, int], cache: bool) -> int:
    _, _, tokens, answer, reads, writes = call
    if not (cache and settings.caches):
        reads = writes = 0
    return settings.price.micros(usage_with_cache(settings, tokens, answer, reads, writes))
