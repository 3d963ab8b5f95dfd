"""Systems compared by their scores per query: any figures, any clusters, one run or two."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy

import summhay_ray
from summhay_ray.benchmark import ByQuery
from summhay_ray.comparison import RunScores, SystemComparison, compare_runs, comparison_sections, every_pair, screen_sections
from summhay_ray.engine.items import BadBenchmark
from summhay_ray.errors import UserError
from summhay_ray.report import section_table

pytestmark = pytest.mark.core

A = [0.50, 0.62, 0.71, 0.55, 0.64, 0.58, 0.69, 0.75]
B = [0.41, 0.60, 0.66, 0.56, 0.50, 0.49, 0.60, 0.71]


def scores(run: str = "r1", **systems: list[float | None]) -> RunScores:
    """A figure `f1` of eight documents with one query each, and a `rating` of the first two."""
    rows = [
        {"system": name, "cluster": f"d{n}", "query": "q", "f1": value, "rating": 3.0 + n if n < 2 else None}
        for name, values in systems.items()
        for n, value in enumerate(values)
    ]
    return RunScores(run, ByQuery(pl.DataFrame(rows, infer_schema_length=None), {"f1": "%"}, "document"))


def pairs(comparison: SystemComparison, figure: str = "") -> list[Any]:
    """The pairs of the JSON document, with attributes."""
    found = json.loads(json.dumps(comparison.to_json()["pairs"]), object_hook=lambda fields: SimpleNamespace(**fields))
    return [one for one in found if figure in ("", one.figure)]


def test_each_figure_is_tested_on_its_own_queries_and_told_in_its_own_unit() -> None:
    comparison = compare_runs([scores(a=A, b=B)])
    [f1, rating] = pairs(comparison)
    apart = [x - y for x, y in zip(A, B, strict=True)]
    assert f1.paired.difference == pytest.approx(sum(apart) / 8)
    p = scipy.stats.ttest_rel(A, B).pvalue
    assert (f1.paired.p, f1.paired.p_adjusted) == (pytest.approx(p), pytest.approx(p))
    # Equal ratings are no evidence, and have no interval.
    assert (rating.paired.n_queries, rating.paired.difference, rating.paired.low) == (2, 0, None)
    assert f1.verdict.endswith(f"higher by {100 * sum(apart) / 8:.1f} points (p {p:.4f})")
    # Six or more documents allow a conclusion about others.
    assert comparison.about == {"f1": "other documents than these 8", "rating": "further queries of these 2 documents"}
    assert compare_runs([scores(a=A, b=B)], over="queries").about["f1"] == "further queries of these 8 documents"
    decision, *shown = screen_sections(comparison, everything=True)
    assert [section.name for section in shown] == ["board", "pairs", "pairs"]
    assert shown[1].table is not None and {"documents", "p (all pairs)"} < {*shown[1].table.columns}
    assert "bias removed" not in shown[1].table.columns and shown[1].units["difference"] == "points" and not shown[2].units
    assert f"f1, a and b: {f1.verdict}" in decision.notes


def test_a_difference_that_cannot_be_is_not_called_detectable() -> None:
    comparison = compare_runs([scores(**{f"s{n}": [value ** (1 + n) for value in A[:2]] for n in range(9)})])
    _, _, pairs_of_f1, *_ = screen_sections(comparison, everything=True)
    shown = pairs_of_f1.table
    assert shown is not None
    assert all(one.paired.detectable > 1 for one in pairs(comparison, "f1")) and "least detectable" not in shown.columns


def test_silence_does_not_win_a_pair() -> None:
    [pair, _] = pairs(compare_runs([scores(a=[*A[:6], None, float("nan")], b=B)]))
    assert (pair.paired.n_queries, pair.paired.a) == (6, pytest.approx(sum(A[:6]) / 6))
    least = sum(A[:6]) / 8 - sum(B) / 8
    assert (pair.paired.worst_low, pair.paired.worst_high) == pytest.approx((least, least + 2 / 8))
    assert pair.verdict == (
        "not shown to differ: a lacks 2 of 8 answers; with these at their worst, the difference is between "
        f"{100 * least:.1f} points and {100 * (least + 0.25):.1f} points"
    )


def test_two_runs_and_what_they_do_not_share() -> None:
    comparison = compare_runs([scores(a=A), scores("r2", a=B, c=A)])
    assert [(pair.a.run, pair.b.run, pair.b.system) for pair in pairs(comparison, "f1")] == [("r1", "r2", "a")]
    other = RunScores("r3", ByQuery(pl.DataFrame({"system": ["a"], "query": ["q"], "joint": [0.5]})))
    with pytest.raises(UserError, match=r"r1 and r3 have no figure in common \(r1: f1, rating"):
        compare_runs([scores(a=A), other])
    assert every_pair(scores(a=A)) is None


def test_the_report_begins_with_the_decision_and_has_a_forest_for_each_figure() -> None:
    comparison = every_pair(scores(a=A, b=B, c=[value - 0.3 for value in A]))
    assert comparison is not None
    sections = {section.slug: section for section in comparison_sections(comparison)}
    assert [*sections] == ["decision", "board", "ranking", "forest", "pairs", "forest_rating"]
    # In both orders.
    every = sections["pairs"].table
    assert every is not None
    apart = {(row["system"], row["compared with"]): row for row in every.to_dicts()}
    [one, other] = [apart[names] for names in (("a", "b"), ("b", "a"))]
    assert (other["difference"], other["difference_low"], other["d"]) == (-one["difference"], -one["difference_high"], -one["d"])
    assert (one["win/tie/loss"], other["win/tie/loss"]) == ("7/0/1", "1/0/7") and one["verdict"] == other["verdict"]
    # The forest plot shows the pairs with the first system.
    forest = sections["forest"].table
    assert forest is not None
    assert [row["from a_low"] for row in forest.to_dicts()] == [apart[name, "a"]["difference_low"] for name in ("b", "c")]


def test_ranks_and_who_may_be_best_follow_from_the_pairs() -> None:
    rng = np.random.default_rng(2)
    hard = rng.normal(0, 0.1, 18)
    values = {f"s{n}": [*(0.7 - 0.02 * n + hard + rng.normal(0, 0.03, 18))] for n in range(12)}
    comparison = compare_runs([scores(**values)])
    found = pairs(comparison, "f1")
    better = {(one.a.system, one.b.system) if one.paired.difference > 0 else (one.b.system, one.a.system): one for one in found}
    shown = [names for names, one in better.items() if one.differs]
    assert 10 < len(shown) < 66
    for row in comparison.standings["f1"].to_dicts():
        above, below = (sum(names[side] == row["name"] for names in shown) for side in (1, 0))
        assert (row["rank_low"], row["rank_high"], row["may_be_best"]) == (1 + above, 12 - below, above == 0)
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]


def test_the_hardest_answers_missing_are_no_better_rank() -> None:
    a = [*A, *(value + 0.01 for value in A), *(value - 0.02 for value in A)]
    hard = sorted(range(24), key=a.__getitem__)
    silent = [None if place in hard[:2] else value for place, value in enumerate(a)]
    few = [None if place in hard[:9] else value for place, value in enumerate(a)]
    others = {"a": a, "b": [value - 0.001 for value in a], "silent": silent}
    comparison = compare_runs([scores(**others, few=few)])
    found = {row["name"]: SimpleNamespace(**row) for row in comparison.standings["f1"].to_dicts()}
    # 2 of 24 are 8.3 %: ranked on the other 22, where it equals `a`. 9 of 24 are 37.5 %: not ranked.
    assert {name: one.rank for name, one in found.items()} == {"a": 1, "silent": 1, "b": 3, "few": None}
    assert found["silent"].mean > found["a"].mean > found["silent"].floor == pytest.approx(sum(filter(None, silent)) / 24)
    assert [(one.n, one.n_expected) for one in found.values()] == [(24, 24), (22, 24), (24, 24), (15, 24)]
    # Without the incomplete system, the other results stay the same.
    without = compare_runs([scores(**others)])
    assert comparison.standings["f1"].filter(pl.col("name") != "few").equals(without.standings["f1"])
    assert comparison.decision.use == without.decision.use
    # The terminal shows the number of the expected number, and the floor.
    order = next(section for section in screen_sections(comparison) if section.name == "board")
    table = section_table(order)
    assert table is not None
    shown = {row[2]: row for row in table.rows}
    assert shown["few"][:2] == ("", "incomplete") and shown["few"][-1] == "15/24" and ", floor" in shown["few"][3]
    assert shown["silent"][-1] == "22/24" and ", floor" in shown["silent"][3] and "floor" not in shown["a"][3]


def test_who_answered_nothing_is_listed_and_who_was_not_asked_is_not() -> None:
    rows = {"system": ["a", "b"] * 4, "query": [f"q{n // 2}" for n in range(8)], "f1": [0.5, 0.4, 0.6, 0.5, 0.7, 0.6, 0.8, 0.9]}
    asked = [("mute", "q0", "f1"), *((name, query, "f1") for name, query in zip(rows["system"], rows["query"], strict=True))]
    expected = pl.DataFrame([*asked, ("other", "q0", "f2")], schema=["system", "query", "figure"], orient="row")
    comparison = compare_runs([RunScores("r1", ByQuery(pl.DataFrame(rows), expected=expected))])
    standings = comparison.standings["f1"].select("name", "rank", "missing")
    assert standings.rows() == [("a", 1, 0.0), ("b", 2, 0.0), ("mute", None, 1.0)]


def test_other_documents_are_asked_about_and_no_fraction_is_beyond_a_hundred_points() -> None:
    run = scores(a=A[:2], b=B[:2])
    [pair, _] = pairs(compare_runs([run], over="haystacks"))
    three = compare_runs([scores(a=A[:2], b=B[:2], c=[0.1, 0.3])], over="haystacks")
    assert pair.paired.over == "haystacks" and three.about["f1"] == "other documents than these 2"
    assert all(-1 <= (one.paired.low or 0) <= (one.paired.high or 0) <= 1 for one in pairs(three, "f1"))
    assert "2 documents are few" in three.warnings[0]
    assert compare_runs([run]).warnings == [
        "the figures are for these 2 documents only: fewer than 6 documents say little about others"
    ]


def test_retrievers_are_compared_by_what_the_retrieval_table_has(tmp_path: Path) -> None:
    jobs = Path(__file__).parents[2] / "jobs"
    result = summhay_ray.run(jobs / "retrieval.yaml", store=str(tmp_path), executor="inline")
    comparison = summhay_ray.compare_systems(result.run, systems=("bm25", "oracle"), store=str(tmp_path))
    assert isinstance(comparison, SystemComparison)
    rows = {(row["retriever"], row["k"]): row for row in result.scores["retrieval"].iter_rows(named=True)}
    for figure, k, column in (("F1", None, "f1"), ("F1@5", 5, "f1"), ("nDCG@10", 10, "ndcg")):
        [pair] = pairs(comparison, figure)
        assert pair.paired.n_queries == rows["bm25", k]["n"] == 8
        assert pair.paired.difference == pytest.approx(rows["bm25", k][column] - rows["oracle", k][column])
    report = summhay_ray.make_report(result.run, str(tmp_path))
    section = report.section("forest")
    assert section.table is not None and section.table.height == 5
    report.write(str(tmp_path), "json")
    results, task = json.loads((tmp_path / "results.json").read_text()), "retrieval/bm25/10"
    assert results["results"][task]["F1,none"] == rows["bm25", 10]["f1"] and results["higher_is_better"][task]["nDCG"] is True
    with pytest.raises(UserError, match="which has no judges: summhay compare without --judges ranks its systems"):
        summhay_ray.compare(result.run, store=str(tmp_path))


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ({"system": ["a"], "f1": [0.5]}, "no column query"),
        ({"system": ["a"], "query": ["q"], "f1": [1]}, "one column of floats"),
        ({"system": ["a", "a"], "query": ["q", "q"], "f1": [0.5, 0.6]}, "two rows of one system, query"),
    ],
)
def test_a_benchmark_with_wrong_scores_gets_a_clear_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frame: dict[str, list[object]], problem: str
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import needle

    monkeypatch.setattr(needle.Needle, "by_query", lambda *_: ByQuery(pl.DataFrame(frame)))
    spec = {"kind": "needle:Needle", "models": ["offline/skimmer"], "depths": [0.5], "trials": 1, "entries": 9}
    run = summhay_ray.run(spec, store=str(tmp_path), executor="inline").run
    with pytest.raises(BadBenchmark, match=problem):
        summhay_ray.compare_systems(run, run, store=str(tmp_path))
