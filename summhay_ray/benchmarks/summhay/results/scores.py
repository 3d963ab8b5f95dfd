"""Score a stored run from its judgments, without any model call (paper, section 4.1)."""

from __future__ import annotations

import functools
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import polars as pl

from summhay_ray import metrics
from summhay_ray.benchmark import Benchmark, RunStore
from summhay_ray.benchmarks.retrieval import retrieval_details
from summhay_ray.benchmarks.summhay.grid.grid import Grid
from summhay_ray.benchmarks.summhay.haystacks.metadata import (
    BY_NAME,
    HaystackMetadata,
    gold_by_insight,
    nuggets_of,
    stored_metadata,
)
from summhay_ray.benchmarks.summhay.haystacks.reviews import current_facts
from summhay_ray.benchmarks.summhay.results import judges as judging
from summhay_ray.benchmarks.summhay.results.labels import Labels, label_pairs, labelled_scores, pooled_over_systems
from summhay_ray.benchmarks.summhay.results.other_figures import PLACE, Claims, absent_queries, retrieval_of
from summhay_ray.haystack import RELEASED_JUDGE, Health, health
from summhay_ray.records import Failure, Score
from summhay_ray.sections import Section

SYSTEM = ("system", "retriever", "ordering", "model")
CLUSTER = ("haystack_id", "subtopic_id")
_TEXT = (*SYSTEM, "judge", *CLUSTER)
_SUMMARY = (*SYSTEM, *CLUSTER)
Part = TypeVar("Part")

CI_OF = (*metrics.FIGURES, "coverage_corrected", "joint_corrected", "coverage_labelled", "joint_labelled")
"""Figures of a system that have a confidence interval."""
ENDS, NEITHER = ("low", "high"), (None, None)
ORACLES = ("oracle", "released/oracle")
"""Retrievers that find all gold documents."""


@dataclass(frozen=True)
class ScoreResult:
    """The scores of a run: pooled over its haystacks, for each haystack, and the sensitivity to the position of documents."""

    run: str
    compat: metrics.Compat
    judge: str
    """The judge of record (`judge_of_record`)."""
    systems: list[metrics.SystemScore]
    """The release's table, with equal weight for each insight. The judge of record comes first."""
    by_query: list[metrics.SystemScore]
    """The same systems, in the same order, with equal weight for each query. Reports show, rank and compare these figures."""
    failures: list[Failure]
    """Judgments that scoring could not use."""
    stored: RunStore = field(repr=False)
    """The scored run."""
    scorer: Scorer = field(repr=False)
    """Computes the scores in single haystacks."""
    metadata: Sequence[HaystackMetadata] = field(repr=False)
    """The run's haystacks."""
    biases: Mapping[str, metrics.JudgeBias | None] = field(default_factory=dict)
    """Judge -> the bias subtracted from its scores; None if unknown."""
    so_far: str = ""
    """How many cells of an unfinished run have been asked; the figures cover only these. Empty for a finished run."""
    n_labels: int = 0
    """Number of people's labels that correct the figures."""
    labelled_mean: Mapping[str, metrics.Corrected] = field(default_factory=dict)
    """Coverage and joint by the judge of record, corrected by the labels of all systems. They are means over systems."""

    @property
    def queries(self) -> pl.DataFrame:
        """One row per system, judge and scored query: the means over the query's scored insights, and their number `n`."""
        return metrics.query_means(self.scorer.sums).with_columns(pl.col(_TEXT).cast(pl.String)).sort(_TEXT)

    @property
    def expected(self) -> pl.DataFrame:
        """One row per system, judge and query: the number of insights to score, `n_expected`."""
        return self.scorer.expected.with_columns(pl.col(_TEXT).cast(pl.String))

    @functools.cached_property
    def position(self) -> list[metrics.PositionSensitivity]:
        """The sensitivity to the position of documents, from the figures with equal weight for each query."""
        return metrics.position_sensitivity(self.by_query)

    @functools.cached_property
    def retrieval(self) -> pl.DataFrame | None:
        """Measures of the rankings (`benchmarks.retrieval.retrieval_table`). None for a run without rankings."""
        return retrieval_of(self.stored, self.metadata, self.expected)

    @functools.cached_property
    def haystacks(self) -> Mapping[str, list[metrics.SystemScore]]:
        """Name of the haystack -> the scores of every system in it (equal weight for each insight), computed on first use."""
        ids = self.scorer.ids
        return self.scorer.by_haystack("insights") if len(ids) > 1 else dict.fromkeys(ids, self.systems)

    @functools.cached_property
    def haystacks_by_query(self) -> Mapping[str, list[metrics.SystemScore]]:
        """Like `haystacks`, with equal weight for each query."""
        ids = self.scorer.ids
        return self.scorer.by_haystack("queries") if len(ids) > 1 else dict.fromkeys(ids, self.by_query)

    def health(self) -> Health:
        """The health of the run's haystacks (with people's current findings about them) and of its scores."""
        own = [one for one in self.by_query if one.judge == self.judge and one.retriever in ORACLES]
        joints = [one.joint for one in own if one.joint is not None]
        n_queries = sum(not subtopic.absent for one in self.metadata for subtopic in one.subtopics)
        mined = current_facts(self.stored.store, self.metadata) if any(one.facts for one in self.metadata) else []
        return health(mined, n_queries, max(joints, default=None), self.judge)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document that `summhay score` prints."""
        return {
            "run": self.run,
            "compat": self.compat,
            **self.details(),
            "unusable_judgments": len(self.failures),
            "haystacks": {name: [system.to_json() for system in systems] for name, systems in self.haystacks.items()},
        }

    def details(self) -> dict[str, Any]:
        """Return the run's result as JSON: the systems over all haystacks, position sensitivity and retrieval."""
        return {
            "judge": self.judge,
            "weighting": {"systems": metrics.WEIGHTINGS["insights"], "by_query": metrics.WEIGHTINGS["queries"]},
            **({"so_far": self.so_far} if self.so_far else {}),
            "systems": [system.to_json() for system in self.systems],
            "by_query": [system.to_json() for system in self.by_query],
            **({"labelled_mean": {name: asdict(one) for name, one in self.labelled_mean.items()}} if self.n_labels else {}),
            "position_sensitivity": [asdict(row) for row in self.position],
            **({} if self.retrieval is None else retrieval_details(self.retrieval)),
        }

    @property
    def table(self) -> pl.DataFrame:
        """Return one row per system and judge: its figures with equal weight for each query, each with its 95 % interval as
        NAME_low and NAME_high, and its n. `release_NAME` are coverage, citation and joint with equal weight for each insight.

        `bias_mean` and `bias_se` give the bias that was subtracted; null if unknown.
        """
        rows = []
        for system, release in zip(self.by_query, self.systems, strict=True):
            row = system.to_json()
            bias, labels = row.pop("bias") or {}, row.pop("labels") or {}
            del row["ci"], row["ci_reasons"]
            nuggets = {f"nuggets_{name}": value for name, value in (row.pop("nuggets") or {}).items()}
            figures = (*CI_OF, *(f"nuggets_{name}" for name in metrics.NUGGET_SCORES if nuggets))
            ends = {
                f"{name}_{end}": value for name in figures for end, value in zip(ENDS, system.ci.get(name, NEITHER), strict=True)
            }
            ends |= {f"release_{name}": getattr(release, name) for name in ("coverage", "citation", "joint")}
            applied = {"bias_mean": bias.get("mean"), "bias_se": bias.get("se"), "labels": labels.get("n")}
            rows.append({**row, **ends, **nuggets, **applied})
        numbers = (
            {f"{name}_{end}": pl.Float64 for name in CI_OF for end in ENDS}
            | dict.fromkeys(("bias_mean", "bias_se", "coverage_labelled", "joint_labelled"), pl.Float64)
            | {"labels": pl.Int64}
        )
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=numbers)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the main figures of the systems, best first."""
        shown = [f"{name}{end}" for name in ("joint", "coverage", "citation") for end in ("", "_low", "_high")]
        table = self.table.select("judge", *shown, "n_expected", system="label", n="n_scored")
        table = table.select("system", pl.exclude("system")).sort("joint", "coverage", descending=True, nulls_last=True)
        units = dict.fromkeys(("joint", "coverage", "citation"), "%")
        return Section(f"Scores of {self.run}", metrics.WEIGHTINGS["queries"].capitalize(), table, units)._repr_html_()


@dataclass(frozen=True)
class Scorer:
    """Computes the scores of a run's systems, over all its haystacks or in each of them."""

    sums: pl.DataFrame
    """`metrics.insight_sums` of the scored insights."""
    expected: pl.DataFrame
    bullets: pl.DataFrame
    """`metrics.BULLET_FIGURES` of each summary."""
    nuggets: pl.DataFrame
    """`metrics.nugget_scores_by_query`; empty for haystacks without nuggets."""
    biases: Mapping[str, metrics.JudgeBias | None]
    """The bias of each judge. Scores are listed in the order of these judges."""
    claims: Claims | None
    """Adds the figures about invented answers and unsupported bullets. None if there are no such figures, because the documents
    answer every query and no support run has judged a bullet."""
    ids: Mapping[str, str]
    """Name of each haystack (followed by its id if several have that name) -> its id."""

    def by_haystack(self, weighting: metrics.Weighting) -> dict[str, list[metrics.SystemScore]]:
        """Map the name of each haystack to the scores in it."""
        found = metrics.haystack_scores(self.sums, self.expected, self.bullets, weighting)
        return {name: self.finish(found.get(one, []), one) for name, one in self.ids.items()}

    def finish(self, scores: Sequence[metrics.SystemScore], haystack_id: str = "") -> list[metrics.SystemScore]:
        """Add the figures of nuggets and of `Claims` to the scores, and subtract the biases of their judges, judge by judge."""
        if self.nuggets.height:
            own = self.nuggets.filter(haystack_id=haystack_id) if haystack_id else self.nuggets
            scores = metrics.with_nuggets(scores, own)
        places = {judge: place for place, judge in enumerate(self.biases)}
        ordered = sorted(scores, key=lambda score: places[score.judge])
        corrected = [metrics.corrected(score, self.biases[score.judge]) for score in ordered]
        return self.claims.add_to(corrected, haystack_id) if self.claims else corrected


def score_run(
    run: RunStore,
    compat: metrics.Compat = "default",
    biases: Sequence[metrics.JudgeBias] = (),
    rejudged: bool = False,
    judge: str = "",
    labels: Labels | None = None,
    workload: Any = None,
) -> ScoreResult:
    """Score the current content of the run. Missing judgments count as expected but not as scored.

    `biases`: measured biases of judges against people; they replace the shipped ones. `rejudged`: include the judgments of
    later rejudges. `judge`: score only this judge's judgments. `labels`: people's labels, which also correct the figures.
    `workload`: the run's workload, if it is already known. Raises StoreError for a run without summaries of its own, UserError
    for an unknown judge and for labels of another run.
    """
    judging.check_judged(run)
    run = run.at()
    of_record = judging.judge_of_record(run, judge)
    judges = judging.judges_of(run) if judge or (rejudged and judging.judging_ids(run, "rejudges")) else None
    if judge and judges:
        judges = [judged for judged in judges if judged.judge == of_record]
    # An imported run has no spec.
    if workload is None and "spec" in run.record:
        workload = Benchmark.of(run)
    grid: Grid | None = None if workload is None else workload.grid
    metadata = stored_metadata(run.store, run.record) if grid is None else grid.haystacks.metadata
    own = [label for label, _ in run.record.get("judges", [(RELEASED_JUDGE, "")])]
    scored_by = own if judges is None else [judged.judge for judged in judges]
    unasked, so_far = _count_unasked(run, workload, judges, scored_by or own)
    scorer, failures = _scorer(run, grid, metadata, judges, scored_by, compat, unasked)
    named = {*map(str, scorer.sums["judge"].unique()), *map(str, scorer.expected["judge"].unique())}
    scorers = sorted(named, key=lambda name: (name != of_record, name))
    shared = Counter(one.name for one in metadata)
    ids = {one.name if shared[one.name] == 1 else f"{one.name} ({one.haystack_id})": one.haystack_id for one in metadata}
    scorer = replace(scorer, biases=judging.known_biases(run, judges is not None, biases, scorers), ids=ids)
    pooled, by_query = (
        scorer.finish(metrics.system_scores(scorer.sums, scorer.expected, scorer.bullets, weighting))
        for weighting in metrics.WEIGHTINGS
    )
    over_systems = dict[str, metrics.Corrected]()
    if labels is not None:
        pairs = label_pairs(run, labels, metadata)
        pooled, by_query = labelled_scores(pooled, pairs), labelled_scores(by_query, pairs)
        over_systems = pooled_over_systems(by_query, pairs, of_record)
    return ScoreResult(
        run=run.run_id,
        compat=compat,
        judge=of_record,
        systems=pooled,
        by_query=by_query,
        failures=failures,
        stored=run,
        scorer=scorer,
        metadata=metadata,
        biases=scorer.biases,
        so_far=so_far,
        n_labels=0 if labels is None else len(labels.rows),
        labelled_mean=over_systems,
    )


def _scorer(
    run: RunStore,
    grid: Grid | None,
    metadata: Sequence[HaystackMetadata],
    judges: Sequence[judging.JudgedBy] | None,
    scored_by: list[str],
    compat: metrics.Compat,
    unasked: pl.DataFrame,
) -> tuple[Scorer, list[Failure]]:
    """Return the scorer of a run, without `biases` and `ids`, and the judgments that cannot be used.

    `judges`: None for the run's own. `scored_by`: their names. `unasked`: see `_count_unasked`.
    """
    # The last repeat of each system, in the order of its first summary.
    last = pl.col("repeat").max()
    pieces = [one.group_by(SYSTEM, maintain_order=True).agg(last) for one in run.pieces("summaries", (*SYSTEM, "repeat"))]
    summaries = pl.concat(pieces).group_by(SYSTEM, maintain_order=True).agg(last)
    expected_systems: Systems = {row[:4]: row[4] + 1 for row in summaries.iter_rows()}
    if grid is not None:
        models = [summarizer.label for summarizer in grid.spec.summarizers]
        combos = grid.systems.items()
        expected_systems = {(system, combo[0], combo[1], models[combo[2]]): grid.spec.repeats for combo, system in combos}
    systems = expected_systems, scored_by
    kinds, by_id = _kinds(metadata, systems, summaries), {one.haystack_id: one for one in metadata}
    names, on = (*_TEXT, "insight_id", *metrics.VALUES), [*CLUSTER, "insight_id"]
    nuggets = nuggets_of(metadata).with_columns(pl.col(name).cast(kinds[name]) for name in CLUSTER)

    def scored(mine: pl.DataFrame, judged: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, list[Failure]]:
        # The gold documents of all haystacks together would take much memory.
        gold = gold_by_insight(by_id[one] for one in mine["haystack_id"].unique())
        scores, odd = metrics.score_columns(mine, judged, gold, compat)
        said = _cast(mine, kinds, _SUMMARY)
        judge = _cast(judged, kinds, ("judge",)).with_columns(judged["insight_id"])
        columns = [said[scores["summary"]], judge[scores["judgment"]], scores.select(metrics.VALUES)]
        one_by_one: list[tuple[Any, ...]] = []
        failures: list[Failure] = []
        for summary in BY_NAME["summaries"].records(mine[odd]):
            system = [getattr(summary, name) for name in SYSTEM]
            rows = BY_NAME["judgments"].records(judged.filter(pl.col("cell_id") == summary.cell_id))
            for row in metrics.score_summary(rows, summary.bullets, by_id[summary.haystack_id].gold, compat):
                if isinstance(row, Score):
                    place = (row.judge, summary.haystack_id, summary.subtopic_id, row.insight_id)
                    one_by_one.append((*system, *place, *(getattr(row, name) for name in metrics.VALUES)))
                else:
                    failures.append(row)
        counted = pl.concat(columns, how="horizontal").select(names)
        insights = pl.concat([counted, _rows(one_by_one, kinds, names)])
        figures = said.with_columns(
            figure(mine["bullets"]).cast(pl.Float64).alias(name) for name, figure in metrics.BULLET_FIGURES.items()
        )
        of_nuggets = metrics.nugget_sums(insights.join(nuggets, on=on)) if nuggets.height else nuggets
        return metrics.insight_sums(insights), figures, of_nuggets, failures

    parts = list(_side_by_side(scored, judging.judged_pieces(run, "judgments", judges)))
    sums, bullets, judged, failures = zip(*parts, strict=True) if parts else ((), (), (), ())
    expected, none = _expected(metadata, systems, kinds, unasked), _rows((), kinds, names)
    by_query = pl.DataFrame()
    if nuggets.height:
        of_none = metrics.nugget_sums(none.join(nuggets, on=on))
        by_query = metrics.nugget_scores_by_query([of_none, *judged], expected, nuggets)
    of_bullets = pl.concat([_rows((), kinds, (*_SUMMARY, *metrics.BULLET_FIGURES)), *bullets])
    absent = absent_queries(metadata)
    # Oldest first; a recited run holds its own judgments of bullets.
    supporting = [run, *map(run.store.run, judging.judging_ids(run, "supports"))]
    supports = [one for one in supporting if "support_bullets" in one.declared and one.has_rows("support_bullets")]
    repeats = {system[0]: n for system, n in systems[0].items()}
    scorer = Scorer(
        sums=metrics.add_sums([metrics.insight_sums(none), *sums]),
        expected=expected,
        bullets=of_bullets.join(_cast(absent, kinds, PLACE), on=PLACE, how="anti"),
        nuggets=by_query,
        biases={},
        claims=Claims(run, absent, supports, repeats) if absent.height or supports else None,
        ids={},
    )
    return scorer, [failure for odd in failures for failure in odd]


def _side_by_side(work: Callable[..., Part], given: Iterable[tuple[Any, ...]]) -> Iterator[Part]:
    """Yield work(*arguments) for each of `given`, in order, computed on all cores. Inputs are taken only as they are needed."""
    cores = os.cpu_count() or 1
    with ThreadPoolExecutor(cores) as threads:
        waiting: deque[Future[Part]] = deque()
        for arguments in given:
            waiting.append(threads.submit(work, *arguments))
            if len(waiting) > cores:
                yield waiting.popleft().result()
        yield from (future.result() for future in waiting)


def _cast(frame: pl.DataFrame, kinds: Mapping[str, Any], names: Sequence[str]) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kinds[name]) for name in names)


def _rows(rows: Sequence[tuple[Any, ...]], kinds: Mapping[str, Any], names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={name: kinds[name] for name in names}, orient="row")


Systems = Mapping[tuple[str, str, str, str], int]
"""(system, retriever, ordering, model) -> how often the system answers each query (repeats)."""


def _kinds(metadata: Sequence[HaystackMetadata], systems: tuple[Systems, list[str]], summaries: pl.DataFrame) -> dict[str, Any]:
    """Map each column to its type. A text column is an enum with sorted values, so that its codes sort as the texts do."""
    texts: dict[str, set[str]] = {name: set(summaries[name]) for name in SYSTEM}
    for place, name in enumerate(SYSTEM):
        texts[name].update(system[place] for system in systems[0])
    texts["judge"] = set(systems[1])
    texts["haystack_id"] = {haystack.haystack_id for haystack in metadata}
    texts["subtopic_id"] = {subtopic.subtopic_id for haystack in metadata for subtopic in haystack.subtopics}
    numbers = dict.fromkeys((*metrics.VALUES, *metrics.BULLET_FIGURES), pl.Float64)
    enums = {name: pl.Enum(sorted(values)) for name, values in texts.items()}
    return {**enums, **numbers, "insight_id": pl.String, "n_expected": pl.Int64}


def _count_unasked(
    run: RunStore, workload: Any, judges: Sequence[judging.JudgedBy] | None, scored_by: Sequence[str]
) -> tuple[pl.DataFrame, str]:
    """Return (the repeats that were not asked and so are not missing, `ScoreResult.so_far`).

    Columns: system, haystack_id, subtopic_id, judge, and `unasked`, the number of repeats without a summary so far, or whose
    summary a later judge has not been asked about.
    """
    where, so_far = ("system", "haystack_id", "subtopic_id"), ""
    rows: list[tuple[str, str, str]] = []
    if workload is not None:
        units, total = Benchmark.finished_items(run), run.record["cells"]
        if units.height < total:
            finished = set(units["unit"])
            so_far = f"{units.height:,} of {total:,} cells so far: the figures are of these"
            rows = [(item.data["system"], *item.data["unit"][:2]) for item in workload.items() if item.id not in finished]
    waiting = pl.DataFrame(rows, schema=dict.fromkeys(where, pl.String), orient="row")
    parts = [waiting.with_columns(judge=pl.lit(name)) for name in scored_by]
    for later in (one for one in judges or () if run.run_id not in one.runs):
        known = pl.concat(Benchmark.finished_items(run.store.run(name))["unit"] for name in later.runs)
        cells = run.table("summaries", columns=("cell_id", *where)).filter(~pl.col("cell_id").is_in(known.implode()))
        parts.append(cells.select(*where, judge=pl.lit(later.judge)))
    return pl.concat(parts).group_by(*where, "judge").agg(unasked=pl.len().cast(pl.Int64)), so_far


def _expected(
    metadata: Sequence[HaystackMetadata], systems: tuple[Systems, list[str]], kinds: Mapping[str, Any], unasked: pl.DataFrame
) -> pl.DataFrame:
    """Return the number of insights that each judge must judge, by system and query: `n_expected`, to compare with the number
    scored.

    `unasked`: see `_count_unasked`. Queries with no asked cell are left out.
    """
    keys = [
        (haystack.haystack_id, subtopic.subtopic_id, n_insights)
        for haystack in metadata
        for subtopic, n_insights in zip(haystack.subtopics, haystack.n_insights, strict=True)
        if not subtopic.absent
    ]
    places = {"haystack_id": pl.String, "subtopic_id": pl.String, "n_insights": pl.Int64}
    queries = pl.DataFrame(keys, schema=places, orient="row")
    named: dict[str, Any] = {**dict.fromkeys(SYSTEM, pl.String), "repeats": pl.Int64}
    answering = pl.DataFrame([(*system, n) for system, n in systems[0].items()], schema=named, orient="row")
    every = answering.join(pl.DataFrame({"judge": systems[1]}, schema={"judge": pl.String}), how="cross").join(
        queries, how="cross"
    )
    every = every.join(unasked, on=["system", "haystack_id", "subtopic_id", "judge"], how="left")
    due = every.with_columns(repeats=pl.col("repeats") - pl.col("unasked").fill_null(0)).filter(pl.col("repeats") > 0)
    return _cast(due.with_columns(n_expected=pl.col("repeats") * pl.col("n_insights")), kinds, (*_TEXT, "n_expected"))
