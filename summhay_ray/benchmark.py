"""Everything that you import to write a benchmark.

A benchmark is a subclass of `Benchmark[MySpec]` with `stages`, `tables` and four methods: `items`, `answer`, `score` and
`report`. The engine does the rest. To run it, write `kind: my_module:MyBenchmark` in a spec. docs/add-a-benchmark.md explains a
complete example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from summhay_ray.engine import (
    RAW_ANSWERS,
    Ask,
    BadBenchmark,
    ByQuery,
    Chart,
    Compat,
    Counted,
    Facet,
    Failure,
    Inputs,
    Item,
    Model,
    ModelSpec,
    NoAnswers,
    NoReply,
    Pivot,
    Prepared,
    Queue,
    Reach,
    ResourcesSpec,
    Results,
    Rows,
    SampleRecord,
    Samples,
    Section,
    Size,
    Spec,
    SpecError,
    Stage,
    StagePlan,
    Strict,
    Tables,
    Text,
    Unreadable,
    Workload,
    model_entry,
    planning,
    semantic_hash,
    table_pieces,
)
from summhay_ray.llm import LocalModel, Message, Request, assistant, system, user
from summhay_ray.local_models import LocalModels
from summhay_ray.metrics import mean_interval
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.store import Table

S = TypeVar("S", bound=Spec)


class Benchmark(Workload[S]):
    """The base class of a benchmark; an instance is one run. Models named `offline/...` run in the worker and need no key."""

    own_models: ClassVar[Sequence[type[Any]]] = ()
    """The benchmark's own models that need no key (classes with the interface of `LocalModel`)."""

    def local_models(self) -> Mapping[str, LocalModel]:
        """The models of this package that need no key, and those of `own_models`."""
        return LocalModels((model() for model in self.own_models), self.inputs.folder)


__all__ = [
    "RAW_ANSWERS",
    "Answer",
    "Ask",
    "BadBenchmark",
    "Benchmark",
    "ByQuery",
    "Chart",
    "Compat",
    "Counted",
    "Facet",
    "Failed",
    "Failure",
    "Inputs",
    "Item",
    "LocalModel",
    "Malformed",
    "Message",
    "Model",
    "ModelSpec",
    "NoAnswers",
    "NoReply",
    "Outcome",
    "Pivot",
    "Prepared",
    "Queue",
    "Reach",
    "Refusal",
    "Request",
    "ResourcesSpec",
    "Results",
    "Rows",
    "SampleRecord",
    "Samples",
    "Section",
    "Size",
    "Spec",
    "SpecError",
    "Stage",
    "StagePlan",
    "Strict",
    "Table",
    "Tables",
    "Text",
    "Unreadable",
    "assistant",
    "mean_interval",
    "model_entry",
    "planning",
    "semantic_hash",
    "system",
    "table_pieces",
    "user",
]
