"""The door for those who write a benchmark: data, questions, scores and pictures; all else is the engine's.

A benchmark is a class of `Benchmark[MySpec]` with its `stages` and `tables`, and a few methods: `items`, `answer`, `score`,
`report`. Run it with `kind: my_module:MyBenchmark` in a spec. docs/add-a-benchmark.md has a complete example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from summhay_ray.engine import (
    RAW_ANSWERS,
    Ask,
    BadBenchmark,
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
)
from summhay_ray.llm import LocalModel, Message, Request, assistant, system, user
from summhay_ray.local_models import LocalModels
from summhay_ray.metrics import mean_interval
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.store import Table

S = TypeVar("S", bound=Spec)


class Benchmark(Workload[S]):
    """One run of a benchmark. Models named `offline/...` answer in the worker, without a key."""

    own_models: ClassVar[Sequence[type[Any]]] = ()
    """Classes of further models that need no key (`LocalModel`), of the benchmark's own."""

    def local_models(self) -> Mapping[str, LocalModel]:
        """The models that come with this package and need no key, and the benchmark's own."""
        return LocalModels(model() for model in self.own_models)


__all__ = [
    "RAW_ANSWERS",
    "Answer",
    "Ask",
    "BadBenchmark",
    "Benchmark",
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
    "user",
]
