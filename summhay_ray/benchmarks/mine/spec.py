"""The spec of mining: a folder, and the models that are asked where the free path is unsure."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from summhay_ray.benchmark import Model, ModelSpec, Spec, Strict

Step = Literal["insight", "query", "check"]
STEPS: tuple[Step, ...] = ("check", "insight", "query")
"""The stages that ask a model, in the order in which they are asked."""


class MineModels(Strict):
    """The models of the steps. Without one, a step is free: it goes by words alone."""

    insight: Model | None = Field(
        default=None, description="words each insight from its evidence; null: its most telling sentence"
    )
    query: Model | None = Field(default=None, description="words each query; null: by the words that a subtopic's insights share")
    check: Model | None = Field(
        default=None, description="asked about the documents that the free path is unsure of; null: nobody"
    )

    def used(self) -> dict[Step, ModelSpec]:
        """Step -> its model, for the steps that have one."""
        return {step: model for step in STEPS if (model := getattr(self, step)) is not None}


class MineSpec(Spec):
    """A haystack from a folder of documents."""

    NOT_SEMANTIC: ClassVar[frozenset[str]] = frozenset({*Spec.NOT_SEMANTIC, "folder"})

    kind: str = Field(default="mine", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="mine", min_length=1, description="for people; not part of the run's identity")
    folder: str = Field(min_length=1, description="the documents: a folder, from the spec's own")
    topic: str = Field(default="", description="what the documents are about; empty: the folder's name")
    min_documents: int = Field(default=3, ge=2, description="documents that must say an insight")
    part_tokens: int | None = Field(
        default=None, ge=50, description="longest part of a document, in tokens; null: nothing is cut"
    )
    models: MineModels = Field(default=MineModels(), description="models that are asked; none by default")
