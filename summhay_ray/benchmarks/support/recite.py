"""Repair the citations of a run's summaries by the free support judge, without any call. The result is a new run.

Citations that do not support their bullet are dropped; other documents that support it are added. Coverage judgments do not
depend on citations, so they are copied; citation scores are computed again. Any system could do this: it is post-processing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import polars as pl

from summhay_ray.benchmark import Counted, RunStore, RunTables, Section, Table
from summhay_ray.benchmarks.summhay import TABLES, Import, ScoreResult, all_rows, judges_of
from summhay_ray.benchmarks.summhay.haystacks.metadata import fields_of_haystacks, haystack_rows, read_source
from summhay_ray.benchmarks.support.judging import free_opinion
from summhay_ray.benchmarks.support.report import recited_section
from summhay_ray.benchmarks.support.tables import BULLETS, SUPPORTS
from summhay_ray.benchmarks.support.workload import rows_of
from summhay_ray.citations import SUPPORT_REVISION, CitedDocuments, Mode, repair_citations
from summhay_ray.errors import UserError
from summhay_ray.metrics import score_summary
from summhay_ray.records import CitedAnswer, Failure, Score
from summhay_ray.text import semantic_hash

STAGE = "haystack"
_BY_NAME = {table.name: table for table in TABLES}
_COPIED = ("rankings", "contexts")
"""Tables that are copied unchanged: the documents that systems were shown."""
_REPEAT = r"(#[0-9]+)$"


class Recite(Import):
    """A run of summaries whose citations were repaired. It can be read, but not run."""

    kind = "recite"
    counted = Counted(prefix="c")
    tables: ClassVar[Sequence[Table]] = (*TABLES, SUPPORTS, BULLETS)
    record_fields: ClassVar[Mapping[str, Any]] = {**Import.record_fields, "judges": list[tuple[str, str]], "recited_from": str}

    def full_report(self, scores: ScoreResult, tables: RunTables) -> Sequence[Section]:
        run = scores.stored
        return [recited_section(_figures(run), run.record["recited_from"]), *super().full_report(scores, tables)]


@dataclass(frozen=True)
class ReciteResult:
    """The counts of a repair. `summhay score` gives its scores, as for any run."""

    run: str
    of: str
    mode: Mode
    summaries: int
    bullets: int
    before: int
    """Number of citations before the repair."""
    after: int
    dropped: int
    added: int
    systems: pl.DataFrame
    """The same counts by system."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that `summhay recite` prints."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, "calls": 0, "usd": 0.0, "systems": self.systems.to_dicts()}

    def section(self) -> Section:
        return recited_section(self.systems, self.of)


def recite_run(source: RunStore, mode: Mode = "both") -> ReciteResult:
    """Repair the citations of a run's summaries. A second repair creates nothing new. Raises UserError for a run without
    summaries."""
    source = source.at()
    record = source.record
    if "haystacks" not in record or "of" in record or not {"summaries", "documents"} <= source.declared.keys():
        raise UserError(f"{source.run_id} is of kind {record['kind']}, and holds no summaries of haystacks; give a run that does")
    judges = judges_of(source)
    summaries = source.table("summaries")
    if summaries.is_empty():
        raise UserError(f"{source.run_id} holds no summary yet; run it first")
    judgments = all_rows(source, "judgments")
    content = {
        "of": source.run_id,
        "mode": mode,
        "free": SUPPORT_REVISION,
        "judges": [[one.judge, one.identity] for one in judges],
        "rows": source.digests().get("summaries"),
        "judgments": judgments.height,
    }
    own: dict[str, Any] = {"kind": Recite.kind, "name": f"recited {source.run_id}", "recited_from": source.run_id, "mode": mode}
    run_id = Recite.counted.prefix + semantic_hash(content)[:12]
    run = Recite.run_in(source.store, run_id, {**own, **fields_of_haystacks(record), "judges": content["judges"]})
    done = run.finished(STAGE)
    for (haystack_id,), of in summaries.sort("haystack_id", "cell_id").group_by("haystack_id", maintain_order=True):
        if haystack_id not in done:
            mine = judgments.filter(pl.col("cell_id").is_in(of["cell_id"].implode()))
            rows = _recited(source, str(haystack_id), of, mine, mode)
            failures = source.table("failures").filter(pl.col("cell_id").is_in(of["cell_id"].implode()))
            rows["failures"] = [*_BY_NAME["failures"].records(failures), *rows["failures"]]
            run.commit_units(STAGE, {str(haystack_id): rows})
    run.end()
    systems = _figures(run)
    counts = {name: int(systems[name].sum()) for name in ("before", "after", "dropped", "added")}
    n_bullets = run.table(BULLETS.name, columns=["bullet"]).height
    return ReciteResult(run.run_id, source.run_id, mode, summaries.height, n_bullets, **counts, systems=systems)


def _figures(run: RunStore) -> pl.DataFrame:
    """Return each system's numbers of citations: before the repair, after it, dropped by it and added by it."""
    labels = dict(run.table("summaries", columns=["system", "label"]).select("system", "label").unique().iter_rows())
    cited, after = pl.col("cited"), pl.col("recited")
    counted = (
        run.table(SUPPORTS.name)
        .group_by("system")
        .agg(before=cited.sum(), after=after.sum(), dropped=(cited & ~after).sum(), added=(~cited & after).sum())
    )
    system, repeat = pl.col("system").str.replace(_REPEAT, ""), pl.col("system").str.extract(_REPEAT).fill_null("")
    return counted.sort("system").select("system", (system.replace(labels) + repeat).alias("label"), pl.exclude("system"))


def _recited(source: RunStore, haystack_id: str, of: pl.DataFrame, judgments: pl.DataFrame, mode: Mode) -> dict[str, list[Any]]:
    [entry] = [one for one in source.record["haystacks"] if one["haystack_id"] == haystack_id]
    file = read_source(source.store, entry)
    rows: dict[str, list[Any]] = haystack_rows(file)
    for name in _COPIED:
        rows[name] = _BY_NAME[name].records(source.table(name).filter(pl.col("haystack_id") == haystack_id))
    corpus = CitedDocuments([(document.document_id, document.text) for document in file.haystack.documents])
    gold = file.haystack.gold
    judged: dict[str, list[Any]] = {}
    for judgment in _BY_NAME["judgments"].records(judgments):
        judged.setdefault(judgment.cell_id, []).append(judgment)
    own_cells = pl.col("cell_id").is_in(of["cell_id"].implode())
    rows["absent_answers"] = _BY_NAME["absent_answers"].records(all_rows(source, "absent_answers").filter(own_cells))
    rows |= {name: [] for name in ("summaries", "judgments", "scores", "failures", SUPPORTS.name, BULLETS.name)}
    for summary in _BY_NAME["summaries"].records(of):
        system = f"{summary.system}#{summary.repeat}" if summary.repeat else summary.system
        names = (summary.label, summary.model, summary.retriever, summary.ordering)
        answer = CitedAnswer(haystack_id, summary.subtopic_id, system, tuple(summary.bullets), None, *names)
        cited, free = corpus.cited(answer.bullets), corpus.support(answer.bullets)
        after = [
            repair_citations(text, one, free, bullet, mode)
            for bullet, (text, one) in enumerate(zip(answer.bullets, cited, strict=True))
        ]
        pairs = [(bullet, number - 1) for bullet, one in enumerate(cited) for number in one.numbers]
        found = rows_of(answer, corpus, cited, {pair: free_opinion(free, *pair) for pair in pairs}, free, after)
        bullets = corpus.apply_citations(answer.bullets, cited, after)
        own = judged.get(summary.cell_id, [])
        scored = score_summary(own, bullets, gold)
        rows["summaries"].append(replace(summary, bullets=bullets))
        rows["judgments"] += own
        rows["scores"] += [one.of(summary) for one in scored if isinstance(one, Score)]
        rows["failures"] += [one for one in scored if isinstance(one, Failure)]
        for name, records in found.items():
            rows[name] += records
    return rows
