"""The spec of an ETHIC run: records, models and how each is shown its context, judges of summaries. Part of the ethic folder."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from summhay_ray.benchmark import ModelSpec, NoAnswers, Spec, Strict, Text, model_entry
from summhay_ray.benchmarks.ethic.prompts import SYSTEM
from summhay_ray.benchmarks.ethic.records import HUB, REVISION
from summhay_ray.benchmarks.rating import ExtractSpec

Task = Literal["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"]
"""The four tasks; `Lookup` is ours: recalling from one section alone, a question of low coverage about the same context."""
OverLength = Literal["error", "skip", "zero", "truncate-middle"]

KEY_FREE: dict[str, tuple[Task, ...]] = {
    "offline/names": ("Recalling", "Lookup"),
    "offline/order": ("Organizing",),
    "offline/match": ("Attributing",),
    "offline/support": ("Summarizing",),
    "offline/lead": (),
}
"""What the models that need no key can do."""


class HubSpec(Strict):
    """Records on the Hugging Face hub, one configuration a task."""

    hub: str = Field(default=HUB, min_length=1, description="the data set's name")
    revision: str = Field(default=REVISION, min_length=7, description="commit of the data set")
    tasks: list[Task] = Field(
        default=["Recalling", "Summarizing", "Organizing", "Attributing"], description="whose records to load"
    )


class ContextSpec(Strict):
    """What of a context the model is shown. Lengths in cl100k tokens."""

    strategy: Literal["full", "window", "blocks"] = Field(
        default="full",
        description="window: the first and the last tokens, as StreamingLLM sees; blocks: those near the question, as InfLLM",
    )
    sinks: int = Field(default=128, ge=0, description="tokens kept of the beginning")
    window: int = Field(default=8192, ge=1, description="tokens kept of the end")
    block: int = Field(default=512, ge=16, description="blocks: tokens of a block")
    top: int = Field(default=8, ge=1, description="blocks: how many are kept beside beginning and end")


class EthicModel(ModelSpec):
    """A model that answers, and how it is shown contexts."""

    max_tokens: int = Field(default=4096, ge=1, description="longest answer, in tokens")
    tasks: list[Task] | None = Field(default=None, description="what it is asked; null: all, of key-free models what they can")
    context: ContextSpec = Field(default=ContextSpec(), description="what of a context it is shown")
    tokenizer: str | None = Field(default=None, description="path of its tokenizer.json, from the spec's folder; null: cl100k")

    @property
    def asked(self) -> tuple[str, ...] | None:
        """The tasks that it is asked; None: all."""
        return KEY_FREE.get(self.model) if self.tasks is None else tuple(self.tasks)


class EthicJudge(ModelSpec):
    """A judge of a section's summary."""

    answers: NoAnswers = Field(default=None, exclude=True)

    max_tokens: int = Field(default=16, ge=1, description="longest answer, in tokens")
    logprobs: int | None = Field(
        default=10, ge=1, le=20, description="likeliest first tokens that weigh the scores; null: samples instead"
    )
    samples: int = Field(default=5, ge=1, description="answers that are averaged where there are no log probabilities")
    sample_temperature: float = Field(default=1.0, ge=0, description="of these")
    extract: ExtractSpec | None = Field(default=None, description="an extract in place of a whole section")


def _data(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


class EthicSpec(Spec):
    """Records x models, and judges of Summarizing."""

    kind: str = Field(default="ethic", description="the benchmark")
    data: Annotated[list[Text | HubSpec], BeforeValidator(_data)] = Field(
        default=["sample/ethic"],
        min_length=1,
        description="files of records (JSON lines, zip, Parquet), sample/ethic, run/ID of an ethic_build, or "
        "{hub: NAME, revision: COMMIT}",
    )
    tasks: list[Task] = Field(default=[], description="which of the records' tasks; none named: all")
    domains: list[Text] = Field(default=[], description="which of the records' domains; none named: all")
    models: list[Annotated[EthicModel, BeforeValidator(model_entry, json_schema_input_type=Text | EthicModel)]] = Field(
        min_length=1, description="who answers"
    )
    judges: list[Annotated[EthicJudge, BeforeValidator(model_entry, json_schema_input_type=Text | EthicJudge)]] = Field(
        default=[EthicJudge(model="offline/rater")],
        min_length=1,
        description="who rates summaries; the first one's scores are the task's",
    )
    criteria: dict[Literal["con", "faith", "rel"], Text] = Field(
        default={}, description="criterion -> path of a prompt with {{Document}} and {{Summary}}; else our own"
    )
    layout: Literal["released", "prefix"] = Field(
        default="released",
        description="released: the records' prompts as they are; prefix: one system message, the context first",
    )
    system: str = Field(default=SYSTEM, description="layout prefix: the system message")
    over_length: OverLength = Field(default="error", description="of prompts beyond a model's window")
    reasoning: Literal["strip", "keep"] = Field(default="strip", description="what a model thinks between <think> and </think>")
    released_counts: bool = Field(default=False, description="refuse records that are not in number those of the release")

    @field_validator("models", "judges")
    @classmethod
    def _named_once(cls, value: list[Any]) -> list[Any]:
        labels = [one.label for one in value]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"models or judges: {twice!r} stands twice; give one of them a `name:` of its own")
        return value

    @model_validator(mode="after")
    def _some_task(self) -> EthicSpec:
        for one in self.models:
            if one.asked == ():
                raise ValueError(f"models: {one.label} answers none of ETHIC's tasks; offline/names, order, match and support do")
        return self
