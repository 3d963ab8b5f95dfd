"""A worker: answers items, as many at once as come, and commits them together. Part of the engine room; no Ray.

Everything of an item happens in one event loop; its rows go to the store as a block, and the ledger's side makes blocks count.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.engine.ask import Ask, ConcurrencyLimiter, NoReply, failure_row
from summhay_ray.engine.contract import Rows, Workload
from summhay_ray.engine.own_code import BadBenchmark
from summhay_ray.engine.queues import ItemResult, WorkItem
from summhay_ray.engine.state import ITEM
from summhay_ray.errors import UserError
from summhay_ray.llm import Gateway
from summhay_ray.outcome import Failed, Malformed
from summhay_ray.plugins import STOPS, told
from summhay_ray.store import Block, Finished, RunStore

COMMIT_EVERY_S = 2.0
ITEMS_A_COMMIT = 64
WORKERS_A_SECOND = 16
"""Commits a second over all workers, at most: with more of them each waits longer, and its blocks are larger."""


class Answered:
    """An item's rows, and what is to be done about it."""

    def __init__(self, item_id: str, rows: dict[str, list[Any]], ask: Ask) -> None:
        self.item_id, self.rows = item_id, rows
        self.retry, self.over_budget = ask.retry, ask.over_budget


class Commits:
    """Commits items together: when 64 are ready, after two seconds, or when no other item is under way; one commit at a time."""

    def __init__(self, commit: Callable[[Sequence[Answered]], Awaitable[None]], every_s: float = COMMIT_EVERY_S) -> None:
        self._commit = commit
        self._every_s = every_s
        self._under_way = 0
        self._ready: list[tuple[Answered, asyncio.Future[None]]] = []
        self._full = asyncio.Event()
        self._trip: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """While an item is being answered: a commit may wait for it."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._look()

    async def keep(self, done: Answered) -> None:
        """Return when the item is committed. Raises what the commit raised, for every item of it."""
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.append((done, kept))
        self._look()
        if self._trip is None or self._trip.done():
            self._trip = asyncio.create_task(self._run())
        await kept

    def _look(self) -> None:
        if len(self._ready) >= ITEMS_A_COMMIT or not self._under_way:
            self._full.set()

    async def _run(self) -> None:
        while self._ready:
            self._full.clear()
            self._look()
            # Not `wait_for`, which before Python 3.12 loses a cancellation that comes with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._full.wait()
            batch, self._ready = self._ready, []
            try:
                await self._commit([done for done, _ in batch])
            # The border between a commit and its items: whatever went wrong is theirs to raise.
            except Exception as error:  # noqa: BLE001
                for _, kept in batch:
                    if not kept.done():
                        kept.set_exception(error)
                continue
            for _, kept in batch:
                if not kept.done():
                    kept.set_result(None)


class Worker:
    """Answers items of one workload through one gateway.

    `commit` makes a block count; `count` adds to the run's counters. Both are the ledger's side.
    """

    def __init__(
        self,
        workload: Workload[Any],
        run: RunStore,
        gateway: Gateway,
        commit: Callable[[Block], Awaitable[None]],
        count: Callable[[Mapping[str, int]], None],
        workers: int = 1,
    ) -> None:
        self._workload, self._run, self._gateway = workload, run, gateway
        self._commit_block, self._count = commit, count
        self._limiter = ConcurrencyLimiter(workload.settings())
        self._commits = Commits(self._commit, max(COMMIT_EVERY_S, workers / WORKERS_A_SECOND))

    async def answer(self, batch: Sequence[WorkItem]) -> list[ItemResult]:
        """Answer a batch; items that the budget stopped are not committed."""
        return list(await asyncio.gather(*map(self._item, batch)))

    async def _item(self, work: WorkItem) -> ItemResult:
        with self._commits.under_way():
            done = await answered(self._workload, work, Ask(self._workload, work.item, self._gateway.complete, self._limiter))
        if not done.over_budget:
            await self._commits.keep(done)
        counted = len(done.rows.get(self._workload.counted.table, ()))
        return ItemResult(done.item_id, done.over_budget, counted, len(done.rows.get("failures", ())))

    async def _commit(self, ready: Sequence[Answered]) -> None:
        await self._commit_block(await asyncio.to_thread(self._written, ready))
        failed = [done for done in ready if done.rows.get("failures")]
        self._count(
            {
                "items_done": len(ready),
                "counted": sum(len(done.rows.get(self._workload.counted.table, ())) for done in ready),
                "failures": sum(len(done.rows["failures"]) for done in failed),
                "items_failed": len(failed),
            }
        )

    def _written(self, ready: Sequence[Answered]) -> Block:
        """The items' rows in the store; an item whose rows no column can hold is a failure there, and in the way of no other."""

        def write() -> Block:
            return self._run.write(ITEM, [Finished(done.item_id, done.rows, done.retry) for done in ready])

        try:
            return write()
        except (TypeError, ValueError, OverflowError, NotImplementedError):
            found = {done.item_id: flaw_of_values(self._workload, done.rows) for done in ready}
            flaws = {item_id: flaw for item_id, flaw in found.items() if flaw}
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
    """All rows of an item. Raises only what no row can hold (a full disk, a store that is away)."""
    rows: Rows = {}
    ask.prepared = work.prepared
    if work.problem is not None:
        told = dict(work.problem)
        ask.fail(told.pop("stage"), Failed(**told))
    else:
        rows = await _rows(workload, work, ask)
    found = {table: list(one) for table, one in rows.items() if len(one)}
    if ask.raw:
        found["raw_answers"] = [ask.raw[key] for key in sorted(ask.raw)]
    if ask.failures:
        found["failures"] = ask.failures
    return Answered(work.item.id, found, ask)


async def _rows(workload: Workload[Any], work: WorkItem, ask: Ask) -> Rows:
    try:
        rows = await workload.answer(work.item, ask)
        check_rows(workload, rows)
        return rows
    except NoReply as none:
        ask.gives_up(none)
    except (OSError, UserError, *STOPS):
        raise
    # The border to a benchmark's own code: what goes wrong there is the item's row, and stops no other item.
    except BaseException as error:  # noqa: BLE001
        ask.fail("", Failed("benchmark_error", told(error), retryable=True))
    return {}


def check_rows(workload: Workload[Any], rows: Any) -> None:
    """Raises BadBenchmark for rows of a table that the benchmark did not declare, of another class, or two with one key."""
    tables = {table.name: table for table in workload.all_tables()}
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
            key = tuple(getattr(record, one) for one in tables[name].key)
            if key in keys:
                told = f"{', '.join(tables[name].key)} is {', '.join(map(repr, key))}"
                raise BadBenchmark(f"{workload.kind}: one item gives two rows of {name} whose {told}; add to the table's key")
            keys.add(key)


def flaw_of_values(workload: Workload[Any], rows: Rows) -> str:
    """The first value of an item's rows that its column cannot hold, in one line; empty where there is none."""
    for table in workload.all_tables():
        for record in rows.get(table.name, ()):
            if (name := table.columns.flaw(record)) is not None:
                told = f"{getattr(record, name)!r:.80} ({type(getattr(record, name)).__name__})"
                kind = next(one["type"] for one in table.columns.described() if one["name"] == name)
                return f"{workload.kind} gives a row of {table.name} whose {name} is {told}; expected {kind}"
    return ""
