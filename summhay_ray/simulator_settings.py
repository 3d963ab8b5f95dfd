"""The settings of the simulated provider. The options of the command line are made from them, without loading the simulator."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file

FAULTS = ("errors", "hangs", "drops", "broken", "refusals", "filtered", "cut")
"""Settings with the fraction of calls that have a fault instead of an answer; at most 1 in total."""
USAGE_FAULTS = ("no_usage", "wrong_usage")
"""Settings with the fraction of answers that have missing or wrong usage; at most 1 in total."""
BATCH_ENDS = ("batch_failed", "batch_expired")
"""Settings with the fraction of batches that are not completed; at most 1 in total."""
LINE_FAULTS = ("batch_errors", "batch_missing", "batch_duplicates")
"""Settings with the fraction of a batch's requests that have a fault in the results; at most 1 in total."""
_BATCH_FAULTS = (*BATCH_ENDS, *LINE_FAULTS, "batch_lost", "batch_shuffled", "batch_gone", "poll_errors")
_FRACTIONS = (*FAULTS, *USAGE_FAULTS, *_BATCH_FAULTS, "flex_unavailable", "latency_spread", "token_skew")
_POSITIVE = ("rpm", "input_tpm", "output_tpm", "concurrency", "context_window", "batch_requests")
_WHOLE = ("concurrency", "context_window", "batch_requests", "cache_minimum")
_ALONE = ("quota", "poll_errors", "seed", "unknown_models", "models")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings, annotated with the help of their options. Limits are per API key and model; None: no limit."""

    latency: Annotated[float, "Mean seconds from request to answer."] = 0.0
    latency_spread: Annotated[float, "Latencies are uniform between latency x (1 - spread) and latency x (1 + spread)."] = 0.0
    rpm: Annotated[float | None, "Maximum requests in any 60 seconds, per key and model; beyond it, 429 with Retry-After."] = None
    input_tpm: Annotated[float | None, "Maximum prompt tokens in any 60 seconds, per key and model."] = None
    output_tpm: Annotated[float | None, "Maximum answer tokens in any 60 seconds, per key and model."] = None
    concurrency: Annotated[int | None, "Maximum concurrent requests, per key and model; beyond it, 429 without Retry-After."] = (
        None
    )
    errors: Annotated[float, "Fraction of the requests that are answered 500, 502 or 503; not billed."] = 0.0
    hangs: Annotated[float, "Fraction of the requests that are billed and never answered, until the client disconnects."] = 0.0
    drops: Annotated[float, "Fraction of the requests that are billed and whose connection is closed without an answer."] = 0.0
    broken: Annotated[float, "Fraction of the requests that are billed and answered 200 with truncated JSON."] = 0.0
    refusals: Annotated[float, "Fraction of the requests that are billed and refused in message.refusal, without content."] = 0.0
    filtered: Annotated[
        float, "Fraction of the requests that are billed and get no content, with finish reason content_filter."
    ] = 0.0
    cut: Annotated[float, "Fraction of the requests that are billed and get half of the answer, with finish reason length."] = 0.0
    no_usage: Annotated[float, "Fraction of the answers without usage."] = 0.0
    wrong_usage: Annotated[float, "Fraction of the answers whose usage is zero, absurd or negative; the bill is correct."] = 0.0
    claim: Annotated[float, "Reported tokens as a multiple of the billed tokens; the bill is correct."] = 1.0
    token_skew: Annotated[
        float, "Token counts are those of cl100k times a factor from 1 - skew to 1 + skew, which depends only on the prompt."
    ] = 0.0
    context_window: Annotated[int | None, "Maximum tokens of the prompt plus max_tokens."] = None
    input_price: Annotated[float, "Dollars per million prompt tokens."] = 2.5
    cached_price: Annotated[float, "Dollars per million prompt tokens that are in the prefix cache."] = 1.25
    output_price: Annotated[float, "Dollars per million answer tokens."] = 10.0
    search_price: Annotated[
        float, "Dollars per search; a reranking counts one search per 100 documents, and costs nothing else."
    ] = 0.002
    cache_lifetime: Annotated[float, "Seconds for which the prefixes of an answered prompt are discounted."] = 300.0
    cache_minimum: Annotated[int, "Minimum tokens of a prefix that cache_control stores; shorter prefixes are ignored."] = 1024
    write_factor: Annotated[
        float, "Price of a token that cache_control stores for 5 minutes, as a multiple of the input price."
    ] = 1.25
    write_hour_factor: Annotated[
        float, "Price of a token that cache_control stores for an hour, as a multiple of the input price."
    ] = 2.0
    flex_factor: Annotated[float, "Prices with service_tier flex, as a multiple of the standard prices."] = 0.5
    flex_unavailable: Annotated[
        float, "Fraction of the flex requests that are answered 429, resource unavailable; not billed."
    ] = 0.0
    batch_factor: Annotated[float, "Prices in a batch, as a multiple of the standard prices."] = 0.5
    batch_duration: Annotated[float, "Seconds from a batch's creation to its end, over which its requests are spread."] = 1.0
    batch_requests: Annotated[int, "Maximum requests in a batch."] = 50_000
    batch_lost: Annotated[float, "Fraction of the batches that are created although the connection closes without a reply."] = 0.0
    batch_failed: Annotated[float, "Fraction of the batches that fail at validation; not billed."] = 0.0
    batch_expired: Annotated[float, "Fraction of the batches that expire with half of their requests answered, rounded up."] = 0.0
    batch_gone: Annotated[float, "Fraction of the batches whose results are missing (404)."] = 0.0
    batch_shuffled: Annotated[float, "Fraction of the batches whose results are in another order."] = 0.0
    batch_errors: Annotated[float, "Fraction of a batch's requests that end as an error line; not billed."] = 0.0
    batch_missing: Annotated[float, "Fraction of a batch's requests that are billed but missing from the results."] = 0.0
    batch_duplicates: Annotated[float, "Fraction of a batch's requests whose result has two lines; billed once."] = 0.0
    poll_errors: Annotated[
        float, "Fraction of the requests about batches and files that are answered 429 or 500, alternately."
    ] = 0.0
    quota: Annotated[float | None, "Dollars; a key is refused when its bill reaches this amount."] = None
    seed: Annotated[int, "Seed; together with model, prompt and attempt, it determines every fault, latency and skew."] = 0
    unknown_models: tuple[str, ...] = ()
    """Models whose requests are answered 404."""
    models: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Model -> field -> the setting for this model; see `PER_MODEL`."""

    def __post_init__(self) -> None:
        for name in PER_MODEL:
            value = getattr(self, name)
            if name in _POSITIVE:
                if value is not None and not 0 < value < math.inf:
                    raise UserError(f"{name} is {value:g}; expected a number above 0, or none at all for no limit")
            elif value is None or not 0 <= value < math.inf:
                raise UserError(f"{name} is {value}; expected a number from 0")
            elif name in _FRACTIONS and value > (0.9 if name == "token_skew" else 1.0):
                raise UserError(f"{name} is {value:g}; expected a fraction from 0 to {0.9 if name == 'token_skew' else 1}")
        if self.quota is not None and not 0 <= self.quota < math.inf:
            raise UserError(f"quota is {self.quota}; expected dollars from 0")
        for group in (FAULTS, USAGE_FAULTS, BATCH_ENDS, LINE_FAULTS):
            total = sum(getattr(self, name) for name in group)
            if total > 1 + 1e-9:
                raise UserError(f"{', '.join(group)} are {total:g} together; expected fractions of at most 1 together")
        for model in self.models:
            self.of(model)

    def of(self, model: str) -> Settings:
        """Return the settings of a model, by its name in a request. A prefix `openai/` in `models` is ignored."""
        changes = self.models.get(model) or self.models.get(f"openai/{model}") or {}
        given: dict[str, Any] = {name: int(value) if name in _WHOLE else value for name, value in changes.items()}
        return dataclasses.replace(self, models={}, **given) if changes else self


PER_MODEL = tuple(setting.name for setting in dataclasses.fields(Settings) if setting.name not in _ALONE)
"""The settings that may differ by model."""


def parse_limit(text: str) -> tuple[str, dict[str, float]]:
    """Parse `MODEL:rpm=60,latency=0.5` into model and settings. Raises UserError, or UnknownName with the nearest setting."""
    model, colon, pairs = text.rpartition(":")
    found: dict[str, float] = {}
    for pair in pairs.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (model and colon and name and equals):
            raise UserError(f"limit {text!r} cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60")
        if name not in PER_MODEL:
            from summhay_ray.plugins import unknown

            raise unknown("setting of a model", name, PER_MODEL)
        try:
            found[name] = float(value)
        except ValueError:
            raise UserError(f"{name} of {model!r} is {value!r}; expected a number") from None
    return model, found


def read_keys(path: str | Path) -> frozenset[str]:
    """Read the API keys in a file, one per line, without blank lines. Raises UserError if it has none or cannot be read."""
    try:
        lines = read_file(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}: the keys cannot be read ({type(error).__name__}); expected a text file, one key a line"
        ) from None
    keys = frozenset(line.strip() for line in lines if line.strip())
    if not keys:
        raise UserError(f"{path}: the file has no key, so every request would be refused; write one key per line")
    return keys
