"""What every benchmark has that rates texts on a scale: the entries of `raters`, the lever `extract`, how a rating is asked for.
For the benchmarks; on the door and the rooms judge and extract."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from summhay_ray import extract as extracts
from summhay_ray import judge
from summhay_ray.benchmark import Ask, Benchmark, ModelSpec, Outcome, Strict, Text, model_entry
from summhay_ray.errors import UserError
from summhay_ray.text import count_tokens

TOKENS_A_RATING = 1
"""Expected length of an answer: a number."""


def checked(make: Callable[..., Any], *arguments: Any) -> None:
    """Make it, so that a spec's name that cannot be made is told with its field. Raises ValueError."""
    try:
        make(*arguments)
    except UserError as error:
        raise ValueError(str(error)) from error


class ExtractSpec(Strict):
    """What a judge is shown of a long source: the sentences that its question needs, up to so many tokens."""

    method: str = Field(default="rouge-1+2", description="lead, rouge-1, rouge-2, rouge-1+2, support, embed, bertscore, nli, ...")
    tokens: int = Field(default=1024, ge=1, description="of the extract, at most (cl100k); one sentence is always shown")
    content: str = Field(
        default="", description="filled in: sha256 of a method of your own, or of the weights of one that reads a folder"
    )

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        checked(extracts.make_extractor, method)
        return method

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, fields: Any) -> Any:
        """The run is another one where the method is: `content` is a part of what a judge is."""
        if not isinstance(fields, Mapping) or not isinstance(method := fields.get("method", "rouge-1+2"), str):
            return fields
        try:
            return {**fields, "content": extracts.method_identity(method)}
        except UserError:
            return fields  # told with the field's name, when it is validated

    def planned(self) -> ExtractSpec:
        """What planning takes for it: nothing is computed by weights, where sentences of the beginning are as many tokens."""
        return self.model_copy(update={"method": "lead"}) if extracts.own_model(self.method) else self

    def of(self, source: str, question: str) -> str:
        """The extract of a source for whoever judges `question` by it; a source that fits is left as it is."""
        return source if count_tokens(source) <= self.tokens else _extracted(source, question, self.method, self.tokens)


# A plan goes through an item in three sizes, and several criteria read one extract.
@functools.lru_cache(maxsize=512)
def _extracted(source: str, question: str, method: str, tokens: int) -> str:
    return extracts.cut_down(source, question, method, tokens)


def lever_code(*levers: ExtractSpec | None) -> list[str]:
    """The module:Class names of a person's own among the methods of levers: a job takes their files along."""
    return [one.method for one in levers if one is not None and ":" in one.method]


@dataclass(frozen=True, slots=True)
class RatingTable:
    """Where a benchmark keeps its ratings: `summhay compare` holds those of two raters against each other."""

    table: str
    of: tuple[str, ...]
    """The columns that name what is rated, `criterion` among them."""
    rater: str
    """The column that names who rates; where the table has none, what the one rater is called."""
    value: str = "rating"


class RaterSpec(ModelSpec):
    """Who rates: a model, and how its rating is made of what it answers."""

    max_tokens: int = Field(default=16, ge=1, description="longest answer, in tokens; a model that reasons needs more")
    samples: int = Field(default=1, ge=1, description="answers whose mean is the rating; above 1 with a temperature above 0")
    one_call: bool = Field(default=True, description="all samples in one call; false: a call each, for providers without `n`")
    logprobs: int | None = Field(
        default=None, ge=1, le=20, description="the expectation over so many of the likeliest first tokens; samples without them"
    )
    role: Literal["user", "system"] = Field(default="user", description="of the one message")
    extract: ExtractSpec | None = Field(default=None, description="an extract in place of the whole source")

    @field_validator("samples")
    @classmethod
    def _samples_differ(cls, samples: int, info: ValidationInfo) -> int:
        if samples > 1 and info.data.get("temperature") == 0:
            raise ValueError("samples above 1 at temperature 0 are one answer, many times; write temperature: 1")
        return samples

    def rater(self, revision: Mapping[str, Any]) -> judge.Rater:
        """As the judge room has it. `revision`: what tells revisions of a local model apart."""
        sampling = {**self.sampling(), **revision}
        return judge.Rater(self.model, sampling, self.samples, self.one_call, self.logprobs, self.role)


Rater = Annotated[RaterSpec, BeforeValidator(model_entry, json_schema_input_type=Text | RaterSpec)]
"""A rater in a spec: a model's name, or a mapping of the fields of `RaterSpec`."""


async def rated(
    workload: Benchmark[Any],
    ask: Ask,
    stage: str,
    rater: RaterSpec,
    criterion: judge.Criterion,
    values: Mapping[str, str],
    compat: str = "default",
) -> Outcome[judge.Rating]:
    """One text's rating, or why there is none (`judge.rate_text`). `values`: placeholder name -> text.

    With `extract`, the source is cut down to what the judge of the summary needs (`reduced`).
    """
    settings = rater.rater(workload.revision_of(rater.model))
    async with ask.turn(stage, rater.model, rater.label):
        shown = reduced(ask, stage, settings, criterion, values, rater.extract)
        asked = ask.of(stage, output_tokens=lambda request: request.n * TOKENS_A_RATING)
        return await judge.rate_text(criterion, shown, settings, asked, compat)


def shown_of(lever: ExtractSpec | None, values: Mapping[str, str]) -> Mapping[str, str]:
    """The values with an extract in place of the source, or of the reference where the summary is rated by that; as they are
    without a lever."""
    if lever is None:
        return values
    long = next(name for name in ("SOURCE", "REFERENCE") if name in values)
    return {**values, long: lever.of(values[long], values["SUMMARY"])}


def reduced(
    ask: Ask, stage: str, rater: judge.Rater, criterion: judge.Criterion, values: Mapping[str, str], lever: ExtractSpec | None
) -> Mapping[str, str]:
    """`shown_of`; what it spares is told to the plan: the questions are asked next."""
    if ask.planning and lever is not None:
        lever = lever.planned()
    shown = shown_of(lever, values)
    if ask.planning and lever is not None:
        requests = (judge.rating_requests(criterion, one, rater) for one in (values, shown))
        for whole, made in zip(*requests, strict=True):
            ask.spares(stage, whole, made)
    return shown
