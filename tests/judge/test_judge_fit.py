"""Agreement with people, and the fit of `offline/judge` to them; held-out figures where the released data is there."""

from __future__ import annotations

import json
import time
from importlib import resources
from pathlib import Path

import pytest

from summhay_ray.judge import OfflineJudge
from summhay_ray.judge.agreement import Annotated, correlation, linking_accuracy, load_annotations, load_released
from summhay_ray.judge.fit import Measured, agreement, fit, fitted_json, held_out, main, measure
from summhay_ray.judge.offline import Thresholds
from summhay_ray.judge.prompt import render, template
from summhay_ray.judge.recall import Best
from summhay_ray.llm import Request

pytestmark = pytest.mark.core


def one(recall: float, coverage: float, topic: str = "t", bullet: int | None = None) -> Measured:
    return Measured(Annotated(topic, "insight", ("a", "b"), coverage, bullet), Best(0, recall))


def annotation(topic: str, judged: list[dict[str, str]]) -> dict[str, object]:
    insights = [{"insight_id": row["insight_id"], "insight": f"text of {row['insight_id']}"} for row in judged]
    return {"topic": topic, "summary": ["first", "second"], "reference_insights": insights, "annotation": judged}


def test_annotations_count_bullets_from_0_and_we_from_1(tmp_path: Path) -> None:
    judged = [
        {"insight_id": "a", "coverage": "fully_covered", "candidate_id": "0"},
        {"insight_id": "b", "coverage": "PARTIAL_COVERAGE", "candidate_id": "1"},
        {"insight_id": "c", "coverage": "partially_covered", "candidate_id": "no_selection"},
        {"insight_id": "d", "coverage": "not_covered", "candidate_id": "1"},
    ]
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps([annotation("ferries", judged)]), encoding="utf-8")
    pairs = load_annotations(path)
    assert [(pair.insight, pair.coverage, pair.bullet) for pair in pairs] == [
        ("text of a", 1.0, 1),
        ("text of b", 0.5, 2),
        ("text of c", 0.5, None),
        ("text of d", 0.0, None),
    ]
    assert {(pair.topic, pair.bullets) for pair in pairs} == {("ferries", ("first", "second"))}


@pytest.mark.parametrize("content", ["{", "[1]", '[{"summary": []}]', '[{"topic": "t"}]', "null"])
def test_a_file_of_another_form_is_refused_in_one_line(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"other\.json is not an annotation file"):
        load_annotations(path)
    assert main([str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1


def test_correlation_and_linking_by_hand() -> None:
    # deviations (-1, 0, 1) and (-1, 1, 0): covariance 1, variances 2 and 2.
    assert correlation([0.0, 0.5, 1.0], [0.0, 1.0, 0.5]) == pytest.approx(1 / 2)
    assert correlation([1.0, 1.0], [0.0, 1.0]) == 0.0
    assert linking_accuracy([1, 2, None, 3, 1], [1, 3, 1, None, 1]) == (2 / 3, 3)
    assert linking_accuracy([None], [1]) == (0.0, 0)


def test_fit_finds_the_thresholds_that_separate_the_labels() -> None:
    measured = [one(recall, 0.0) for recall in (0.05, 0.1, 0.2)]
    measured += [one(recall, 0.5) for recall in (0.3, 0.35)] + [one(recall, 1.0) for recall in (0.6, 0.8, 0.9)]
    assert fit(measured) == Thresholds(partial=0.21, full=0.36)
    found = agreement(measured, [fit(measured)] * len(measured))
    assert found.labels == pytest.approx(1.0)
    assert found.bias == 0.0
    assert found.distribution == {"NO_COVERAGE": 3, "PARTIAL_COVERAGE": 2, "FULL_COVERAGE": 3}


def test_agreement_links_covered_insights_with_a_bullet_only() -> None:
    thresholds = Thresholds(0.3, 0.6)
    measured = [one(0.9, 1.0, bullet=1), one(0.4, 1.0, bullet=2), one(0.1, 1.0, bullet=1), one(0.9, 0.5), one(0.9, 0.0)]
    found = agreement(measured, [thresholds] * len(measured))
    # linked by both: the first two; ours is always bullet 1. Our labels 1, .5, 0, 1, 1 against 1, 1, 1, .5, 0.
    assert (found.linking, found.linked) == (1 / 2, 2)
    assert found.bias == pytest.approx((3.5 - 3.5) / 5)


def test_nothing_to_fit_is_an_error_and_so_is_a_single_topic() -> None:
    with pytest.raises(ValueError, match="no judgments"):
        fit([])
    with pytest.raises(ValueError, match="no judgments"):
        held_out([one(0.1, 0.0), one(0.9, 1.0)])


def test_held_out_thresholds_come_from_the_other_topics() -> None:
    low = [one(0.1, 0.0, "low"), one(0.2, 0.5, "low"), one(0.3, 1.0, "low")]
    high = [one(0.7, 0.0, "high"), one(0.8, 0.5, "high"), one(0.9, 1.0, "high")]
    found = held_out(low + high)
    assert found[:3] == [fit(high)] * 3
    assert found[3:] == [fit(low)] * 3
    assert fit(high) != fit(low)


@pytest.fixture(scope="module")
def people(summhay_data: Path) -> list[Measured]:
    return measure(load_annotations(summhay_data / "judge_annotations.json"))


def test_people_cover_as_many_insights_as_the_release_says(people: list[Measured]) -> None:
    coverage = [measured.pair.coverage for measured in people]
    assert (len(coverage), coverage.count(1.0), coverage.count(0.5), coverage.count(0.0)) == (1094, 441, 286, 367)
    assert sum(value > 0 and measured.pair.bullet is None for value, measured in zip(coverage, people, strict=True)) == 6


def test_held_out_agreement_with_people(people: list[Measured]) -> None:
    found = agreement(people, held_out(people))
    assert found.labels >= 0.72
    assert found.recall >= 0.72
    assert found.linking >= 0.87
    assert abs(found.bias) <= 0.03
    assert min(found.distribution.values()) >= 0.2 * len(people)


def test_each_topic_agrees_with_people_by_the_other_topics_thresholds(people: list[Measured]) -> None:
    outside = held_out(people)
    for topic in {measured.pair.topic for measured in people}:
        chosen = [(m, threshold) for m, threshold in zip(people, outside, strict=True) if m.pair.topic == topic]
        found = agreement([m for m, _ in chosen], [threshold for _, threshold in chosen])
        assert found.labels >= 0.63, topic


def test_the_shipped_file_is_what_the_command_writes(
    people: list[Measured], summhay_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted.json"
    assert main([str(summhay_data / "judge_annotations.json"), "--out", str(out)]) == 0
    assert "held out, all topics: n 1094" in capsys.readouterr().out
    shipped = resources.files("summhay_ray.judge").joinpath("offline_judge.json").read_text(encoding="utf-8")
    assert out.read_text(encoding="utf-8") == shipped
    assert fitted_json(fit(people), people, agreement(people, held_out(people))) == shipped


def test_agreement_with_the_released_judgments(summhay_data: Path) -> None:
    pairs = load_released(summhay_data / "topic_news1.json")
    measured = measure(pairs[::10])
    found = agreement(measured, [Thresholds(0.26, 0.47)] * len(measured))
    assert found.labels >= 0.65
    assert found.linking >= 0.88


def test_a_judgment_takes_less_than_two_milliseconds(summhay_data: Path) -> None:
    pairs = load_released(summhay_data / "topic_news1.json")[::50]
    text = template()
    requests = [Request("offline/judge", render(text, pair.insight, pair.bullets)) for pair in pairs]
    judge = OfflineJudge()
    start = time.process_time()
    for request in requests:
        judge.answer(request)
    assert (time.process_time() - start) / len(requests) < 0.002
