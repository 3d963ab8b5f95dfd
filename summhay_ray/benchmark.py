"""Everything that you import to write a benchmark.

A benchmark is a subclass of `Benchmark[MySpec]` with `stages`, `tables` and four methods: `items`, `answer`, `score` and
`report`. The engine does the rest. To run it, write `kind: my_module:MyBenchmark` in a spec. docs/add-a-benchmark.md explains a
complete example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import polars as pl

from summhay_ray import metrics
from summhay_ray.engine import (
    ITEM,
    ITEM_ID,
    RAW_ANSWERS,
    Ask,
    BadBenchmark,
    ByQuery,
    Chart,
    Compat,
    Computation,
    Counted,
    Facet,
    Failure,
    Inputs,
    Item,
    Model,
    ModelSpec,
    NoAnswers,
    NoReply,
    Part,
    Pivot,
    Planner,
    Prepared,
    Queue,
    Reach,
    Replay,
    ResourcesSpec,
    Results,
    Rows,
    RunModels,
    RunReader,
    RunResult,
    SampleRecord,
    Samples,
    Section,
    Size,
    Spec,
    SpecError,
    Stage,
    StagePlan,
    Storage,
    Strict,
    Tables,
    Text,
    Unreadable,
    Workload,
    WorkloadPart,
    all_tables,
    answers_of,
    check_spec,
    expected_rows,
    first_request,
    load_workload,
    map_in_tasks,
    missing_keys,
    model_entry,
    model_settings,
    open_run,
    planning,
    ray_tasks,
    read_fields,
    read_json,
    run_of,
    run_workload,
    semantic_hash,
    table_pieces,
    validated,
    workload_of,
)
from summhay_ray.errors import UserError
from summhay_ray.llm import (
    QUERY_FIELD,
    LocalModel,
    Message,
    ModelSettings,
    RawAnswer,
    Request,
    Unpriced,
    assistant,
    find_price,
    find_window,
    is_local,
    is_service,
    scores_of,
    system,
    user,
    vectors_of,
)
from summhay_ray.llm import Ask as AskModel
from summhay_ray.local_models import LocalModels
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.store import (
    ATTRIBUTION,
    AnswerTotals,
    Chain,
    Finished,
    LogIndex,
    Parts,
    RunStore,
    Store,
    StoreError,
    Table,
    VectorSpace,
    as_record,
    columns_of,
)

S = TypeVar("S", bound=Spec)
W = TypeVar("W", bound=Workload[Any])


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer whose bullets (or sentences) cite documents, as `[3]` or `[DOCUMENT_ID]`."""

    haystack_id: str
    """The documents that it is about: a name in `CitedAnswers.documents`."""
    query_id: str
    system: str
    """Who answered; of several answers to one query, a name for each."""
    bullets: tuple[str, ...]
    shown: tuple[str, ...] | None = None
    """Ids of the documents that the system was shown; None if nobody knows."""
    label: str = ""
    """The system's name for people; by default `system`."""
    model: str = ""
    retriever: str = ""
    ordering: str = ""
    """The system's parts, where they are known."""
    error: str = ""
    """Why the answer cannot be read; empty if it can."""
    cited: tuple[tuple[str, ...], ...] | None = None
    """The ids of the documents that each bullet cites, where the answer lists them; None: they are read from the bullets."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.system)


@dataclass(frozen=True, slots=True)
class CitedAnswers:
    """What `summhay support` judges: answers, and the documents that they may cite."""

    documents: Mapping[str, Sequence[tuple[str, str]]]
    """Name -> (document_id, text) of each document, in the order in which citations number them, from 1."""
    answers: Sequence[CitedAnswer]


class Reader(RunReader[W]):
    """What is read of a stored run: results, report, samples, and what led to each. By default all from `score` and `report`."""

    def cited_answers(self, run: RunStore) -> CitedAnswers:
        """The answers of a stored run, for `summhay support`: return them where your benchmark's answers rest on documents."""
        kind = run.record["kind"]
        raise UserError(f"{run.run_id} is of kind {kind}, whose answers cite no documents; give a run of summaries")


class Benchmark(Workload[S]):
    """The base class of a benchmark; an instance is one run. Models named `offline/...` run in the worker and need no key."""

    reader = Part[Reader[Any]](Reader)
    own_models: Sequence[Any] = ()
    """The benchmark's own models that need no key (classes with the interface of `LocalModel`)."""

    def _local_models(self) -> Mapping[str, LocalModel]:
        return LocalModels((model() for model in self.own_models), self.inputs.folder)


def mean_interval(
    frame: pl.DataFrame,
    value: str,
    by: str | Sequence[str],
    expected: pl.DataFrame | None = None,
    cluster: str = "",
    bounds: tuple[float, float] | None = None,
) -> pl.DataFrame:
    """The mean of a column for each group, the 95 % interval of that mean, and what it lacks.

    Columns of the result, sorted by group: those of `by`, VALUE, VALUE_low, VALUE_high, VALUE_reason (why there is no interval,
    else null), `n` (rows that have a value), `n_expected`, and VALUE_floor, the mean with every missing row as 0 (null if nobody
    knows how many rows are missing).

    The interval is a cluster t's that stays within `bounds`, the least and the greatest value that is possible (if None, 0 and 1
    where all values lie within these, else unknown), and Wilson's (1927) for booleans of independent rows. With fewer than six
    independent rows it is null. Rows of one item depend on one another and count as one; `cluster` names a column whose equal
    values count as one instead, such as the document that several items are about.

    Expected are the rows that are there, and those of the run's items that failed or are not answered yet: as many for each as
    every answered item has in the group (if these differ, one, and no floor is known). A group all of whose items failed is
    listed, too, if the data of the items name it. `expected` names other items (rows of the items' frame), or rows of your
    own, each of which stands for one row of `frame`.
    """
    names = [by] if isinstance(by, str) else list(by)
    rows = expected_rows(frame, value, names, expected)
    item = ITEM_ID if ITEM_ID in frame.columns and ITEM_ID not in names else ""
    found = metrics.mean_interval(frame, value, names, expected if rows is None else None, cluster, item, bounds)
    if rows is None:
        return found
    both = found.join(rows, on=names, how="full", coalesce=True, nulls_equal=True).with_columns(pl.col("n").fill_null(0))
    floor = pl.when(~pl.col("guessed")).then(metrics.floor_of(value)).alias(f"{value}_floor")
    return both.with_columns(floor).drop("guessed").sort(names)


__all__ = [
    "ATTRIBUTION",
    "ITEM",
    "QUERY_FIELD",
    "RAW_ANSWERS",
    "Answer",
    "AnswerTotals",
    "Ask",
    "AskModel",
    "BadBenchmark",
    "Benchmark",
    "ByQuery",
    "Chain",
    "Chart",
    "CitedAnswer",
    "CitedAnswers",
    "Compat",
    "Computation",
    "Counted",
    "Facet",
    "Failed",
    "Failure",
    "Finished",
    "Inputs",
    "Item",
    "LocalModel",
    "LogIndex",
    "Malformed",
    "Message",
    "Model",
    "ModelSettings",
    "ModelSpec",
    "NoAnswers",
    "NoReply",
    "Outcome",
    "Part",
    "Parts",
    "Pivot",
    "Planner",
    "Prepared",
    "Queue",
    "RawAnswer",
    "Reach",
    "Reader",
    "Refusal",
    "Replay",
    "Request",
    "ResourcesSpec",
    "Results",
    "Rows",
    "RunModels",
    "RunResult",
    "RunStore",
    "SampleRecord",
    "Samples",
    "Section",
    "Size",
    "Spec",
    "SpecError",
    "Stage",
    "StagePlan",
    "Storage",
    "Store",
    "StoreError",
    "Strict",
    "Table",
    "Tables",
    "Text",
    "Unpriced",
    "Unreadable",
    "VectorSpace",
    "Workload",
    "WorkloadPart",
    "all_tables",
    "answers_of",
    "as_record",
    "assistant",
    "check_spec",
    "columns_of",
    "find_price",
    "find_window",
    "first_request",
    "is_local",
    "is_service",
    "load_workload",
    "map_in_tasks",
    "mean_interval",
    "missing_keys",
    "model_entry",
    "model_settings",
    "open_run",
    "planning",
    "ray_tasks",
    "read_fields",
    "read_json",
    "run_of",
    "run_workload",
    "scores_of",
    "semantic_hash",
    "system",
    "table_pieces",
    "user",
    "validated",
    "vectors_of",
    "workload_of",
]
