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
    assert (found.over, found.test, found.clusters, found.n_queries) == ("queries", "sign-flip", 30, 30)
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
    assert (found.over, found.test, found.clusters) == ("haystacks", "sign-flip", 10)
    assert found.p == pytest.approx(told.pvalue)


def test_few_haystacks_are_the_t_test_of_scipy_over_them() -> None:
    apart, haystacks = drawn(4, 6, 5)
    found, told = difference(apart, haystacks), stats.ttest_1samp(apart.reshape(4, 6).mean(axis=1), 0)
    assert (found.over, found.test, found.clusters) == ("haystacks", "t", 4)
    ends = told.confidence_interval(0.95)
    assert (found.p, found.low, found.high) == (pytest.approx(told.pvalue), pytest.approx(ends.low), pytest.approx(ends.high))
    equal = difference(np.zeros(24), haystacks)
    assert (equal.p, equal.low, equal.high) == (1.0, 0.0, 0.0)
    assert difference(np.full(24, 0.1), haystacks).p is None, "haystacks that agree to the last digit tell no spread"


def test_further_queries_of_two_haystacks_are_a_mean_with_a_haystack_as_a_fixed_effect() -> None:
    from statsmodels.regression.linear_model import OLS

    apart, haystacks = drawn(2, 15, 4)
    found = Resampling(haystacks, seed=3, over="queries").difference(apart, np.zeros(30))
    assert found is not None
    assert (found.over, found.test, found.clusters) == ("queries", "sign-flip", 30)
    side = np.repeat([1.0, -1.0], 15)
    told = OLS(apart, np.stack([np.ones(30), side], axis=1)).fit()
    assert found.se == pytest.approx(told.bse[0])
    assert (found.low, found.high) == (
        pytest.approx(told.conf_int()[0][0], abs=0.006),
        pytest.approx(told.conf_int()[0][1], abs=0.006),
    )
    assert Resampling([*haystacks, "one", "more"][:4], over="queries").test == "t"


def test_haystacks_of_other_sizes_have_the_variance_and_freedom_of_bell_and_mccaffrey() -> None:
    sizes = [2, 9, 4]
    haystacks = [f"h{place}" for place, size in enumerate(sizes) for _ in range(size)]
    n, cluster = sum(sizes), np.repeat(range(3), sizes)
    apart = np.random.default_rng(3).normal(0.1, 0.15, n) + cluster * 0.05
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
    found = difference(apart, haystacks)
    assert found.se == pytest.approx(variance**0.5)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(apart.mean()) / variance**0.5, freedom))


def test_haystacks_are_resampled_where_there_are_six_and_missing_queries_are_left_out() -> None:
    few, many = (difference(*drawn(n, 6, 5)) for n in (5, 6))
    assert (few.test, few.clusters, many.test, many.clusters) == ("t", 5, "sign-flip", 6)
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


def test_equal_systems_share_rank_and_interval() -> None:
    _, haystacks = drawn(8, 3, 1)
    base = np.random.default_rng(4).normal(0.5, 0.1, 24)
    # The same figures in their last digits.
    values = np.stack([base - 0.3, base, base + 1e-15, base * (1 + 1e-15)], axis=1)
    found = Resampling(haystacks).standings(["low", "c", "a", "b"], values)
    assert {one.name: (one.rank, one.rank_low, one.rank_high) for one in found} == {
        **dict.fromkeys("abc", (2.0, 2.0, 2.0)),
        "low": (4.0, 4.0, 4.0),
    }
    assert [one.first for one in found] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    half = Resampling(haystacks).standings(["a", "b"], np.stack([base, base], axis=1))
    assert {(one.rank, one.rank_low, one.rank_high) for one in half} == {(1.5, 1.5, 1.5)}


def test_what_is_needed_and_said_counts_the_pairs_that_are_compared() -> None:
    apart, haystacks = drawn(20, 3, 7)
    alone = difference(apart - apart.mean() + 0.05, haystacks)
    [among, *_] = with_holm([alone] * 50)
    assert among.p == alone.p and among.n_pairs == 50
    assert among.queries_needed is not None and alone.queries_needed is not None
    assert among.queries_needed > 1.5 * alone.queries_needed
    assert among.detectable is not None and alone.detectable is not None and among.detectable > alone.detectable
    [single] = with_holm([alone])
    assert single.verdict("x", "y").startswith("differs: x is higher by ")
    assert among.verdict("x", "y").startswith("not shown to differ; about ")
    assert not single.out_of_reach


def test_so_few_queries_can_show_nothing_among_so_many_pairs() -> None:
    clear = difference(np.array([0.15, 0.2, 0.1, 0.12, 0.18, 0.15, 0.16, 0.14]), ["h"] * 8)
    assert clear.p == clear.p_least == 2 / 2**8
    six, seven = (with_holm([clear] * pairs)[0] for pairs in (6, 7))
    assert six.verdict("x", "y") == "differs: x is higher by 15.0 points (p 0.0469 after Holm over 6 pairs)"
    assert not six.out_of_reach and seven.out_of_reach
    assert seven.verdict("x", "y") == "not shown to differ; 8 queries are too few for 7 pairs at once"
    few = with_holm([difference(np.array([0.1, -0.02, 0.03, 0.08]), ["g", "g", "h", "h"])])[0]
    assert few.p_least == 0 and not few.out_of_reach


@pytest.mark.parametrize("n_haystacks", [1, 3, 20])
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


@pytest.mark.soak
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("between", [0.0, 0.05, 0.15])
@pytest.mark.parametrize("n_haystacks", [2, 3, 4, 5, 6, 10])
def test_false_positives_of_few_haystacks_are_at_most_6(n_haystacks: int, between: float, uneven: bool) -> None:
    # 8,000 experiments: the standard error of the share is a quarter of a point.
    assert measured(n_haystacks, between, 8000, uneven=uneven)[1] <= 0.06
