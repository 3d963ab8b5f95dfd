"""Paired comparisons, compared with scipy, statsmodels, and simulated experiments."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy
from compare_errors import Design, measure

from summhay_ray.metrics import LEVEL, Observed, Over, Paired
from summhay_ray.metrics.paired_differences import holm

pytestmark = pytest.mark.core


def rows(found: pl.DataFrame) -> list[Any]:
    return [SimpleNamespace(**row) for row in found.to_dicts()]


def difference(apart: np.ndarray, haystacks: list[str], over: Over = "queries") -> Any:
    values = np.stack([apart, np.zeros(len(apart))], axis=1)
    [found] = rows(Paired(haystacks, over).differences(Observed.whole(values), [(0, 1)]))
    return found


def drawn(n_haystacks: int, each: int, seed: int, between: float = 0.05) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    apart = np.repeat(rng.normal(0, between, n_haystacks), each) + rng.normal(0, 0.15, n_haystacks * each)
    return apart, [f"h{place:03}" for place in range(n_haystacks) for _ in range(each)]


def many(systems: int, n: int = 18, seed: int = 1) -> tuple[np.ndarray, list[tuple[int, int]], list[str]]:
    values = np.random.default_rng(seed).normal(0, 0.15, (n, systems)) + np.linspace(0.8, 0, systems)
    return values, list(itertools.combinations(range(systems), 2)), [f"h{2 * place // n}" for place in range(n)]


def test_one_haystack_is_the_paired_t_test_of_scipy_and_the_power_of_statsmodels() -> None:
    from statsmodels.stats.power import TTestPower

    apart, haystacks = drawn(1, 30, 1)
    apart = apart + 0.06
    found, told = difference(apart, haystacks, "haystacks"), scipy.stats.ttest_1samp(apart, 0)
    assert (found.over, found.n_queries, found.n_pairs) == ("queries", 30, 1)
    ends = told.confidence_interval(0.95)
    assert (found.se, found.p, found.p_adjusted) == pytest.approx((scipy.stats.sem(apart), told.pvalue, told.pvalue))
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.effect == pytest.approx(apart.mean() / apart.std(ddof=1))
    power = TTestPower()
    least = power.solve_power(nobs=30, alpha=0.05, power=0.8)
    assert found.detectable == pytest.approx(least * apart.std(ddof=1), rel=0.01)
    needed = power.solve_power(effect_size=found.effect, alpha=0.05, power=0.8)
    assert abs(found.queries_needed - needed) < 2
    assert (found.wins, found.ties, found.losses) == ((apart > 0).sum(), 0, (apart < 0).sum())


def test_other_haystacks_are_the_t_test_of_scipy_over_them_but_never_surer_than_within_them() -> None:
    apart, haystacks = drawn(4, 6, 5)
    found, told = difference(apart, haystacks, "haystacks"), scipy.stats.ttest_1samp(apart.reshape(4, 6).mean(axis=1), 0)
    ends = told.confidence_interval(0.95)
    assert (found.p, found.low, found.high) == pytest.approx((told.pvalue, ends.low, ends.high))
    # The haystacks' means are equal: only the queries within them vary.
    alike = apart - np.repeat(apart.reshape(4, 6).mean(axis=1), 6) + 0.1
    within, between = difference(alike, haystacks), difference(alike, haystacks, "haystacks")
    assert between.se == within.se and (between.freedom, within.freedom) == pytest.approx((3, 20))
    assert between.p > within.p


def test_further_queries_of_two_haystacks_are_a_mean_with_a_haystack_as_a_fixed_effect() -> None:
    from statsmodels.regression.linear_model import OLS

    apart, haystacks = drawn(2, 15, 4)
    found = difference(apart, haystacks)
    side = np.repeat([1.0, -1.0], 15)
    told = OLS(apart, np.stack([np.ones(30), side], axis=1)).fit()
    assert (found.se, found.low, found.high) == pytest.approx((told.bse[0], *told.conf_int()[0]))
    # Documents with one query each have no spread within, so they count as queries of one document.
    alone = difference(apart, [f"h{place}" for place in range(30)])
    assert alone.p == pytest.approx(scipy.stats.ttest_1samp(apart, 0).pvalue)


def test_haystacks_of_other_sizes_have_the_variance_and_freedom_of_bell_and_mccaffrey() -> None:
    sizes = [2, 9, 4]
    haystacks = [f"h{place}" for place, size in enumerate(sizes) for _ in range(size)]
    n, cluster = sum(sizes), np.repeat(range(3), sizes)
    apart = np.random.default_rng(3).normal(0.1, 0.15, n) + cluster * 0.5
    # As in their paper, for a regression on a constant: V = sum of (x'A e)(x'A e)', G the columns (I - H)'A x.
    hat = np.full((n, n), 1 / n)
    rest, variance, columns = np.eye(n) - hat, 0.0, []
    for one in range(3):
        own = cluster == one
        values, vectors = np.linalg.eigh(rest[np.ix_(own, own)])
        weight = (vectors @ np.diag(values**-0.5) @ vectors.T) @ np.full(own.sum(), 1 / n)
        variance += float(weight @ (rest @ apart)[own]) ** 2
        columns.append(rest[:, own] @ weight)
    own_values = np.linalg.eigvalsh(np.array(columns) @ np.array(columns).T)
    freedom = own_values.sum() ** 2 / (own_values**2).sum()
    found = difference(apart, haystacks, "haystacks")
    assert found.se == pytest.approx(variance**0.5)
    assert found.p == pytest.approx(2 * scipy.stats.t.sf(abs(apart.mean()) / variance**0.5, freedom))


@pytest.mark.parametrize("over", ["queries", "haystacks"])
@pytest.mark.parametrize("lost", [0, 5])
def test_a_pair_differs_exactly_where_its_interval_excludes_zero(over: Over, lost: int) -> None:
    values, pairs, haystacks = many(12)
    values[:lost, 3], values[2 : 2 + lost, 7] = np.nan, np.nan
    found = rows(Paired(haystacks, over).differences(Observed.whole(values), pairs))
    assert len(found) == 66 and all(one.n_pairs == 66 for one in found)
    for one in found:
        assert (one.p_adjusted < LEVEL) == (one.low > 0 or one.high < 0)
    # Two haystacks show little about others.
    assert any(one.p_adjusted < LEVEL for one in found) == (over == "queries")


def test_p_values_of_many_pairs_are_corrected_as_statsmodels_does_by_holm() -> None:
    from statsmodels.stats.multitest import multipletests

    values, pairs, haystacks = many(40)
    found = Paired(haystacks, "queries").differences(Observed.whole(values), pairs)
    rejected, adjusted, *_ = multipletests(found["p"], LEVEL, "holm")
    assert found["p_adjusted"].to_numpy() == pytest.approx(adjusted)
    assert rejected.sum() > 100 and (found["p_adjusted"].to_numpy() < LEVEL).tolist() == rejected.tolist()
    p, level = found["p"].to_numpy(), holm(found["p"].to_numpy())[1]
    assert ((p < level) == rejected).all() and level[~rejected] == pytest.approx(LEVEL / (~rejected).sum())


def test_six_haystacks_or_more_stand_for_others_unless_queries_are_asked_for() -> None:
    assert [Paired([f"h{n % count}" for n in range(24)]).over for count in (1, 5, 6)] == ["queries", "queries", "haystacks"]
    assert Paired([f"h{n % 6}" for n in range(24)], "queries").over == "queries"


def test_equal_systems_are_no_evidence() -> None:
    base = np.random.default_rng(4).normal(0.5, 0.1, 18)
    # The same figures except for the last digits.
    values = np.stack([base, base + 1e-15, base * (1 + 1e-15)], axis=1)
    equal = rows(Paired(["h", "i"] * 9).differences(Observed.whole(values), [(0, 1), (0, 2)]))
    assert {(one.low, one.high, one.se, one.p, one.p_adjusted, one.detectable, one.ties) for one in equal} == {
        (None, None, None, None, 1.0, None, 18)
    }


def test_a_difference_that_is_the_same_on_every_query_has_an_interval() -> None:
    # One more query without a difference is assumed: t is the number of queries.
    found = difference(np.full(20, 1.0), ["h"] * 20)
    assert found.se == pytest.approx(1 / 20) and 0 < found.low < 1
    assert difference(np.full(2, 1.0), ["h"] * 2).low < 0
    alone = difference(np.array([0.2]), ["h"])
    assert (alone.difference, alone.low, alone.p, alone.detectable, alone.p_adjusted) == (0.2, None, None, None, 1)


def test_what_is_missing_counts_for_neither() -> None:
    apart, haystacks = drawn(6, 6, 5)
    apart[[0, 7]] = np.nan
    kept = ~np.isnan(apart)
    found = difference(apart, haystacks)
    same = difference(apart[kept], [name for name, is_kept in zip(haystacks, kept, strict=True) if is_kept])
    assert {name: value for name, value in vars(found).items() if name != "over"} == pytest.approx(
        {name: value for name, value in vars(same).items() if name != "over"}
    )
    [none] = rows(Paired(haystacks).differences(Observed.whole(np.full((36, 2), np.nan)), [(0, 1)]))
    assert (none.n_queries, none.difference, none.p_adjusted) == (0, None, 1)


@pytest.mark.parametrize(("lost", "worst"), [(0, None), (1, None), (2, (0.24, 0.34)), (6, (0.04, 0.34))])
def test_what_is_missing_counts_at_its_worst_above_two_per_cent(lost: int, worst: tuple[float, float] | None) -> None:
    # 20 queries of 10 judgments. A has 0.8 on each, B varies around 0.5. One of 200 judgments, or two of 20 queries, are missing.
    b = 0.5 + np.tile([0.05, -0.05], 10)
    values = np.stack([np.full(20, 0.8), b], axis=1)
    least, most, missing = values.copy(), values.copy(), np.array([lost / 20 if lost > 1 else lost / 200, 0.0])
    if lost == 1:
        least[0, 0], most[0, 0] = 0.8 * 0.9, 0.8 * 0.9 + 0.1
    elif lost:
        values[:lost, 0], least[:lost, 0], most[:lost, 0] = np.nan, 0.0, 1.0
    [found] = rows(Paired(["h"] * 20).differences(Observed(values, least, most, missing), [(0, 1)]))
    assert found.difference == pytest.approx(0.3)
    if worst is None:
        assert (found.worst_low, found.p_adjusted) == (None, found.p)
        return
    # With A at 0 on the lost queries: 0.3 - lost * 0.8 / 20 + ...; with A at 1: 0.3 + lost * 0.2 / 20.
    assert (found.worst_low, found.worst_high) == pytest.approx((0.3 - 0.8 * lost / 20, 0.3 + 0.2 * lost / 20))
    assert found.p < 1e-10 < found.p_adjusted and found.low < found.worst_low and found.high > found.worst_high
    assert (found.p_adjusted < LEVEL) == (found.low > 0) == (lost == 2)


def test_incomplete_systems_take_nothing_from_the_others() -> None:
    values, _, haystacks = many(6)
    values = np.clip(values, 0, 1)
    least, most = values.copy(), values.copy()
    values[:9, 5], least[:9, 5], most[:9, 5] = np.nan, 0.0, 1.0
    missing = np.array([0, 0, 0, 0, 0, 0.5])
    paired, pairs = Paired(haystacks), list(itertools.combinations(range(6), 2))
    found = paired.differences(Observed(values, least, most, missing), pairs, most=1.0)
    own = [5 not in pair for pair in pairs]
    assert found.filter(own).equals(
        paired.differences(Observed.whole(values[:, :5]), [pair for pair in pairs if 5 not in pair], most=1.0)
    )
    for one in rows(found.filter([not is_own for is_own in own])):
        assert one.n_pairs == 5 and -1 <= one.low <= one.worst_low <= one.worst_high <= one.high <= 1
        assert (one.p_adjusted < LEVEL) == (one.low > 0)


@pytest.mark.soak
@pytest.mark.parametrize("missing", [False, True])
def test_equal_systems_are_seldom_said_to_differ(missing: bool) -> None:
    # Of 150 experiments, 5 % are 7.5, with a standard deviation of 2.7.
    assert measure(Design(5, 3, null=True, missing=missing), 150).wrong[0] <= 16
    found = measure(Design(5, 3, missing=missing), 150)
    assert found.wrong[0] <= 16 and found.all_hold >= 0.88 and found.single >= 0.97 and found.found[0] >= 0.6


@pytest.mark.soak
@pytest.mark.parametrize("over", ["queries", "haystacks"])
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("haystacks", [2, 6, 20])
def test_family_wise_error_is_at_most_6_per_cent(haystacks: int, skewed: bool, over: Over) -> None:
    for missing in (False, True):
        found = measure(Design(5, haystacks, True, missing, skewed, over), 2000)
        assert found.wrong[0] <= 0.06 * 2000 and found.all_hold >= 0.93
