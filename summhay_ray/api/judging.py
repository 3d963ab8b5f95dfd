"""Scores, compares and reports stored runs, without any call; also measures judges, and judges summaries again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from summhay_ray import benchmarks, engine, plugins
from summhay_ray.api.arguments import check_budget, checked, load_with, opened_run, run_options, store_of, store_uri, stored_run
from summhay_ray.engine import Compat, Over, ReadOptions, Results, RunResult
from summhay_ray.errors import UserError
from summhay_ray.run_options import StartOptions
from summhay_ray.store import RunStore, Store

if TYPE_CHECKING:
    from summhay_ray import comparison
    from summhay_ray import report as reports


@contextlib.contextmanager
def _reading(*runs: RunStore) -> Iterator[None]:
    """A context in which runs are read. It imports user code only for a run of a user-defined kind, to score or show it.

    Raises DamagedRecord for a run whose tables lack a column.
    """
    with plugins.own_code_allowed(any(":" in str(run.record.get("kind")) for run in runs)), engine.reading_tables(*runs):
        yield


@checked
def score(
    run_id: str,
    store: str | None = None,
    compat: Compat = "default",
    bias: str | Path | None = None,
    judge: str = "",
    labels: str | Path | None = None,
) -> benchmarks.summhay.ScoreResult | Results:
    """Score a stored run, without any call: first the judgments of its own judge, then those of `rejudge`.

    A benchmark with its own scoring returns `Results`. `bias`: a file with the output of `judge_bench(...).biases()`. `judge`:
    use only this judge's judgments. `labels`: a sheet of `label` with people's labels, which also correct the figures.
    """
    stored = opened_run(run_id, store)
    given = _labels(labels, stored)
    with _reading(stored):
        engine.find(str(stored.record["kind"]))
        if not _has_judges(stored):
            _check_judged(stored, judge)
            return engine.results_of(engine.workload_of(stored), stored, ReadOptions(compat))
        biases = benchmarks.summhay.read_biases(Path(bias)) if bias is not None else ()
        return benchmarks.summhay.score_run(stored, compat, biases=biases, rejudged=True, judge=judge, labels=given)


@checked
def label(
    run_id: str, n: int = 30, sheet: str | Path = "labels.csv", store: str | None = None, *, judge: str = "", seed: int = 0
) -> dict[str, Any]:
    """Write a sheet with the `n` most informative judgments of a run, for people to label. Never overwrites a file.

    `judge`: the judge whose judgments are used, by default the run's own. `score`, `make_report` and `compare_systems` accept the
    labels.
    """
    return benchmarks.summhay.draw_labels(opened_run(run_id, store), n, Path(sheet), judge, seed)


def _labels(labels: str | Path | None, *runs: RunStore) -> Any:
    """Return the labels in a sheet, or None without one. Raise UserError for a run without judges of summaries."""
    if not labels:
        return None
    if unjudged := [run.run_id for run in runs if not _has_judges(run)]:
        raise UserError(f"labels: {unjudged[0]} holds no summaries with judgments")
    return benchmarks.summhay.read_labels(Path(labels))


@checked
def results(run_id: str, store: str | None = None, compat: Compat = "default") -> Results:
    """Return the current results of a stored run of any kind: scores, sections, warnings. Makes no call."""
    stored = opened_run(run_id, store)
    with _reading(stored):
        return engine.results_of(engine.workload_of(stored), stored, ReadOptions(compat))


@checked
def compare(
    run_id: str, judges: Sequence[str] = (), store: str | None = None, rows: int = 20
) -> benchmarks.rejudge.CompareResult | benchmarks.extract_evaluate.RaterComparison:
    """Compare two judges on one run: their agreement, the `rows` insights where they differ most, and the systems' ranking.

    `judges`: two of the run's judges, including those of `rejudge`. They may be omitted if the run has only two.
    """
    workload, run = stored_run(run_id, store)
    if (rates := getattr(workload, "rates", None)) is not None:
        return benchmarks.extract_evaluate.compare_raters(rates, run, judges)
    if not _has_judges(run):
        raise UserError(
            f"{run_id} is a run of {run.record['kind']}, which has no judges: summhay compare without --judges ranks its systems"
        )
    return benchmarks.rejudge.compare_judges(run, judges, rows)


@checked
def compare_systems(
    run_id: str,
    other: str | None = None,
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    store: str | None = None,
    *,
    judge: str = "",
    over: Over | None = None,
    by: Literal["retriever", "model"] | None = None,
    labels: str | Path | None = None,
) -> comparison.SystemComparison | benchmarks.extract_evaluate.RaterComparison:
    """Compare systems on the queries that both answered: intervals, tests, and the certainty of their ranking.

    In one run, it compares every pair of systems, or those that match the two names or patterns in `systems`. In two runs, it
    compares systems of the same name, or the first name of one run with the second of the other.

    `judge`: the judge whose judgments are used. By default, it is each run's own judge or, if these differ, one that both runs
    have. `judges`: one for each run. `over`: whether the intervals generalize to further queries of these haystacks (for other
    benchmarks: documents), or to other `haystacks`. The default is `haystacks` if there are six or more. `by`: for summaries of
    haystacks, compare retrievers (each averaged over the models) or models (each averaged over the retrievers) instead of
    systems. `labels`: as for `score`, for one of the runs.

    For two runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL), `judges` are two raters, one from each run, compared
    on texts that both rated.
    """
    from summhay_ray import comparison

    if len(systems) not in (0, 2):
        raise UserError(f"systems: expected two names or patterns, such as A B; got {len(systems)}")
    opened = [stored_run(name, store) for name in (run_id, other) if name is not None]
    stored = [run for _, run in opened]
    if judge and judges:
        raise UserError("judge: give it alone, or judges, one for each run")
    if all(map(_has_judges, stored)):
        given = _labels(labels, *stored)
        return benchmarks.summhay.compare_systems(stored, systems, [judge] if judge else judges, over=over, by=by, labels=given)
    if by is not None:
        raise UserError(f"by {by}: {run_id} is a run of {stored[0].record['kind']}; only grids of retrievers and models have it")
    if labels:
        raise UserError("labels: a run holds no summaries with judgments")
    for run in stored:
        _check_judged(run, judge)
    rates = [getattr(workload, "rates", None) for workload, _ in opened]
    if judges and len(stored) == 2 and not systems and rates[0] is not None and rates[0] == rates[1]:
        return benchmarks.extract_evaluate.compare_raters(rates[0], stored[0], judges, stored[1])
    if judges:
        raise UserError(f"judges: {run_id} is a run of {stored[0].record['kind']}; leave them out, or give two runs with ratings")
    scores = []
    for workload, run in opened:
        by_query = None if _has_judges(run) else engine.scores_by_query(workload, run.at())
        if by_query is None:
            raise UserError(
                f"{run.run_id} is a run of {run.record['kind']}, whose systems cannot be compared query by query"
                f"{f' with those of {run_id}' if len(stored) > 1 else ''}; summhay report RUN_A RUN_B puts any runs side by side"
            )
        scores.append(comparison.RunScores(run.run_id, by_query))
    return comparison.compare_runs(scores, systems, over)


def leaderboard(run_id: str, store: str | None = None, scores: Any = None) -> comparison.SystemComparison | None:
    """Compare all systems of a run by its first figure. Return None unless at least two systems have scores by query. `scores`:
    the run's scores, if its systems are judged summaries."""
    if isinstance(scores, benchmarks.summhay.ScoreResult):
        return benchmarks.summhay.compared_by_record(scores)
    from summhay_ray import comparison

    workload, run = stored_run(run_id, store)
    with _reading(run):
        by_query = engine.scores_by_query(workload, run.at())
    if by_query is None or by_query.scores.is_empty():
        return None
    by_figure = comparison.RunScores(run.run_id, by_query)
    return comparison.every_pair(by_figure, [next(iter(by_figure.units))])


def _has_judges(run: RunStore) -> bool:
    """Whether a run has judgments of summaries of haystacks, or of another run's summaries."""
    return run.declared.keys() >= {"insights", "summaries", "judgments"} or "of" in run.record


def _check_judged(run: RunStore, judge: str) -> None:
    """Raise UserError if a judge is named for a run that cannot have several judges of summaries."""
    if judge and (of := run.record.get("of")) is not None:
        raise UserError(f"judge {judge}: {run.run_id} holds judgments of the summaries of {of}; give that run")
    if judge and not _has_judges(run):
        raise UserError(
            f"judge {judge}: {run.run_id} is a run of {run.record['kind']}, which holds no judged summaries; leave it out"
        )


@checked
def make_report(
    runs: str | Sequence[str],
    store: str | None = None,
    compat: Compat = "default",
    judge: str = "",
    labels: str | Path = "",
    over: Over | None = None,
) -> reports.Report:
    """Make a report of the current results of runs: `.write(out)` writes the page, `.figure(name)` draws a chart.

    `judge`: the judge whose judgments it shows, by default each run's own. `labels`: as for `score`; `over`: as for
    `compare_systems`. A notebook displays the report. Raises StoreError, UserError.
    """
    from summhay_ray import report as reports

    opened = Store(store_uri(store))
    stored = [opened.run(run_id) for run_id in ([runs] if isinstance(runs, str) else runs)]
    for run in stored:
        _check_judged(run, judge)
    _labels(labels, *stored)
    with _reading(*stored):
        return reports.report(stored, compat, judge, str(labels or ""), over)


@checked
def judge_bench(
    file: str | Path,
    judges: Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    *,
    spec: str | None = None,
    held_out: bool = False,
    untrusted: bool = False,
) -> benchmarks.judge_bench.BenchResult:
    """Compare judges with people's annotations. By default, the judges are the file's stored predictions and the offline judge.

    `spec`: the path of a spec whose judges give the endpoints and prices of models. `held_out`: fit the offline judge on the
    file's other topics. Nothing is written if no call is made.
    """
    check_budget(budget)
    with plugins.own_code_allowed(not untrusted):
        workload = benchmarks.judge_bench.load_bench(
            Path(file), judges, benchmarks.judge_bench.BenchOptions(spec, held_out, untrusted)
        )
    outcomes = benchmarks.judge_bench.free_outcomes(workload)
    if outcomes is not None:
        return workload.figures_of(outcomes)
    result = engine.run_workload(workload, Store(store_uri(store)), {"budget": budget, "executor": "inline"})
    measured: benchmarks.judge_bench.BenchResult = result.scores
    n_unpaid = sum(row.failures.get("budget", 0) for row in measured.judges)
    left = None
    if n_unpaid:
        known = result.left or {"calls": None, "usd": None}
        left = {"judgments": n_unpaid, "calls": known["calls"], "usd": known["usd"]}
    return replace(
        measured,
        calls=dict(result.calls),
        usd_spent=result.usd["spent"] or 0.0,
        usd_uncertain=result.usd["uncertain"] or 0.0,
        left=left,
        doubted=result.doubted,
        warnings=result.warnings,
    )


@checked
def bench_support_judges(
    file: str | Path,
    judges: Sequence[str] = (),
    store: str | None = None,
    budget: float | None = None,
    *,
    spec: str | None = None,
    untrusted: bool = False,
) -> list[benchmarks.support.SupportAgreement]:
    """Compare support judges, by default the free one, with people's labels of claims (docs/how-to/citations.md).

    `budget`: dollars for each judge. Returns a row for each judge and source of the file, and one for all sources together.
    """
    check_budget(budget)
    opened, labels = Store(store_uri(store)), benchmarks.support.read_claim_labels(Path(file))
    named = dict.fromkeys(judges or ["offline"])
    # Check every judge before asking the first one.
    workloads = [(name, benchmarks.support.load_labelled(Path(file), name, spec, untrusted)) for name in named]
    rows: list[benchmarks.support.SupportAgreement] = []
    for name, workload in workloads:
        result = engine.run_workload(workload, opened, {"budget": budget, "executor": "inline"})
        rows += benchmarks.support.agreement(name, workload, labels, opened.run(result.run), result.status)
    return rows


@checked
def rejudge(
    run_id: str,
    judges: str | Sequence[str] = (),
    store: str | None = None,
    *,
    spec: str | None = None,
    **options: Unpack[StartOptions],
) -> RunResult:
    """Judge the stored summaries of a run again. The old judgments stay. The same call resumes.

    `judges`: names such as `offline` or `blend(openai/gpt-5.4,offline)`. `spec`: the path of a YAML file with judges and their
    settings. Raises SpecError or StoreError before any call is made.
    """
    named = (judges,) if isinstance(judges, str) else tuple(judges)
    start = run_options(options)
    request = benchmarks.rejudge.RejudgeRequest(named, spec, tuple(options["overrides"]), options["untrusted"])
    source = opened_run(run_id, store)
    source.store.files.check()

    def by_free_judge(free: benchmarks.rejudge.Rejudge) -> RunStore:
        return source.store.run(engine.run_workload(free, source.store, {**start, "budget": None}).run)

    with plugins.own_code_allowed(not request.untrusted):
        workload = benchmarks.rejudge.load_rejudge(source, request)
        spend = workload.spec.budget_usd if start["budget"] is None else start["budget"]
        benchmarks.rejudge.check_budget(workload, request, spend)
        # A rejudge that has already started may need no more calls.
        begun = source.store.files.exists(f"runs/{workload.run_id}/run.json")
        if start["address"] is None and not begun and (missing := engine.missing_keys(workload)):
            raise UserError(f"{missing[0]}; nothing was asked")
        workload = benchmarks.rejudge.with_cascades(workload, request, spend, by_free_judge)
    return engine.run_workload(workload, source.store, start)


@checked
def support(
    what: str | Path,
    judge: str = "",
    store: str | None = None,
    *,
    documents: str | Path | None = None,
    per: Literal["citation", "bullet"] = "citation",
    **options: Unpack[StartOptions],
) -> RunResult:
    """Judge, without gold, whether the cited documents support the claims that cite them. The same call resumes.

    `what`: a run's id, or a file of answers in JSON lines (docs/how-to/citations.md). The answers cite files of the folder
    `documents`, or their own passages. `judge`: the free `offline/support-judge` by default, a model, `nli/NAME`, or a cascade or
    panel of these. `per`: what one question to a model covers. Raises SpecError or StoreError before any call is made.
    """
    start = run_options(options)
    request = benchmarks.support.SupportRequest(judge or benchmarks.support.SUPPORT_JUDGE, per)
    if documents is None and not Path(what).is_file():
        request = replace(request, run=opened_run(str(what), store))
    else:
        request = replace(request, answers=str(what), documents=str(documents or ""))
    loaded = load_with(benchmarks.support.support_fields(request), store, options)
    return engine.run_workload(loaded, store_of(store, loaded.spec), start)


@checked
def recite(
    run_id: str, store: str | None = None, *, mode: Literal["both", "drop", "add"] = "both"
) -> benchmarks.support.ReciteResult:
    """Copy a run's summaries into a new run, with citations repaired by the free support judge. Makes no call.

    `mode`: drop unsupported citations, add supported ones, or both. Coverage judgments carry over. Raises UserError.
    """
    return benchmarks.support.recite_run(opened_run(run_id, store), mode)
