"""The settings of the simulated provider. The command line generates its options from them, without loading the simulator."""

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
"""Settings that are fractions of the calls with a fault instead of an answer; together at most 1."""
USAGE_FAULTS = ("no_usage", "wrong_usage")
"""Settings that are fractions of the answers with missing or wrong usage; together at most 1."""
BATCH_ENDS = ("batch_failed", "batch_expired")
"""Settings that are fractions of the batches with another end than completion; together at most 1."""
LINE_FAULTS = ("batch_errors", "batch_missing", "batch_duplicates")
"""Settings that are fractions of a batch's requests with a fault in the results; together at most 1."""
_BATCH_FAULTS = (*BATCH_ENDS, *LINE_FAULTS, "batch_lost", "batch_shuffled", "batch_gone", "poll_errors")
_FRACTIONS = (*FAULTS, *USAGE_FAULTS, *_BATCH_FAULTS, "flex_unavailable", "latency_spread", "token_skew")
_POSITIVE = ("rpm", "input_tpm", "output_tpm", "concurrency", "context_window", "batch_requests")
_WHOLE = ("concurrency", "context_window", "batch_requests", "cache_minimum")
_ALONE = ("quota", "poll_errors", "seed", "unknown_models", "models")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings, each with the help of its option. Limits are per API key and model; None: no limit."""

    latency: Annotated[float, "Mean seconds from request to answer."] = 0.0
    latency_spread: Annotated[float, "Latencies are uniform between latency x (1 - spread) and latency x (1 + spread)."] = 0.0
    rpm: Annotated[float | None, "Most requests in any 60 seconds, for each key and model; beyond it 429 with Retry-After."] = (
        None
    )
    input_tpm: Annotated[float | None, "Most prompt tokens in any 60 seconds, for each key and model."] = None
    output_tpm: Annotated[float | None, "Most answer tokens in any 60 seconds, for each key and model."] = None
    concurrency: Annotated[int | None, "Most requests at once, for each key and model; beyond it 429 without Retry-After."] = None
    errors: Annotated[float, "Fraction of the requests answered 500, 502 or 503; not billed."] = 0.0
    hangs: Annotated[
        float, "Fraction of the requests that are billed and never answered; a hang ends when the client disconnects."
    ] = 0.0
    drops: Annotated[
        float, "Fraction of the requests that are billed, and whose connection is then closed without an answer."
    ] = 0.0
    broken: Annotated[float, "Fraction of the requests that are billed and answered 200 with truncated JSON."] = 0.0
    refusals: Annotated[float, "Fraction of the requests that are billed and refused in message.refusal, without content."] = 0.0
    filtered: Annotated[
        float, "Fraction of the requests that are billed and answered without content, finish reason content_filter."
    ] = 0.0
    cut: Annotated[
        float, "Fraction of the requests that are billed and answered by half of the answer, finish reason length."
    ] = 0.0
    no_usage: Annotated[float, "Fraction of the answers without usage."] = 0.0
    wrong_usage: Annotated[float, "Fraction of the answers whose usage is zero, absurd or negative; the bill is correct."] = 0.0
    claim: Annotated[float, "Reported tokens as a multiple of the billed ones; the bill is correct."] = 1.0
    token_skew: Annotated[float, "Token counts are cl100k's times 1 - skew to 1 + skew, the same for the same prompt."] = 0.0
    context_window: Annotated[int | None, "Most tokens of prompt and max_tokens together."] = None
    input_price: Annotated[float, "Dollars per million prompt tokens."] = 2.5
    cached_price: Annotated[float, "Dollars per million prompt tokens that the prefix cache holds."] = 1.25
    output_price: Annotated[float, "Dollars per million answer tokens."] = 10.0
    search_price: Annotated[
        float, "Dollars per search; a reranking takes one for each 100 documents, and costs nothing else."
    ] = 0.002
    cache_lifetime: Annotated[float, "Seconds for which the prefixes of an answered prompt are discounted."] = 300.0
    cache_minimum: Annotated[int, "Tokens of the shortest prefix that cache_control stores; shorter ones are ignored."] = 1024
    write_factor: Annotated[float, "Price of a token stored by cache_control for 5 minutes, as a multiple of the input's."] = 1.25
    write_hour_factor: Annotated[float, "Price of a token stored by cache_control for an hour, as a multiple of the input's."] = (
        2.0
    )
    flex_factor: Annotated[float, "Prices with service_tier flex, as a multiple of the others."] = 0.5
    flex_unavailable: Annotated[float, "Fraction of the flex requests answered 429, resource unavailable; not billed."] = 0.0
    batch_factor: Annotated[float, "Prices in a batch, as a multiple of the others."] = 0.5
    batch_duration: Annotated[float, "Seconds from the creation of a batch to its end; its requests are spread over them."] = 1.0
    batch_requests: Annotated[int, "Most requests in a batch."] = 50_000
    batch_lost: Annotated[float, "Fraction of the batches that are created, but whose connection closes without a reply."] = 0.0
    batch_failed: Annotated[float, "Fraction of the batches that fail at validation; not billed."] = 0.0
    batch_expired: Annotated[float, "Fraction of the batches that expire with half of their requests answered, rounded up."] = 0.0
    batch_gone: Annotated[float, "Fraction of the batches whose results are answered 404."] = 0.0
    batch_shuffled: Annotated[float, "Fraction of the batches whose results are in another order."] = 0.0
    batch_errors: Annotated[float, "Fraction of a batch's requests that end as an error line; not billed."] = 0.0
    batch_missing: Annotated[float, "Fraction of a batch's requests that are billed but missing in the results."] = 0.0
    batch_duplicates: Annotated[float, "Fraction of a batch's requests whose result has two lines; billed once."] = 0.0
    poll_errors: Annotated[float, "Fraction of the requests for batches and files answered 429 or 500, alternately."] = 0.0
    quota: Annotated[float | None, "Dollars; a key whose bill reaches them is refused."] = None
    seed: Annotated[int, "Seed of all draws; with model, prompt and attempt it determines every fault, latency and skew."] = 0
    unknown_models: tuple[str, ...] = ()
    """Models answered 404."""
    models: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Model -> its own settings, by field; see `PER_MODEL`."""

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
        """The settings of a model, by its name in a request; a prefix `openai/` in `models` is ignored."""
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
    """The API keys in a file, one per line; blank lines are ignored. Raises UserError if it has none or cannot be read."""
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
