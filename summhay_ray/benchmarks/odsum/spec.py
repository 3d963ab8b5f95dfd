"""The spec of an ODSum run: queries x retrievers x k x strategies x summarizers, and the metrics of each summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from summhay_ray.benchmark import ModelSpec, Strict, Text
from summhay_ray.benchmarks.rating import ExtractSpec, RatingModel, rater_entry
from summhay_ray.benchmarks.retrieval import RetrieverEntry, check_retrievers, services
from summhay_ray.benchmarks.scripts import OfWordsSpec
from summhay_ray.benchmarks.summarizing import Strategy, Summarizer, cross_strategies

Over = Literal["best", "mean"]
RATER = "offline/rater"
GEVAL, GEVAL_EXTRACT = "geval", "geval_extract"


class RougeSpec(Strict):
    """F1 of ROUGE-1, -2, -L and -Lsum."""

    rouge: Over = Field(
        default="best", description="with several references: the best for each ROUGE type, as in the release, or the mean"
    )


class BertScoreSpec(Strict):
    """F1 of BERTScore; needs the extra `bertscore`."""

    bertscore: Text = Field(default="roberta-large", description="model name or folder; the release uses roberta-large")
    layer: int | None = Field(
        default=None, ge=1, description="layer whose vectors are compared; null: bert-score's choice for the model"
    )


class GevalSpec(Strict):
    """G-EVAL: a model, or a panel of models, rates each summary against each reference from 1 to 5. A panel's rating is the
    mean."""

    geval: Annotated[RatingModel, BeforeValidator(rater_entry, json_schema_input_type=Text | RatingModel)] = Field(
        default=RatingModel(model=RATER),
        description="model that rates, or panel(A,B,offline); with several samples its default temperature is 1",
    )
    samples: int = Field(default=1, ge=1, le=64, description="answers per rating, which are averaged; the release uses 23")
    logprobs: int | None = Field(
        default=None, ge=1, le=20, description="weigh the scale by this many top log probabilities instead of sampling"
    )
    over: Over = Field(default="best", description="with several references: the best for each query and criterion, or the mean")
    criteria: list[Literal["consistency", "relevance"]] = Field(
        default=["consistency", "relevance"], min_length=1, description="the criteria of the ratings"
    )
    extract: ExtractSpec | None = Field(default=None, description="shorten each reference to an extract before rating")

    @model_validator(mode="after")
    def _samples_differ(self) -> GevalSpec:
        if self.samples > 1 and any(one.temperature == 0 for one in self.geval.rating_models):
            raise ValueError("geval: samples above 1 at temperature 0 are one answer, many times; write temperature: 1")
        if any(one.answers is not None for one in self.geval.rating_models):
            raise ValueError("geval: a file of answers holds one text for each query, and a rater gives several; name a model")
        if len(set(self.criteria)) < len(self.criteria):
            raise ValueError("criteria: one is listed twice; remove it")
        return self


_KINDS: Mapping[str, type[Strict]] = {"rouge": RougeSpec, "bertscore": BertScoreSpec, "geval": GevalSpec}


def _metric(value: Any) -> Any:
    """Return the spec class of a metric, which is given by name or as a mapping with its name as a field. Raises ValueError."""
    if isinstance(value, Strict):
        return value
    heads = [value] if isinstance(value, str) else [name for name in _KINDS if isinstance(value, Mapping) and name in value]
    if len(heads) != 1 or heads[0] not in _KINDS:
        raise ValueError(f"expected one of {', '.join(_KINDS)}, or a mapping such as {{geval: openai/gpt-5.4, samples: 5}}")
    fields: Any = {} if isinstance(value, str) else dict(value)
    if heads[0] == "geval" and isinstance(model := ModelSpec.entry(fields.get("geval", RATER)), Mapping):
        # Several samples need the release's temperature of 1.
        fields["geval"] = {**({"temperature": 1.0} if fields.get("samples", 1) != 1 else {}), **model}
    return _KINDS[heads[0]].model_validate(fields)


Metric = Annotated[
    RougeSpec | BertScoreSpec | GevalSpec,
    BeforeValidator(
        _metric, json_schema_input_type=Literal["rouge", "bertscore", "geval"] | RougeSpec | BertScoreSpec | GevalSpec
    ),
]


class OdsumSpec(OfWordsSpec):
    """A grid of queries x retrievers x k x strategies x summarizers. Without summarizers, the run measures only retrieval."""

    NOT_SEMANTIC = OfWordsSpec.NOT_SEMANTIC | {"corpus", "strategies"}

    corpus: Text = Field(description="the collection: a folder, relative to the spec's folder, or store/SHA256")
    drop_blank: bool = Field(default=False, description="remove blank documents from the index and from gold")
    splits: list[Text] | None = Field(
        default=None,
        min_length=1,
        description="splits whose queries are used; null: all. Retrieval always searches all documents",
    )
    retrievers: list[RetrieverEntry] = Field(
        default=[], description="bm25, {bm25: split}, vector, oracle, {oracle: replace, share: 0.2}, random, {run: FILE}, ..."
    )
    k: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 3, 6], min_length=1, description="numbers of documents to retrieve")
    token_budget: int = Field(default=14000, ge=1, description="maximum cl100k tokens of documents in one call")
    words: int = Field(default=250, ge=10, description="maximum words of a summary")
    strategies: list[Strategy] = Field(
        default=["truncate-all"], min_length=1, description="strategies for summarizers without a strategy of their own"
    )
    summarizers: list[Summarizer] = Field(
        default=[], description="models that summarize; without any, the run measures only retrieval"
    )
    metrics: list[Metric] = Field(default=[RougeSpec()], description="metrics of a summary: rouge, bertscore, geval")
    seed: int = Field(default=0, description="seed of random retrieval, the oracle's errors, and intervals")

    def model_entries(self) -> Sequence[ModelSpec]:
        return [*super().model_entries(), *services(self.retrievers).values()]

    def metric(self, kind: type[Any]) -> Any:
        return next((metric for metric in self.metrics if isinstance(metric, kind)), None)

    @property
    def gevals(self) -> Mapping[str, GevalSpec]:
        """G-EVAL by its name in tables. If the spec rates both whole references and extracts, the one on extracts is
        `geval_extract`."""
        listed = [metric for metric in self.metrics if isinstance(metric, GevalSpec)]
        return {GEVAL if len(listed) == 1 or metric.extract is None else GEVAL_EXTRACT: metric for metric in listed}

    @model_validator(mode="before")
    @classmethod
    def _crossed(cls, fields: Any) -> Any:
        return cross_strategies(fields, ["truncate-all"])

    @model_validator(mode="after")
    def _names_differ(self) -> OdsumSpec:
        check_retrievers(self.retrievers)
        # Each metric may occur once; G-EVAL may occur once for whole references and once for extracts.
        kinds = [(type(metric), getattr(metric, "extract", None) is not None) for metric in self.metrics]
        for field, values in (("k", self.k), ("metrics", kinds)):
            if len(set(values)) < len(values):
                raise ValueError(f"{field}: one is listed twice; remove it")
        if not self.retrievers and any(summarizer.answers is None for summarizer in self.summarizers):
            raise ValueError("retrievers: the summarizers need at least one, such as oracle")
        return self

    def raters(self) -> Sequence[ModelSpec]:
        return [rater for geval in self.gevals.values() for rater in geval.geval.rating_models]
