"""Shared parts of benchmarks that rate texts on a scale: the entries of `raters`, the option `extract`, and asking for a
rating.

Benchmarks import this module. It imports `summhay_ray.benchmark`, `judge` and `extract`.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import polars as pl
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from summhay_ray import extract as extracts
from summhay_ray import judge
from summhay_ray.benchmark import Ask, ModelSpec, Strict, Text
from summhay_ray.encoders import check_model
from summhay_ray.errors import UserError
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.text import count_tokens

TOKENS_A_RATING = 1
"""Expected length of an answer, which is a number."""


def as_value_error(make: Callable[..., Any], *arguments: Any) -> None:
    """Call `make`, and turn its UserError into a ValueError, which pydantic reports with the name of the field."""
    try:
        make(*arguments)
    except UserError as error:
        raise ValueError(str(error)) from error


class ExtractSpec(Strict):
    """The option `extract`: the judge sees only those sentences of a long source that its question needs, up to a token limit."""

    method: str = Field(default="rouge-1+2", description="lead, rouge-1, rouge-2, rouge-1+2, support, embed, bertscore, nli, ...")
    tokens: int = Field(
        default=1024,
        ge=1,
        description="maximum length of the extract (cl100k); a single longer sentence or bullet is cut",
    )
    content: str = Field(default="", description="filled in: sha256 of a user-defined method, or of weights in a local folder")

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if ":" not in method:
            as_value_error(extracts.make_extractor, method)
        return method

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, fields: Any) -> Any:
        """Add `content`, which is part of a judge's identity. The user-defined method of a stored run is imported only when
        it is used."""
        if not isinstance(fields, Mapping) or not isinstance(method := fields.get("method", "rouge-1+2"), str):
            return fields
        if ":" in method:
            if not fields.get("content"):
                as_value_error(extracts.make_extractor, method)
                fields = {**fields, "content": extracts.method_identity(method)}
            return fields
        try:
            return {**fields, "content": extracts.method_identity(method)}
        except UserError:
            # The validator of `method` reports this error with the name of the field.
            return fields

    def for_plan(self) -> ExtractSpec:
        """Return the option for a plan. `lead` replaces a method with weights, since its extracts have the same length.
        Raises NoModel if the weights are missing."""
        weights = extracts.own_model(self.method)
        if not weights:
            return self
        check_model(extracts.named_layers(weights)[0])
        return self.model_copy(update={"method": "lead"})

    def of(self, source: str, question: str) -> str:
        """Return the extract of a source for a judge of `question`. A source of at most `tokens` tokens is returned unchanged."""
        return source if count_tokens(source) <= self.tokens else _extracted(source, question, self.method, self.tokens)


# Cached, because planning goes through an item in three sizes, and several criteria read the same extract.
_extracted = functools.lru_cache(maxsize=512)(extracts.cut_down)


@dataclass(frozen=True, slots=True)
class RatingTable:
    """Describes the table of a benchmark's ratings, so that `summhay compare` can compare two raters."""

    table: str
    of: tuple[str, ...]
    """The columns that identify the rated text, including `criterion`."""
    rater: str
    """The column that names the rater. If the table has no such column, the name of the only rater."""
    value: str = "rating"


def sample_counts(ratings: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Count the answers per group of ratings: `samples_expected` were requested, `samples` could be read. Both are null for
    expectations."""
    read = pl.col("n_votes") > 0
    sums = (pl.col(name).filter(read).sum().cast(pl.Int64) for name in ("n_votes", "n_asked"))
    counted = ratings.group_by(by, maintain_order=True).agg(*sums)
    counts = (
        pl.when(pl.col("n_votes") > 0).then(name).alias(column)
        for name, column in (("n_votes", "samples"), ("n_asked", "samples_expected"))
    )
    return counted.select(*by, *counts)


def rater_entry(value: Any) -> Any:
    """Normalize a rater's entry. `panel(A,B,...)` becomes the entry of its first model, with the panel's name and a list of
    members."""
    entry = ModelSpec.entry(value)
    if not isinstance(entry, Mapping) or not isinstance(text := entry.get("model"), str) or "(" not in text:
        return entry
    try:
        named = judge.parse_name(text, free=judge.OfflineRater.name)
    except UserError as error:
        raise ValueError(str(error)) from error
    if named.kind != "panel" or any(part.kind not in ("model", "offline") for part in named.parts):
        raise ValueError(f"{named.text}: a rater is a model, or a panel of models: panel(openai/gpt-5.4,offline)")
    given = entry.get("members")
    listed = [one for one in map(ModelSpec.entry, given) if isinstance(one, Mapping)] if isinstance(given, list) else []
    by_name = {one.get("name") or one.get("model"): one for one in listed}
    whole = {name: said for name, said in entry.items() if name not in ("model", "name", "members")}
    # The offline rater takes no options.
    shared = [{} if part.kind == "offline" else whole for part in named.parts]
    members = [{**own, **by_name.get(part.text, {}), "model": part.text} for own, part in zip(shared, named.parts, strict=True)]
    return {**members[0], "name": entry.get("name") or named.text, "members": members}


class RatingModel(ModelSpec):
    """A model that rates, or a panel of models; the mean of the panel is the rating."""

    LATER: ClassVar[frozenset[str]] = ModelSpec.LATER | {"members"}

    max_tokens: int = Field(default=16, ge=1, description="longest answer, in tokens; a model that reasons needs more")
    members: list[Annotated[Self, BeforeValidator(ModelSpec.entry)]] = Field(
        default=[], description="for a panel: entries of its models whose settings differ from the panel's"
    )

    @property
    def rating_models(self) -> Sequence[Self]:
        """The members of a panel, or the model itself."""
        return self.members or [self]


R = TypeVar("R", bound=RatingModel)


class RaterSpec(RatingModel):
    """A rater: a model, and how its answers become a rating. Or a panel of models; the mean of the panel is the rating."""

    samples: int = Field(default=1, ge=1, description="number of answers to average; several need a temperature above 0")
    one_call: bool = Field(default=True, description="all samples in one call; false: one call each, for providers without `n`")
    logprobs: int | None = Field(
        default=None,
        ge=1,
        le=20,
        description="rate by the expectation over this many likeliest first tokens; null: use samples",
    )
    role: Literal["user", "system"] = Field(default="user", description="role of the single message")
    extract: ExtractSpec | None = Field(default=None, description="show an extract instead of the whole source")

    @field_validator("samples")
    @classmethod
    def _samples_differ(cls, samples: int, info: ValidationInfo) -> int:
        if samples > 1 and info.data.get("temperature") == 0:
            raise ValueError("samples above 1 at temperature 0 are one answer, many times; write temperature: 1")
        return samples

    def settings(self, sampling: Mapping[str, Any]) -> tuple[judge.Rater, ExtractSpec | None]:
        """Return the rater as the package `judge` expects it, and its extract. `sampling`: see `RunModels.sampling`."""
        return judge.Rater(self.model, sampling, self.samples, self.one_call, self.logprobs, self.role), self.extract


Rater = Annotated[RaterSpec, BeforeValidator(rater_entry, json_schema_input_type=Text | RaterSpec)]
"""A rater in a spec: a model's name, or a mapping of the fields of `RaterSpec`."""


async def rate_text(
    ask: Ask,
    stage: str,
    rater: R,
    settings: Callable[[R], tuple[judge.Rater, ExtractSpec | None]],
    criterion: judge.Criterion,
    values: Mapping[str, str],
    compat: str = "default",
) -> Outcome[judge.Rating]:
    """Rate one text (see `judge.rate_text`). `settings`: returns how a rater rates, and its extract if any. `values`:
    placeholder name -> text."""

    async def alone(one: R) -> Outcome[judge.Rating]:
        how, extract = settings(one)
        async with ask.turn(stage, one.model, one.label):
            shown = values_for_rater(ask, stage, how, criterion, values, extract)
            ask_rater = ask.of(stage, output_tokens=lambda request: request.n * TOKENS_A_RATING)
            return await judge.rate_text(criterion, shown, how, ask_rater, compat)

    return await rate_by_panel(rater, alone)


async def rate_by_panel(rater: R, alone: Callable[[R], Awaitable[Outcome[judge.Rating]]]) -> Outcome[judge.Rating]:
    """Return the rating by a rater, or the mean rating of a panel's members, which are kept as votes. A panel fails if any
    member has no rating. `alone`: rates by one model."""
    if not rater.members:
        return await alone(rater)
    said = await asyncio.gather(*map(alone, rater.rating_models))
    usd_micros = sum(outcome.usd_micros for outcome in said)
    for member, outcome in zip(rater.rating_models, said, strict=True):
        if not isinstance(outcome, Answer):
            return replace(outcome, message=f"{member.label}: {outcome.message}", usd_micros=usd_micros)
    votes = [outcome.value.value for outcome in said if isinstance(outcome, Answer)]
    rating = judge.Rating(statistics.fmean(votes), "panel", votes, len(votes), keys=[outcome.key for outcome in said])
    return Answer(rating, key=said[0].key, attempts=said[0].attempts, usd_micros=usd_micros)


def extracted_values(extract: ExtractSpec | None, values: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values, with an extract in place of the source if the rater reads extracts. If there is a reference instead
    of a source, the reference is cut."""
    if extract is None:
        return values
    long = next(name for name in ("SOURCE", "REFERENCE") if name in values)
    return {**values, long: extract.of(values[long], values["SUMMARY"])}


def values_for_rater(
    ask: Ask, stage: str, rater: judge.Rater, criterion: judge.Criterion, values: Mapping[str, str], extract: ExtractSpec | None
) -> Mapping[str, str]:
    """Return the values as in `extracted_values`. While planning, also note the tokens that the extract saves per request."""
    if ask.planning and extract is not None:
        extract = extract.for_plan()
    shown = extracted_values(extract, values)
    if ask.planning and extract is not None:
        requests = (judge.rating_requests(criterion, texts, rater) for texts in (values, shown))
        for whole, made in zip(*requests, strict=True):
            ask.spares(stage, whole, made)
    return shown
