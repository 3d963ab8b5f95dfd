"""Explains an item of any benchmark: its rows, prompts, answers and prices. No calls.

The benchmark's own `answer` rebuilds the prompts from the stored content; an equal key proves that the text is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import polars as pl

from summhay_ray.engine.ask import MOST_KEPT, Ask, Complete, ConcurrencyLimiter, Kept
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item, Prepared, all_tables
from summhay_ray.engine.work.prepared import prepared, prepares, work_items
from summhay_ray.engine.work.worker import Answered, answered
from summhay_ray.llm import RawAnswer, Request, flaw_of, read_answer, stored_answer
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.store import Dimensions, LogIndex, RunStore, StoreError

SHORTEST = 4
"""Minimum length of a prefix of an id or a key."""


class Replay:
    """Runs an item again with answers from the response log only, and records its requests."""

    def __init__(self, workload: Workload[Any], run: RunStore) -> None:
        self._workload = workload
        self._index = LogIndex(run.store.files)
        self._index.refresh()
        self._dimensions = Dimensions(run.store.files)
        self._attempts: dict[str, list[str]] = defaultdict(list)
        """Key -> the keys of its further attempts."""
        for key in self._index.answers:
            if "/" in key:
                self._attempts[key.partition("/")[0]].append(key)
        self.requests: dict[str, tuple[str, Request]] = {}
        """Key -> stage and request."""
        self.answers: dict[str, RawAnswer] = {}

    async def complete(self, request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        """The log's answer. See `engine.ask.Complete`."""
        self.requests[request.key] = stage, request
        stored = stored_answer(self._index, request, self._dimensions)
        if stored is None:
            return kept(Failed("not_asked", "explaining makes no call", request.key), None)
        outcome, raw = stored
        if isinstance(outcome, Answer):
            self.answers[request.key] = outcome.value
        return kept(outcome, raw)

    @property
    def failed_attempts(self) -> dict[str, list[dict[str, Any]]]:
        """Key -> the unusable answers to a request for vectors or scores, each with its flaw and its beginning."""
        found = {key: list(self._failed(request)) for key, (_, request) in self.requests.items() if request.inputs}
        return {key: attempts for key, attempts in found.items() if attempts}

    def _failed(self, request: Request) -> Iterator[dict[str, Any]]:
        for key in (request.key, *self._attempts[request.key]):
            record = self._index.read(key)
            if record is not None and (flaw := record.get("flaw") or flaw_of(request, record["text"])):
                raw = read_answer(record)[1]
                yield {"flaw": flaw, **asdict(raw), "text": raw.text[:MOST_KEPT]}

    def item(self, item: Item) -> None:
        """Run the item, and record its requests in `requests`."""
        _run(self._workload, item, self.complete)


def first_request(workload: Workload[Any], item: Item) -> Request | None:
    """The first request of an item, without sending it; None if it asks nothing or cannot be prepared. Raises BadBenchmark."""
    requests: list[Request] = []

    async def complete(request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        requests.append(request)
        return kept(Failed("not_asked", "only looked at"), None)

    if (stop := _run(workload, item, complete).stop) is not None:
        raise stop
    return requests[0] if requests else None


def _run(workload: Workload[Any], item: Item, complete: Complete) -> Answered:
    """Prepare and answer an item in this process."""
    ready = prepared(workload, item.source, [item]) if prepares(workload) else Prepared()
    [work] = work_items([item], ready)
    return run_loop(
        lambda: answered(workload, work, Ask(workload, item, complete, ConcurrencyLimiter(workload.models.settings())))
    )


def explained(workload: Workload[Any], run: RunStore, key: str) -> dict[str, Any]:
    """An item with its rows and calls, as JSON. `key`: its id, an answer's key, or a prefix of either. Raises StoreError."""
    item = find_item(workload, run, key)
    return {
        "run": run.run_id,
        "kind": workload.kind,
        "item": {"id": item.id, "queue": item.queue, "data": dict(item.data)},
        "rows": dict(rows_of(workload, run, item.id)),
        "calls": calls_of(workload, run, item),
    }


def calls_of(workload: Workload[Any], run: RunStore, item: Item) -> list[dict[str, Any]]:
    """The calls of an item, as JSON: stage, key, prompt, raw answer (None if there is none), and failed attempts.

    The prompts are rebuilt from stored content. An equal key proves that the text is the same.
    """
    replay = Replay(workload, run)
    replay.item(item)
    attempts, calls = replay.failed_attempts, []
    for key, (stage, request) in replay.requests.items():
        raw = None if (answer := replay.answers.get(key)) is None else asdict(answer)
        failed = attempts.get(key, [])
        calls.append({"stage": stage, "key": key, "prompt": request.prompt, "raw_answer": raw, "failed_attempts": failed})
    return calls


def rows_of(workload: Workload[Any], run: RunStore, item_id: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The item's rows by table, without empty tables."""
    for table in all_tables(type(workload)):
        if (frame := run.table(table.name, [item_id])).height:
            yield table.name, frame.to_dicts()


def find_item(workload: Workload[Any], run: RunStore, key: str) -> Item:
    """The item with an id or an answer's key that begins with `key`. Raises StoreError unless there is exactly one."""
    items = {item.id: item for item in workload.items()}
    matches = {key} & items.keys() or {item_id for item_id in items if len(key) >= SHORTEST and item_id.startswith(key)}
    if not matches and len(key) >= SHORTEST:
        answers = run.table("raw_answers").filter(pl.col("key").str.starts_with(key))
        if answers.height:
            matches = {
                item_id
                for item_id in items
                if not run.table("raw_answers", [item_id]).filter(pl.col("key").str.starts_with(key)).is_empty()
            }
    if not matches:
        some = ", ".join(list(items)[:3])
        raise StoreError(f"run {run.run_id} has no item and no answer that begins with {key!r}; its items are such as {some}")
    if len(matches) > 1:
        raise StoreError(f"{len(matches)} items of run {run.run_id} begin with {key!r}; give more of it")
    return items[matches.pop()]
