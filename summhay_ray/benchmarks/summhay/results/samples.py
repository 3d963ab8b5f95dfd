"""Samples for the report's viewer: each summary with its insights, judgments, citations, documents, prompts and answers."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from summhay_ray.benchmark import Benchmark, RunStore
from summhay_ray.benchmarks.summhay.grid.grid import Cell
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, gold_by_query, stored_metadata
from summhay_ray.benchmarks.summhay.results.compare import priced_summaries
from summhay_ray.benchmarks.summhay.results.explain import calls_of_cell, names_of_cell
from summhay_ray.benchmarks.summhay.results.judges import JudgedBy, judge_entries, judge_of_record, judges_of, judging_ids
from summhay_ray.judge import prompt_template
from summhay_ray.outcome import MICROS
from summhay_ray.records import system_label
from summhay_ray.sections import Facet, SampleRecord, Samples

FACETS = (
    *(Facet(name) for name in ("system", "haystack", "query")),
    *(Facet(name, "number", "%") for name in ("joint", "coverage", "citation")),
    *(Facet(name, "number") for name in ("full", "partial", "none")),
    Facet("judges disagree", "flag"),
    Facet("failed", "flag"),
    *(Facet(name) for name in ("retriever", "ordering", "model")),
    Facet("usd", "number", "$"),
    Facet("repeat", "number"),
)
MOST_PROMPTS = 50
"""Maximum number of failed cells whose prompts a report holds. A prompt may be as long as a haystack."""
_COUNTED = {1.0: "full", 0.5: "partial", 0.0: "none"}
"""Coverage -> the name of the facet that counts it."""
_DIGITS = 6
_FACTS = ("system", "retriever", "ordering", "model", "haystack", "repeat")
"""Facets shown at the top of a sample."""

_CONTEXT = ("numbers", "n_tokens", "last_tokens")

Row = dict[str, Any]


def samples(workload: Benchmark[Any] | None, run: RunStore, judge: str = "") -> Samples:
    """Return the summaries of a run, and the cells that failed without one.

    `workload`: supplies these cells and the prompts of failures; None for an import. `judge`: the judge whose scores are the
    facets; by default the run's own judge.
    """
    run = run.at()
    metadata = stored_metadata(run.store, run.record)
    of_record = judge_of_record(run, judge)
    judges = sorted(judges_of(run), key=lambda judged: judged.judge != of_record)
    holders = {name: run if name == run.run_id else run.store.run(name).at() for judge in judges for name in judge.runs}
    answers = [Benchmark.stored_answers(holder) for holder in {run.run_id: run, **holders}.values()]
    contexts = (row for piece in run.pieces("contexts") for row in piece.iter_rows(named=True))
    shelves = {
        "answers": heapq.merge(*answers, key=itemgetter(0)),
        "contexts": ((one["context_id"], {name: one[name] for name in _CONTEXT}) for one in contexts),
        "documents": _documents(run),
        "insights": _insights(run, metadata),
    }
    prompts = {}
    for one in judges:
        holder = holders[one.runs[0]]
        for entry in judge_entries(holder):
            if (entry["name"] or entry["model"]) == one.label:
                own = holder.record.get("prompts", {}).get(entry["prompt"], "") if entry["prompt"] else ""
                prompts[one.judge] = prompt_template(own, entry["strategy"])
    maker = _SampleMaker(workload, run, metadata, judges, holders)
    return Samples(FACETS, maker.samples(), shelves, prompts)


class _SampleMaker:
    """Joins summaries with their judgments, scores and failures into samples."""

    def __init__(
        self,
        workload: Benchmark[Any] | None,
        run: RunStore,
        metadata: Sequence[HaystackMetadata],
        judges: Sequence[JudgedBy],
        holders: Mapping[str, RunStore],
    ) -> None:
        self._workload, self._run, self._judges, self._holders = workload, run, judges, holders
        self._names = {haystack.haystack_id: haystack.name for haystack in metadata}
        self._queries = {
            (haystack.haystack_id, topic.subtopic_id): topic for haystack in metadata for topic in haystack.subtopics
        }
        self._gold = {haystack.haystack_id: haystack.gold for haystack in metadata}
        self._wanted = {row[:2]: row[2] for row in gold_by_query(run, metadata).iter_rows()}
        place = ("haystack_id", "subtopic_id", "retriever", "ordering", "context_id")
        rows = (row for piece in run.pieces("contexts") for row in piece.select(place).iter_rows())
        self._contexts = {row[:4]: row[4] for row in rows}
        self._asked_again: set[str] = set()

    def samples(self) -> Iterator[SampleRecord]:
        """Yield the samples in order of cell_id, then the cells without a summary. Only one piece of each table is in memory
        at a time."""
        scores = {name: _CellReader(_rows(holder, "scores")) for name, holder in self._holders.items()}
        judgments = {name: _CellReader(_rows(holder, "judgments")) for name, holder in self._holders.items()}
        failures = ((row["cell_id"], "failure", row) for row in _rows(self._run, "failures"))
        from_rejudges = [self._failures_of_rejudge(name) for name in judging_ids(self._run, "rejudges")]
        summaries = ((row["cell_id"], "summary", row) for row in _rows(self._run, "summaries"))
        missing = set[str]()
        merged = heapq.merge(failures, *from_rejudges, summaries, key=itemgetter(0, 1))
        for cell, found in itertools.groupby(merged, key=itemgetter(0)):
            rows = list(found)
            failed = [row for _, what, row in rows if what == "failure"]
            summary = next((row for _, what, row in rows if what == "summary"), None)
            if summary is None:
                if failed:
                    missing.add(cell)
                continue
            verdicts = [verdict for judge in self._judges for verdict in self._verdicts(judge, cell, scores, judgments)]
            judged = {(verdict["judge"], verdict["insight"]) for verdict in verdicts}
            again_failed = {(row["judge"], row["insight_id"]): row for _, what, row in rows if what == "rejudge"}
            rejudged = [row for place, row in again_failed.items() if place not in judged]
            yield self._sample(summary, verdicts, failed, rejudged)
        yield from self._without_summary(missing)

    def _failures_of_rejudge(self, name: str) -> Iterator[tuple[str, str, Row]]:
        """Yield the failures of a rejudge, with its judges' names among all judges of the run."""
        holder = self._holders.get(name) or self._run.store.run(name).at()
        names = {judge.label: judge.judge for judge in self._judges if name in judge.runs}
        for row in _rows(holder, "failures"):
            yield row["cell_id"], "rejudge", {**row, "judge": names.get(row["judge"], row["judge"])}

    def _verdicts(
        self, judge: JudgedBy, cell: str, scores: Mapping[str, _CellReader], judgments: Mapping[str, _CellReader]
    ) -> Iterator[Row]:
        """Yield a row for each insight that the judge judged, with its scores."""
        seen: set[str] = set()
        for name in judge.runs:
            scored = {(row["judge"], row["position"]): row for row in scores[name].rows_at(cell)}
            for row in judgments[name].rows_at(cell):
                if row["judge"] != judge.label or row["insight_id"] in seen:
                    continue
                seen.add(row["insight_id"])
                score = scored.get((row["judge"], row["position"]), {})
                figures = {
                    "coverage": score.get("coverage"),
                    "precision": score.get("citation_precision"),
                    "recall": score.get("citation_recall"),
                    "f1": score.get("citation_f1"),
                    "joint": score.get("joint"),
                    "value": row["value"],
                }
                yield {
                    "judge": judge.judge,
                    "insight": row["insight_id"],
                    "said": row["coverage"],
                    "bullet": score.get("bullet"),
                    "cited": score.get("cited", []),
                    "key": row["key"],
                    **{what: round(value, _DIGITS) for what, value in figures.items() if value is not None},
                }

    def _sample(self, summary: Row, verdicts: list[Row], failed: list[Row], rejudged: list[Row]) -> SampleRecord:
        """Return the sample of a summary. `failed`: the run's own failures. `rejudged`: failures of rejudges that no later
        rejudge repaired."""
        # Show a failed judgment in the box of its insight.
        verdicts = [
            *verdicts,
            *(
                {
                    "judge": row["judge"],
                    "insight": row["insight_id"],
                    "said": f"{row['error']}: {row['message']}",
                    "cited": [],
                    "key": row["key"],
                }
                for row in (*failed, *rejudged)
                if row["judge"]
            ),
        ]
        haystack, query = summary["haystack_id"], self._queries.get((summary["haystack_id"], summary["subtopic_id"]))
        first = [verdict for verdict in verdicts if verdict["judge"] == self._judges[0].judge] if self._judges else []
        scored = [verdict for verdict in first if "coverage" in verdict]
        counts = dict.fromkeys(_COUNTED.values(), 0)
        for verdict in scored:
            counts[_COUNTED[verdict["coverage"]]] += 1
        said: dict[str, set[float]] = {}
        for verdict in verdicts:
            if "coverage" in verdict:
                said.setdefault(verdict["insight"], set()).add(verdict["coverage"])
        usd = summary["usd_micros"]
        facets = {
            "system": system_label(summary["retriever"], summary["ordering"], summary["model"]),
            **{name: summary[name] for name in ("retriever", "ordering", "model", "repeat")},
            "haystack": self._names.get(haystack, haystack),
            "query": query.query if query else summary["subtopic_id"],
            **{name: _mean(scored, name) for name in ("joint", "coverage")},
            "citation": _mean(scored, "f1"),
            **counts,
            "usd": None if usd is None else usd / MICROS,
            "judges disagree": any(len(labels) > 1 for labels in said.values()),
            "failed": bool(failed or rejudged),
        }
        asked = [["query", query.query], ["subtopic", query.text]] if query else []
        gold = self._gold.get(haystack, {})
        wanted = sorted({number for verdict in first for number in gold.get(verdict["insight"]) or ()})
        parts: list[Row] = [
            {"kind": "facts", "title": "", "facts": [*asked, *([name, str(facets[name])] for name in _FACTS)]},
            *_failed([*failed, *rejudged]),
            {"kind": "bullets", "title": "Summary", "bullets": summary["bullets"], "documents": _shelf(haystack)},
            {"kind": "verdicts", "title": "Insights", "insights": _shelf(haystack), "verdicts": verdicts},
            _documents_part(haystack, summary["context_id"], wanted),
            *self._prompts(summary["cell_id"], failed),
        ]
        if summary["key"]:
            parts.append({"kind": "answer", "title": f"Answer of {summary['model']}", "key": summary["key"]})
        return SampleRecord(summary["cell_id"], facets, parts)

    def _without_summary(self, missing: Collection[str]) -> Iterator[SampleRecord]:
        """Yield samples of the cells that failed before a summary was written. The workload knows their system and query.
        Failures are read again, so that only one cell's are in memory."""
        if not missing:
            return
        items = () if self._workload is None else self._workload.items()
        cells = {item.id: Cell.of(item) for item in items if item.id in missing}
        rows = (row for row in _rows(self._run, "failures") if row["cell_id"] in missing)
        for cell_id, rows_of_cell in itertools.groupby(rows, key=itemgetter("cell_id")):
            failed = list(rows_of_cell)
            facets: Row = {"system": "", "haystack": "", "query": "", "judges disagree": False, "failed": True}
            parts: list[Row] = [*_failed(failed), *self._prompts(cell_id, failed)]
            if cell_id in cells:
                unit = (cell := cells[cell_id]).unit
                asked = (unit.haystack_id, unit.subtopic_id)
                query = self._queries.get(asked)
                named = names_of_cell(self._workload, cell)
                facets |= {name: named[name] for name in ("retriever", "ordering", "model")} | {"system": named["label"]}
                facets |= {"repeat": cell.repeat, "haystack": self._names.get(unit.haystack_id, unit.haystack_id)}
                facets["query"] = query.query if query else unit.subtopic_id
                context = self._contexts.get((*asked, unit.retriever, unit.ordering), "")
                parts.append(_documents_part(unit.haystack_id, context, self._wanted.get(asked, ())))
            names = ("query", "system", "retriever", "ordering", "model", "haystack", "repeat")
            pairs = [[name, str(facets[name])] for name in names if facets.get(name) not in (None, "")]
            yield SampleRecord(cell_id, facets, [{"kind": "facts", "title": "", "facts": pairs}, *parts])

    def _prompts(self, cell_id: str, failed: Sequence[Row]) -> Iterator[Row]:
        """Yield the prompts of failed requests, rebuilt from content, for the first MOST_PROMPTS failed cells."""
        if self._workload is None or not failed:
            return
        command = f"summhay explain {self._run.run_id} {cell_id}"
        if len(self._asked_again) >= MOST_PROMPTS:
            yield {
                "kind": "text",
                "title": "Prompt",
                "text": f"Prompts of the first {MOST_PROMPTS} cells that failed; for others: {command}",
            }
            return
        self._asked_again.add(cell_id)
        prompts = {call["key"]: call["prompt"] for call in calls_of_cell(self._workload, self._run, cell_id)}
        keys = dict.fromkeys(row["key"] for row in failed if row["key"] in prompts) or prompts
        yield from ({"kind": "prompt", "title": f"Prompt {key[:12]}", "text": prompts[key]} for key in keys)


class _CellReader:
    """Reads rows that are sorted by cell_id, one cell after another."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows, self._ahead = rows, next(rows, None)
        self._cell, self._kept = "", list[Row]()

    def rows_at(self, cell: str) -> list[Row]:
        """Return the rows of a cell. Cells must be requested in order; the same cell may be requested again."""
        if cell != self._cell:
            self._cell, self._kept = cell, []
            while self._ahead is not None and self._ahead["cell_id"] <= cell:
                if self._ahead["cell_id"] == cell:
                    self._kept.append(self._ahead)
                self._ahead = next(self._rows, None)
        return self._kept


def _rows(run: RunStore, table: str) -> Iterator[Row]:
    for piece in priced_summaries(run) if table == "summaries" else run.pieces(table):
        for part in piece.iter_slices(1000):
            yield from part.iter_rows(named=True)


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return round(sum(values) / len(values), _DIGITS) if values else None


def _failed(failed: Sequence[Row]) -> Iterator[Row]:
    if failed:
        names = [
            name
            for name in ("stage", "judge", "insight_id", "kind", "error", "message", "attempts", "key")
            if any(row[name] for row in failed)
        ]
        yield {"kind": "rows", "title": "Failures", "columns": names, "rows": [[row[name] for name in names] for row in failed]}


def _documents_part(haystack_id: str, context_id: str, gold: Iterable[int]) -> Row:
    """Return the documents shown to the model, and the query's relevant documents that retrieval missed."""
    return {
        "kind": "retrieval",
        "title": "Documents",
        "context": context_id,
        "documents": _shelf(haystack_id),
        "gold": sorted(gold),
    }


def _shelf(haystack_id: str) -> str:
    return haystack_id[:12]


def _documents(run: RunStore) -> Iterator[tuple[str, Any]]:
    """Yield (HAYSTACK/NUMBER, document). Numbers have seven digits, so that ids sort in the order of documents."""
    for piece in run.pieces("documents"):
        for row in piece.iter_rows(named=True):
            content = {"id": row["document_id"], "text": row["text"], "insights": row["insight_ids"]}
            yield f"{_shelf(row['haystack_id'])}/{row['number']:07}", content


def _insights(run: RunStore, metadata: Sequence[HaystackMetadata]) -> Iterator[tuple[str, Any]]:
    """Yield (HAYSTACK/INSIGHT, insight), sorted by id. The table groups insights by haystack, but in another order."""
    gold = {haystack.haystack_id: haystack.gold for haystack in metadata}
    rows = (row for piece in run.pieces("insights") for row in piece.iter_rows(named=True))
    for haystack_id, own in itertools.groupby(rows, key=itemgetter("haystack_id")):
        for row in sorted(own, key=itemgetter("insight_id")):
            numbers = sorted(gold[haystack_id].get(row["insight_id"]) or ())
            yield f"{_shelf(haystack_id)}/{row['insight_id']}", {"text": row["text"], "gold": numbers}
