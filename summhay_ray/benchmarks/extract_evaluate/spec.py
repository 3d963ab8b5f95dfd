"""The spec of an Extract-then-Evaluate run: pairs x (methods x budgets + full document) x criteria x raters."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from summhay_ray import extract as extracts
from summhay_ray import judge
from summhay_ray.benchmark import Strict, Text
from summhay_ray.benchmarks.extract_evaluate.metrics import METRICS, make_metric
from summhay_ray.benchmarks.rating import Rater, as_value_error
from summhay_ray.benchmarks.scripts import OfWordsSpec
from summhay_ray.errors import UserError

FULL, CUT = "full", "full-release"
"""Names of the whole source, and of the source as the paper's code cuts it by mistake."""
PRICE = 30.0
"""The paper's price in dollars per million input tokens (section 3.1, footnote 4)."""


def _metric(value: Any) -> Any:
    """Expand the short forms of a metric: `NAME`, and `{NAME: MODEL}`."""
    if isinstance(value, str):
        return {"metric": value}
    if isinstance(value, dict) and len(value) == 1 and "metric" not in value:
        [(name, model)] = value.items()
        return {"metric": name, "model": model}
    return value


class CriterionSpec(Strict):
    """A criterion to rate: one of the paper's, or your own with its prompt."""

    name: str = Field(min_length=1, description="consistency, relevance, faithfulness, or your own, with scale and prompt")
    human: str = Field(default="", description="the field of `scores` with the human scores; empty: the criterion's name")
    # YAML and JSON have lists instead of tuples.
    scale: Annotated[tuple[int, int], BeforeValidator(lambda one: tuple(one) if isinstance(one, list) else one)] | None = Field(
        default=None, description="[low, high], whole numbers; null: the criterion's own"
    )
    prompt: str | None = Field(default=None, description="path of a prompt file with [[SOURCE]] and [[SUMMARY]]; null: ours")
    datasets: list[Text] = Field(default=[], description="the datasets whose summaries are rated for it; empty: all")

    LATER = frozenset({"datasets"})

    @model_validator(mode="after")
    def _complete(self) -> CriterionSpec:
        if self.scale is not None:
            judge.Scale(*self.scale)
        if self.name not in judge.criteria() and (self.scale is None or self.prompt is None):
            known = ", ".join(judge.criteria())
            raise ValueError(f"{self.name!r} is not a criterion that has a prompt here ({known}); give it a scale and a prompt")
        return self

    @property
    def effective_scale(self) -> judge.Scale:
        """Return the scale: the spec's, else the criterion's own."""
        return judge.Scale(*self.scale) if self.scale else judge.criteria()[self.name].scale

    def make(self, prompt: str) -> judge.Criterion:
        """Return the criterion. `prompt`: the text of its prompt file; empty: ours. Raises ValueError if a placeholder is
        missing."""
        own = judge.criteria().get(self.name)
        text = prompt or (own.prompt if own else "")
        return judge.Criterion(self.name, self.effective_scale, text, own.version if own and not prompt else 1)


class MetricSpec(Strict):
    """A metric that calls no provider: a built-in one, or module:Class."""

    metric: str = Field(min_length=1, description=f"{', '.join(METRICS)}, or module:Class of your own")
    name: str = Field(default="", description="its name in tables; empty: the metric")
    model: str = Field(default="", description="folder or hub name of its weights, if it reads any")

    @property
    def label(self) -> str:
        return self.name or self.metric

    @model_validator(mode="after")
    def _makes(self, info: ValidationInfo) -> MetricSpec:
        # The spec of a stored run is validated with a context, which prevents the import of user code.
        if not info.context or ":" not in self.metric:
            as_value_error(make_metric, self.metric, self.model)
        return self


CriterionEntry = Annotated[
    CriterionSpec,
    BeforeValidator(
        lambda value: {"name": value} if isinstance(value, str) else value, json_schema_input_type=Text | CriterionSpec
    ),
]
MetricEntry = Annotated[MetricSpec, BeforeValidator(_metric, json_schema_input_type=Text | dict[str, str] | MetricSpec)]


class ExtractEvaluateSpec(OfWordsSpec):
    """Every rater rates every pair for every criterion, from every extract and from the full document."""

    kind: str = Field(default="extract_evaluate", description="the benchmark")
    pairs: list[str] = Field(
        min_length=1, description="files of summaries with sources and human scores, relative to the spec; or sample/pairs"
    )
    criteria: list[CriterionEntry] = Field(
        default=[CriterionSpec(name="faithfulness")], min_length=1, description="the criteria of the ratings"
    )
    methods: list[str] = Field(
        default=["lead", "rouge-1", "rouge-2", "rouge-1+2"], description="extraction methods; or module:Class"
    )
    budgets: list[int] = Field(default=list(extracts.BUDGETS), description="maximum length of an extract, in cl100k tokens")
    full: list[Literal["whole", "release"]] = Field(
        default=["whole", "release"],
        description="the source without extraction: whole, and as the paper's code cuts it (by characters instead of tokens)",
    )
    full_tokens: int = Field(
        default=8000, ge=1, description="maximum tokens of a prompt with full: release, which cuts the source"
    )
    models: dict[str, str] = Field(default_factory=dict, description="method -> folder or hub name of its model")
    raters: list[Rater] = Field(min_length=1, description="the models that rate")
    metrics: list[MetricEntry] = Field(default=[], description="baselines for the raters: rouge-1, bertscore, bartscore, ...")
    compat: Literal["default", "release"] = Field(
        default="default", description="release: make extracts and read answers as the paper's code does, mistakes included"
    )
    price_per_mtok: float = Field(
        default=PRICE, ge=0, description="dollars per million input tokens, to show a cost for free raters"
    )
    resamples: int = Field(default=2000, ge=100, description="resamples of the bootstrap over documents")
    splits: int = Field(
        default=200, ge=0, description="random splits of the documents: a method is chosen on one half and measured on the other"
    )

    NOT_SEMANTIC = OfWordsSpec.NOT_SEMANTIC | {"price_per_mtok", "resamples", "splits"}

    @field_validator("budgets")
    @classmethod
    def _budgets_count(cls, budgets: list[int]) -> list[int]:
        if min(budgets, default=1) < 1:
            raise ValueError(f"a budget is {min(budgets)}; expected at least 1 token")
        return sorted(budgets)

    @model_validator(mode="after")
    def _names_differ(self, info: ValidationInfo) -> ExtractEvaluateSpec:
        criteria = [criterion.name for criterion in self.criteria]
        listed: dict[str, list[Any]] = {"methods": self.methods, "budgets": self.budgets, "criteria": criteria}
        for field, names in {**listed, "metrics": [metric.label for metric in self.metrics]}.items():
            if twice := [name for place, name in enumerate(names) if name in names[:place]]:
                raise ValueError(f"{field}: {twice[0]!r} is listed twice; remove one, or give it another name")
        if not self.cells():
            raise ValueError("methods with budgets, or full: name at least one; else nothing is shown to the raters")
        for method in self.models:
            if method not in self.methods:
                raise ValueError(f"models: no method of this spec is {method!r}; it has {', '.join(self.methods)}")
        for method in self.methods:
            if info.context and ":" in method:
                continue
            try:
                extracts.make_extractor(method, self.models.get(method))
            except UserError as error:
                raise ValueError(f"methods: {error}") from error
            except ValueError as error:
                raise ValueError(f"models: {error}") from error
        for criterion in self.criteria if any(rater.logprobs for rater in self.raters) else ():
            try:
                judge.check_logprobs(criterion.effective_scale)
            except ValueError as error:
                raise ValueError(f"criteria: {criterion.name}: {error}") from error
        return self

    def cells(self) -> list[tuple[str, int]]:
        """Return (method, budget) of each text that raters see for a pair; the full document has budget 0."""
        fulls = [(FULL, 0)] * ("whole" in self.full) + [(CUT, 0)] * ("release" in self.full)
        return [*fulls, *((method, budget) for method in self.methods for budget in self.budgets)]
