"""Trace a number of a stored run: from a score to its judgment, raw answer, prompt, price and cited documents.

Everything is read from the store, so this also works from another machine and while the run is in progress.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from summhay_ray.benchmark import Benchmark, RunStore
from summhay_ray.benchmarks.summhay.grid.grid import Cell
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source, rows_of
from summhay_ray.benchmarks.summhay.results.judges import judge_of_record
from summhay_ray.errors import StoreError
from summhay_ray.haystack import ReleasedFile
from summhay_ray.metrics import Compat, score_summary
from summhay_ray.records import SYSTEM_NAMES, Judgment, Summary, system_label

SHORTEST_KEY = 6
_JUDGED = ("judge", "insight_id")
_PLACE = ("cell_id", "haystack_id", "subtopic_id", "system", "repeat", "retriever", "ordering", "model")


def places(run: RunStore, cell_ids: Iterable[str], grid: Any = None) -> dict[str, dict[str, str]]:
    """Map each cell_id to its system, haystack and subtopic_id. For cells without a summary, these are empty unless `grid` is
    given."""
    wanted = set(cell_ids)
    found = {cell: dict.fromkeys((*SYSTEM_NAMES, "haystack", "subtopic_id"), "") for cell in sorted(wanted)}
    if not wanted:
        return found
    names = {entry["haystack_id"]: entry["name"] for entry in run.record["haystacks"]}
    if grid is not None:
        cells = (Cell.of(item) for item in grid.items() if item.id in wanted)
        known = ((cell.cell_id, names_of_cell(grid, cell), cell.unit.haystack_id, cell.unit.subtopic_id) for cell in cells)
    else:
        rows = rows_of(run, "summaries", sorted(wanted))
        known = (
            (row.cell_id, {name: getattr(row, name) for name in SYSTEM_NAMES}, row.haystack_id, row.subtopic_id) for row in rows
        )
    for cell_id, system, haystack_id, subtopic_id in known:
        found[cell_id] = {**system, "haystack": names.get(haystack_id, ""), "subtopic_id": subtopic_id}
    return found


def names_of_cell(grid: Any, cell: Cell) -> dict[str, str]:
    """Return the columns SYSTEM_NAMES of a cell of a grid."""
    unit, model = cell.unit, grid.spec.summarizers[cell.summarizer].label
    label = system_label(unit.retriever, unit.ordering, model)
    return dict(zip(SYSTEM_NAMES, (cell.system, label, model, unit.retriever, unit.ordering), strict=True))


def explain(workload: Benchmark[Any] | None, run: RunStore, holder: RunStore, key: str, compat: Compat) -> dict[str, Any]:
    """Return everything that led to a cell or an answer, as JSON. `key`: HAYSTACK/SUBTOPIC/SYSTEM, or the beginning of an id or
    key.

    `holder`: the run with the summaries (for a rejudge, the judged run). `workload`: rebuilds the prompts; None for an import.
    Raises StoreError if the key matches nothing, or more than one thing.
    """
    cell_id, judgment_key = _placed(holder, key) or _find(run, holder, key)
    summaries = rows_of(holder, "summaries", [cell_id])
    calls = calls_of_cell(workload, run, cell_id)
    attempts = [attempt for call in calls for attempt in call["failed_attempts"]]
    failed = {"failures": run.table("failures").filter(pl.col("cell_id") == cell_id).to_dicts(), "failed_attempts": attempts}
    if not summaries:
        place = places(run, [cell_id], workload)[cell_id]
        return {"run": run.run_id, "cell_id": cell_id, **place, "summary": None, **failed}
    summary: Summary = summaries[0]
    entry = next((entry for entry in run.record["haystacks"] if entry["haystack_id"] == summary.haystack_id), None)
    if entry is None:
        raise StoreError(f"{run.run_id}: its run.json lacks haystack {summary.haystack_id}; put back a copy of it")
    source = read_source(run.store, entry)
    raw = [
        answer
        for place in {run.run_id: run, holder.run_id: holder}.values()
        for answer in rows_of(place, "raw_answers", [cell_id])
    ]
    answers = {answer.key: asdict(answer) for answer in raw}
    prompts = {call["key"]: call["prompt"] for call in calls}
    contexts = holder.table("contexts").filter(pl.col("context_id") == summary.context_id).to_dicts()
    subtopic = next(subtopic for subtopic in source.haystack.subtopics if subtopic.subtopic_id == summary.subtopic_id)
    judgments = rows_of(run, "judgments", [cell_id])
    votes = [asdict(vote) for vote in rows_of(run, "votes", [cell_id])] if "votes" in run.declared else []
    return {
        "run": run.run_id,
        "cell_id": cell_id,
        **{name: getattr(summary, name) for name in SYSTEM_NAMES},
        "haystack": source.haystack.name,
        "subtopic_id": subtopic.subtopic_id,
        "query": subtopic.query,
        "bullets": list(summary.bullets),
        "judge": judge_of_record(run),
        "context": contexts[0] if contexts else None,
        "raw_answer": answers.get(summary.key),
        "prompt": prompts.get(summary.key),
        "judgments": [
            {**row, "votes": [vote for vote in votes if all(vote[name] == row["judgment"][name] for name in _JUDGED)]}
            for row in _judged(judgments, summary, source, compat, (answers, prompts))
            if not judgment_key or row["judgment"]["key"] == judgment_key
        ],
        "absent_answers": [
            {**asdict(row), "raw_answer": answers.get(row.key), "prompt": prompts.get(row.key)}
            for row in (rows_of(run, "absent_answers", [cell_id]) if subtopic.absent else ())
        ],
        **failed,
    }


def _placed(holder: RunStore, key: str) -> tuple[str, str] | None:
    """Return (cell_id, '') of the summary at HAYSTACK/SUBTOPIC/SYSTEM (the system's key or label), with `#N` for repeat N.
    None for other keys."""
    if key.count("/") < 2:
        return None
    names = {entry["haystack_id"]: entry["name"] for entry in holder.record["haystacks"]}
    frame = holder.table("summaries", columns=_PLACE)
    for cell, haystack, subtopic, system, repeat, *parts in frame.select(_PLACE).iter_rows():
        for name in (system, system_label(*parts)):
            place = f"{names.get(haystack)}/{subtopic}/{name}"
            if key in ((place, f"{place}#0") if not repeat else (f"{place}#{repeat}",)):
                return cell, ""
    return None


def _find(run: RunStore, holder: RunStore, key: str) -> tuple[str, str]:
    """Return (cell_id, key of a judgment), to which `key` refers. The second is empty if `key` refers to a cell. Raises
    StoreError."""
    if len(key) < SHORTEST_KEY:
        raise StoreError(f"key {key!r} is too short; give at least {SHORTEST_KEY} characters of a cell_id or of an answer's key")
    hits: set[tuple[str, str]] = set()
    for table in ("summaries", "failures", "judgments"):
        frame = (holder if table == "summaries" else run).table(table)
        named = frame.filter(pl.col("cell_id").str.starts_with(key))
        hits.update((cell, "") for cell in named["cell_id"].to_list())
        keyed = frame.filter(pl.col("key").str.starts_with(key))
        hits.update(
            (cell, full if table == "judgments" else "")
            for cell, full in zip(keyed["cell_id"].to_list(), keyed["key"].to_list(), strict=True)
        )
    if not hits:
        some = places(holder, holder.table("summaries", columns=["cell_id"])["cell_id"].head(1).to_list()).values()
        such = next((f"{one['haystack']}/{one['subtopic_id']}/{one['system']}" for one in some), "news/a-subtopic/bm25_gpt-4o")
        known = f"a cell is HAYSTACK/SUBTOPIC/SYSTEM, such as {such}, or its id, or an answer's key"
        raise StoreError(f"run {run.run_id} has no cell or answer {key!r}; {known}")
    if len({cell for cell, _ in hits}) > 1 and len(key) < 32:
        raise StoreError(f"{len(hits)} cells or answers of run {run.run_id} begin with {key!r}; give more of it")
    return min(hits)


def _judged(
    judgments: list[Judgment],
    summary: Summary,
    source: ReleasedFile,
    compat: Compat,
    kept: tuple[Mapping[str, Any], Mapping[str, str]],
) -> Iterable[dict[str, Any]]:
    answers, prompts = kept
    insights = {insight.insight_id: insight.text for insight in source.haystack.insights}
    scored = score_summary(judgments, summary.bullets, source.haystack.gold, compat)
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


def calls_of_cell(workload: Benchmark[Any] | None, run: RunStore, cell_id: str) -> list[dict[str, Any]]:
    """Return the cell's calls. Empty if the run has no such cell, or if the cell made no call."""
    items = () if workload is None else workload.items()
    return [call for item in items if workload is not None and item.id == cell_id for call in workload.calls(run, item)]
