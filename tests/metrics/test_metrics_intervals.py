"""The intervals: do they hold the truth as often as they say, are they reproducible, and what of degenerate cases."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from summhay_ray.metrics import VALUES, SystemScore, haystack_scores, insight_sums, mean_interval, system_scores
from summhay_ray.metrics.score_intervals import generator, ratio_intervals, resampled_sums
from summhay_ray.metrics.scores_by_system import CLUSTER, KEYS

pytestmark = pytest.mark.core


def simulated(systems: int, haystacks: int, subtopics: int, seed: int) -> pl.DataFrame:
    """Insights whose chance of full coverage differs by subtopic; covered ones have a citation score of 0.2 to 0.6.

    True coverage is 0.5, the mean of a uniform chance; true joint is 0.5 * 0.4.
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


def scores_of(insights: pl.DataFrame, seed: int = 0, samples: int = 400) -> list[SystemScore]:
    expected = insights.select(*KEYS, *CLUSTER, pl.lit(6).alias("n_expected")).unique()
    words = insights.select(*KEYS[:4], pl.lit(30.0).alias("words_per_bullet")).head(0)
    return system_scores(insight_sums(insights), expected, words, seed, samples)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    found = scores_of(simulated(systems=300, haystacks=3, subtopics=10, seed=1))
    for figure, truth in (("coverage", 0.5), ("citation", 0.4), ("joint", 0.5 * 0.4)):
        inside = [low <= truth <= high for low, high in (one.ci[figure] for one in found)]
        # 300 draws at 95 % have a standard error of 1.3 points; percentile intervals of 30 clusters are a little narrow.
        assert 0.90 <= np.mean(inside) <= 0.985, figure
        assert all(low <= getattr(one, figure) <= high for one in found for low, high in [one.ci[figure]])


def test_clusters_make_wider_intervals_than_single_insights_would() -> None:
    frame = simulated(systems=40, haystacks=1, subtopics=12, seed=2)
    alike = frame.with_columns(pl.col("coverage").mean().over("system", "subtopic_id").round())
    wide = [one.ci["coverage"][1] - one.ci["coverage"][0] for one in scores_of(alike)]
    by_insight = alike.with_columns(pl.int_range(pl.len()).cast(pl.String).alias("subtopic_id"))
    narrow = [one.ci["coverage"][1] - one.ci["coverage"][0] for one in scores_of(by_insight)]
    assert np.mean(wide) > 1.8 * np.mean(narrow)  # six alike insights carry the weight of one: the square root of 6 is 2.4


def test_haystacks_are_fixed() -> None:
    """Haystacks that differ, each of subtopics that are all alike: resampling subtopics changes nothing."""
    frame = simulated(systems=2, haystacks=2, subtopics=5, seed=3)
    alike = frame.with_columns(pl.when(pl.col("haystack_id") == "h0").then(1.0).otherwise(0.0).alias("coverage"))
    for one in scores_of(alike):
        assert one.ci["coverage"] == (0.5, 0.5)


def test_a_haystacks_scores_are_those_of_its_rows_alone() -> None:
    rows = simulated(systems=5, haystacks=4, subtopics=6, seed=5)
    # The haystacks have 6, 4, 1 and no scored subtopics; of the last there are expected rows alone.
    kept = [("h0", 6), ("h1", 4), ("h2", 1)]
    insights = pl.concat(
        rows.filter(pl.col("haystack_id") == name, pl.col("subtopic_id") < f"s{n_subtopics}") for name, n_subtopics in kept
    )
    n_expected = pl.col("subtopic_id").str.tail(1).cast(pl.Int64) + 3
    expected = rows.select(*KEYS, *CLUSTER, n_expected.alias("n_expected")).unique()
    spoken = pl.int_range(pl.len()).cast(pl.Float64).alias("words_per_bullet")
    words = insights.select(*KEYS[:4], "haystack_id", spoken)
    found = haystack_scores(insight_sums(insights), expected, words, 3, 200)
    assert sorted(found) == ["h0", "h1", "h2", "h3"]
    for name, scores in found.items():
        mine = [frame.filter(pl.col("haystack_id") == name) for frame in (insights, expected, words)]
        assert scores == system_scores(insight_sums(mine[0]), *mine[1:], 3, 200) and len(scores) == 5
        assert all(bool(one.ci) == (name in ("h0", "h1")) for one in scores)


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    frame = simulated(systems=5, haystacks=2, subtopics=6, seed=4)
    assert scores_of(frame, seed=7) == scores_of(frame.sample(fraction=1, shuffle=True, seed=1), seed=7)
    assert [one.ci for one in scores_of(frame, seed=7)] != [one.ci for one in scores_of(frame, seed=8)]
    assert scores_of(frame.filter(pl.col("system") == "system003"), seed=7)[0] == scores_of(frame, seed=7)[3]


def test_equal_scores_have_equal_intervals() -> None:
    first = simulated(systems=1, haystacks=3, subtopics=4, seed=6)
    again = first.with_columns(pl.lit("another").alias("system"))
    fewer = first.filter(pl.col("haystack_id") != "h1").with_columns(pl.lit("fewer").alias("system"))
    found = {one.system: one.ci for one in scores_of(pl.concat([first, again, fewer]))}
    assert found["system000"] == found["another"] != found["fewer"]


def test_one_cluster_has_no_interval() -> None:
    for haystacks in (1, 3):
        [found] = scores_of(simulated(systems=1, haystacks=haystacks, subtopics=1, seed=5))
        assert found.coverage is not None
        assert found.ci == {}


def test_a_resample_without_a_covered_insight_is_left_out_of_citation() -> None:
    sums = np.array([[1.0, 0.0], [1.0, 1.0]])  # covered insights: none, one
    drawn = resampled_sums(sums, 500, generator(0, ["a"]))
    assert 0.15 < np.mean(drawn[:, 1] == 0) < 0.35  # the empty cluster twice: 1 in 4
    some = drawn[:, 1:]
    assert ratio_intervals(0.4 * some, some) == [pytest.approx((0.4, 0.4))]
    assert ratio_intervals(np.hstack([0.4 * some, some]), np.hstack([some, 0 * some])) == [pytest.approx((0.4, 0.4)), None]


def test_resampling_draws_as_many_clusters_as_there_are_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = np.column_stack([np.ones(9), np.arange(9.0)])
    whole = resampled_sums(sums, 50, generator(1, ["a"]))
    assert (whole[:, 0] == 9).all()
    monkeypatch.setattr("summhay_ray.metrics.score_intervals._BLOCK", 24)
    assert (resampled_sums(sums, 50, generator(1, ["a"])) == whole).all()


def test_the_mean_of_truth_values_has_wilsons_interval() -> None:
    frame = pl.DataFrame({"model": ["a"] * 10 + ["b"], "right": [True] * 7 + [False] * 3 + [True]})
    a, b = mean_interval(frame, "right", by="model").to_dicts()
    # Wilson, 7 of 10 and z = 1.96: (0.7 + z²/20 -+ z sqrt(0.7 0.3 / 10 + z²/400)) / (1 + z²/10)
    assert (a["right"], a["n"]) == (0.7, 10)
    assert (round(a["right_low"], 4), round(a["right_high"], 4)) == (0.3968, 0.8922)
    # Of one value nobody knows how others would be.
    assert b == {"model": "b", "right": 1.0, "right_low": None, "right_high": None, "n": 1}


def test_the_mean_of_numbers_has_a_bootstrap_interval_that_depends_on_the_values_alone() -> None:
    values = [0.1, 0.9, 0.4, 0.4, 0.7, 0.2, 0.6, 0.5]
    both = pl.DataFrame({"model": ["a"] * 8 + ["b"] * 8, "score": [*values, *reversed(values)]})
    found = mean_interval(both, "score", by="model")
    alone = mean_interval(both.filter(pl.col("model") == "a").sample(fraction=1.0, shuffle=True, seed=3), "score", by=["model"])
    assert found.filter(pl.col("model") == "a").equals(alone)
    row = alone.to_dicts()[0]
    # The normal interval of the mean, 0.475 -+ 1.96 x 0.2436 / sqrt(8), is near.
    assert row["score"] == pytest.approx(0.475)
    assert (row["score_low"], row["score_high"]) == (pytest.approx(0.306, abs=0.03), pytest.approx(0.644, abs=0.03))
    other = mean_interval(both, "score", by="model", seed=1).filter(pl.col("model") == "a").to_dicts()[0]
    assert other["score"] == row["score"] and other["score_low"] != row["score_low"]


def test_what_is_expected_and_did_not_come_is_counted() -> None:
    frame = pl.DataFrame({"model": ["a", "a"], "depth": [0.5, 0.5], "right": [True, None]})
    expected = pl.DataFrame({"item_id": list("wxyz"), "model": ["a", "a", "a", "b"], "depth": [0.5, 0.5, 0.5, 0]}, strict=False)
    found = mean_interval(frame, "right", by=("model", "depth"), expected=expected)
    assert found.select("model", "depth", "right", "n", "n_expected").rows() == [("a", 0.5, 1.0, 1, 3), ("b", 0.0, None, 0, 1)]
    nothing = mean_interval(frame.clear(), "right", by=("model", "depth"), expected=expected)
    assert nothing.select("n", "n_expected").rows() == [(0, 3), (0, 1)]
