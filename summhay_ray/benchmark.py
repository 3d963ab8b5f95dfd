"""The names to import when you write a benchmark.

A benchmark is a subclass of `Benchmark[MySpec]` with `stages`, `tables` and four methods: `items`, `answer`, `score` and
`report`. The engine does the rest. To run it, write `kind: my_module:MyBenchmark` in a spec.
docs/tutorials/add-a-benchmark.md explains a complete example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from summhay_ray import engine, metrics
from summhay_ray.engine import (
    ITEM,
    ITEM_ID,
    Ask,
    ByQuery,
    Chart,
    Compat,
    Counted,
    Inputs,
    Item,
    Model,
    ModelSpec,
    NoReply,
    Prepared,
    Queue,
    Reach,
    Results,
    Rows,
    RunModels,
    RunTables,
    Samples,
    Section,
    Spec,
    Stage,
    Strict,
    Tables,
    Text,
    Unreadable,
    Workload,
    all_tables,
    expected_rows,
    read_json,
)
from summhay_ray.errors import SpecError, UserError
from summhay_ray.llm import LocalModel, RawAnswer, Request, assistant, system, user
from summhay_ray.local_models import LocalModels
from summhay_ray.records import CitedAnswers
from summhay_ray.store import Chain, RunStore, Store, Table, VectorSpace, columns_of

S = TypeVar("S", bound=Spec)


class Benchmark(Workload[S]):
    """The base class of a benchmark. An instance is one run. Models named `offline/...` run in the worker and need no key."""

    own_models: Sequence[Any] = ()
    """The benchmark's own models that need no key: classes with a `name`, a `revision` and a method `answer(request) -> str`."""

    def _local_models(self) -> Mapping[str, LocalModel]:
        return LocalModels((model() for model in self.own_models), self.inputs.folder)

    results = engine.compute_results

    def samples(self, run: RunStore, judge: str = "") -> Samples:
        return engine.item_samples(self, run)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        return engine.explain_item(self, run, key)

    def cited_answers(self, run: RunStore) -> CitedAnswers:
        """Return the answers of a stored run, for `summhay support`. Override this method if your benchmark's answers are based
        on documents."""
        kind = run.record["kind"]
        raise UserError(f"{run.run_id} is of kind {kind}, whose answers cite no documents; give a run of summaries")

    # --- other runs and other benchmarks --------------------------------------------------------------------------------

    @staticmethod
    def load(spec: str | Path, inputs: Inputs, overrides: Iterable[str] = ()) -> Benchmark[Any]:
        """Return the benchmark of another spec. It uses the store of `inputs`, the files of this spec, and is trusted like them.
        Raises SpecError."""

        def store(_: Spec) -> Store:
            if inputs.store is None:
                raise SpecError(f"spec: {str(spec)!r} reads a store; give the store")
            return inputs.store

        return _checked(engine.load_workload(spec, overrides, store, untrusted=inputs.untrusted))

    @staticmethod
    def of(run: RunStore) -> Benchmark[Any]:
        """Return the benchmark of a stored run. Raises UnknownName, or DamagedRecord if the run's record is damaged."""
        return _checked(engine.workload_of(run))

    @staticmethod
    def finished_items(run: RunStore) -> pl.DataFrame:
        """Return the finished items of a run, with the columns `unit` (the item's id) and `retry` (whether it has a failure that
        may be retried)."""
        return run.units(ITEM)

    @staticmethod
    def stored_answers(run: RunStore) -> Iterator[tuple[str, Any]]:
        """Yield a run's raw answers for the shelf `answers` of `Samples`, as (key, the fields that are not empty)."""
        return engine.answers_of(run)

    @staticmethod
    def vector_space(store: Store | None, name: str) -> VectorSpace:
        """Return a cache for numbers that are computed from texts. It is in the store and shared by all runs, or in memory
        without a store."""
        return VectorSpace(None if store is None else store.files, name)

    @classmethod
    def run_in(cls, store: Store, run_id: str, record: Mapping[str, Any] | None = None) -> RunStore:
        """Return a run of this kind whose rows come from elsewhere, such as an import, instead of models. With a `record`, the
        run is created in the store if it does not exist. Without one, any process may write rows for the run before it is
        created."""
        tables = all_tables(cls)
        return (
            RunStore(store, run_id, declared=columns_of(tables)) if record is None else store.create_run(run_id, record, tables)
        )

    def first_request(self, item: Item) -> Request | None:
        """Return the first request of an item, without sending it; None if the item asks nothing or cannot be prepared. Raises
        BadBenchmark."""
        return engine.first_request(self, item)

    def calls(self, run: RunStore, item: Item) -> list[dict[str, Any]]:
        """Return the calls of an item, as JSON: stage, key, prompt, raw answer (None if there is none), and failed attempts."""
        return engine.calls_of(self, run, item)


def _checked(workload: Workload[Any]) -> Benchmark[Any]:
    assert isinstance(workload, Benchmark), f"{type(workload).__name__} is not a summhay_ray.benchmark.Benchmark"
    return workload


def mean_interval(
    frame: pl.DataFrame,
    value: str,
    by: str | Sequence[str],
    expected: pl.DataFrame | None = None,
    cluster: str = "",
    bounds: tuple[float, float] | None = None,
) -> pl.DataFrame:
    """Compute a column's mean for each group, the 95 % interval of the mean, and the number of missing rows.

    The result is sorted by group. Its columns are `by`, VALUE, VALUE_low, VALUE_high, VALUE_reason (why there is no interval,
    else null), `n` (rows that have a value), `n_expected`, and VALUE_floor. The floor is the mean if every missing row counts as
    0; it is null if the number of missing rows is unknown.

    The interval allows for clustered data. It stays within `bounds`, the smallest and the largest possible value; if None, these
    are 0 and 1 if all values are within them, else unknown. For booleans of independent rows, it is Wilson's (1927). With fewer
    than six independent rows, it is null. Rows of one item depend on each other, and count as one unit. If `cluster` names a
    column, rows with the same value in it are a unit instead, such as all items about one document.

    The expected rows are the existing rows and those of the run's failed or unanswered items. For each of these items, as many
    rows are expected as an answered item has in the group. If answered items differ, one row is expected, and the floor is null.
    A group without any answered item is also listed if the items' data name it. `expected` replaces the expected items: rows of
    the items' frame, or your own rows, each of which stands for one row of `frame`.
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
    "Ask",
    "Benchmark",
    "ByQuery",
    "Chain",
    "Chart",
    "Counted",
    "Inputs",
    "Item",
    "Model",
    "ModelSpec",
    "NoReply",
    "Prepared",
    "Queue",
    "RawAnswer",
    "Reach",
    "Request",
    "Results",
    "Rows",
    "RunModels",
    "RunStore",
    "RunTables",
    "Section",
    "Spec",
    "Stage",
    "Store",
    "Strict",
    "Table",
    "Tables",
    "Text",
    "Unreadable",
    "assistant",
    "mean_interval",
    "read_json",
    "system",
    "user",
]
