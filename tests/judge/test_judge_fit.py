"""The fit of `offline/judge`: on made-up judgments, and held-out figures if the released data is present."""

from __future__ import annotations

import json
import random
from importlib import resources
from math import exp
from pathlib import Path

import pytest
from fit_judge import load_released, main, verdicts

from summhay_ray.judge.annotations import AnnotatedSummary, linking_accuracy, load_summaries
from summhay_ray.judge.bench import agreement
from summhay_ray.judge.fit import Measured, cut_points, fit, fit_parameters, held_out, measure, rate_features
from summhay_ray.judge.offline import parameters_of, rate, shipped_parameters
from summhay_ray.metrics import pearson
from summhay_ray.records import Insight

pytestmark = pytest.mark.core

SUBJECTS = [
    "ferries stop in ice",
    "bakers raise prices",
    "a choir sings in Bergen",
    "the pier burns",
    "trains run late",
    "snow fell",
]


def summary(topic: str, coverage: tuple[float, ...], bullets: tuple[str, ...]) -> AnnotatedSummary:
    insights = tuple(Insight("", "s", str(place), place, "", SUBJECTS[place]) for place in range(len(coverage)))
    links = tuple(place + 1 if worth else None for place, worth in enumerate(coverage))
    return AnnotatedSummary(topic, "system", bullets, insights, coverage, links)


def made_up(topic: str, n: int = 6) -> list[AnnotatedSummary]:
    """Summaries whose bullets contain all, part or nothing of each insight, and people's labels for exactly that."""
    found, stream = [], random.Random(topic)
    for _ in range(n):
        coverage = tuple(stream.choice([0.0, 0.5, 1.0]) for _ in SUBJECTS)
        told = {0.0: lambda text: "nothing new", 0.5: lambda text: text.rsplit(" ", 1)[0], 1.0: lambda text: text}
        found.append(summary(topic, coverage, tuple(told[worth](text) for worth, text in zip(coverage, SUBJECTS, strict=True))))
    return found


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
    [found] = load_summaries(path)
    texts = [insight.text for insight in found.insights]
    assert list(zip(texts, found.coverage, found.bullet, strict=True)) == [
        ("text of a", 1.0, 1),
        ("text of b", 0.5, 2),
        ("text of c", 0.5, None),
        ("text of d", 0.0, None),
    ]
    assert (found.topic, found.bullets) == ("ferries", ("first", "second"))


def two_topics(path: Path) -> Path:
    words = {0.0: "not_covered", 0.5: "partially_covered", 1.0: "fully_covered"}
    rows = []
    for one in (*made_up("a"), *made_up("b")):
        judged = zip(one.insights, one.coverage, one.bullet, strict=True)
        rows.append(
            {
                "topic": one.topic,
                "summary": list(one.bullets),
                "reference_insights": [{"insight_id": insight.insight_id, "insight": insight.text} for insight in one.insights],
                "annotation": [
                    {"insight_id": insight.insight_id, "coverage": words[worth], "candidate_id": str((link or 1) - 1)}
                    for insight, worth, link in judged
                ],
            }
        )
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def test_the_command_writes_what_the_judge_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    released = {"insights": [{"insight_id": "a", "insight": "ferries stop in ice"}], "summaries": {"x": ["ferries stop in ice"]}}
    verdicts_of_x = [{"insight_id": "a", "coverage": "FULL_COVERAGE", "bullet_id": 1}]
    haystack = tmp_path / "topic_a.json"
    haystack.write_text(json.dumps({"subtopics": [{**released, "eval_summaries": {"x": verdicts_of_x}}]}), encoding="utf-8")
    out = tmp_path / "numbers.json"
    assert main([str(two_topics(tmp_path / "people.json")), "--out", str(out), "--released", str(haystack)]) == 0
    assert "shipped, topic_a.json: n 1, correlation 0.000, same label 1.000" in capsys.readouterr().out
    written = json.loads(out.read_text(encoding="utf-8"))
    assert parameters_of(written) == fit_parameters(measure(made_up("a") + made_up("b")))
    assert "72 insights in 12 summaries of 2 topics" in written["about"]


def test_linking_by_hand() -> None:
    assert linking_accuracy([1, 2, None, 3, 1], [1, 3, 1, None, 1]) == (2 / 3, 3)
    assert linking_accuracy([None], [1]) == (0.0, 0)


def test_fit_finds_the_numbers_that_made_the_judgments() -> None:
    stream, weights, some, full = random.Random(1), (3.0, -2.0), 0.5, -1.0
    rows = [(stream.uniform(-2, 2), stream.uniform(-1, 3)) for _ in range(8000)]
    draws = [(stream.random(), weights[0] * a + weights[1] * b) for a, b in rows]
    chances = [(draw, 1 / (1 + exp(-total - some)), 1 / (1 + exp(-total - full))) for draw, total in draws]
    people = [1.0 if draw < fully else 0.5 if draw < partly else 0.0 for draw, partly, fully in chances]
    found = fit(rows, people, penalty=0.01)
    assert found.weights == (pytest.approx(3.0, abs=0.25), pytest.approx(-2.0, abs=0.2))
    assert (found.some, found.full) == (pytest.approx(0.5, abs=0.2), pytest.approx(-1.0, abs=0.2))


def test_a_penalty_shrinks_the_weights_and_separable_judgments_stay_finite() -> None:
    rows, people = [(0.1,), (0.2,), (0.5,), (0.6,), (0.9,), (1.0,)], [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    loose, tight = fit(rows, people, penalty=0.1), fit(rows, people, penalty=10)
    assert 0 < tight.weights[0] < loose.weights[0] < 1000


@pytest.mark.parametrize("people", [[], [1.0, 1.0], [0.0, 0.5], [0.0, 0.0], [0.5, 1.0]])
def test_too_few_kinds_of_judgments_are_an_error(people: list[float]) -> None:
    with pytest.raises(ValueError, match="too few judgments"):
        fit([(0.5,)] * len(people), people)


def test_cut_points_separate_the_labels_at_the_lowest_hundredths() -> None:
    values = [0.05, 0.1, 0.2, 0.3, 0.35, 0.6, 0.8, 0.9]
    assert cut_points(values, [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0]) == (0.21, 0.36)


def test_held_out_ratings_come_from_the_other_topics() -> None:
    low, high = measure(made_up("low")), measure(made_up("high"))
    assert held_out(low + high) == [rate_features(fit_parameters(high), one) for one in low] + [
        rate_features(fit_parameters(low), one) for one in high
    ]
    with pytest.raises(ValueError, match="only one topic"):
        held_out(low)


@pytest.fixture(scope="module")
def people(summhay_data: Path) -> list[Measured]:
    from summhay_ray.judge.annotations import load_summaries

    return measure(load_summaries(summhay_data / "judge_annotations.json"))


def test_people_cover_as_many_insights_as_the_release_says(people: list[Measured]) -> None:
    coverage = [worth for one in people for worth in one.summary.coverage]
    assert (len(coverage), coverage.count(1.0), coverage.count(0.5), coverage.count(0.0)) == (1094, 441, 286, 367)
    links = [bullet for one in people for bullet in one.summary.bullet]
    assert sum(worth > 0 and bullet is None for worth, bullet in zip(coverage, links, strict=True)) == 6


@pytest.mark.parametrize(("together", "least", "each"), [(True, 0.78, 0.72), (False, 0.76, 0.70)])
def test_held_out_agreement_with_people(people: list[Measured], together: bool, least: float, each: float) -> None:
    rows = verdicts(held_out(people, together))
    summaries = [one.summary for one in people]
    found = agreement(summaries, rows, ["all"] * len(people))
    assert found.correlation is not None and found.correlation >= least
    assert found.correlation_labels is not None and found.correlation_labels >= 0.72
    assert found.linking_accuracy is not None and found.linking_accuracy >= 0.86
    for topic in {one.topic for one in summaries}:
        chosen = [(one, row) for one, row in zip(summaries, rows, strict=True) if one.topic == topic]
        part = agreement([one for one, _ in chosen], [row for _, row in chosen], ["all"] * len(chosen))
        assert part.correlation is not None and part.correlation >= each, topic
        assert part.linking_accuracy is not None and part.linking_accuracy >= 0.85, topic


def test_the_shipped_file_is_what_the_command_writes(
    summhay_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted.json"
    assert main([str(summhay_data / "judge_annotations.json"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("each topic judged by a fit to the others")
    shipped = resources.files("summhay_ray.judge").joinpath("offline_judge.json").read_text(encoding="utf-8")
    assert out.read_text(encoding="utf-8") == shipped
    assert parameters_of(json.loads(shipped)) == shipped_parameters()


def test_agreement_with_the_released_judgments(summhay_data: Path) -> None:
    pairs = load_released(summhay_data / "topic_news1.json")[::30]
    ratings = [rate([pair.insight], pair.bullets)[0] for pair in pairs]
    assert (pearson([one.value for one in ratings], [pair.coverage for pair in pairs]) or 0.0) >= 0.68
