"""A worker, which prepares sources, answers items concurrently, and commits them in batches; and how the driver divides the items
into batches for its workers. Uses no Ray.

All items are answered in one event loop. Their rows are written to the store as parts, which the ledger commits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.engine.ask import Ask, NoReply, Parking, Turns, failure_row
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import BadBenchmark, Item, Rows, all_tables, reading
from summhay_ray.engine.run.queues import ItemResult, WorkItem, batch_text, family_of, read_batch
from summhay_ray.engine.state.items_left import ITEM, PREPARED, prepared
from summhay_ray.errors import UserError
from summhay_ray.llm import Gateway
from summhay_ray.loops import Batched
from summhay_ray.outcome import Failed, Malformed
from summhay_ray.plugins import STOPS, error_line
from summhay_ray.store import Finished, Parts, RunStore

log = logging.getLogger(__name__)

Left = Mapping[str, Sequence[Item]]
"""Source -> its unfinished items."""

SOURCES_A_BATCH = 32
"""Maximum number of sources in a batch. The sources of a batch are prepared, and their rows committed, together."""
AHEAD_A_WORKER = 2
"""Number of batches per worker that are prepared in advance."""
ITEMS_A_BLOCK = 256
"""Size of a block of items if nothing is prepared."""

Prepare = Callable[[str], tuple[Awaitable[str], int]]
"""Sends a batch to a worker. Returns the batch with its prepared data, and the worker's number."""

COMMIT_EVERY_S = 2.0
ITEMS_A_COMMIT = 128
COMMITS_A_SECOND = 16
"""Maximum number of commits per second by all workers. With more workers, each waits longer and commits more items at a time."""


def batches(left: Left, workers: int = 1) -> Iterator[dict[str, Sequence[Item]]]:
    """Yield the sources and their items in batches for the workers.

    The first batch of each worker is one source, so that calls begin soon. Later batches are large, but small enough that each
    worker gets several. All sources of a batch read the same input.
    """
    alike: dict[str, list[str]] = {}
    for source, items in left.items():
        alike.setdefault(items[0].reads, []).append(source)
    most, number = max(1, min(SOURCES_A_BATCH, len(left) // (4 * workers))), 0
    for sources in alike.values():
        start = 0
        while together := sources[start : start + (1 if number < workers else most)]:
            yield {source: left[source] for source in together}
            start, number = start + len(together), number + 1


def prepares(workload: Workload[Any]) -> bool:
    """Return whether the benchmark overrides `prepare` or `input_rows`."""
    own = type(workload)
    return own.prepare is not Workload.prepare or own.input_rows is not Workload.input_rows


def first_readers(workload: Workload[Any], run: RunStore, left: Left) -> Collection[str]:
    """Return the first source of each input whose rows are not stored yet. These rows are written when that source is
    prepared."""
    first: dict[str, str] = {}
    if type(workload).input_rows is not Workload.input_rows:
        there = set(run.units(PREPARED)["unit"])
        for source, items in left.items():
            if items[0].reads and items[0].reads not in there:
                first.setdefault(items[0].reads, source)
    return frozenset(first.values())


def divided(workload: Workload[Any], left: Left) -> tuple[Left, Left]:
    """Divide the items, by source, into (the items for the workers, the items for a pool).

    The items of a pool ask no provider. Since a source is prepared only once, the workers get all of its items if one of them
    asks a provider.
    """
    # Pools also do not ask models that have separate actors.
    settings, resources = workload.models.settings(), workload.spec.resources
    here = {
        name
        for name, queue in workload.queues().items()
        if all(settings[model].local for model in queue.models) and not family_of(queue.models, resources)
    }
    workers, pool = dict[str, Sequence[Item]](), dict[str, Sequence[Item]]()
    for source, items in left.items():
        free = [item for item in items if item.queue in here]
        called = [item for item in items if item.queue not in here]
        if called and prepares(workload):
            free, called = [], [*items]
        workers |= {source: called} if called else {}
        pool |= {source: free} if free else {}
    return workers, pool


def prepare_sources(workload: Workload[Any], sources: Left, first: Collection[str]) -> tuple[list[WorkItem], list[Finished]]:
    """Prepare sources. Returns (their items, with the prepared data or the problem; the rows to commit before the items are
    answered).

    `first`: the sources of `first_readers`.
    """
    works: list[WorkItem] = []
    finished: list[Finished] = []
    for source, items in sources.items():
        ready, problem = prepared(workload, source, items), None
        if ready.problem is not None:
            retry = getattr(ready.problem, "retryable", False)
            problem = {"stage": ready.stage, "error": ready.problem.error, "message": ready.problem.message, "retryable": retry}
        works += [WorkItem(item, ready.own.get(item.id, ready.shared), problem) for item in items]
        if rows := {table: list(records) for table, records in ready.rows.items() if len(records)}:
            finished.append(Finished(source, rows))
        if source in first:
            with reading(f"{workload.kind}: input_rows of {items[0].reads!r}", "mend it and run again"):
                finished.append(Finished(items[0].reads, workload.input_rows(items[0].reads)))
    return works, finished


async def work_items_of(
    left: Left, workload: Workload[Any], prepare: Prepare, workers: int, first: Collection[str]
) -> AsyncGenerator[Sequence[WorkItem], None]:
    """Yield the remaining items with their prepared data, in blocks. `workers`: the number of the run's workers. `first`: the
    sources of `first_readers`.

    Only a few batches are prepared in advance, so that prepared data does not accumulate in this process.
    """
    if not prepares(workload):
        items = [item for some in left.values() for item in some]
        for start in range(0, len(items), ITEMS_A_BLOCK):
            yield [WorkItem(item) for item in items[start : start + ITEMS_A_BLOCK]]
        return
    waiting: deque[tuple[Awaitable[str], int]] = deque()
    for sources in batches(left, workers):
        works = (WorkItem(item, writes_input=source in first) for source, items in sources.items() for item in items)
        waiting.append(prepare(batch_text([*works])))
        if len(waiting) > AHEAD_A_WORKER * workers:
            text, home = waiting.popleft()
            yield read_batch(await text, home)
    while waiting:
        text, home = waiting.popleft()
        yield read_batch(await text, home)


@dataclass
class Answered:
    """An answered item: its rows, and whether to retry it later or to leave it unfinished."""

    item_id: str
    rows: dict[str, list[Any]]
    retry: bool = False
    over_budget: bool = False
    stop: BadBenchmark | None = None
    """See `Ask.stop`."""


class Worker:
    """Answers the items of one workload through one gateway.

    `commit` commits parts, and `count` adds to the run's counters; both call the ledger. `workers` is the number of workers.
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
        settings = workload.models.settings()
        self._turns: Turns = {}
        self._batches = any(model.batch is not None for model in settings.values())
        # Commits when 128 items are ready, after some seconds, or when no other item is in progress. After the last item, wait
        # for `commits.settled()`.
        every_s = max(COMMIT_EVERY_S, workers / COMMITS_A_SECOND)
        self.commits: Batched[Answered, None] = Batched(self._commit, every_s, ITEMS_A_COMMIT)

    async def answer(self, batch: Sequence[WorkItem]) -> list[ItemResult]:
        """Answer and commit a batch. Items that the budget stopped are not committed."""
        return list(await asyncio.gather(*map(self._item, batch)))

    async def _item(self, work: WorkItem) -> ItemResult:
        with self.commits.under_way():
            ask = Ask(self._workload, work.item, self._gateway.complete, self._turns)
            done = await (self._parking(work, ask) if self._batches else answered(self._workload, work, ask))
        if done is None:
            return ItemResult(work.item.id, parked=tuple(ask.parking.requests) if ask.parking else ())
        if not done.over_budget:
            await self.commits(done)
        if done.stop is not None:
            raise done.stop
        counted, failures = len(done.rows.get(self._workload.counted.table, ())), done.rows.get("failures", ())
        for row in failures:
            log.warning("%s: %s failed: %s, attempts %d", done.item_id, row.stage or "item", row.error, row.attempts)
        return ItemResult(done.item_id, done.over_budget, counted, len(failures))

    async def _parking(self, work: WorkItem, ask: Ask) -> Answered | None:
        """Answer an item. Returns None if the item is parked because its requests wait for batches."""
        ask.parking = parking = Parking(work.decided)
        answering = asyncio.ensure_future(answered(self._workload, work, ask))
        try:
            both: set[asyncio.Future[Any]] = {answering, parking.over}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                return answering.result()
            answering.cancel()
            await asyncio.wait({answering})
            # The item may have ended anyway, if the benchmark's code caught the cancellation.
            return None if answering.cancelled() else answering.result()
        finally:
            answering.cancel()
            parking.close()

    async def _commit(self, ready: Sequence[Answered]) -> None:
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

    def _written(self, ready: Sequence[Answered]) -> Parts:
        """Write the items' rows to the store. If a value does not fit its column, the item becomes a failure; other items are not
        affected."""
        try:
            return self._run.write(ITEM, [Finished(done.item_id, done.rows, done.retry) for done in ready])
        except (TypeError, ValueError, OverflowError):
            flaws = {done.item_id: flaw for done in ready if (flaw := flaw_of_values(self._workload, done.rows))}
            if not flaws:
                raise
        for done in ready:
            if done.item_id in flaws:
                problem = Malformed("benchmark_error", flaws[done.item_id], attempts=0)
                failure = failure_row(self._workload, done.item_id, "", problem, {})
                done.rows = {"failures": [failure], **{name: rows for name, rows in done.rows.items() if name == "raw_answers"}}
        return self._run.write(ITEM, [Finished(done.item_id, done.rows, done.retry) for done in ready])


async def answered(workload: Workload[Any], work: WorkItem, ask: Ask) -> Answered:
    """Answer an item and collect its rows. Raises only errors that stop the run, for example if the disk is full."""
    rows: Rows = {}
    ask.prepared = work.prepared
    try:
        if work.problem is not None:
            problem = dict(work.problem)
            ask.fail(problem.pop("stage"), Failed(**problem))
        else:
            given = await workload.answer(work.item, ask)
            check_rows(workload, given)
            rows = given
    except NoReply as none:
        ask.record(none)
    # Other items would most likely fail in the same way, so the run stops when this item's failure is committed.
    except BadBenchmark as error:
        ask.fail("", Failed("benchmark_error", str(error), retryable=True))
        ask.stop = BadBenchmark(f"{error} (item {work.item.id!r})")
    except (OSError, UserError, *STOPS):
        raise
    # The benchmark's own code may raise anything. Only this item fails.
    except BaseException as error:  # noqa: BLE001
        ask.fail("", Failed("benchmark_error", error_line(error), retryable=True))
    tables = {table: list(records) for table, records in rows.items() if len(records)}
    if ask.raw:
        tables["raw_answers"] = [ask.raw[key] for key in sorted(ask.raw)]
    if ask.failures:
        tables["failures"] = ask.failures
    return Answered(work.item.id, tables, ask.retry, ask.over_budget, ask.stop)


def check_rows(workload: Workload[Any], rows: Any) -> None:
    """Raise BadBenchmark for rows of an undeclared table or of the wrong class, and for two rows with the same key."""
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
    """Return a line about the first value of an item's rows that does not fit its column; empty if there is none."""
    for table in all_tables(type(workload)):
        for record in rows.get(table.name, ()):
            if (name := table.columns.flaw(record)) is not None:
                value = f"{getattr(record, name)!r:.80} ({type(getattr(record, name)).__name__})"
                kind = next(column["type"] for column in table.columns.to_json()["columns"] if column["name"] == name)
                return f"{workload.kind} gives a row of {table.name} whose {name} is {value}; expected {kind}"
    return ""
