"""The spec of mining: a folder, and the models to ask where comparing words leaves doubt."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from summhay_ray.benchmark import Model, ModelSpec, Spec, Strict, Text
from summhay_ray.local_models import FAMILIES

FREE = "offline/words"
"""The entry of a step that uses no model and compares words."""
Step = Literal["claim", "group", "check", "insight", "query"]
STEPS: tuple[Step, ...] = ("claim", "group", "check", "insight", "query")
"""The stages that may ask a model, in order."""


def _step(value: Any) -> Any:
    """Normalize a step's entry; `offline/words` becomes null."""
    named = value.get("model") if isinstance(value, Mapping) else value
    return None if named == FREE else value


def _answers(model: ModelSpec | None) -> ModelSpec | None:
    """Return the step's model. Raises ValueError for an offline model that does not generate texts."""
    if model is not None and model.local and not model.model.startswith(FAMILIES):
        raise ValueError(f"{model.model!r} answers no question of mining; write {FREE}, by which words alone decide, or a model")
    return model


_Step = Annotated[Model | None, BeforeValidator(_step, json_schema_input_type=Text | ModelSpec | None), AfterValidator(_answers)]


class MineModels(Strict):
    """The models of the steps. A step without a model (or with `offline/words`) is free: it compares words."""

    claim: _Step = Field(
        default=None, description="states the claims of each document, which become insights; null: use its sentences"
    )
    group: _Step = Field(
        default=None,
        description="decides which similar insights are the same; null: those with the same sentences",
    )
    insight: _Step = Field(default=None, description="words each insight from its evidence; null: its most informative sentence")
    query: _Step = Field(default=None, description="words each query; null: use the words that a subtopic's insights share")
    check: _Step = Field(default=None, description="checks documents where comparing words leaves doubt; null: no check")

    def by_step(self) -> dict[Step, ModelSpec]:
        """Map each step that has a model to this model."""
        return {step: model for step in STEPS if (model := getattr(self, step)) is not None}


class MineSpec(Spec):
    """The spec of a run that makes a haystack from a folder of documents."""

    LATER: ClassVar[frozenset[str]] = Spec.LATER | {"absent"}
    NOT_SEMANTIC: ClassVar[frozenset[str]] = frozenset({*Spec.NOT_SEMANTIC, "folder"})

    kind: str = Field(default="mine", description="the benchmark: its name, or module:Class for one of your own")
    name: str = Field(default="mine", min_length=1, description="a name for people; not part of the run's identity")
    folder: str = Field(min_length=1, description="the folder of the documents, relative to the spec's folder")
    topic: str = Field(default="", description="what the documents are about; empty: the folder's name")
    min_documents: int | None = Field(
        default=None,
        ge=2,
        description="minimum number of documents that state an insight; null: 3, or 2 if few insights are in 3",
    )
    part_tokens: int | None = Field(
        default=None, ge=50, description="maximum length of a part of a document, in tokens; null: do not cut"
    )
    absent: int = Field(default=0, ge=0, le=50, description="number of queries about subjects that no document mentions")
    models: MineModels = Field(default=MineModels(), description="models that are asked; none by default")
