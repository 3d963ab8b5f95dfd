"""Intervals: their coverage in simulations, reproducibility, and degenerate cases."""

from __future__ import annotations

import mean_coverage
import numpy as np
import polars as pl
import pytest
import scipy

from summhay_ray.metrics import (
    VALUES,
    WEIGHTINGS,
    SystemScore,
    Weighting,
    haystack_scores,
    insight_sums,
    mean_interval,
    system_scores,
    unit_means,
)
from summhay_ray.metrics.scores_by_system import CLUSTER, KEYS

pytestmark = pytest.mark.core
CITATIONS = ["citation_f1", "citation_precision", "citation_recall"]


def simulated(systems: int, haystacks: int, subtopics: int, seed: int) -> pl.DataFrame:
    """Insights whose chance of full coverage differs by subtopic; covered insights have a citation score of 0.2 to 0.6.

    True coverage is 0.5, the mean of a uniform chance. True joint is 0.5 * 0.4.
    """
    rng = np.random.default_rng(seed)
    shape = (systems, haystacks, subtopics, 6)
    chance = rng.uniform(0.2, 0.8, size=(*shape[:3], 1))
    coverage = (rng.random(shape) < chance).astype(float)
    citation = rng.uniform(0.2, 0.6, size=shape)
    places = [axis.ravel() for axis in np.indices(shape)[:3]]
    f1 = [float(value) if covered else None for value, covered in zip(citation.ravel(), coverage.ravel(), strict=True)]
    names = [f"system{place:03d}" for place in places[0]]
    data: dict[str, object] = {**dict.fromkeys(KEYS, names), "haystack_id": [f"h{p}" for p in places[1]]}
    data |= {"subtopic_id": [f"s{p}" for p in places[2]], "coverage": coverage.ravel()}
    data |= {"joint": (coverage * citation).ravel(), "citation_f1": f1, "citation_precision": f1, "citation_recall": f1}
    return pl.DataFrame(data).select(*KEYS, *CLUSTER, *VALUES)


def scores_of(insights: pl.DataFrame, weighting: Weighting = "insights") -> list[SystemScore]:
    expected = insights.select(*KEYS, *CLUSTER, pl.lit(6).alias("n_expected")).unique()
    words = insights.select(*KEYS[:4], pl.lit(30.0).alias("words_per_bullet"), pl.lit(6).alias("bullets_per_summary")).head(0)
    return system_scores(insight_sums(insights), expected, words, weighting)


@pytest.mark.parametrize("weighting", ["insights", "queries"])
def test_the_interval_has_the_promised_coverage(weighting: Weighting) -> None:
    found = scores_of(simulated(systems=300, haystacks=3, subtopics=10, seed=1), weighting)
    for figure, truth in (("coverage", 0.5), ("citation", 0.4), ("joint", 0.5 * 0.4)):
        inside = [low <= truth <= high for low, high in (one.ci[figure] for one in found)]
        # 300 draws at 95 % have a standard error of 1.3 points.
        assert np.mean(inside) >= 0.93, figure
        assert all(low < getattr(one, figure) < high for one in found for low, high in [one.ci[figure]])


@pytest.mark.parametrize("queries", [(1, 6), *(pytest.param(one, marks=pytest.mark.soak) for one in ((2, 3), (2, 9)))], ids=str)
@pytest.mark.parametrize("shape", mean_coverage.SHAPES)
def test_intervals_hold_from_six_queries_on_for_any_shape_of_scores(shape: str, queries: tuple[int, int]) -> None:
    share, _ = mean_coverage.coverage_shares(shape, *queries, times=3000, seed=2)
    # 3,000 draws at 95 % have a standard error of 0.4 points.
    assert share >= 0.94


def test_with_six_haystacks_the_interval_is_for_further_haystacks() -> None:
    """Haystacks differ in level by 0.1, queries within them by 0.05. Intervals over queries alone would be a third as wide."""
    rng = np.random.default_rng(4)
    values = np.clip(0.5 + rng.normal(0, 0.1, (6, 1, 2000)) + rng.normal(0, 0.05, (6, 9, 2000)), 0, 1)
    means = unit_means(values.sum(axis=1), np.full((6, 2000), 9.0))
    assert ((means.low <= 0.5) & (means.high >= 0.5)).mean() >= 0.94
    one = pl.DataFrame(
        [(*["s"] * 5, f"h{h}", f"q{q}", values[h, q, 0], *[None] * 3, 0.0) for h in range(6) for q in range(9)],
        schema=[*KEYS, *CLUSTER, "coverage", *CITATIONS, "joint"],
        orient="row",
    ).with_columns(pl.col(CITATIONS).cast(pl.Float64))
    [score] = scores_of(one.select(*KEYS, *CLUSTER, *VALUES), "queries")
    assert score.ci["coverage"] == pytest.approx((float(means.low[0]), float(means.high[0])))


def test_the_interval_is_students_t_where_scores_are_far_from_the_ends_of_the_scale() -> None:
    values = np.array([[0.42, 0.55, 0.48, 0.61, 0.39, 0.57, 0.51, 0.46]]).T
    means = unit_means(values, np.ones_like(values))
    # The farthest value, 0.61 - 0.49875, counts twice: (sum of squares + its square) / 8, with one more degree of freedom.
    off = values[:, 0] - values.mean()
    se = np.sqrt(((off**2).sum() + (off**2).max()) / 8 / 8)
    reach = scipy.stats.t.ppf(0.975, 7) * se
    assert means.se[0] == pytest.approx(se)
    assert means.interval() == pytest.approx((0.49875 - reach, 0.49875 + reach), abs=0.006)
    [plain] = [unit_means(values, np.ones_like(values), bounds=None)]
    assert plain.interval() == pytest.approx((0.49875 - reach, 0.49875 + reach))


def test_equal_scores_at_the_end_of_the_scale_have_an_interval_with_a_width() -> None:
    ones = np.ones((6, 1))
    # Clopper and Pearson, 6 of 6: the lower end is 0.025 ** (1 / 6).
    assert unit_means(ones, ones).interval() == pytest.approx((0.025 ** (1 / 6), 1.0))
    assert unit_means(0 * ones, ones).interval() == pytest.approx((0.0, 1 - 0.025 ** (1 / 6)))
    # On the scale from 1 to 5, with six ratings of five: 1 + 4 x the same.
    assert unit_means(5 * ones, ones, bounds=(1.0, 5.0)).interval() == pytest.approx((1 + 4 * 0.025 ** (1 / 6), 5.0))
    # Without ends of the scale, equal values contain no information.
    assert unit_means(ones, ones, bounds=None).interval() is None
    assert unit_means(ones, ones, bounds=None).reason() == "all values are equal"


def test_fewer_than_six_queries_have_no_interval_and_the_reason() -> None:
    for haystacks, subtopics in ((1, 5), (2, 2)):
        [found] = scores_of(simulated(systems=1, haystacks=haystacks, subtopics=subtopics, seed=5), "queries")
        assert found.coverage is not None and found.ci == {}
        n = haystacks * subtopics
        assert found.ci_reasons["joint"] == f"too few queries: {n}, an interval needs 6"
        document = found.to_json()
        assert document["ci"]["joint"] is None and document["ci_reasons"]["joint"].startswith("too few")
    [enough] = scores_of(simulated(systems=1, haystacks=2, subtopics=3, seed=5), "queries")
    assert len(enough.ci) == 5 and enough.ci_reasons == {}


def test_clusters_make_wider_intervals_than_single_insights_would() -> None:
    frame = simulated(systems=40, haystacks=1, subtopics=12, seed=2)
    alike = frame.with_columns(pl.col("coverage").mean().over("system", "subtopic_id").round())
    wide = [one.ci["coverage"][1] - one.ci["coverage"][0] for one in scores_of(alike)]
    by_insight = alike.with_columns(pl.int_range(pl.len()).cast(pl.String).alias("subtopic_id"))
    narrow = [one.ci["coverage"][1] - one.ci["coverage"][0] for one in scores_of(by_insight)]
    assert np.mean(wide) > 1.8 * np.mean(narrow)  # Six equal insights carry the weight of one: the square root of 6 is 2.4.


def test_what_differs_between_the_haystacks_at_hand_widens_nothing() -> None:
    frame = simulated(systems=1, haystacks=2, subtopics=9, seed=3)
    level = pl.when(pl.col("haystack_id") == "h0").then(0.3).otherwise(-0.3)
    [same], [apart] = (scores_of(one, "queries") for one in (frame, frame.with_columns(coverage=pl.col("coverage") / 2 + 0.25)))
    [moved] = scores_of(frame.with_columns(coverage=pl.col("coverage") / 2 + 0.25 + level / 2), "queries")
    widths = [high - low for low, high in (one.ci["coverage"] for one in (apart, moved))]
    assert widths[0] == pytest.approx(widths[1], rel=0.02) and same.ci["coverage"] != apart.ci["coverage"]


def test_queries_weigh_the_same_or_insights_do() -> None:
    """One query has one covered insight, another three uncovered ones: (1 + 0) / 2 by queries, 1 / 4 by insights."""
    rows = [(*["s"] * 5, "h", query, coverage, *[None] * 3, 0.0) for query, coverage in zip("abbb", (1.0, 0, 0, 0), strict=True)]
    frame = pl.DataFrame(rows, schema=[*KEYS, *CLUSTER, "coverage", *CITATIONS, "joint"], orient="row", infer_schema_length=None)
    frame = frame.with_columns(pl.col(CITATIONS).cast(pl.Float64)).select(*KEYS, *CLUSTER, *VALUES)
    expected = frame.select(*KEYS, *CLUSTER, pl.lit(4).alias("n_expected")).unique()
    words = frame.select(*KEYS[:4], pl.lit(30.0).alias("words_per_bullet"), pl.lit(6).alias("bullets_per_summary")).head(0)
    [insights], [queries] = (system_scores(insight_sums(frame), expected, words, weighting) for weighting in WEIGHTINGS)
    assert (insights.coverage, queries.coverage) == (0.25, 0.5)
    # Four of eight insights are missing: 1 of 8, and the mean of 1 of 4 and 0 of 4. Three are missing from the first query.
    assert (insights.floor("coverage"), queries.floor("coverage")) == (0.125, 0.125)
    assert queries.n_queries == 2


def test_a_haystacks_scores_are_those_of_its_rows_alone() -> None:
    rows = simulated(systems=5, haystacks=4, subtopics=6, seed=5)
    # The haystacks have 6, 4, 1 and 0 scored subtopics; the last one has only expected rows.
    kept = [("h0", 6), ("h1", 4), ("h2", 1)]
    insights = pl.concat(
        rows.filter(pl.col("haystack_id") == name, pl.col("subtopic_id") < f"s{n_subtopics}") for name, n_subtopics in kept
    )
    n_expected = pl.col("subtopic_id").str.tail(1).cast(pl.Int64) + 3
    expected = rows.select(*KEYS, *CLUSTER, n_expected.alias("n_expected")).unique()
    spoken = pl.int_range(pl.len()).cast(pl.Float64).alias("words_per_bullet")
    words = insights.select(*KEYS[:4], "haystack_id", spoken, pl.lit(6).alias("bullets_per_summary"))
    found = haystack_scores(insight_sums(insights), expected, words)
    assert sorted(found) == ["h0", "h1", "h2", "h3"]
    for name, scores in found.items():
        mine = [frame.filter(pl.col("haystack_id") == name) for frame in (insights, expected, words)]
        assert scores == system_scores(insight_sums(mine[0]), *mine[1:]) and len(scores) == 5
        assert all(bool(one.ci) == (name == "h0") for one in scores)


def test_the_order_of_rows_and_other_systems_change_nothing() -> None:
    frame = simulated(systems=5, haystacks=2, subtopics=6, seed=4)
    assert scores_of(frame) == scores_of(frame.sample(fraction=1, shuffle=True, seed=1))
    assert scores_of(frame.filter(pl.col("system") == "system003"))[0] == scores_of(frame)[3]


def test_the_mean_of_truth_values_has_wilsons_interval() -> None:
    frame = pl.DataFrame({"model": ["a"] * 10 + ["b"], "right": [True] * 7 + [False] * 3 + [True]})
    a, b = mean_interval(frame, "right", by="model").to_dicts()
    # Wilson, 7 of 10 and z = 1.96: (0.7 + z²/20 -+ z sqrt(0.7 0.3 / 10 + z²/400)) / (1 + z²/10)
    assert (a["right"], a["n"], a["right_reason"]) == (0.7, 10, None)
    assert (round(a["right_low"], 4), round(a["right_high"], 4)) == (0.3968, 0.8922)
    # A single value does not show how other values vary.
    reason = "too few independent values: 1, an interval needs 6"
    assert b == {"model": "b", "right": 1.0, "right_low": None, "right_high": None, "right_reason": reason, "n": 1}


def test_the_mean_of_numbers_has_an_interval_that_depends_on_the_values_alone() -> None:
    values = [0.1, 0.9, 0.4, 0.4, 0.7, 0.2, 0.6, 0.5]
    both = pl.DataFrame({"model": ["a"] * 8 + ["b"] * 8, "score": [*values, *reversed(values)]})
    found = mean_interval(both, "score", by="model")
    alone = mean_interval(both.filter(pl.col("model") == "a").sample(fraction=1.0, shuffle=True, seed=3), "score", by=["model"])
    assert found.filter(pl.col("model") == "a").equals(alone)
    column = np.array([sorted(values)]).T
    row = alone.to_dicts()[0]
    assert (row["score_low"], row["score_high"]) == unit_means(column, np.ones_like(column)).interval()
    # Ratings from 1 to 5 equal 4 x score + 1: the same interval on their scale.
    rated = mean_interval(both.with_columns(pl.col("score") * 4 + 1), "score", by="model", bounds=(1.0, 5.0)).to_dicts()[0]
    assert (rated["score_low"], rated["score_high"]) == pytest.approx((1 + 4 * row["score_low"], 1 + 4 * row["score_high"]))


def test_rows_of_a_cluster_count_as_one() -> None:
    rows = {"model": "a", "document": [f"d{place // 3}" for place in range(18)], "right": [place // 3 < 5 for place in range(18)]}
    [found] = mean_interval(pl.DataFrame(rows), "right", by="model", cluster="document").to_dicts()
    six = np.array([[1.0]] * 5 + [[0.0]])
    assert (found["right_low"], found["right_high"]) == pytest.approx(unit_means(six, np.ones_like(six)).interval())
    five = pl.DataFrame(rows).filter(pl.col("document") != "d5")
    assert mean_interval(five, "right", by="model", cluster="document")["right_reason"][0].startswith("too few")


def test_expected_rows_that_are_missing_are_counted() -> None:
    frame = pl.DataFrame({"model": ["a", "a"], "depth": [0.5, 0.5], "right": [True, None]})
    expected = pl.DataFrame({"item_id": list("wxyz"), "model": ["a", "a", "a", "b"], "depth": [0.5, 0.5, 0.5, 0]}, strict=False)
    found = mean_interval(frame, "right", by=("model", "depth"), expected=expected)
    assert found.select("model", "depth", "right", "n", "n_expected").rows() == [("a", 0.5, 1.0, 1, 3), ("b", 0.0, None, 0, 1)]
    nothing = mean_interval(frame.clear(), "right", by=("model", "depth"), expected=expected)
    assert nothing.select("n", "n_expected").rows() == [(0, 3), (0, 1)]
