"""A worker: answers items concurrently and commits them in batches. No Ray.

An item is answered in one event loop. Its rows are written to the store as parts, and the ledger commits these.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.engine.ask import Ask, ConcurrencyLimiter, NoReply, failure_row
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Rows, all_tables
from summhay_ray.engine.spec.own_code import BadBenchmark
from summhay_ray.engine.state.items_left import ITEM
from summhay_ray.engine.work.queues import ItemResult, WorkItem
from summhay_ray.errors import UserError
from summhay_ray.llm import Batched, Gateway
from summhay_ray.outcome import Failed, Malformed
from summhay_ray.plugins import STOPS, error_line
from summhay_ray.store import Finished, Parts, RunStore

log = logging.getLogger(__name__)

COMMIT_EVERY_S = 2.0
ITEMS_A_COMMIT = 64
WORKERS_A_SECOND = 16
"""Maximum number of commits per second over all workers. With more workers, each waits longer and commits more at a time."""


class Answered:
    """An answered item: its rows, and whether to try it again or leave it unfinished."""

    def __init__(self, item_id: str, rows: dict[str, list[Any]], ask: Ask) -> None:
        self.item_id, self.rows = item_id, rows
        self.retry, self.over_budget, self.stop = ask.retry, ask.over_budget, ask.stop


class Commits(Batched[Answered, None]):
    """Commits answered items in batches: when 64 items are ready, after some seconds, or when no other item is in progress."""

    _under_way = 0

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """A context around answering an item, so that a commit may wait for it."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self.look()

    def is_enough(self, waiting: int) -> bool:
        """See `Batched`."""
        return waiting >= ITEMS_A_COMMIT or not self._under_way


class Worker:
    """Answers items of one workload through one gateway.

    `commit` commits parts, and `count` adds to the run's counters; both go to the ledger. `workers` is the number of workers.
    """

    def __init__(
        self,
        workload: Workload[Any],
        run: RunStore,
        gateway: Gateway,
        commit: Callable[[Parts], Awaitable[None]],
        count: Callable[[Mapping[str, int]], None],
        workers: int = 1,
    ) -> None:
        self._workload, self._run, self._gateway = workload, run, gateway
        self._commit_parts, self._count = commit, count
        self._limiter = ConcurrencyLimiter(workload.models.settings())
        self._commits = Commits(self._commit, max(COMMIT_EVERY_S, workers / WORKERS_A_SECOND))

    async def answer(self, batch: Sequence[WorkItem]) -> list[ItemResult]:
        """Answer and commit a batch. Items that the budget stopped are not committed."""
        return list(await asyncio.gather(*map(self._item, batch)))

    async def end(self) -> None:
        """Return when the items that are answered are committed. Call it only when no more items are answered."""
        await self._commits.settled()

    async def _item(self, work: WorkItem) -> ItemResult:
        with self._commits.under_way():
            ask = Ask(self._workload, work.item, self._gateway.complete, self._limiter)
            done = await answered(self._workload, work, ask)
        if not done.over_budget:
            await self._commits(done)
        if done.stop is not None:
            raise done.stop
        counted, failures = len(done.rows.get(self._workload.counted.table, ())), done.rows.get("failures", ())
        for row in failures:
            log.warning("%s: %s failed: %s, attempts %d", done.item_id, row.stage or "item", row.error, row.attempts)
        return ItemResult(done.item_id, done.over_budget, counted, len(failures))

    async def _commit(self, ready: Sequence[Answered]) -> Sequence[None]:
        await self._commit_parts(await asyncio.to_thread(self._written, ready))
        failed = [done for done in ready if done.rows.get("failures")]
        self._count(
            {
                "items_done": len(ready),
                "counted": sum(len(done.rows.get(self._workload.counted.table, ())) for done in ready),
                "failures": sum(len(done.rows["failures"]) for done in failed),
                "items_failed": len(failed),
            }
        )
        return [None] * len(ready)

    def _written(self, ready: Sequence[Answered]) -> Parts:
        """Write the items' rows to the store. An item with a value that its column cannot hold becomes a failure; the others are
        written as they are."""

        def write() -> Parts:
            return self._run.write(ITEM, [Finished(done.item_id, done.rows, done.retry) for done in ready])

        try:
            return write()
        except (TypeError, ValueError, OverflowError):
            flaws = {done.item_id: flaw for done in ready if (flaw := flaw_of_values(self._workload, done.rows))}
            if not flaws:
                raise
        for done in ready:
            if done.item_id in flaws:
                failure = failure_row(
                    self._workload, done.item_id, "", Malformed("benchmark_error", flaws[done.item_id], attempts=0), {}
                )
                done.rows = {"failures": [failure], **{name: rows for name, rows in done.rows.items() if name == "raw_answers"}}
        return write()


async def answered(workload: Workload[Any], work: WorkItem, ask: Ask) -> Answered:
    """Answer an item and collect its rows. Raises only errors that stop the run, such as a full disk or an unreachable store."""
    rows: Rows = {}
    ask.prepared = work.prepared
    if work.problem is not None:
        problem = dict(work.problem)
        ask.fail(problem.pop("stage"), Failed(**problem))
    else:
        rows = await _rows(workload, work, ask)
    tables = {table: list(records) for table, records in rows.items() if len(records)}
    if ask.raw:
        tables["raw_answers"] = [ask.raw[key] for key in sorted(ask.raw)]
    if ask.failures:
        tables["failures"] = ask.failures
    return Answered(work.item.id, tables, ask)


async def _rows(workload: Workload[Any], work: WorkItem, ask: Ask) -> Rows:
    try:
        rows = await workload.answer(work.item, ask)
        check_rows(workload, rows)
        return rows
    except NoReply as none:
        ask.record(none)
    # The other items would most likely fail in the same way: the run stops when this item's failure is committed.
    except BadBenchmark as error:
        ask.fail("", Failed("benchmark_error", str(error), retryable=True))
        ask.stop = BadBenchmark(f"{error} (item {work.item.id!r})")
    except (OSError, UserError, *STOPS):
        raise
    # The benchmark's own code may raise anything. Only this item fails.
    except BaseException as error:  # noqa: BLE001
        ask.fail("", Failed("benchmark_error", error_line(error), retryable=True))
    return {}


def check_rows(workload: Workload[Any], rows: Any) -> None:
    """Raises BadBenchmark for rows of an undeclared table or of the wrong class, and for two rows with the same key."""
    tables = {table.name: table for table in all_tables(type(workload))}
    if not isinstance(rows, Mapping):
        mend = "`return {TABLE: [rows]}`"
        raise BadBenchmark(f"{workload.kind}: answer gives {type(rows).__name__}; expected a mapping of table to rows: {mend}")
    for name, records in rows.items():
        if name not in tables or name in ("raw_answers", "failures"):
            known = ", ".join(sorted(set(tables) - {"raw_answers", "failures"})) or "none"
            raise BadBenchmark(f"{workload.kind} gives rows of a table {name!r} that it does not declare; its tables: {known}")
        if not isinstance(records, Sequence) or isinstance(records, str):
            raise BadBenchmark(f"{workload.kind} gives {type(records).__name__} as the rows of {name}; expected a list of them")
        wanted, keys = tables[name].record, set()
        for record in records:
            if not isinstance(record, wanted):
                raise BadBenchmark(
                    f"{workload.kind} gives {type(record).__name__} as a row of {name}; expected {wanted.__name__}"
                )
            key = tuple([getattr(record, column) for column in tables[name].key])
            if key in keys:
                same = f"{', '.join(tables[name].key)} is {', '.join(map(repr, key))}"
                raise BadBenchmark(f"{workload.kind}: one item gives two rows of {name} whose {same}; add to the table's key")
            keys.add(key)


def flaw_of_values(workload: Workload[Any], rows: Rows) -> str:
    """A line about the first value of an item's rows that its column cannot hold; empty if there is none."""
    for table in all_tables(type(workload)):
        for record in rows.get(table.name, ()):
            if (name := table.columns.flaw(record)) is not None:
                value = f"{getattr(record, name)!r:.80} ({type(getattr(record, name)).__name__})"
                kind = next(column["type"] for column in table.columns.to_json()["columns"] if column["name"] == name)
                return f"{workload.kind} gives a row of {table.name} whose {name} is {value}; expected {kind}"
    return ""
