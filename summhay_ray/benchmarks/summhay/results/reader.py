"""Reads a run of summaries: scores, report, samples, and the sources of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from summhay_ray.benchmark import Results, RunStore, RunTables, Section, Spec
from summhay_ray.benchmarks.retrieval import retrieval_section
from summhay_ray.benchmarks.summhay.grid.entries import OfHaystacks
from summhay_ray.benchmarks.summhay.haystacks.export import export
from summhay_ray.benchmarks.summhay.haystacks.metadata import stored_metadata
from summhay_ray.benchmarks.summhay.haystacks.sources import BY_GRAMMAR
from summhay_ray.benchmarks.summhay.results.claims import claims_section
from summhay_ray.benchmarks.summhay.results.explain import explain, places
from summhay_ray.benchmarks.summhay.results.health import health_of
from summhay_ray.benchmarks.summhay.results.judges import judge_of_record
from summhay_ray.benchmarks.summhay.results.labels import read_labels
from summhay_ray.benchmarks.summhay.results.scores import ScoreResult, score_run
from summhay_ray.metrics import MAY_BE_UNREAD, Compat, read_citations
from summhay_ray.records import CitedAnswer, CitedAnswers, system_label
from summhay_ray.sections import Samples

S = TypeVar("S", bound=Spec)


def _unread_citations(run: RunStore, compat: Compat) -> Iterator[str]:
    """Warn about each system whose text has brackets that look like citations, but could not be read or name no document."""
    if compat == "release":
        return
    found: dict[str, list[str]] = {}
    named = ["retriever", "ordering", "model"]
    for piece in run.pieces("summaries", [*named, "bullets"]):
        bullets = piece.explode("bullets").filter(pl.col("bullets").str.contains(MAY_BE_UNREAD))
        for *system, bullet in bullets.select(*named, "bullets").iter_rows():
            read = read_citations(bullet)
            found.setdefault(system_label(*system), []).extend([*read.unread, *read.unknown])
    for label, some in sorted(found.items()):
        if some:
            brackets = "bracket was" if len(some) == 1 else "brackets were"
            mend = "docs/explanation/numbers.md lists the forms that are"
            yield f"{label}: {len(some)} {brackets} not read as a citation, such as {some[0][:80]!r}; {mend}"


class Summaries(OfHaystacks[S]):
    """A run of summaries of haystacks, made here or imported."""

    def score(self, tables: RunTables) -> ScoreResult:
        """See `Workload`: the scores of every system (section 4.1, Table 2); for the report, also those by later judges."""
        options = tables.options
        labels = read_labels(Path(options.labels)) if options.labels else None
        return score_run(tables.run, options.compat, rejudged=options.whole, labels=labels)

    def report(self, scores: ScoreResult) -> Sequence[Section]:
        """See `Workload`: claims and retrieval; the terminal has its own tables for scores."""
        budget = scores.stored.record.get("spec", {}).get("token_budget")
        claims = claims_section(scores.by_query, scores.judge)
        retrieval = None if scores.retrieval is None else retrieval_section(scores.retrieval, budget)
        return [section for section in (claims, retrieval) if section is not None]

    def full_report(self, scores: ScoreResult, tables: RunTables) -> Sequence[Section]:
        from summhay_ray.benchmarks.summhay.results.paper_tables import sections

        return sections(scores, tables.options.judge, tables.options.over)

    def details(self, scores: ScoreResult) -> Mapping[str, Any]:
        return scores.details()

    def results(self, tables: RunTables) -> Results:
        """See `Workload`. Adds the limits of confidence in mined haystacks, warnings about all haystacks, and whether their
        prose comes from templates or a model."""
        found, metadata = super().results(tables), stored_metadata(tables.run.store, tables.run.record)
        n = sum(haystack.by_grammar for haystack in metadata)
        notes = (f"the prose of {n} of {len(metadata)} haystacks is {BY_GRAMMAR}",) if n else ()
        mined = any(haystack.facts for haystack in metadata)
        warnings = [
            *(health_of(found.scores).lines() if mined else ()),
            *(warning for haystack in metadata for warning in haystack.warnings),
            *_unread_citations(tables.run, tables.options.compat),
        ]
        return replace(found, warnings=tuple(warnings), notes=notes, judge=judge_of_record(tables.run, tables.options.judge))

    def samples(self, run: RunStore, judge: str = "") -> Samples:
        """See `Workload`: each summary with its judgments."""
        from summhay_ray.benchmarks.summhay.results.samples import samples

        return samples(None if self.imported else self, run, judge)

    def explain(self, run: RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        """See `Workload`. Prompts are absent if no call was made."""
        return explain(None if self.imported else self, run, run, key, compat)

    def places(self, run: RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return places(run, item_ids, None if self.imported else self)

    def cited_answers(self, run: RunStore) -> CitedAnswers:
        """See `Workload`: the summaries, and the documents shown for each, if the run has them."""
        contexts = dict(run.table("contexts").select("context_id", "numbers").iter_rows())
        texts = run.table("documents").sort("haystack_id", "number")
        documents = {
            str(name): list(of.select("document_id", "text").iter_rows())
            for (name,), of in texts.group_by("haystack_id", maintain_order=True)
        }
        rows = run.table("summaries").with_columns(
            pl.when(pl.col("repeat") > 0).then(pl.format("{}#{}", "system", "repeat")).otherwise("system").alias("system")
        )
        answers = [
            CitedAnswer(
                row["haystack_id"],
                row["subtopic_id"],
                row["system"],
                tuple(row["bullets"]),
                tuple(documents[row["haystack_id"]][number - 1][0] for number in contexts[row["context_id"]])
                if row["context_id"] in contexts
                else None,
                system_label(row["retriever"], row["ordering"], row["model"]) + (f"#{row['repeat']}" if row["repeat"] else ""),
                *(row["model"], row["retriever"], row["ordering"]),
            )
            for row in rows.sort("haystack_id", "subtopic_id", "system").iter_rows(named=True)
        ]
        return CitedAnswers(documents, answers)

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: JSON files in the released format."""
        return export(run, folder, judge)
