"""Paired comparisons, held against scipy, statsmodels, and simulated experiments."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy
from interval_coverage import Design, measured

from summhay_ray.metrics import Over, Paired

pytestmark = pytest.mark.core


def rows(found: pl.DataFrame) -> list[Any]:
    return [SimpleNamespace(**row) for row in found.to_dicts()]


def difference(apart: np.ndarray, haystacks: list[str], over: Over = "queries") -> Any:
    [found] = rows(Paired(haystacks, seed=3, over=over).differences(np.stack([apart, np.zeros(len(apart))], axis=1), [(0, 1)]))
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
    # Haystacks whose means agree: only the queries within them spread.
    alike = apart - np.repeat(apart.reshape(4, 6).mean(axis=1), 6) + 0.1
    within, between = difference(alike, haystacks), difference(alike, haystacks, "haystacks")
    assert between.se == within.se and between.freedom == 3 < within.freedom == 20
    assert between.p > within.p


def test_further_queries_of_two_haystacks_are_a_mean_with_a_haystack_as_a_fixed_effect() -> None:
    from statsmodels.regression.linear_model import OLS

    apart, haystacks = drawn(2, 15, 4)
    found = difference(apart, haystacks)
    side = np.repeat([1.0, -1.0], 15)
    told = OLS(apart, np.stack([np.ones(30), side], axis=1)).fit()
    assert (found.se, found.low, found.high) == pytest.approx((told.bse[0], *told.conf_int()[0]))
    # Documents with one query each have no spread within: they are queries of one.
    alone = difference(apart, [f"h{place}" for place in range(30)])
    assert alone.p == pytest.approx(scipy.stats.ttest_1samp(apart, 0).pvalue)


def test_haystacks_of_other_sizes_have_the_variance_and_freedom_of_bell_and_mccaffrey() -> None:
    sizes = [2, 9, 4]
    haystacks = [f"h{place}" for place, size in enumerate(sizes) for _ in range(size)]
    n, cluster = sum(sizes), np.repeat(range(3), sizes)
    apart = np.random.default_rng(3).normal(0.1, 0.15, n) + cluster * 0.5
    # As their paper has it, for a regression on a constant: V = sum of (x'A e)(x'A e)', G the columns (I - H)'A x.
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
    found = rows(Paired(haystacks, over=over).differences(values, pairs))
    assert len(found) == 66 and all(one.n_pairs == 66 for one in found)
    for one in found:
        assert (one.p_adjusted < 0.05) == (one.low > 0 or one.high < 0)
        assert one.p <= one.p_adjusted <= min(1, 66 * one.p) + 1e-12
    # Two haystacks say little of others.
    assert any(one.p_adjusted < 0.05 for one in found) == (over == "queries")


def test_many_systems_can_differ() -> None:
    values, pairs, haystacks = many(40)
    assert (Paired(haystacks).differences(values, pairs)["p_adjusted"] < 0.05).sum() > 100


def test_equal_systems_are_no_evidence_and_share_the_better_rank() -> None:
    base = np.random.default_rng(4).normal(0.5, 0.1, 18)
    # The same figures but for their last digits.
    values = np.stack([base - 0.3 + np.linspace(0, 0.1, 18), base, base + 1e-15, base * (1 + 1e-15)], axis=1)
    paired = Paired(["h", "i"] * 9)
    equal = rows(paired.differences(values, [(1, 2), (1, 3)]))
    assert {(one.low, one.high, one.se, one.p, one.p_adjusted, one.detectable, one.ties) for one in equal} == {
        (None, None, None, None, 1.0, None, 18)
    }
    found = paired.ranks(values)
    assert found.select("rank_low", "rank_high", "may_be_best").rows() == [(4, 4, False), *[(1, 3, True)] * 3]
    assert found["from_best_low"][1] is None and found["from_best_high"][0] == 0


def test_a_difference_that_is_the_same_on_every_query_has_an_interval() -> None:
    # As if one more query had none: t is the number of queries.
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
    assert found == difference(apart[kept], [name for name, is_kept in zip(haystacks, kept, strict=True) if is_kept])
    [none] = rows(Paired(haystacks).differences(np.full((36, 2), np.nan), [(0, 1)]))
    assert (none.n_queries, none.difference, none.p_adjusted) == (0, None, 1)


def test_a_clear_winner_is_the_only_one_that_may_be_best() -> None:
    values, _, haystacks = many(5)
    values[:, 0] += 1
    best, *others = rows(Paired(haystacks).ranks(values))
    assert (best.may_be_best, best.from_best_low, best.rank_low, best.rank_high) == (True, 0, 1, 1)
    assert not any(one.may_be_best or one.from_best_high for one in others)


def test_the_same_seed_gives_the_same_figures() -> None:
    values, pairs, haystacks = many(5)
    assert Paired(haystacks).differences(values, pairs).equals(Paired(haystacks).differences(values, pairs))


@pytest.mark.parametrize("over", ["queries", pytest.param("haystacks", marks=pytest.mark.soak)])
def test_intervals_cover_and_tests_do_not_cry_wolf(over: Over) -> None:
    # 150 experiments: the standard error of the share is 1.8 points. The soak below has 2,000.
    found = measured(Design(5, 3, over=over), 150, 300)
    assert found.all_hold >= 0.9 and found.wrong <= 0.1 and found.single >= 0.9 and found.best >= 0.9


@pytest.mark.soak
@pytest.mark.parametrize("over", ["queries", "haystacks"])
@pytest.mark.parametrize("noise", ["normal", "skewed", "unlike"])
@pytest.mark.parametrize("haystacks", [2, 5, 20])
def test_family_wise_error_is_at_most_6_and_coverage_at_least_93(haystacks: int, noise: str, over: Over) -> None:
    for uneven in (False, True):
        found = measured(Design(5, haystacks, noise, uneven, over))
        assert found.wrong <= 0.06 and min(found.all_hold, found.single, found.best) >= 0.93
