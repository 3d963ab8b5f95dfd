"""Systems compared by their scores per query: any figures, any clusters, one run or two."""

from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from scipy import stats

import summhay_ray
from summhay_ray.benchmark import BadBenchmark, ByQuery
from summhay_ray.comparison import RunScores, SystemComparison, compare_runs, comparison_sections, every_pair
from summhay_ray.errors import UserError
from summhay_ray.report import compared_systems_tables, comparison_legend, verdict_lines

pytestmark = pytest.mark.core

A = [0.50, 0.62, 0.71, 0.55, 0.64, 0.58, 0.69, 0.75]
B = [0.41, 0.60, 0.66, 0.56, 0.50, 0.49, 0.60, 0.71]


def scores(run: str = "r1", **systems: list[float | None]) -> RunScores:
    """A figure `f1` of eight documents with a query each, and a `rating` of the first two."""
    rows = [
        {"system": name, "cluster": f"d{n}", "query": "q", "f1": value, "rating": 3.0 + n if n < 2 else None}
        for name, values in systems.items()
        for n, value in enumerate(values)
    ]
    return RunScores(run, ByQuery(pl.DataFrame(rows, infer_schema_length=None), {"f1": "%"}, "document"))


def test_each_figure_is_tested_on_its_own_queries_and_told_in_its_own_unit() -> None:
    comparison = compare_runs([scores(a=A, b=B)])
    [f1, rating] = comparison.pairs
    apart = [x - y for x, y in zip(A, B, strict=True)]
    assert f1.paired.difference == pytest.approx(sum(apart) / 8)
    exact = stats.permutation_test((A, B), lambda x, y: (x - y).sum(), permutation_type="samples", n_resamples=math.inf)
    assert (f1.paired.test, f1.paired.p) == ("sign-flip", pytest.approx(exact.pvalue))
    # Two documents are too few for flips, whatever the other figure has.
    assert (rating.paired.test, rating.paired.n_queries, rating.paired.difference) == ("t", 2, 0)
    assert f1.verdict().endswith(f"higher by {100 * sum(apart) / 8:.1f} points (p {exact.pvalue:.4f})")
    assert [line.split(": ")[0] for line in comparison.warnings] == ["f1", "rating"] and "8 documents" in comparison.warnings[0]
    tables = compared_systems_tables(comparison)
    assert "Bias removed" not in tables[0].columns and tables[1].rows[0][2] == "+0.000 [+0.000, +0.000]"
    assert "documents" in "".join(comparison_legend(comparison)) and len(verdict_lines(comparison)) == 2


def test_a_difference_that_cannot_be_is_not_called_detectable() -> None:
    pairs = compare_runs([scores(**{f"s{n}": [value ** (1 + n) for value in A[:2]] for n in range(9)})]).of("f1")
    assert {pair.detectable for pair in pairs if (pair.paired.detectable or 0) > 1} == {None}
    assert any((pair.paired.detectable or 0) > 1 for pair in pairs)


def test_what_one_system_lacks_counts_for_neither() -> None:
    [pair, _] = compare_runs([scores(a=[*A[:6], None, float("nan")], b=B)]).pairs
    assert (pair.paired.n_queries, pair.paired.a) == (6, pytest.approx(sum(A[:6]) / 6))


def test_two_runs_and_what_they_do_not_share() -> None:
    comparison = compare_runs([scores(a=A), scores("r2", a=B, c=A)])
    assert [(pair.a.run, pair.b.run, pair.b.system) for pair in comparison.of("f1")] == [("r1", "r2", "a")]
    other = RunScores("r3", ByQuery(pl.DataFrame({"system": ["a"], "query": ["q"], "joint": [0.5]})))
    with pytest.raises(UserError, match=r"r1 and r3 have no figure in common \(r1: f1, rating; r3: joint\)"):
        compare_runs([scores(a=A), other])
    assert every_pair(scores(a=A)) is None


def test_the_report_has_a_forest_for_each_figure() -> None:
    comparison = every_pair(scores(a=A, b=B, c=[value - 0.3 for value in A]))
    assert comparison is not None
    assert [section.slug for section in comparison_sections(comparison)] == ["ranking", "forest", "pairs", "forest_rating"]


def test_retrievers_are_compared_by_what_the_retrieval_table_has(tmp_path: Path) -> None:
    jobs = Path(__file__).parents[2] / "jobs"
    result = summhay_ray.run(jobs / "retrieval.yaml", store=str(tmp_path), executor="inline")
    comparison = summhay_ray.compare_systems(result.run, systems=("bm25", "oracle"), store=str(tmp_path))
    assert isinstance(comparison, SystemComparison)
    rows = {(row["retriever"], row["k"]): row for row in result.scores["retrieval"].iter_rows(named=True)}
    for figure, k, column in (("F1", None, "f1"), ("F1@5", 5, "f1"), ("nDCG@10", 10, "ndcg")):
        [pair] = comparison.of(figure)
        assert pair.paired.n_queries == rows["bm25", k]["n"] == 8
        assert pair.paired.difference == pytest.approx(rows["bm25", k][column] - rows["oracle", k][column])
    report = summhay_ray.make_report(result.run, str(tmp_path))
    section = report.section("forest")
    assert section.table is not None and section.table.height == 5
    report.write(str(tmp_path), "json")
    results, task = json.loads((tmp_path / "results.json").read_text()), "retrieval/bm25/10"
    assert results["results"][task]["F1,none"] == rows["bm25", 10]["f1"] and results["higher_is_better"][task]["nDCG"] is True
    with pytest.raises(UserError, match=r"which has no judges: name two of its systems with --systems A B"):
        summhay_ray.compare(result.run, store=str(tmp_path))


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ({"system": ["a"], "f1": [0.5]}, "no column query"),
        ({"system": ["a"], "query": ["q"], "f1": [1]}, "one column of floats"),
        ({"system": ["a", "a"], "query": ["q", "q"], "f1": [0.5, 0.6]}, "two rows of one system, query"),
    ],
)
def test_a_benchmark_that_gives_something_else_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: dict[str, list[object]], problem: str
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import needle

    monkeypatch.setattr(needle.Needle, "by_query", lambda *_: ByQuery(pl.DataFrame(frame)))
    spec = {"kind": "needle:Needle", "models": ["offline/skimmer"], "depths": [0.5], "trials": 1, "entries": 9}
    run = summhay_ray.run(spec, store=str(tmp_path), executor="inline").run
    with pytest.raises(BadBenchmark, match=problem):
        summhay_ray.compare_systems(run, run, store=str(tmp_path))
