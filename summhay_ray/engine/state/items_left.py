"""The items of a run, the finished ones among them, and counts of the run's answers and failures."""

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
"""The kind of units in the store for the rows of items, in every benchmark."""
PREPARED = "prepared"
"""The kind of units in the store for the rows of `prepare`, in every benchmark."""


@dataclass(frozen=True)
class RunState:
    """The items that a start covers, and the ids of finished items, which are not answered again."""

    sources: Mapping[str, Sequence[Item]]
    """Source -> its items; with `--limit`, only those that the start covers."""
    total: int
    """Number of items of the workload."""
    finished: frozenset[str]
    """Ids of finished items, including items that the start does not cover."""

    def left(self) -> Mapping[str, Sequence[Item]]:
        """Return the unfinished items that this start covers, by source, in the workload's order."""
        if not self.finished:
            # Do not copy the sources, since a large run has many of them.
            return self.sources
        left = {source: [item for item in items if item.id not in self.finished] for source, items in self.sources.items()}
        return {source: items for source, items in left.items() if items}


def checked_items(workload: Workload[Any]) -> Iterator[Item]:
    """Yield the workload's items. Raises BadBenchmark if one is not an `Item`, or has an invalid or repeated id, invalid data or
    an unknown queue."""
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
    """Return the prepared data of a source's items, or a problem if the benchmark's code raises. Raises only OSError, UserError
    and, in the main thread, KeyboardInterrupt.

    `planning`: call the cheaper `sketch` instead of `prepare`.
    """
    try:
        return workload.sketch(source, items) if planning else workload.prepare(source, items)
    except (OSError, UserError):
        raise
    # The benchmark's own code may raise anything. Only this source's items fail.
    except BaseException as error:
        # Ctrl-C raises KeyboardInterrupt only in the main thread.
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return Prepared(problem=Failed("benchmark_error", error_line(error), retryable=True))


def state_of(workload: Workload[Any], run: RunStore, limit: int | None = None) -> RunState:
    """Return the state of the workload's run. With a `limit`, it covers only that many items. Raises BadBenchmark; see
    `checked_items`."""
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
    """Return the ids of the items that are committed and need no retry."""
    return frozenset(run.units(ITEM).filter(~pl.col("retry"))["unit"])


def item_counts(run: RunStore, total: int) -> dict[str, int]:
    """Return the numbers of items: `total`, `done` (committed without a failure) and `failed`."""
    committed, failures = run.units(ITEM)["unit"], run.table("failures")
    n_failed = int(committed.is_in(failures.to_series(0).unique().implode()).sum())
    return {"total": total, "done": len(committed) - n_failed, "failed": n_failed}


def failure_counts(run: RunStore) -> dict[str, int]:
    """Return error -> the number of its rows in `failures`, one for each answer that it made missing or unusable."""
    return dict(sorted(Counter(run.table("failures", columns=["error"])["error"].to_list()).items()))


def commonest_failure(run: RunStore) -> dict[str, Any] | None:
    """Return the most frequent class of failure (`count`, `stage`, `error`) and its most frequent `message`; None without
    failures."""
    failures = run.table("failures")
    if not failures.height:
        return None
    order = ["len", "stage", "error", "message"]
    counted = failures.group_by("stage", "error", "message").agg(pl.len()).sort(order, descending=[True, False, False, False])
    classes = counted.group_by("stage", "error", maintain_order=True).agg(pl.col("len").sum(), pl.col("message").first())
    top = classes.sort("len", descending=True, maintain_order=True).row(0, named=True)
    return {"count": top.pop("len"), **top}


def answers_used(run: RunStore) -> int:
    """Return the number of answers that the run's rows use, summed over items. So an answer that two items share counts twice."""
    failures = run.table("failures")
    item = failures.columns[0]
    used = failures.filter(pl.col("kind") != "failed").select(item, "key")
    named = (name for name, table in run.declared.items() if name != "failures" and {item, "key"} <= set(table.schema.names))
    pieces = (piece.select(item, "key") for name in named for piece in run.pieces(name, [item, "key"]))
    # Keep only hashes of the pairs, which need a tenth of the memory.
    pairs = [some.filter(pl.col("key") != "").select(pl.struct(item, "key").hash()) for some in itertools.chain([used], pieces)]
    # Some used answers are not named in any row, so the number of raw answers may be larger.
    return max(pl.concat(pairs).n_unique(), int(answer_counts(run)["n"].sum()))


def answer_counts(run: RunStore) -> pl.DataFrame:
    """Count the run's raw answers by `model`, `origin` and `finish_reason`: their number `n`, and the sum of `zero_vectors`."""
    by, figures = ["model", "origin", "finish_reason"], ["n", "zero_vectors"]
    pieces = run.pieces("raw_answers", [*by, "zero_vectors"])
    counted = (piece.with_columns(n=pl.lit(1)).group_by(by).agg(pl.col(figures).cast(pl.Int64).sum()) for piece in pieces)
    return pl.concat(counted).group_by(by).agg(pl.col(figures).sum())
