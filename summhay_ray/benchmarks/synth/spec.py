"""The spec of a synthesis: the YAML that describes the haystacks to make and the models that make them.

Unknown fields are refused with a suggestion of the nearest known name. Every error is one line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from summhay_ray.benchmark import ModelSpec, Spec, Strict, Text
from summhay_ray.benchmarks.summarizing import NoAnswers
from summhay_ray.local_models import WRITER
from summhay_ray.synth import Difficulty, Group

GROUPS: tuple[Group, ...] = ("outline", "write", "check")
"""The stages of a synthesis, in the order in which a topic first reaches them."""
MOST_NAME = 60
"""Maximum length of a haystack's name, in characters."""
MOST_MADE_UP = 100_000
"""Maximum number of made-up topics of a spec, over all its entries."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class StageModel(ModelSpec):
    """A model and its settings. Its prompts come from the domain."""

    answers: NoAnswers = Field(default=None, exclude=True)

    prompt: SkipJsonSchema[None] = Field(default=None, description="not available: prompts come from the domain", exclude=True)
    max_tokens: int = Field(default=4000, ge=1, description="longest answer, in tokens")

    @field_validator("prompt", mode="before")
    @classmethod
    def _no_prompt(cls, value: Any) -> None:
        raise ValueError("prompts belong to the domain's YAML; write `domain: FILE.yaml` with `prompts:`")


_Stage = Annotated[StageModel, BeforeValidator(ModelSpec.entry, json_schema_input_type=Text | StageModel)]


class ModelsSpec(Strict):
    """The models of the stages."""

    outline: _Stage = Field(default=StageModel(model=WRITER), description="subtopics, insights, queries")
    write: _Stage = Field(default=StageModel(model=WRITER), description="documents and their corrections")
    check: _Stage | None = Field(
        default=None, description="verification if the offline checks are unsure; null: only offline checks"
    )

    def by_stage(self) -> dict[Group, StageModel]:
        """Map each stage that has a model to this model."""
        return {stage: model for stage in GROUPS if (model := getattr(self, stage)) is not None}


class DifficultySpec(Strict):
    """The difficulty of a haystack, apart from its size (paper, section 7)."""

    documents_per_insight: int | None = Field(default=None, ge=1, description="documents per insight; null: from the domain")
    least: int = Field(default=Difficulty().least, ge=1, description="minimum number of documents per insight")
    spread: float = Field(default=0.0, ge=0, le=1, description="unevenness of documents over insights; 0: even")
    paraphrase: int = Field(
        default=1, ge=0, le=3, description="from 0 (an insight's own words) to 3 (spread over several sentences)"
    )
    distractors: int = Field(default=0, ge=0, description="subtopics without a query; the documents contain their insights, too")
    conflicts: int = Field(default=0, ge=0, description="pairs of contradictory insights; both are part of the truth")
    cross_references: float = Field(default=0.0, ge=0, le=1, description="share of documents that refer to an earlier one")


class TopicSpec(Strict):
    """One topic, or a number of made-up topics."""

    topic: str = Field(default="", description="subject of the documents")
    name: str = Field(default="", description="name of the haystack: letters, digits, - and _; if empty, made from the topic")
    participants: list[str] = Field(default=[], description="speakers; if empty, the domain's")
    context: list[str] = Field(default=[], description="text files in the spec's folder that give ideas (news: seed articles)")
    made_up: int = Field(default=0, ge=0, le=MOST_MADE_UP, description="instead of a topic: the number of topics to make up")

    @model_validator(mode="after")
    def _one_or_many(self) -> TopicSpec:
        if bool(self.topic.strip()) == bool(self.made_up):
            raise ValueError("expected a topic, or made_up: a number of topics")
        if self.made_up and (self.name or self.participants or self.context):
            raise ValueError("made_up topics have no name, participants or context of their own")
        if self.name and (not _NAME.fullmatch(self.name) or len(self.name) > MOST_NAME):
            raise ValueError(f"name {self.name!r}: expected at most {MOST_NAME} letters, digits, - and _")
        return self


def _topics(value: Any) -> Any:
    listed = [value] if isinstance(value, Mapping) else value
    return [{"topic": one} if isinstance(one, str) else one for one in listed] if isinstance(listed, list) else listed


_Topic = Annotated[str, Field(pattern=r"\S")] | TopicSpec
_Topics = BeforeValidator(_topics, json_schema_input_type=TopicSpec | Annotated[list[_Topic], Field(min_length=1)])


class SynthSpec(Spec):
    """A synthesis: one haystack per topic, with verified annotations."""

    LATER: ClassVar[frozenset[str]] = Spec.LATER | {"absent"}

    kind: str = Field(default="synth", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="synth", min_length=1, description="a name for people; not part of the run's identity")
    domain: str = Field(default="news", min_length=1, description="a shipped domain, or FILE.yaml relative to the spec's folder")
    topics: Annotated[list[TopicSpec], _Topics] = Field(
        min_length=1, description="topics, one haystack each; {made_up: 100}: a hundred, made up from the seed"
    )
    subtopics: int = Field(default=9, ge=1, description="subtopics with a query, per topic")
    insights: int = Field(default=7, ge=1, description="insights per subtopic")
    documents: int = Field(default=100, ge=1, description="documents per haystack")
    absent: int = Field(default=0, ge=0, le=50, description="queries per topic about subjects that no document mentions")
    words: int | None = Field(default=None, ge=20, description="approximate words per document; null: the domain's")
    difficulty: DifficultySpec = Field(default=DifficultySpec(), description="difficulty of the haystacks, apart from size")
    models: ModelsSpec = Field(default=ModelsSpec(), description="the models that outline, write and check")
    license: str = Field(default="unspecified", min_length=1, description="license of the haystacks, stated in their metadata")
    seed: int = Field(default=0, description="a different seed gives a different haystack of the same topic")

    @model_validator(mode="after")
    def _stages_asked(self) -> SynthSpec:
        used = self.models.by_stage()
        for stage, model in used.items():
            if model.local and model.model != WRITER:
                raise ValueError(f"models.{stage}: {model.model!r} makes no haystacks; without a key, {WRITER} does")
        for name in self.stage_budgets_usd:
            if name in GROUPS and name not in used:
                problem = f"no model is asked to {name}; name one as models.{name}, or leave the budget out"
                raise ValueError(f"stage_budgets_usd.{name}: {problem}")
        return self
