"""Whom a cascade asks about where all summaries are known: exactly a share, or what a budget surely pays for. No Ray."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rejudged_runs import N_INSIGHTS, judge_all, rejudging, source_run

from summhay_ray.grid import SpecError, Wish, plan_rejudge, rejudge_run
from summhay_ray.grid.asked import Uncertain, affordable, cascades_of, is_open, with_share
from summhay_ray.grid.rejudging import Rejudging, free_of
from summhay_ray.judge import BadName
from summhay_ray.store import RunStore

pytestmark = pytest.mark.core

FIVE = Uncertain(["a", "a", "b", "b", "c"], ["i1", "i2", "i1", "i2", "i1"], [0.1, 0.4, 0.3, 0.3, 0.0])
GPT = "cascade(offline,openai/gpt-4o)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return source_run(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def free(run: RunStore) -> Uncertain:
    return Uncertain.of(judge_all(rejudging(run, "offline"))[0], "offline/judge")


def test_the_least_certain_share_is_asked_exactly() -> None:
    assert FIVE.asked(0.2) == {"a": ["i2"]}
    assert FIVE.asked(0.4) == {"a": ["i2"], "b": ["i1"]}, "of equals the first"
    assert FIVE.asked(1) == {"a": ["i1", "i2"], "b": ["i1", "i2"], "c": ["i1"]}
    choice = FIVE.choice("cascade", 0.4)
    assert (choice.n_asked, choice.n) == (2, 5)
    assert choice.uncertainty_asked == pytest.approx((0.4 + 0.3) / 2)
    assert choice.uncertainty_left == pytest.approx((0.3 + 0.1 + 0.0) / 3)
    assert FIVE.choice("cascade", 1).uncertainty_left is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 1))
def test_nobody_who_is_left_is_less_certain_than_somebody_who_is_asked(uncertainties: list[float], share: float) -> None:
    names = [str(index) for index in range(len(uncertainties))]
    asked = Uncertain(names, names, uncertainties).asked(share)
    assert len(asked) == round(share * len(names))
    inside = [one for name, one in zip(names, uncertainties, strict=True) if name in asked]
    outside = [one for name, one in zip(names, uncertainties, strict=True) if name not in asked]
    assert not inside or not outside or min(inside) >= max(outside)


def test_a_share_is_written_into_an_open_name_alone() -> None:
    assert is_open(GPT) and not is_open("cascade(offline,openai/gpt-4o,0.1)") and not is_open("offline")
    assert with_share(GPT, 0.07124) == "cascade(offline,openai/gpt-4o,0.0712)"
    assert with_share("cascade(offline, blend(openai/gpt-4o, offline))", 0.5) == (
        "cascade(offline,blend(openai/gpt-4o,offline),0.5)"
    )
    with pytest.raises(BadName):
        is_open("cascade(offline")


def grid_of(run: RunStore, name: str) -> Rejudging:
    grid = rejudging(run, name)
    assert len(cascades_of(grid)) == 1
    return grid


@pytest.mark.parametrize(
    "name", [GPT, "cascade(offline,per_summary(openai/gpt-4o))", "cascade(offline,blend(openai/gpt-4o,offline))"]
)
def test_a_budget_pays_for_what_it_chose(run: RunStore, free: Uncertain, name: str) -> None:
    grid = grid_of(run, name)
    [spec] = cascades_of(grid)
    shares = []
    for budget in (0.01, 0.03, 0.05, 1.0):
        share, expected, most = affordable(grid, spec, free, budget)
        assert 0 < expected < most <= budget
        chosen = grid_of(run, with_share(name, share))
        planned = plan_rejudge(with_asked(chosen, free, share))
        # As the plan counts the same calls: what is rounded off the share only makes it cheaper.
        assert planned.usd["max"] <= most + 1e-9
        shares.append(share)
    assert shares == sorted(shares) and shares[-1] == 1, "the last pays for all"
    assert shares[0] < 1


def test_a_budget_is_shared_with_no_other_paid_judge(run: RunStore) -> None:
    with pytest.raises(SpecError, match="with --budget, cascade\\(offline,openai/gpt-4o\\) is to be the only judge that is paid"):
        rejudge_run(run, Wish((GPT, "openai/gpt-4o")), budget_usd=1.0)


def with_asked(grid: Rejudging, free: Uncertain, share: float) -> Rejudging:
    from dataclasses import replace

    [spec] = cascades_of(grid)
    return replace(grid, asked={spec.label: free.asked(share)})


def test_a_budget_that_pays_for_nothing_is_refused(run: RunStore, free: Uncertain) -> None:
    grid = grid_of(run, GPT)
    with pytest.raises(SpecError, match="--budget 0.0001 surely pays for asking openai/gpt-4o about 0 of 22 insights"):
        affordable(grid, cascades_of(grid)[0], free, 0.0001)


@settings(max_examples=5)
@given(share=st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_exactly_the_chosen_are_asked(run: RunStore, free: Uncertain, share: float) -> None:
    name = f"cascade(offline,replay/gpt-4o,{share})"
    grid = with_asked(grid_of(run, name), free, share)
    held, _ = judge_all(grid)
    asked = {(cell, insight) for cell, insights in free.asked(share).items() for insight in insights}
    failed = held.table("failures")
    # The sample holds no released judgment: whoever is asked about fails, and stays failed.
    assert set(failed.select("cell_id", "insight_id").iter_rows()) == asked
    assert set(failed["error"].to_list()) == {"missing_answer"} and len(asked) == round(share * N_INSIGHTS)
    judged = held.table("judgments")
    assert judged.height == N_INSIGHTS - len(asked)
    kept = {(cell, one): value for cell, one, value in zip(free.cells, free.insights, free.uncertainties, strict=True)}
    for cell, insight, value in judged.select("cell_id", "insight_id", "uncertainty").iter_rows():
        assert kept[cell, insight] == value


def test_the_free_judge_rates_every_insight_of_the_run(run: RunStore, free: Uncertain, tmp_path: Path) -> None:
    counts = Counter(free.cells)
    assert sum(counts.values()) == N_INSIGHTS and set(counts) == set(run.table("summaries")["cell_id"].to_list())
    assert free_of(rejudging(run, GPT)).spec.judges[0].strategy == "per_summary"
