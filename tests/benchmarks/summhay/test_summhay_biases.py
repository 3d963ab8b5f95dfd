"""The choice of the measured bias for each judge of a run. Later judgments are scored together with the first ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from inline_runs import answered

from summhay_ray.benchmarks.rejudge import RejudgeRequest, load_rejudge
from summhay_ray.benchmarks.summhay import judges_of, score_run
from summhay_ray.benchmarks.summhay.haystacks.metadata import rows_of
from summhay_ray.engine import ITEM, open_run
from summhay_ray.judge import bench
from summhay_ray.metrics import JudgeBias
from summhay_ray.records import Judgment
from summhay_ray.store import Finished, RunStore, StoreError

pytestmark = pytest.mark.core

OWN = JudgeBias("offline/judge", mean=0.0625, se=0.01, n_insights=100, n_summaries=10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A run with the free judge in three forms: the default, one insight per call, and with its own prompt."""
    folder = tmp_path_factory.mktemp("scored")
    prompt = "Mine.\n\nBullet Points:\n[[BULLETS]]\n\nReference Insight:\n[[INSIGHT]]\n\nJSON:\n"
    mine = folder / "mine.txt"
    mine.write_text(prompt, encoding="utf-8")
    free = {"model": "offline/judge"}
    judges = [
        {**free, "strategy": "per_summary"},
        {**free, "strategy": "per_insight", "name": "alone"},
        {**free, "strategy": "per_insight", "name": "mine", "prompt": str(mine)},
    ]
    return answered(folder / "store", judges=judges)[1]


def taken_off(run: RunStore, *biases: JudgeBias) -> dict[str, float | None]:
    """Judge -> the bias that was subtracted from its coverage."""
    found = {}
    for one in score_run(run, biases=biases).systems:
        assert one.coverage is not None and 0.0625 < one.coverage < 1
        found[one.judge] = None if one.coverage_corrected is None else round(one.coverage - one.coverage_corrected, 9)
    return found


def test_a_judge_is_corrected_by_the_bias_of_the_way_it_is_asked(run: RunStore) -> None:
    shipped = {bias.judge: round(bias.mean, 9) for bias in bench.shipped_biases()}
    # Nobody has measured a user's own prompt.
    expected = {"offline/judge": shipped["offline/judge"], "alone": shipped["per_insight(offline)"], "mine": None}
    assert taken_off(run) == expected


def test_a_label_that_names_another_judge_takes_nothing_of_that_judges_bias(tmp_path: Path) -> None:
    free = {"model": "offline/judge", "strategy": "per_insight"}
    labels = ("openai/gpt-4o", "released", "offline", "gpt-4o")
    judges = [*({**free, "name": label} for label in labels), {"model": "offline/judge", "name": "plain"}]
    run = answered(tmp_path / "store", judges=judges)[1]
    own = [
        JudgeBias("stored/gpt", 0.125, 0.01, 100, 10, names=("released", "*gpt-4o")),
        JudgeBias("openai/gpt-4o", 0.1875, 0.01, 100, 10),
        JudgeBias("gpt-4o", 0.1875, 0.01, 100, 10),
        JudgeBias("offline", 0.03125, 0.01, 100, 10, names=("offline/judge",)),
    ]
    alone = next(round(bias.mean, 9) for bias in bench.shipped_biases() if bias.judge == "per_insight(offline)")
    assert taken_off(run, *own) == {**dict.fromkeys(labels, alone), "plain": 0.03125}
    found = score_run(run, biases=own).biases
    assert {judge: bias and bias.judge for judge, bias in found.items()} == {
        **dict.fromkeys(labels, "per_insight(offline)"),
        "plain": "offline",
    }


def test_ones_own_measurement_comes_first_and_goes_by_label_or_by_judge(run: RunStore) -> None:
    shipped = {bias.judge: round(bias.mean, 9) for bias in bench.shipped_biases()}
    assert taken_off(run, OWN) == {"offline/judge": 0.0625, "alone": shipped["per_insight(offline)"], "mine": None}
    # A user's own prompt has no other name. A bias that states the judge's form applies to this form only.
    assert taken_off(run, replace(OWN, judge="mine"))["mine"] == 0.0625
    assert taken_off(run, replace(OWN, judge="mine", names=("openai/gpt-4o few_shot",)))["mine"] is None
    assert taken_off(run, replace(OWN, judge="per_insight(offline)"))["alone"] == 0.0625


def test_raw_figures_are_the_same_whatever_corrects_them(run: RunStore) -> None:
    def raw(*biases: JudgeBias) -> list[object]:
        return [
            (one.coverage, one.joint, one.citation, one.ci_reasons["coverage"]) for one in score_run(run, biases=biases).systems
        ]

    assert raw() == raw(OWN, replace(OWN, judge="mine"))


def test_judgments_that_came_later_are_scored_beside_the_first(run: RunStore) -> None:
    later = open_run(load_rejudge(run, RejudgeRequest(("openai/gpt-4o",))), run.store)
    first = [one for one in rows_of(run, "judgments") if one.judge == "alone"]
    cell = first[0].cell_id
    mine: list[Judgment] = [
        replace(one, judge="openai/gpt-4o", coverage="FULL_COVERAGE", bullet_id="1") for one in first if one.cell_id == cell
    ]
    later.commit(ITEM, [Finished(cell, {"judgments": mine}, False)])
    own = {one.judge for one in score_run(run).systems}
    assert own == {"offline/judge", "alone", "mine"}
    found = {one.judge: one for one in score_run(run, rejudged=True).systems}
    assert found.keys() == own | {"openai/gpt-4o"}
    gpt = found["openai/gpt-4o"]
    assert (gpt.coverage, gpt.n_scored, gpt.n_expected) == (1.0, len(mine), len(mine)), "what it was not asked yet is not missing"
    # GPT-4o, asked in the same way as in the release.
    shipped = {bias.judge: bias.mean for bias in bench.shipped_biases()}
    assert gpt.coverage_corrected == pytest.approx(1 - shipped["stored/predictions_prompted_gpt-4o"])
    with pytest.raises(StoreError, match="holds judgments of the summaries of"):
        score_run(later)


def also_judged(run: RunStore, folder: Path, model: str, strategy: str) -> str:
    """A rejudge by another unnamed judge that has judged one insight; return the judge's name in tables."""
    path = folder / "judges.yaml"
    path.write_text(f"judges: [{{model: {model}, strategy: '{strategy}'}}]", encoding="utf-8")
    later = open_run(load_rejudge(run, RejudgeRequest(spec=str(path))), run.store)
    first = next(one for one in rows_of(run, "judgments") if one.judge == "alone")
    later.commit(ITEM, [Finished(first.cell_id, {"judgments": [replace(first, judge=model)]}, False)])
    return next(one.judge for one in judges_of(run) if later.run_id in one.runs)


def test_judges_of_one_label_that_are_asked_otherwise_are_corrected_apart(run: RunStore, tmp_path: Path) -> None:
    name = also_judged(run, tmp_path, "offline/judge", "per_insight")
    found = score_run(run, rejudged=True).biases
    assert name != "offline/judge"
    assert [found[judge] and found[judge].judge for judge in ("offline/judge", name)] == [
        "offline/judge",
        "per_insight(offline)",
    ]


def test_a_blend_is_not_corrected_by_the_bias_of_the_model_that_it_asks(run: RunStore, tmp_path: Path) -> None:
    name = also_judged(run, tmp_path, "openai/gpt-4o", "blend(per_summary(openai/gpt-4o),offline)")
    gpt = JudgeBias("stored/predictions_prompted_gpt-4o", 0.1, 0.01, 100, 10, names=("released", "*/gpt-4o"))
    assert score_run(run, biases=[gpt], rejudged=True).biases[name] is None
    judge = "blend(per_summary(openai/gpt-4o),offline)"
    found = score_run(run, biases=[gpt, replace(gpt, judge=judge, names=())], rejudged=True).biases[name]
    assert found is not None and found.judge == judge


def test_the_document_names_the_bias_of_each_system(run: RunStore) -> None:
    found = score_run(run)
    told = {one["judge"]: one["bias"] for one in found.to_json()["systems"]}
    bias = next(one for one in bench.shipped_biases() if one.judge == "per_insight(offline)")
    assert told["alone"] == {name: getattr(bias, name) for name in ("judge", "mean", "se", "source")}
    assert told["mine"] is None
    assert "bias" not in found.table.columns
