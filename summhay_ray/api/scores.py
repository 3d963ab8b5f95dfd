"""The scores of stored runs, comparisons and reports; no call is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from summhay_ray import engine, plugins
from summhay_ray.api.checked import checked
from summhay_ray.api.opened import opened_run, store_uri, stored_run
from summhay_ray.engine import Compat, ReadOptions, Results
from summhay_ray.errors import UserError
from summhay_ray.store import RunStore, Store

# Each function imports only the benchmarks that it needs, so that `status` does not load all of them.
if TYPE_CHECKING:
    from summhay_ray import comparison
    from summhay_ray import report as reports
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import rejudge as rejudging
    from summhay_ray.benchmarks import summhay as haystacks


@contextlib.contextmanager
def _reading(*runs: RunStore) -> Iterator[None]:
    """A context for reading runs; it imports user code only for a user-defined kind, to score or show it.

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
) -> haystacks.ScoreResult | Results:
    """Score a run from the store, without any call: its own judge first, then those of `rejudge`.

    A benchmark with its own scoring returns `Results`. `bias`: a file with the output of `judge_bench(...).biases()`. `judge`:
    use only this judge's judgments. `labels`: a sheet of `label` with people's labels, which also correct the figures.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    stored = opened_run(run_id, store)
    given = _labels(labels, stored)
    with _reading(stored):
        engine.find(str(stored.record["kind"]))
        if not _has_judges(stored):
            _check_judged(stored, judge)
            return engine.results_of(engine.workload_of(stored), stored, ReadOptions(compat))
        biases = haystacks.read_biases(Path(bias)) if bias is not None else ()
        return haystacks.score_run(stored, compat, biases=biases, rejudged=True, judge=judge, labels=given)


@checked
def label(
    run_id: str, n: int = 30, sheet: str | Path = "labels.csv", store: str | None = None, *, judge: str = "", seed: int = 0
) -> dict[str, Any]:
    """Write a sheet with `n` of a run's judgments for people to label, the most informative ones. Never overwrites a file.

    `judge`: whose judgments; by default the run's own judge's. `score`, `make_report` and `compare_systems` accept the labels.
    """
    from summhay_ray.benchmarks import summhay as haystacks

    return haystacks.draw_labels(opened_run(run_id, store), n, Path(sheet), judge, seed)


def _labels(labels: str | Path | None, *runs: RunStore) -> Any:
    """The labels in a sheet; None without one. Raises UserError for a run that has no judges of summaries."""
    from summhay_ray.benchmarks import summhay as haystacks

    if not labels:
        return None
    if unjudged := [run.run_id for run in runs if not _has_judges(run)]:
        raise UserError(f"labels: {unjudged[0]} holds no summaries with judgments")
    return haystacks.read_labels(Path(labels))


@checked
def results(run_id: str, store: str | None = None, compat: Compat = "default") -> Results:
    """The current results of a run of any kind, from the store: scores, sections, warnings. Makes no call."""
    stored = opened_run(run_id, store)
    with _reading(stored):
        return engine.results_of(engine.workload_of(stored), stored, ReadOptions(compat))


@checked
def compare(
    run_id: str, judges: Sequence[str] = (), store: str | None = None, rows: int = 20
) -> rejudging.CompareResult | extracts.RaterComparison:
    """Compare two judges on one run: their agreement, the `rows` insights where they differ most, and the systems' ranking.

    `judges`: two of the run's judges, including those of `rejudge`; not needed if the run has just two.
    """
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import rejudge as rejudging

    workload, run = stored_run(run_id, store)
    if (rates := getattr(workload, "rates", None)) is not None:
        return extracts.compare_raters(rates, run, judges)
    if not _has_judges(run):
        raise UserError(
            f"{run_id} is a run of {run.record['kind']}, which has no judges: summhay compare without --judges ranks its systems"
        )
    return rejudging.compare_judges(run, judges, rows)


@checked
def compare_systems(
    run_id: str,
    other: str | None = None,
    systems: Sequence[str] = (),
    judges: Sequence[str] = (),
    store: str | None = None,
    *,
    judge: str = "",
    over: Literal["queries", "haystacks"] | None = None,
    by: Literal["retriever", "model"] | None = None,
    labels: str | Path | None = None,
) -> comparison.SystemComparison | extracts.RaterComparison:
    """Compare systems on the queries that both answered: intervals, tests, and the certainty of their ranking.

    In one run, every pair of systems, or those that match the two names or patterns in `systems`. In two runs, systems of the
    same name, or one name for each run. `judge`: whose judgments to use; by default each run's own judge or, if these differ, one
    that both have. `judges`: one for each run. `over`: whether the intervals generalize to further queries of these haystacks
    (for other benchmarks: documents), or to other `haystacks`; by default to the latter if there are six or more. `by`: for
    summaries of haystacks, compare retrievers (each averaged over the models) or models (each averaged over the retrievers)
    instead of systems. `labels`: as for `score`, for one of the runs.

    For two runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL), `judges` are two raters, one from each run, compared
    on texts that both rated.
    """
    from summhay_ray import comparison
    from summhay_ray.benchmarks import extract_evaluate as extracts
    from summhay_ray.benchmarks import summhay as haystacks

    if len(systems) not in (0, 2):
        raise UserError(f"systems: expected two names or patterns, such as A B; got {len(systems)}")
    opened = [stored_run(name, store) for name in (run_id, other) if name is not None]
    stored = [run for _, run in opened]
    if judge and judges:
        raise UserError("judge: give it alone, or judges, one for each run")
    if all(map(_has_judges, stored)):
        given = _labels(labels, *stored)
        return haystacks.compare_systems(stored, systems, [judge] if judge else judges, over=over, by=by, labels=given)
    if by is not None:
        raise UserError(f"by {by}: {run_id} is a run of {stored[0].record['kind']}; only grids of retrievers and models have it")
    if labels:
        raise UserError("labels: a run holds no summaries with judgments")
    for run in stored:
        _check_judged(run, judge)
    rates = [getattr(workload, "rates", None) for workload, _ in opened]
    if judges and len(stored) == 2 and not systems and rates[0] is not None and rates[0] == rates[1]:
        return extracts.compare_raters(rates[0], stored[0], judges, stored[1])
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


def _has_judges(run: RunStore) -> bool:
    """Whether a run has judgments of summaries of haystacks, or of another run's."""
    return run.declared.keys() >= {"insights", "summaries", "judgments"} or "of" in run.record


def _check_judged(run: RunStore, judge: str) -> None:
    """Raises UserError if a judge is named for a run that cannot have several judges of summaries."""
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
    over: Literal["queries", "haystacks"] | None = None,
) -> reports.Report:
    """A report of the current results of runs: `.write(out)` writes the page, `.figure(name)` draws a chart.

    `judge`: whose judgments it shows; by default those of each run's own judge. `labels`: as for `score`; `over`: as for
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
