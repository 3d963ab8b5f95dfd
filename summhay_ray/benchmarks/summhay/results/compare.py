"""Compare systems of SummHay runs by the judges' scores, with and without the judges' bias against people."""

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import polars as pl

from summhay_ray import comparison
from summhay_ray.benchmark import ByQuery, RunStore
from summhay_ray.benchmarks.summhay.results.judges import check_judged, judge_of_record, judges_of
from summhay_ray.benchmarks.summhay.results.labels import Labels
from summhay_ray.benchmarks.summhay.results.scores import ORACLES, ScoreResult, score_run
from summhay_ray.errors import UserError
from summhay_ray.metrics import Z_95, JudgeBias, Over, SystemScore
from summhay_ray.outcome import MICROS
from summhay_ray.records import SYSTEM_NAMES

Factor = Literal["retriever", "model"]
GOLD_ORDERINGS = ("top", "middle", "bottom")
"""Orderings of the whole haystack that depend on the position of its gold documents."""
_MOST_BULLETS = 3
"""Bullets for each insight from which an answer counts as long: one that copies its documents covers every insight."""
FIGURES = {"joint": "joint", "coverage": "coverage", "citation": "citation_f1"}
"""The compared figure -> its column in the means per query (`ScoreResult.queries`)."""


def compare_systems(
    runs: Sequence[RunStore],
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    over: Over | None = None,
    by: Factor | None = None,
    labels: Labels | None = None,
) -> comparison.SystemComparison:
    """Compare systems on the queries that both answered, as `compare_runs` does.

    `judges`: one judge, or one for each run; by default the runs' judge of record. `by`: compare retrievers (with their
    ordering), averaged over the models, or models, averaged over the retrievers, instead of systems. `labels`: people's labels
    of one run's judgments; cannot be combined with `by`.
    """
    if labels is not None and len(runs) > 1:
        raise UserError("labels are of one run's judgments: compare its systems alone")
    if labels is not None and by is not None:
        raise UserError(f"labels correct the figures of systems; leave out by {by}")
    for run in runs:
        check_judged(run)
    chosen, warnings = judges_compared(runs, judges)
    results = [score_run(run.at(), judge=judge, labels=labels) for run, judge in zip(runs, chosen, strict=True)]
    for result in results:
        if not any(system.n_scored for system in result.systems):
            raise UserError(f"{result.run} has no judgment scored by {result.judge} yet; nothing to compare")
    costs = [{system: usd / MICROS for system, usd, _ in mean_costs(result.stored).iter_rows()} for result in results]
    scores = [judged_scores(result, result.judge, of) for result, of in zip(results, costs, strict=True)]
    if by is not None:
        # System -> (its value of the factor `by`, its value of the other factor).
        factors = [
            {
                one.system: (one.column, one.model) if by == "retriever" else (one.model, one.column)
                for one in result.systems
                if one.judge == result.judge
            }
            for result in results
        ]
        scores = [comparison.by_factor(one, known) for one, known in zip(scores, factors, strict=True)]
    compared = comparison.compare_runs(scores, systems, over)
    # Put the most serious warnings first: they limit all conclusions from the scores.
    limits = dict.fromkeys(line for result in results for line in result.health().lines())
    return replace(compared, warnings=[*limits, *compared.warnings, *warnings])


def _caveats(result: ScoreResult, systems: Collection[SystemScore]) -> Iterator[str]:
    """Yield what the figures leave out: invented answers, and answers that are much longer than the insights require."""
    if worst := max((one for one in systems if one.invented), key=lambda one: one.invented or 0.0, default=None):
        most = f"{worst.label} gives most ({100 * (worst.invented or 0.0):.0f} %)"
        yield f"invented answers to queries about what no document says, which the scores leave out: {most}"
    if longest := max(
        (one for one in systems if one.bullets_per_summary), key=lambda one: one.bullets_per_summary or 0.0, default=None
    ):
        queries = [
            n_insights
            for one in result.metadata
            for subtopic, n_insights in zip(one.subtopics, one.n_insights, strict=True)
            if not subtopic.absent
        ]
        n_bullets, n_insights = longest.bullets_per_summary or 0.0, statistics.fmean(queries)
        if n_bullets > _MOST_BULLETS * n_insights:
            given = f"{longest.label} gives {n_bullets:.0f} bullets a query for {n_insights:.0f} insights"
            yield f"long answers, which coverage does not punish: {given}"


def judged_scores(result: ScoreResult, judge: str, costs: Mapping[str, float] = MappingProxyType({})) -> comparison.RunScores:
    """Return the figures per query of a run's systems, by one judge. `costs`: see `mean_costs`."""
    systems = {system.system: system for system in result.by_query if system.judge == judge}
    health = result.health()
    rows = result.queries.filter(pl.col("judge") == judge)
    where = {"cluster": "haystack_id", "query": "subtopic_id"}
    # Without any gold document, only coverage is known.
    graded = rows.is_empty() or rows["joint"].count() > 0
    figures = {name: pl.col(column) for name, column in FIGURES.items() if graded or name == "coverage"}
    queries = result.expected.filter(pl.col("judge") == judge).join(rows, on=["system", *where.values()], how="left")
    # Unjudged insights count as expected in every figure. Joint and citation cover only some of the judged insights.
    n, missing = pl.col("n").fill_null(0), pl.max_horizontal(pl.col("n_expected") - pl.col("n").fill_null(0), 0)
    counts = {"coverage": n, "joint": pl.col("graded").fill_null(0), "citation": pl.col("covered").fill_null(0)}
    expected = [
        queries.select("system", **where, figure=pl.lit(figure), n=counts[figure], n_expected=counts[figure] + missing)
        for figure in figures
    ]
    by_query = ByQuery(
        rows.select("system", **where, **figures),
        dict.fromkeys(figures, "%"),
        "haystack",
        pl.concat(expected),
        counted="insights",
        ceilings=[name for name, one in systems.items() if one.retriever in ORACLES or one.ordering in GOLD_ORDERINGS],
    )
    return comparison.RunScores(
        result.run,
        by_query,
        judge,
        names={key: {name: getattr(one, name) for name in SYSTEM_NAMES if name != "system"} for key, one in systems.items()},
        unbiased={
            (figure, name): how
            for name, one in systems.items()
            if (bias := result.biases.get(judge)) is not None
            for figure, how in _bias_corrections(one, bias).items()
        },
        labelled={
            (figure, name): how
            for name, one in systems.items()
            if one.labels is not None
            for figure, how in _label_corrections(one).items()
        },
        costs=costs,
        limits=health.limits,
        caveats=(*health.caveats, *_caveats(result, systems.values())),
        # The means of the figures under each correction, with their intervals.
        corrections={
            kind: {
                name: {
                    figure: (value, *one.ci.get(f"{figure}_{way}", (None, None)))
                    for figure in FIGURES
                    if (value := getattr(one, f"{figure}_{way}", None)) is not None
                }
                for name, one in systems.items()
            }
            for kind, way in (("corrected", "corrected"), ("labels", "labelled"))
        },
    )


def scores_of_record(result: ScoreResult, judge: str = "") -> comparison.RunScores | None:
    """Return the scores by the judge of record (or `judge`), with costs, for the report. None if that judge has scored
    nothing."""
    best = judge_of_record(result.stored, judge)
    if not any(one.n_scored for one in result.by_query if one.judge == best):
        return None
    return judged_scores(result, best, {system: usd / MICROS for system, usd, _ in mean_costs(result.stored).iter_rows()})


def compared_by_record(result: ScoreResult) -> comparison.SystemComparison | None:
    """Compare the run's systems by the judge of record. None with a single system, or without any score."""
    scores = scores_of_record(result, result.judge)
    # Without any gold document, there is only coverage.
    has_joint = any(one.joint is not None for one in result.systems if one.judge == result.judge)
    return None if scores is None else comparison.every_pair(scores, ("joint" if has_joint else "coverage",))


def priced_summaries(run: RunStore, columns: Sequence[str] | None = None) -> Iterator[pl.DataFrame]:
    """Yield the summaries piece by piece, with `usd_micros` and `tokens` of their answers; null for an unknown answer.

    `columns`: the columns of the summaries, including `key`; None for all. Takes 24 bytes of memory per summary.
    """
    hashed, tokens = pl.col("key").hash().alias("hash"), (pl.col("input_tokens") + pl.col("output_tokens")).alias("tokens")
    wanted = pl.concat([piece.select(hashed) for piece in run.pieces("summaries", ("key",))]).unique()
    answers = run.pieces("raw_answers", ("key", "usd_micros", "input_tokens", "output_tokens"))
    parts = [piece.select(hashed, "usd_micros", tokens).join(wanted, on="hash", how="semi") for piece in answers]
    prices = pl.concat(parts).unique("hash")
    for piece in run.pieces("summaries", columns):
        yield piece.with_columns(hashed).join(prices, on="hash", how="left", maintain_order="left").drop("hash")


def mean_costs(run: RunStore) -> pl.DataFrame:
    """Return a row per system: the mean cost of its summaries, `usd_micros` and `tokens`. Only one piece is in memory at a
    time."""
    priced = (piece.drop_nulls("usd_micros") for piece in priced_summaries(run, ("system", "key")))
    parts = [piece.group_by("system").agg(pl.col("usd_micros", "tokens").sum(), pl.len().alias("n")) for piece in priced]
    whole = pl.concat(parts).group_by("system").agg(pl.col("usd_micros", "tokens", "n").sum())
    return whole.select("system", pl.col("usd_micros", "tokens") / pl.col("n"))


def _label_corrections(system: SystemScore) -> dict[str, comparison.Unbiased]:
    """Return the corrections that the labels give for a system's figures."""
    found = {}
    for figure in ("coverage", "joint"):
        if (one := getattr(system.labels, figure)) is not None:
            error = getattr(system, figure) - one.value
            found[figure] = comparison.Unbiased(
                JudgeBias(f"{system.system} {figure}", error, (one.high - one.low) / (2 * Z_95), one.n, 0), shift=error
            )
    return found


def _bias_corrections(system: SystemScore, bias: JudgeBias) -> dict[str, comparison.Unbiased]:
    """Correct one system like `metrics.corrections.corrected`: subtract the judge's mean bias from coverage, and scale joint
    in proportion. Citations do not change."""
    coverage, joint = system.coverage or 0.0, system.joint or 0.0
    share = max(0.0, min(1.0, coverage - bias.mean)) / coverage if coverage else 1.0
    slope = joint / coverage if coverage else 0.0
    return {"coverage": comparison.Unbiased(bias, shift=bias.mean), "joint": comparison.Unbiased(bias, factor=share, slope=slope)}


def against_ideal(
    result: ScoreResult, judge: str, ideals: Sequence[str], others: Sequence[str]
) -> comparison.SystemComparison | None:
    """Compare each model's figures with a retriever in `ideals` to its figures with a retriever in `others`. None without
    such pairs."""
    own = sorted((one for one in result.systems if one.judge == judge), key=lambda one: one.system)
    pairs = [
        ((0, ideal.system), (0, other.system))
        for ideal in own
        for other in own
        if ideal.retriever in ideals and other.retriever in others and ideal.model == other.model
    ]
    return comparison.compare_pairs([judged_scores(result, judge)], pairs)


def judges_compared(runs: Sequence[RunStore], wanted: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return (the judge whose scores are compared, for each run; warnings). `wanted`: one judge, or one for each run.

    The default is the runs' judge of record. If the runs have different ones, a judge that all runs have is used instead, with
    a warning. Raises UserError for an unknown judge, or if the runs share none.
    """
    if wanted:
        asked = list(wanted) * len(runs) if len(wanted) == 1 else wanted
        return [judge_of_record(run, judge) for run, judge in zip(runs, asked, strict=False)], []
    own = [judge_of_record(run) for run in runs]
    if len(set(own)) == 1:
        return own, []
    named = "; ".join(f"{run.run_id}: {judge}" for run, judge in zip(runs, own, strict=True))
    known = [[judged.judge for judged in judges_of(run)] for run in runs]
    shared = [judge for judge in (*own, *known[0]) if all(judge in judges for judges in known)]
    if shared:
        return [shared[0]] * len(runs), [f"judged by {shared[0]}, as both runs are; their own judges differ ({named})"]
    raise UserError(f"the runs share no judge ({named}); name one for each with --judges A B, or judge them alike with rejudge")
