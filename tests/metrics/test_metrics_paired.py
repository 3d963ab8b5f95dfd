"""Paired differences, held against scipy, statsmodels, and simulated experiments."""

from __future__ import annotations

import numpy as np
import pytest
from interval_coverage import measured
from scipy import stats

from summhay_ray.metrics import Resampling, with_holm
from summhay_ray.metrics.paired import PairedDifference, holm

pytestmark = pytest.mark.core


def difference(apart: np.ndarray, haystacks: list[str], samples: int = 10_000) -> PairedDifference:
    found = Resampling(haystacks, seed=3, samples=samples).difference(apart, np.zeros(len(apart)))
    assert found is not None
    return found


def drawn(n_haystacks: int, each: int, seed: int, between: float = 0.05) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    apart = np.repeat(rng.normal(0, between, n_haystacks), each) + rng.normal(0, 0.15, n_haystacks * each)
    return apart, [f"h{place:03}" for place in range(n_haystacks) for _ in range(each)]


def test_one_haystack_is_the_paired_t_test_of_scipy_and_the_power_of_statsmodels() -> None:
    from statsmodels.stats.power import TTestPower

    apart, haystacks = drawn(1, 30, 1)
    apart = apart + 0.06
    found, told = difference(apart, haystacks), stats.ttest_1samp(apart, 0)
    assert (found.over, found.clusters, found.n_queries) == ("queries", 30, 30)
    assert found.se == pytest.approx(stats.sem(apart))
    assert found.effect == pytest.approx(apart.mean() / apart.std(ddof=1))
    ends = told.confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(ends.low, abs=0.006), pytest.approx(ends.high, abs=0.006))
    assert found.p == pytest.approx(told.pvalue, abs=0.01)
    power = TTestPower()
    least = power.solve_power(nobs=30, alpha=0.05, power=0.8)
    assert found.detectable == pytest.approx(least * apart.std(ddof=1), rel=0.01)
    needed = power.solve_power(effect_size=found.effect, alpha=0.05, power=0.8)
    assert found.queries_needed is not None and abs(found.queries_needed - needed) < 2
    assert (found.wins, found.ties, found.losses) == ((apart > 0).sum(), 0, (apart < 0).sum())


def test_the_sign_flip_test_is_the_permutation_test_of_scipy() -> None:
    # Ten haystacks: exact, over the sums of the haystacks.
    apart, haystacks = drawn(10, 4, 2)
    sums = apart.reshape(10, 4).sum(axis=1)
    told = stats.permutation_test((sums, np.zeros(10)), lambda a, b: (a - b).sum(), permutation_type="samples", n_resamples=5000)
    found = difference(apart, haystacks)
    assert (found.over, found.clusters) == ("haystacks", 10)
    assert found.p == pytest.approx(told.pvalue)


def test_haystacks_are_resampled_where_there_are_six_and_missing_queries_are_left_out() -> None:
    few, many = (difference(*drawn(n, 6, 5)) for n in (5, 6))
    assert (few.over, few.clusters, many.over, many.clusters) == ("queries", 30, "haystacks", 6)
    apart, haystacks = drawn(6, 6, 5)
    apart[[0, 7]] = np.nan
    assert difference(apart, haystacks).n_queries == 34
    assert Resampling(haystacks).difference(np.full(36, np.nan), apart) is None
    alone = difference(np.array([0.2]), ["h"])
    assert (alone.difference, alone.low, alone.p, alone.detectable) == (0.2, None, None, None)


def test_the_same_seed_gives_the_same_figures() -> None:
    apart, haystacks = drawn(20, 3, 7)
    assert difference(apart, haystacks) == difference(apart, haystacks)


def test_holm_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    ps = [0.04, 0.001, 0.03, 0.2, 0.0004, 0.03]
    assert holm(ps) == pytest.approx(multipletests(ps, method="holm")[1])
    found = with_holm([difference(*drawn(20, 3, seed)) for seed in (1, 2)])
    assert all(one.p_holm is not None and one.p is not None and one.p_holm >= one.p for one in found)


def test_a_certain_winner_is_first_and_equals_share() -> None:
    _, haystacks = drawn(8, 3, 1)
    rng = np.random.default_rng(4)
    base = rng.normal(0.5, 0.1, 24)
    clear = Resampling(haystacks).standings(["low", "high"], np.stack([base - 0.2, base], axis=1))
    assert [(one.name, one.first, one.rank_low, one.rank_high) for one in clear] == [("high", 1.0, 1, 1), ("low", 0.0, 2, 2)]
    same = Resampling(haystacks).standings(["a", "b"], np.stack([base, base], axis=1))
    assert [one.first for one in same] == [0.5, 0.5]


@pytest.mark.parametrize("n_haystacks", [1, 20])
def test_intervals_cover_and_tests_do_not_cry_wolf(n_haystacks: int) -> None:
    # 150 experiments: the standard error of the share is 1.8 points. The soak below has 2,000.
    covered, cried = measured(n_haystacks, 0.05 if n_haystacks > 1 else 0.0, 150, 30 if n_haystacks == 1 else 5)
    assert covered >= 0.9 and cried <= 0.1


@pytest.mark.soak
@pytest.mark.parametrize("between", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("n_haystacks", [20, 30, 50])
def test_coverage_is_between_93_and_97_and_false_positives_at_most_6(n_haystacks: int, between: float) -> None:
    covered, cried = measured(n_haystacks, between)
    assert 0.93 <= covered <= 0.97 and cried <= 0.06
