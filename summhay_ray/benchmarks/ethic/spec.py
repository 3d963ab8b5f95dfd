"""The specs of an ETHIC run (records, models with their view of the context, judges of summaries) and of an `ethic_build` run
(documents, and the models that label them)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from summhay_ray.benchmark import Model, ModelSpec, Spec, Strict, Text
from summhay_ray.benchmarks.ethic.prompts import SYSTEM
from summhay_ray.benchmarks.rating import ExtractSpec, RatingModel, rater_entry
from summhay_ray.benchmarks.summarizing import NoAnswers

Task = Literal["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"]
"""The paper's four tasks, and our own `Lookup`: recalling from a single section, a low-coverage question about the same
context."""
OverLength = Literal["error", "skip", "zero", "truncate-middle"]

HUB, REVISION = "dmis-lab/ETHIC", "34d9a5c6ffd9b06b1eca75d2e7a437bc96d628c4"

KEY_FREE: dict[str, tuple[Task, ...]] = {
    "offline/names": ("Recalling", "Lookup"),
    "offline/order": ("Organizing",),
    "offline/match": ("Attributing",),
    "offline/support": ("Summarizing",),
    "offline/lead": (),
}
"""Offline model -> the tasks that it can answer."""


class HubSpec(Strict):
    """Records on the Hugging Face hub, one file per task."""

    hub: str = Field(default=HUB, min_length=1, description="the data set's name")
    revision: str = Field(default=REVISION, min_length=7, description="commit of the data set")
    tasks: list[Task] = Field(default=["Recalling", "Summarizing", "Organizing", "Attributing"], description="the tasks to load")


class ContextSpec(Strict):
    """The part of a context that the model sees. Lengths are in cl100k tokens."""

    strategy: Literal["full", "window", "blocks"] = Field(
        default="full",
        description="window: the first and last tokens, as in StreamingLLM; blocks: also blocks near the question, as in InfLLM",
    )
    sinks: int = Field(default=128, ge=0, description="tokens kept at the beginning")
    window: int = Field(default=8192, ge=1, description="tokens kept at the end")
    block: int = Field(default=512, ge=16, description="blocks: tokens per block")
    top: int = Field(default=8, ge=1, description="blocks: number kept in addition to the beginning and end")


class EthicModel(ModelSpec):
    """A model that answers, its tasks, and its view of the context."""

    max_tokens: int = Field(default=4096, ge=1, description="longest answer, in tokens")
    tasks: list[Task] | None = Field(
        default=None, description="its tasks; null: all (for offline models, those that they can answer)"
    )
    context: ContextSpec = Field(default=ContextSpec(), description="the part of a context that the model sees")
    tokenizer: str | None = Field(default=None, description="path of its tokenizer.json, from the spec's folder; null: cl100k")

    @property
    def answered_tasks(self) -> tuple[str, ...] | None:
        """The tasks that the model answers; None: all."""
        return KEY_FREE.get(self.model) if self.tasks is None else tuple(self.tasks)


class EthicJudge(RatingModel):
    """A judge of section summaries: a model, or a panel of models; the mean of the panel is the rating."""

    answers: NoAnswers = Field(default=None, exclude=True)

    logprobs: int | None = Field(
        default=10, ge=1, le=20, description="number of likeliest first tokens that weight the scores; null: use samples"
    )
    samples: int = Field(default=5, ge=1, description="number of answers to average if there are no log probabilities")
    sample_temperature: float = Field(default=1.0, ge=0, description="temperature of these samples")
    extract: ExtractSpec | None = Field(default=None, description="show an extract instead of the whole section")
    role: Literal["user", "system"] = Field(default="user", description="role of the single message; system, as in the release")

    LATER = RatingModel.LATER | {"role"}


class EthicSpec(Spec):
    """Records x models, and judges of Summarizing."""

    kind: str = Field(default="ethic", description="the benchmark")
    data: Annotated[list[Text | HubSpec], BeforeValidator(lambda one: [one] if isinstance(one, str | dict) else one)] = Field(
        default=["sample/ethic"],
        min_length=1,
        description="files of records (JSON lines, zip, Parquet), sample/ethic, run/ID of an ethic_build, or "
        "{hub: NAME, revision: COMMIT}",
    )
    tasks: list[Task] = Field(default=[], description="use only these tasks; empty: all")
    domains: list[Text] = Field(default=[], description="use only these domains; empty: all")
    models: list[Annotated[EthicModel, BeforeValidator(ModelSpec.entry, json_schema_input_type=Text | EthicModel)]] = Field(
        min_length=1, description="the models that answer"
    )
    judges: list[Annotated[EthicJudge, BeforeValidator(rater_entry, json_schema_input_type=Text | EthicJudge)]] = Field(
        default=[EthicJudge(model="offline/rater")],
        min_length=1,
        description="judges of summaries, models or panel(A,B,offline); the first one's ratings are the task's score",
    )
    criteria: dict[Literal["con", "faith", "rel"], Text] = Field(
        default={}, description="criterion -> path of a prompt with {{Document}} and {{Summary}}; else ours"
    )
    layout: Literal["released", "prefix"] = Field(
        default="released",
        description="released: the records' prompts as they are; prefix: one system message, the context first",
    )
    system: str = Field(default=SYSTEM, description="layout prefix: the system message")
    over_length: OverLength = Field(default="error", description="what to do with a prompt that exceeds the model's window")
    reasoning: Literal["strip", "keep"] = Field(
        default="strip", description="strip or keep a model's thinking (<think> ... </think>) before scoring"
    )
    released_counts: bool = Field(default=False, description="refuse records whose counts differ from the release")

    @property
    def raters(self) -> list[EthicJudge]:
        """The judges to ask; a panel is replaced by its members."""
        return [one for judge in self.judges for one in judge.rating_models]

    @model_validator(mode="after")
    def _some_task(self) -> EthicSpec:
        for model in self.models:
            if model.answered_tasks == ():
                raise ValueError(
                    f"models: {model.label} answers none of ETHIC's tasks; offline/names, order, match and support do"
                )
        return self


class TextSource(Strict):
    """Single documents."""

    path: Text = Field(description="a .txt or .jsonl file, or a folder of them")
    domain: Text = Field(default="Books", description="its name in tables; Books and Debates are the paper's")
    labels: Literal["labeler", "speakers"] = Field(
        default="labeler",
        description="labeler: a model labels chunk by chunk; speakers: the names before the colons of a transcript's turns",
    )
    most_documents: int | None = Field(
        default=None, ge=1, description="draw at most this many of the documents that are long enough"
    )
    least_tokens: int = Field(default=0, ge=0, description="leave out documents with fewer tokens")
    most_tokens: int | None = Field(default=None, ge=100, description="keep this many tokens from the beginning of a document")


class CollectionSource(Strict):
    """Collections of documents that overlap."""

    path: Text = Field(description="a haystack (JSON, sample/news), or collections (JSON lines)")
    domain: Text = Field(default="Medicine", description="its name in tables; Medicine and Law are the paper's")
    labels: Literal["labeler", "none"] = Field(
        default="labeler", description="labeler: numbers of people, for Recalling; none: do not build Recalling"
    )
    most_documents: int | None = Field(default=None, ge=2, description="draw at most this many documents per collection")


class CitedSource(Strict):
    """Court decisions, each with texts that cite it."""

    path: Text = Field(description="JSON lines: id, title, citation, summary, citing (a list of texts)")
    domain: Text = Field(default="Law", description="its name in tables")
    marks: Literal["patterns", "labeler"] = Field(
        default="patterns",
        description="finds citations of the decision by its exact title and citation, or also by the labeler",
    )


def _source(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class EthicBuildSpec(Spec):
    """The documents, and the models that label, summarize and ask."""

    kind: str = Field(default="ethic_build", description="the benchmark")
    texts: list[Annotated[TextSource, BeforeValidator(_source)]] = Field(default=[], description="single documents")
    collections: list[Annotated[CollectionSource, BeforeValidator(_source)]] = Field(
        default=[], description="collections of documents of several reviews, for Attributing"
    )
    cited: list[Annotated[CitedSource, BeforeValidator(_source)]] = Field(
        default=[], description="decisions with texts that cite them, for Attributing by citation marks"
    )
    labeler: Model = Field(default=ModelSpec(model="offline/names"), description="the model that labels chunks, for Recalling")
    summarizer: Model = Field(
        default=ModelSpec(model="offline/support"), description="the model that summarizes chunks, for Organizing"
    )
    questioner: Model | None = Field(
        default=None,
        description="the model that writes Lookup's questions about one chunk; null: ask for the names in one section",
    )
    tasks: list[Task] = Field(
        default=["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"], description="the tasks to build"
    )
    chunk_tokens: int = Field(
        default=1024, ge=32, description="maximum length of a chunk in cl100k tokens; a chunk is also a section"
    )

    @model_validator(mode="after")
    def _some_source(self) -> EthicBuildSpec:
        if not (self.texts or self.collections or self.cited):
            raise ValueError("texts, collections, cited: name at least one source")
        return self
