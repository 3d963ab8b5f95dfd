"""Explains an item of any benchmark: its rows, prompts, answers and prices. Makes the samples of the report's viewer. No calls.

The benchmark's own `answer` rebuilds the prompts from the stored inputs. If the key is the same, the text is the same.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import polars as pl

from summhay_ray.engine.ask import MOST_KEPT, Ask, Complete, Kept
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item, all_tables
from summhay_ray.engine.run.worker import Answered, answered, prepare_sources
from summhay_ray.engine.state.items_left import checked_items
from summhay_ray.llm import RawAnswer, Request, flaw_of, read_answer, stored_answer
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.sections import Facet, SampleRecord, Samples
from summhay_ray.store import Dimensions, LogIndex, RunStore, StoreError

SHORTEST = 4
"""Minimum length of a prefix that identifies an id or a key."""


def first_request(workload: Workload[Any], item: Item) -> Request | None:
    """Return the first request of an item, without sending it; None if the item asks nothing or cannot be prepared. Raises
    BadBenchmark."""
    requests: list[Request] = []

    async def complete(request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        requests.append(request)
        return kept(Failed("not_asked", "only looked at"), None)

    if (stop := _run(workload, item, complete).stop) is not None:
        raise stop
    return requests[0] if requests else None


def _run(workload: Workload[Any], item: Item, complete: Complete) -> Answered:
    """Prepare an item and answer it in this process."""
    [work], _ = prepare_sources(workload, {item.source: [item]}, ())
    ask = Ask(workload, item, complete, {})
    return run_loop(lambda: answered(workload, work, ask))


def explain_item(workload: Workload[Any], run: RunStore, key: str) -> dict[str, Any]:
    """Return an item with its rows and calls, as JSON. `key`: the item's id, the key of one of its answers, or a prefix of
    either. Raises StoreError."""
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
    item = items[matches.pop()]
    frames = {table.name: run.table(table.name, [item.id]) for table in all_tables(type(workload))}
    return {
        "run": run.run_id,
        "kind": workload.kind,
        "item": {"id": item.id, "queue": item.queue, "data": dict(item.data)},
        "rows": {name: frame.to_dicts() for name, frame in frames.items() if frame.height},
        "calls": calls_of(workload, run, item),
    }


def calls_of(workload: Workload[Any], run: RunStore, item: Item) -> list[dict[str, Any]]:
    """Return the calls of an item, as JSON: stage, key, prompt, raw answer (None if there is none), and failed attempts.

    The item is answered again from the response log only, so the prompts are rebuilt from stored inputs. If the key is the same,
    the text is the same. A failed attempt is an unusable answer to a request for vectors or scores. It has a flaw and the
    beginning of the answer.
    """
    index, dimensions = LogIndex(run.store.files), Dimensions(run.store.files)
    index.refresh()
    calls: dict[str, tuple[str, Request, RawAnswer | None]] = {}

    async def complete(request: Request, stage: str, kept: Kept) -> Outcome[RawAnswer]:
        stored = stored_answer(index, request, dimensions)
        outcome, raw = stored or (Failed("not_asked", "explaining makes no call", request.key), None)
        calls[request.key] = stage, request, outcome.value if isinstance(outcome, Answer) else None
        return kept(outcome, raw)

    _run(workload, item, complete)
    further: dict[str, list[str]] = defaultdict(list)
    for key in index.answers:
        if "/" in key:
            further[key.partition("/")[0]].append(key)
    shown = []
    for key, (stage, request, answer) in calls.items():
        failed = []
        for attempt in (key, *further[key]) if request.inputs else ():
            record = index.read(attempt)
            if record is not None and (flaw := record.get("flaw") or flaw_of(request, record["text"])):
                raw = read_answer(record)[1]
                failed.append({"flaw": flaw, **asdict(raw), "text": raw.text[:MOST_KEPT]})
        raw_answer = None if answer is None else asdict(answer)
        shown.append({"stage": stage, "key": key, "prompt": request.prompt, "raw_answer": raw_answer, "failed_attempts": failed})
    return shown


def item_samples(workload: Workload[Any], run: RunStore) -> Samples:
    """Return a sample for every committed item, with its rows and its models' answers, for the report's viewer."""
    items = {item.id: item for item in checked_items(workload)}
    names = [table.name for table in all_tables(type(workload))]
    plain = (str, int, float, bool)
    data = dict.fromkeys(
        name for item in itertools.islice(items.values(), 1000) for name, value in item.data.items() if isinstance(value, plain)
    )

    def samples() -> Iterator[SampleRecord]:
        for unit, tables in run.reader(names).by_unit():
            if unit not in items:
                continue
            item, failed = items[unit], "failures" in tables
            facets = {"model": item.model, **{name: item.data.get(name) for name in data}, "failed": failed}
            parts: list[dict[str, Any]] = [
                {"kind": "rows", "title": name, "columns": frame.columns, "rows": [list(row) for row in frame.iter_rows()]}
                for name, frame in tables.items()
                if name != "raw_answers"
            ]
            for row in tables["raw_answers"].iter_rows(named=True) if "raw_answers" in tables else ():
                parts.append({"kind": "answer", "title": f"Answer of {row['model']}", "key": row["key"]})
            yield SampleRecord(unit, facets, parts)

    facets = [Facet("model"), *(Facet(name) for name in data), Facet("failed", "flag")]
    return Samples(facets, samples(), {"answers": answers_of(run)})


def answers_of(run: RunStore) -> Iterator[tuple[str, Any]]:
    """Yield the run's raw answers for `Samples.shelves` as (key, the fields that are not empty)."""
    for piece in run.pieces("raw_answers"):
        for row in piece.iter_rows(named=True):
            yield row.pop("key"), {name: value for name, value in row.items() if value not in (None, "", 0, [])}
