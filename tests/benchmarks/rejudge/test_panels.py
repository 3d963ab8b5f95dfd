"""Panels of judges in a run: each member is asked once, also if others ask it, and each verdict is kept and shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from inline_runs import answered, rows
from rejudged_runs import N_INSIGHTS, N_QUERIES, PRICE, judged_again, rejudging, source_run
from simulated_provider import KEY, Simulated, in_thread

from summhay_ray import api
from summhay_ray.engine import plan

pytestmark = pytest.mark.core

PANEL = "panel(openai/judge,per_insight(offline),offline)"


def say(model: str, prompt: str) -> str:
    """An answer to a judge's prompt: the first bullet covers every other insight, chosen by its length."""
    covered = len(prompt) % 2
    return json.dumps({"coverage": "FULL_COVERAGE" if covered else "NO_COVERAGE", "bullet_id": 1 if covered else "NA"})


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    monkeypatch.setenv("PANEL_KEY", KEY)
    with in_thread(say, input_price=PRICE["input_per_mtok"], output_price=PRICE["output_per_mtok"]) as found:
        yield found


def test_a_panel_asks_each_member_once_and_keeps_what_each_says(tmp_path: Path, provider: Simulated) -> None:
    run = source_run(tmp_path)
    entry = {"model": "openai/judge", "api_base": provider.base, "api_key_env": "PANEL_KEY", "price": PRICE, "max_tokens": 150}
    path = tmp_path / "judges.yaml"
    path.write_text(yaml.safe_dump({"judges": [entry]}), encoding="utf-8")
    ahead = plan(rejudging(run, PANEL, spec=str(path)), run.store)
    by_model = {stage.model: stage for stage in ahead.stages}
    assert by_model["openai/judge"].calls == N_INSIGHTS and ahead.usd["expected"] > 0
    assert by_model["offline/judge"].calls + by_model["offline/judge"].reused == N_INSIGHTS + N_QUERIES
    half = plan(rejudging(run, f"cascade(offline,{PANEL},0.5)", spec=str(path)), run.store)
    assert half.usd["expected"] == pytest.approx(ahead.usd["expected"] / 2, rel=0.01)

    alone, paid = judged_again(run, "openai/judge", spec=str(path))
    held, free = judged_again(run, PANEL, spec=str(path))
    assert (paid.calls["made"], free.usd["spent"]) == (N_INSIGHTS, 0)
    assert provider.stats()["served"] == N_INSIGHTS, "the panel shares the answers of the same judge alone"

    judgments, votes = rows(held, "judgments"), rows(held, "votes")
    assert len(votes) == 3 * len(judgments) == 3 * N_INSIGHTS and {vote["panel"] for vote in votes} == {PANEL}
    single = {(row["cell_id"], row["position"]): (row["coverage"], row["key"]) for row in rows(alone, "judgments")}
    worth = {"NO_COVERAGE": 0.0, "PARTIAL_COVERAGE": 0.5, "FULL_COVERAGE": 1.0}
    for row in judgments:
        place = row["cell_id"], row["position"]
        mine = {vote["member"]: vote for vote in votes if (vote["cell_id"], vote["position"]) == place}
        assert list(mine) == sorted(mine) and set(mine) == {"openai/judge", "per_insight(offline)", "offline/judge"}
        assert (mine["openai/judge"]["coverage"], mine["openai/judge"]["key"]) == single[place]
        assert row["value"] == pytest.approx(sum(vote["value"] for vote in mine.values()) / 3)
        labels = [vote["coverage"] for vote in mine.values()]
        most = max(labels.count(label) for label in labels)
        first = {label for label in labels if labels.count(label) == most}
        assert {vote["tied"] for vote in mine.values()} == {len(first) > 1}
        assert row["coverage"] == min(first, key=lambda label: (abs(worth[label] - row["value"]), worth[label]))

    cell = judgments[0]["cell_id"]
    explained = api.explain(held.run_id, cell, run.store.uri)["judgments"]
    assert all([vote["member"] for vote in row["votes"]] == sorted(mine) for row in explained)
    compared = api.compare(run.run_id, ("openai/judge", PANEL), run.store.uri)
    assert compared.to_json()["agreement"]["alpha"] is not None  # type: ignore[union-attr]
    assert compared.usd[1] == pytest.approx(compared.usd[0])  # type: ignore[union-attr]


def test_a_judge_that_is_asked_again_reports_its_agreement_with_itself(tmp_path: Path) -> None:
    thrice = {"model": "offline/judge", "strategy": "per_insight", "repeats": 3}
    result, run = answered(tmp_path / "store", judges=[thrice])
    assert result.calls["made"] == N_QUERIES + 3 * N_INSIGHTS
    votes = rows(run, "votes")
    assert {vote["member"] for vote in votes} == {f"per_insight(offline) #{sample}" for sample in (1, 2, 3)}
    assert len({vote["key"] for vote in votes}) == 3 * len({(vote["cell_id"], vote["position"]) for vote in votes})
    api.make_report(run.run_id, run.store.uri).write(str(tmp_path / "report"), "md")
    told = "".join(one.read_text("utf-8") for one in (tmp_path / "report").glob("*.md"))
    [line] = [line for line in told.splitlines() if line.startswith("| offline/judge | per_insight(offline) x3 |")]
    assert "| 100.0 | 0.0 | 1 |" in line, "the free judge says the same each time"
