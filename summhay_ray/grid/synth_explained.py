"""Where something in a synthesis comes from: a topic, a check, an answer. Part of the grid room; no Ray, no calls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from summhay_ray.grid.sources import read_source
from summhay_ray.grid.synth_cell import asker_of
from summhay_ray.grid.synth_spec import GROUPS
from summhay_ray.grid.synth_topics import stored_topics
from summhay_ray.grid.synthesizing import made_by, stored_synthesizing
from summhay_ray.llm import Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Haystack, RawAnswer
from summhay_ray.store import RunStore, StoreError, to_records
from summhay_ray.synth import Topic, synthesize

SHORTEST_KEY = 6


def check_key(key: str) -> None:
    """Raises StoreError for a key that is too short to mean anything."""
    if len(key) < SHORTEST_KEY:
        raise StoreError(f"key {key!r} is too short; give at least {SHORTEST_KEY} characters of a cell_id or of an answer's key")


def explain_synth(run: RunStore, key: str) -> dict[str, Any]:
    """From a topic's cell, or an answer (its key, or the beginning of one), to the haystack, the checks and the prompt.

    A cell shows its checks by kind, an answer the checks that stand on it. Raises StoreError as `explain` does.
    """
    cell_id, answer = _find(run, key)
    topics = dict(stored_topics(run.store, run.record))
    made = made_by(run).get(cell_id)
    haystack = read_source(run.store, made.source()).haystack if made else None
    checks = run.table("checks", [cell_id])
    shown = checks.filter(pl.col("key") == answer) if answer else checks
    raw: dict[str, RawAnswer] = {one.key: one for one in to_records("raw_answers", run.table("raw_answers", [cell_id]))}
    by_kind = checks.group_by("kind", "by", "expected", "found").agg(pl.len().alias("n")).sort("kind", "by", "expected", "found")
    return {
        "run": run.run_id,
        "cell_id": cell_id,
        "topic": asdict(topics[cell_id]),
        "haystack": made and {"name": made.name, "haystack_id": made.haystack_id, "entry": made.entry},
        "checks": [_told(row, haystack) for row in shown.iter_rows(named=True)] if answer else [],
        "checks_by_kind": [] if answer else by_kind.to_dicts(),
        "raw_answer": asdict(raw[answer]) if answer in raw else None,
        "prompt": _prompts(run, topics[cell_id], raw).get(answer) if answer in raw else None,
        "answers": len(raw),
        "failures": [asdict(row) for row in to_records("failures", run.table("failures", [cell_id]))],
    }


def _find(run: RunStore, key: str) -> tuple[str, str]:
    """(cell_id, key of the answer asked for, or empty)."""
    check_key(key)
    hits = set(_hits(run, key))
    if not hits:
        raise StoreError(f"run {run.run_id} has no cell or answer {key!r}; `summhay failures` and the tables list their keys")
    if len({answer or cell for cell, answer in hits}) > 1:
        raise StoreError(f"{len(hits)} cells or answers of run {run.run_id} begin with {key!r}; give more of it")
    return min(hits)


def _hits(run: RunStore, key: str) -> Iterator[tuple[str, str]]:
    cells = [cell for cell, _ in stored_topics(run.store, run.record)]
    yield from ((cell, "") for cell in cells if cell.startswith(key))
    for cell in cells:
        for answer in run.table("raw_answers", [cell]).filter(pl.col("key").str.starts_with(key))["key"].to_list():
            yield cell, answer


def _told(check: Mapping[str, Any], haystack: Haystack | None) -> dict[str, Any]:
    """A check, with the words of what it is about where the haystack holds them."""
    texts: dict[str, str] = {}
    if haystack is not None:
        texts = {one.insight_id: one.text for one in haystack.insights}
        texts |= {one.subtopic_id: one.text for one in haystack.subtopics}
    named = {f"{place}_text": texts[check[place]] for place in ("subject", "object") if check[place] in texts}
    return {**check, **named}


def _prompts(run: RunStore, topic: Topic, raw: Mapping[str, RawAnswer]) -> dict[str, str]:
    """Key -> prompt of every request of the topic, made again from content: the key proves that it is the same text.

    What was answered is answered again, since what is asked hangs on it; nothing is asked of a model.
    """
    grid = stored_synthesizing(run.store, run.record)
    kept: dict[str, str] = {}

    async def keep(request: Request) -> Outcome[RawAnswer]:
        kept[request.key] = request.prompt
        if (one := raw.get(request.key)) is not None:
            return Answer(one, key=one.key, attempts=one.attempts, usd_micros=one.usd_micros)
        return Failed("not_asked", "explaining makes no call")

    asyncio.run(synthesize(grid.job(topic), asker_of(grid, dict.fromkeys(GROUPS, keep))))
    return kept
