"""Looking into a stored run: its failures, and where a number comes from. Part of the grid room; no Ray, no calls.

Everything is read from the store, so that it works while the run goes on, and from another machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.grid.answering import judge_settings, task_of
from summhay_ray.grid.cells import Cell, Grid, Unit, grid_of
from summhay_ray.grid.rejudging import source_of, stored_grid
from summhay_ray.grid.sources import read_source
from summhay_ray.grid.synth_explained import check_key, explain_synth
from summhay_ray.grid.synth_topics import stored_topics
from summhay_ray.grid.synthesizing import KIND as SYNTH
from summhay_ray.grid.synthesizing import SYSTEM
from summhay_ray.haystack import ReleasedFile
from summhay_ray.judge import make_judge
from summhay_ray.llm import Request
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.records import Context, Failure, Judgment, RawAnswer, Summary
from summhay_ray.score import Compat, score_summary
from summhay_ray.store import RunStore, StoreError, to_records
from summhay_ray.summarize import make_summarizer


def failures(run: RunStore) -> list[Failure]:
    """Every failure of the run."""
    stored: list[Failure] = to_records("failures", run.table("failures"))
    return stored


@dataclass(frozen=True, slots=True)
class Place:
    """Which summary a cell is; empty where the store does not say (an imported judgment without its summary)."""

    system: str = ""
    haystack: str = ""
    subtopic_id: str = ""


def places(run: RunStore, cell_ids: Iterable[str]) -> dict[str, Place]:
    """Cell -> where it stands in the grid, for cells with a summary and without."""
    record, wanted = run.record, set(cell_ids)
    found = dict.fromkeys(sorted(wanted), Place())
    if not wanted:
        return found
    if record["kind"] == SYNTH:
        return {cell: Place(SYSTEM, topic.name) for cell, topic in stored_topics(run.store, record) if cell in wanted}
    names = {entry["haystack_id"]: entry["name"] for entry in record["haystacks"]}
    if record["kind"] == "grid":
        for cell in grid_of(run.store, record).cells():
            if cell.cell_id in wanted:
                found[cell.cell_id] = Place(cell.system, names[cell.unit.haystack_id], cell.unit.subtopic_id)
        return found
    for row in to_records("summaries", source_of(run).table("summaries", sorted(wanted))):
        found[row.cell_id] = Place(row.system, names[row.haystack_id], row.subtopic_id)
    return found


def explain(run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
    """From a cell or an answer (its id or key, or the beginning of one) to everything that it stands on.

    Of a synthesis `key` may name a haystack or a document, too: see `explain_synth`. Raises StoreError where nothing, or more
    than one thing, has that key.
    """
    record = run.record
    if record["kind"] == SYNTH:
        return explain_synth(run, key)
    cell_id, judgment_key = _find(run, key)
    holder = source_of(run)
    found = to_records("summaries", holder.table("summaries", [cell_id]))
    failed = [asdict(row) for row in to_records("failures", run.table("failures", [cell_id]))]
    if not found:
        place = asdict(places(run, [cell_id])[cell_id])
        return {"run": run.run_id, "cell_id": cell_id, **place, "summary": None, "failures": failed}
    summary: Summary = found[0]
    entry = next(one for one in record["haystacks"] if one["haystack_id"] == summary.haystack_id)
    source = read_source(run.store, entry)
    raw: list[RawAnswer] = to_records("raw_answers", run.table("raw_answers", [cell_id]))
    prompts = _prompts(run, record, summary, source, raw) if record["kind"] != "import" else {}
    answers = {
        one.key: asdict(one)
        for one in (raw if run is holder else [*raw, *to_records("raw_answers", holder.table("raw_answers", [cell_id]))])
    }
    subtopic = next(one for one in source.haystack.subtopics if one.subtopic_id == summary.subtopic_id)
    judgments: list[Judgment] = to_records("judgments", run.table("judgments", [cell_id]))
    return {
        "run": run.run_id,
        "cell_id": cell_id,
        "system": summary.system,
        "haystack": source.haystack.name,
        "subtopic_id": subtopic.subtopic_id,
        "query": subtopic.query,
        "bullets": list(summary.bullets),
        "context": _context(holder, summary),
        "raw_answer": answers.get(summary.key),
        "prompt": prompts.get(summary.key),
        "judgments": [
            row
            for row in _judged(judgments, summary, source, compat, (answers, prompts))
            if not judgment_key or row["judgment"]["key"] == judgment_key
        ],
        "failures": failed,
    }


def _find(run: RunStore, key: str) -> tuple[str, str]:
    """(cell_id, key of the one judgment asked for, or empty)."""
    check_key(key)
    hits: set[tuple[str, str]] = set()
    for table in ("summaries", "failures", "judgments"):
        frame = run.table(table)
        named = frame.filter(pl.col("cell_id").str.starts_with(key))
        hits.update((cell, "") for cell in named["cell_id"].to_list())
        keyed = frame.filter(pl.col("key").str.starts_with(key))
        hits.update(
            (cell, full if table == "judgments" else "")
            for cell, full in zip(keyed["cell_id"].to_list(), keyed["key"].to_list(), strict=True)
        )
    if not hits:
        raise StoreError(f"run {run.run_id} has no cell or answer {key!r}; `summhay failures` and the tables list their keys")
    if len({cell for cell, _ in hits}) > 1 and len(key) < 32:
        raise StoreError(f"{len(hits)} cells or answers of run {run.run_id} begin with {key!r}; give more of it")
    return min(hits)


def _context(run: RunStore, summary: Summary) -> dict[str, Any] | None:
    found: list[Context] = to_records("contexts", run.table("contexts").filter(pl.col("context_id") == summary.context_id))
    return asdict(found[0]) if found else None


def _judged(
    judgments: list[Judgment],
    summary: Summary,
    source: ReleasedFile,
    compat: Compat,
    kept: tuple[Mapping[str, Any], Mapping[str, str]],
) -> Iterable[dict[str, Any]]:
    answers, prompts = kept
    insights = {insight.insight_id: insight.text for insight in source.haystack.insights}
    scored = score_summary(judgments, summary.bullets, source.haystack.gold(), compat)
    for judgment, score in zip(judgments, scored, strict=True):
        bullet = getattr(score, "bullet", None)
        yield {
            "insight": insights.get(judgment.insight_id),
            "judgment": asdict(judgment),
            "bullet": summary.bullets[bullet - 1] if bullet else None,
            "score": asdict(score),
            "raw_answer": answers.get(judgment.key),
            "prompt": prompts.get(judgment.key),
        }


def _prompts(
    run: RunStore, record: Mapping[str, Any], summary: Summary, source: ReleasedFile, raw: Sequence[RawAnswer]
) -> dict[str, str]:
    """Key -> prompt of every request of the cell, made again from content: the key proves that it is the same text.

    Where another version asked with other prompts, their keys are absent. What was answered is answered again, since a judge
    may ask what an earlier answer makes it ask.
    """
    grid = stored_grid(run.store, record)
    # Made from the row and not looked up: a run of an older version has cell ids of its own.
    labels = [summarizer.label for summarizer in grid.spec.summarizers]
    index = labels.index(summary.model) if labels else 0
    unit = Unit(summary.haystack_id, summary.subtopic_id, summary.retriever, summary.ordering)
    cell = Cell(summary.cell_id, unit, index, summary.repeat, summary.system)
    contexts: list[Context] = to_records("contexts", run.table("contexts").filter(pl.col("context_id") == summary.context_id))
    kept: dict[str, str] = {}
    known = {one.key: one for one in raw}

    async def keep(request: Request) -> Outcome[RawAnswer]:
        kept[request.key] = request.prompt
        if (one := known.get(request.key)) is not None:
            return Answer(one, key=one.key, attempts=one.attempts, usd_micros=one.usd_micros)
        return Failed("not_asked", "explaining makes no call")

    asyncio.run(_ask_again(grid, cell, summary, source, contexts, keep))
    return kept


async def _ask_again(grid: Grid, cell: Cell, summary: Summary, source: ReleasedFile, context: list[Context], keep: Any) -> None:
    if grid.spec.summarizers:
        strategy = grid.spec.summarizers[cell.summarizer].strategy
        await make_summarizer(strategy).summarize(task_of(grid, cell, source.haystack, context[0]), keep)
    insights = source.haystack.insights_of(summary.subtopic_id)
    for spec in grid.spec.judges:
        await make_judge(spec.strategy).judge(insights, summary.bullets, judge_settings(grid, cell, spec), keep)
