"""The items of a run, and which of them are finished, when it starts or resumes."""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import BadBenchmark, Item, Prepared, reading
from summhay_ray.engine.spec.spec import suggestion
from summhay_ray.errors import UserError
from summhay_ray.outcome import Failed
from summhay_ray.plugins import error_line
from summhay_ray.store import RunStore

ITEM = "item"
"""The kind of an item's rows in the store, in every benchmark."""
PREPARED = "prepared"
"""The kind of the rows that `prepare` makes, in every benchmark."""


@dataclass(frozen=True)
class RunState:
    """The items that a start covers, and the ids of the finished ones, which are not answered again."""

    sources: Mapping[str, Sequence[Item]]
    """Source -> its items; with `--limit`, only those that the start covers."""
    total: int
    """Number of items of the workload."""
    finished: frozenset[str]
    """Ids of finished items, including those that the start does not cover."""

    def left(self) -> Mapping[str, Sequence[Item]]:
        """The unfinished items that this start covers, by source, in the workload's order."""
        if not self.finished:
            # No copy: a large run has many sources.
            return self.sources
        left = {source: [item for item in items if item.id not in self.finished] for source, items in self.sources.items()}
        return {source: items for source, items in left.items() if items}


def checked_items(workload: Workload[Any]) -> Iterator[Item]:
    """The workload's items. Raises BadBenchmark for anything but an `Item`, a repeated id, or an unknown queue."""
    queues, seen = workload.queues(), set()
    with reading(f"{workload.kind}: items", "mend it and run again"):
        for item in workload.items():
            if not isinstance(item, Item):
                raise BadBenchmark(f"{workload.kind}: items gives {type(item).__name__}; expected Item(...)")
            if not isinstance(item.id, str) or not item.id:
                raise BadBenchmark(f"{workload.kind}: an item has the id {item.id!r}; expected a text that says what it is")
            if not isinstance(item.data, Mapping):
                given = type(item.data).__name__
                raise BadBenchmark(
                    f"{workload.kind}: the data of item {item.id!r} is {given}; expected a mapping of name to value"
                )
            if item.id in seen:
                raise BadBenchmark(
                    f"{workload.kind}: two items have the id {item.id!r}; an item is answered once, so give each its own"
                )
            if item.queue not in queues:
                raise BadBenchmark(
                    f"{workload.kind}: item {item.id!r} waits in a queue {item.queue!r}{suggestion(item.queue, queues)}"
                )
            seen.add(item.id)
            yield item


def prepared(workload: Workload[Any], source: str, items: Sequence[Item], planning: bool = False) -> Prepared:
    """The prepared data of a source's items, or a problem if the benchmark's code raises. Raises OSError, UserError and, in the
    main thread, KeyboardInterrupt.

    `planning`: call the cheaper `sketch` instead of `prepare`.
    """
    try:
        return workload.sketch(source, items) if planning else workload.prepare(source, items)
    except (OSError, UserError):
        raise
    # The benchmark's own code may raise anything. Only this source's items fail.
    except BaseException as error:
        # Ctrl-C interrupts only the main thread.
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return Prepared(problem=Failed("benchmark_error", error_line(error), retryable=True))


def state_of(workload: Workload[Any], run: RunStore, limit: int | None = None) -> RunState:
    """The state of the workload's run; with a `limit`, it covers only that many items. Raises BadBenchmark, as `checked_items`
    does."""
    items = [*checked_items(workload)]
    chosen = None
    if limit is not None:
        with reading(f"{workload.kind}: fair_order", "mend it and run again"):
            chosen = {item.id for item in workload.fair_order(items)[:limit]}
    sources: dict[str, list[Item]] = {}
    for item in items:
        if chosen is None or item.id in chosen:
            sources.setdefault(item.source, []).append(item)
    return RunState(sources, len(items), finished_items(run))


def finished_items(run: RunStore) -> frozenset[str]:
    """The ids of the items that are committed and not to be tried again."""
    return frozenset(run.units(ITEM).filter(~pl.col("retry"))["unit"])


def item_counts(run: RunStore, total: int) -> dict[str, int]:
    """Numbers of items: `total`, `done` (committed without a failure) and `failed`."""
    committed, failures = run.units(ITEM)["unit"], run.table("failures")
    n_failed = int(committed.is_in(failures.to_series(0).unique().implode()).sum())
    return {"total": total, "done": len(committed) - n_failed, "failed": n_failed}


def failure_counts(run: RunStore) -> dict[str, int]:
    """Error of a failure -> the number of answers that are missing or unusable because of it: the rows of `failures`."""
    return dict(sorted(Counter(run.table("failures", columns=["error"])["error"].to_list()).items()))


def commonest_failure(run: RunStore) -> dict[str, Any] | None:
    """The most frequent class of failure (`count`, `stage`, `error`) and its most frequent `message`; None without failures."""
    failures = run.table("failures")
    if not failures.height:
        return None
    order = ["len", "stage", "error", "message"]
    counted = failures.group_by("stage", "error", "message").agg(pl.len()).sort(order, descending=[True, False, False, False])
    classes = counted.group_by("stage", "error", maintain_order=True).agg(pl.col("len").sum(), pl.col("message").first())
    top = classes.sort("len", descending=True, maintain_order=True).row(0, named=True)
    return {"count": top.pop("len"), **top}


def answers_used(run: RunStore) -> int:
    """Number of answers that the run's rows use, counted per item: an answer that two items share counts twice."""
    failures = run.table("failures")
    item = failures.columns[0]
    used = failures.filter(pl.col("kind") != "failed").select(item, "key")
    named = (name for name, table in run.declared.items() if name != "failures" and {item, "key"} <= set(table.schema.names))
    pieces = (piece.select(item, "key") for name in named for piece in run.pieces(name, [item, "key"]))
    # As hashes, the pairs of a large run take a tenth of the memory.
    pairs = [some.filter(pl.col("key") != "").select(pl.struct(item, "key").hash()) for some in itertools.chain([used], pieces)]
    # Some answers are used without being named by a row.
    return max(pl.concat(pairs).n_unique(), int(answer_counts(run)["n"].sum()))


def answer_counts(run: RunStore) -> pl.DataFrame:
    """The run's raw answers, counted by `model`, `origin` and `finish_reason`: their number `n`, and the sum of
    `zero_vectors`."""
    by, figures = ["model", "origin", "finish_reason"], ["n", "zero_vectors"]
    pieces = run.pieces("raw_answers", [*by, "zero_vectors"])
    counted = (piece.with_columns(n=pl.lit(1)).group_by(by).agg(pl.col(figures).cast(pl.Int64).sum()) for piece in pieces)
    return pl.concat(counted).group_by(by).agg(pl.col(figures).sum())
