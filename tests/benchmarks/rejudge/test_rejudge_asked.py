"""The insights that a cascade asks its model about, if all summaries are known: exactly a share, or as many as a budget surely
pays for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rejudged_runs import N_INSIGHTS, PRICE, judged_again, rejudging, source_run
from simulated_provider import KEY, in_thread

from summhay_ray.benchmarks.rejudge import Rejudge
from summhay_ray.benchmarks.rejudge.cascade import Uncertain, affordable, cascades_of, is_open, with_share
from summhay_ray.engine import SpecError, plan
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
    return Uncertain.from_run(judged_again(run, "offline")[0], "offline/judge")


def test_the_least_certain_share_is_asked_exactly() -> None:
    assert FIVE.insights_to_ask(0.2) == {"a": ["i2"]}
    assert FIVE.insights_to_ask(0.4) == {"a": ["i2"], "b": ["i1"]}, "of equals the first"
    assert FIVE.insights_to_ask(1) == {"a": ["i1", "i2"], "b": ["i1", "i2"], "c": ["i1"]}
    choice = FIVE.choice("cascade", 0.4)
    assert (choice.n_asked, choice.n) == (2, 5)
    assert choice.uncertainty_asked == pytest.approx((0.4 + 0.3) / 2)
    assert choice.uncertainty_left == pytest.approx((0.3 + 0.1 + 0.0) / 3)
    assert FIVE.choice("cascade", 1).uncertainty_left is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 1))
def test_nobody_who_is_left_is_less_certain_than_somebody_who_is_asked(uncertainties: list[float], share: float) -> None:
    names = [str(index) for index in range(len(uncertainties))]
    asked = Uncertain(names, names, uncertainties).insights_to_ask(share)
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


def with_asked(workload: Rejudge, free: Uncertain, share: float) -> Rejudge:
    [name] = cascades_of(workload)
    workload.chosen = {free.choice(name, share): free.insights_to_ask(share)}
    return workload


@pytest.mark.parametrize(
    "name",
    [
        GPT,
        pytest.param("cascade(offline,per_summary(openai/gpt-4o))", marks=pytest.mark.soak),
        pytest.param("cascade(offline,blend(openai/gpt-4o,offline))", marks=pytest.mark.soak),
    ],
)
def test_a_budget_pays_for_what_it_chose(run: RunStore, free: Uncertain, name: str) -> None:
    workload = rejudging(run, name)
    [(spec, _)] = cascades_of(workload).values()
    shares = []
    for budget in (0.01, 0.05, 1.0):
        share, expected, most = affordable(workload, spec, free, budget)
        assert 0 < expected < most <= budget
        planned = plan(with_asked(rejudging(run, with_share(name, share)), free, share), run.store)
        # The plan counts the same calls: rounding the share can only make it cheaper.
        assert planned.usd["max"] <= most + 1e-9
        shares.append(share)
    assert shares == sorted(shares) and shares[-1] == 1, "the last pays for all"
    assert shares[0] < 1


def test_a_budget_without_a_share_buys_the_least_certain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKED_KEY", KEY)
    run = source_run(tmp_path)
    with in_thread(input_price=PRICE["input_per_mtok"], output_price=PRICE["output_per_mtok"]) as provider:
        entry = {"model": "openai/judge", "api_base": provider.base, "api_key_env": "ASKED_KEY", "price": PRICE}
        path = tmp_path / "judges.yaml"
        path.write_text(yaml.safe_dump({"judges": [entry]}), encoding="utf-8")
        name = "cascade(offline,openai/judge)"
        held, result = judged_again(run, name, budget=0.02, spec=str(path))
        [choice] = result.scores.choices
        assert choice.by_budget and 0 < choice.share < 1 and choice.n == N_INSIGHTS
        assert choice.judge == with_share(name, choice.share)
        assert choice.uncertainty_left < choice.uncertainty_asked
        assert result.calls["made"] == choice.n_asked == provider.stats()["served"] > 0
        assert 0 < result.usd["spent"] <= choice.usd_max <= 0.02 and choice.usd_expected < choice.usd_max
        again, same = judged_again(run, name, budget=0.02, spec=str(path))
        assert (again.run_id, same.calls["made"], same.scores.choices) == (held.run_id, 0, result.scores.choices)
        more, _ = judged_again(run, name, budget=1.0, spec=str(path))
        assert more.run_id != held.run_id and provider.stats()["served"] == N_INSIGHTS, "what was bought is not bought again"
        with pytest.raises(SpecError, match="surely pays for asking openai/judge about 0 of 22 insights"):
            judged_again(run, name, budget=0.0001, spec=str(path))


def test_a_budget_is_shared_with_no_other_paid_judge(run: RunStore) -> None:
    with pytest.raises(SpecError, match="with --budget, cascade\\(offline,openai/gpt-4o\\) is to be the only judge that is paid"):
        judged_again(run, GPT, "openai/gpt-4o", budget=1.0)


@pytest.mark.parametrize("share", [0.25, *(pytest.param(share, marks=pytest.mark.soak) for share in (0.1, 0.5, 1.0))])
def test_exactly_the_chosen_are_asked(run: RunStore, free: Uncertain, share: float) -> None:
    held, result = judged_again(run, f"cascade(offline,replay/gpt-4o,{share})")
    asked = {(cell, insight) for cell, insights in free.insights_to_ask(share).items() for insight in insights}
    failed = held.table("failures")
    # The sample has no released judgment, so every insight that is asked about fails, and stays failed.
    assert set(failed.select("cell_id", "insight_id").iter_rows()) == asked
    assert set(failed["error"].to_list()) == {"missing_answer"} and len(asked) == round(share * N_INSIGHTS)
    assert [(one.share, one.n_asked, one.by_budget) for one in result.scores.choices] == [(share, len(asked), False)]
    judged = held.table("judgments")
    assert judged.height == N_INSIGHTS - len(asked)
    kept = {(cell, one): value for cell, one, value in zip(free.cells, free.insights, free.uncertainties, strict=True)}
    for cell, insight, value in judged.select("cell_id", "insight_id", "uncertainty").iter_rows():
        assert kept[cell, insight] == value


def test_the_free_judge_rates_every_insight_of_the_run(run: RunStore, free: Uncertain) -> None:
    counts = Counter(free.cells)
    assert sum(counts.values()) == N_INSIGHTS and set(counts) == set(run.table("summaries")["cell_id"].to_list())
    # The questions of a cascade to the free judge are the rejudge that `offline` alone would be.
    before = run.store.run_ids()
    judged_again(run, "cascade(offline,replay/gpt-4o,0.35)")
    assert len(run.store.run_ids()) == len(before) + 1
