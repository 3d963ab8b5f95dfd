"""The figures of `judge-bench`: Table 1 and Table 6 by hand, and on the annotations with the release's stored predictions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from annotated import summary, write

from summhay_ray.judge import Verdict, bench, fit
from summhay_ray.judge.annotations import linked_bullet

pytestmark = pytest.mark.core

KEY = "predictions_prompted_gpt-4o"


def loaded(tmp_path: Path, *rows: dict[str, object]) -> list[bench.AnnotatedSummary]:
    return bench.load_summaries(write(tmp_path / "annotations.json", list(rows)))


def test_table_1_by_hand(tmp_path: Path) -> None:
    rows = [
        summary([(1.0, 1), (0.5, 2)], {KEY: [(1.0, 1), (1.0, 1)]}),
        summary([(0.0, None), (0.5, 2)], {KEY: [(0.0, None), (0.5, 2)]}),
    ]
    summaries = loaded(tmp_path, *rows)
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, KEY), ["a", "b"])
    # Our coverage is 1, 1, 0, 0.5 (mean 0.625), and theirs 1, 0.5, 0, 0.5 (mean 0.5).
    covariance = 0.375 * 0.5 + 0.375 * 0 + 0.625 * 0.5 + 0
    ours = 0.375**2 * 2 + 0.625**2 + 0.125**2
    assert found.correlation == pytest.approx(covariance / math.sqrt(ours * 0.5))
    # Both link three insights: bullets 1 and 1, 1 and 2, 2 and 2.
    assert (found.linking_accuracy, found.linking_n) == (2 / 3, 3)
    # Deltas: (1 + 1)/2 - (1 + 0.5)/2 = 0.25, and 0.
    assert found.bias == {"a": 0.25, "b": 0.0}
    assert found.bias_mean == 0.125
    assert (found.n_scored, found.n_expected) == (4, 4)


def test_bias_is_a_mean_over_summaries_and_then_over_summarizers(tmp_path: Path) -> None:
    people = [(0.5, 1), (0.5, 1)]
    rows = [summary(people, {KEY: [(value, 1), (value, 1)]}) for value in (1.0, 0.5, 1.0)]
    summaries = loaded(tmp_path, *rows)
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, KEY), ["a", "a", "b"])
    assert found.bias == {"a": (0.5 + 0) / 2, "b": 0.5}
    assert found.bias_mean == (0.25 + 0.5) / 2


def test_length_is_words_a_bullet_and_correlates_with_score_and_delta(tmp_path: Path) -> None:
    texts = [["one two"], ["one two three four"], ["one two three four five six"]]
    rows = [
        summary([(0.5, 1)], {KEY: [(value, 1)]}, summary=bullets) for bullets, value in zip(texts, (1.0, 0.5, 0.0), strict=True)
    ]
    summaries = loaded(tmp_path, *rows)
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, KEY), ["a"] * 3)
    assert found.length_score_corr == pytest.approx(-1)
    assert found.length_delta_corr == pytest.approx(-1)
    # People gave all summaries the same coverage, so nothing correlates with it.
    assert found.correlation is None


def test_an_expectation_correlates_as_it_is_and_bias_goes_by_labels(tmp_path: Path) -> None:
    summaries = loaded(tmp_path, summary([(0.0, None), (0.5, 1), (1.0, 2)]))
    verdicts = [[Verdict("NO_COVERAGE", '"NA"', 0.2), Verdict("NO_COVERAGE", '"NA"', 0.4), Verdict("FULL_COVERAGE", "2", 0.6)]]
    found = bench.agreement(summaries, verdicts, ["a"])
    assert found.correlation == pytest.approx(1)
    assert found.correlation_labels == pytest.approx(0.5 / math.sqrt(2 / 3 * 0.5))
    assert found.bias_mean == pytest.approx((0 + 0 + 1) / 3 - 0.5)


def test_what_is_missing_is_counted_and_not_scored(tmp_path: Path) -> None:
    rows = [summary([(1.0, 1), (0.0, None)], {KEY: [(1.0, 1), (0.0, None)]}), summary([(1.0, 1)])]
    rows[0][KEY][1]["coverage"] = "perhaps"
    summaries = loaded(tmp_path, *rows)
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, KEY), ["a", "b"])
    assert (found.n_scored, found.n_expected) == (1, 3)
    assert (found.correlation, found.bias) == (None, {"a": 0.0})
    nothing = bench.agreement(summaries, [[None] * 2, [None]], ["a", "b"])
    assert (nothing.correlation, nothing.linking_accuracy, nothing.bias_mean, nothing.n_scored) == (None, None, None, 0)
    assert bench.measured_bias("j", summaries, [[None] * 2, [None]], ["a", "b"]) is None


@pytest.mark.parametrize(
    ("bullet", "linked"),
    [("3", 3), ('"3"', 3), ('"NA"', None), ("[3]", None), ("[1, 2]", None), ("true", None), ("null", None), ("not json", None)],
)
def test_one_bullet_is_a_link_and_a_list_is_none(bullet: str, linked: int | None) -> None:
    assert linked_bullet(Verdict("FULL_COVERAGE", bullet)) == linked
    assert linked_bullet(Verdict("NO_COVERAGE", bullet)) is None


def test_intervals_resample_the_subtopics_and_come_out_the_same_again(tmp_path: Path) -> None:
    values = (1.0, 0.5, 0.0, 1.0, 1.0, 0.5)
    rows = [
        summary([(1.0, 1), (0.0, None)], {KEY: [(value, 1), (0.0, None)]}, subtopic_id=f"s{place}")
        for place, value in enumerate(values)
    ]
    summaries = loaded(tmp_path, *rows)
    verdicts = bench.stored_verdicts(summaries, KEY)
    found = bench.agreement(summaries, verdicts, ["a"] * 6)
    assert found == bench.agreement(summaries, verdicts, ["a"] * 6)
    assert found.correlation is not None and found.correlation_ci is not None
    assert found.correlation_ci[0] < found.correlation <= found.correlation_ci[1]
    # Each summary four times, with the same subtopics: no further evidence, and the same interval.
    fourfold = loaded(tmp_path, *rows * 4)
    again = bench.agreement(fourfold, bench.stored_verdicts(fourfold, KEY), ["a"] * 24)
    assert again.correlation_ci == pytest.approx(found.correlation_ci)
    few = bench.agreement(summaries[:5], verdicts[:5], ["a"] * 5)
    assert few.correlation is not None and (few.correlation_ci, few.linking_ci) == (None, None)


def test_the_released_annotations_are_of_19_subtopics(summhay_data: Path) -> None:
    summaries = bench.load_summaries(summhay_data / "judge_annotations.json")
    assert len(summaries) == 144
    key = "predictions_prompted_gpt-4o"
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, key), ["all"] * 144)
    # Resampling the 144 summaries as if those of a subtopic were independent would give 0.696 to 0.764.
    assert found.correlation_ci == pytest.approx((0.661, 0.787), abs=0.003)


def test_a_resample_without_a_correlation_is_left_out_and_resamples_alike_are_no_interval(tmp_path: Path) -> None:
    # People and judge vary only if the first or second summary is drawn: the others alone have no correlation.
    rows = [
        *[summary([(1.0, 1), (0.0, None)], {KEY: [(value, 1), (0.0, None)]}, subtopic_id=f"v{value}") for value in (1.0, 0.5)],
        *[summary([(0.0, None)] * 2, {KEY: [(0.0, None)] * 2}, subtopic_id=f"s{place}") for place in range(4)],
    ]
    summaries = loaded(tmp_path, *rows)
    found = bench.agreement(summaries, bench.stored_verdicts(summaries, KEY), ["a"] * 6)
    assert found.correlation_ci is not None and found.correlation_ci[0] < found.correlation_ci[1] == pytest.approx(1)
    # Both link two insights, to the same bullets, in two subtopics only.
    assert (found.linking_accuracy, found.linking_n, found.linking_ci) == (1.0, 2, None)
    same = loaded(
        tmp_path, *[summary([(1.0, 1), (0.0, None)], {KEY: [(1.0, 1), (0.0, None)]}, subtopic_id=f"s{n}") for n in range(6)]
    )
    alike = bench.agreement(same, bench.stored_verdicts(same, KEY), ["a"] * 6)
    assert (alike.correlation, alike.correlation_ci) == (pytest.approx(1), None)
    assert alike.linking_ci == pytest.approx((0.025 ** (1 / 6), 1.0))
    never = loaded(tmp_path, *[summary([(0.5, 1)], {KEY: [(1.0, 1)]}, subtopic_id=f"s{place}") for place in range(6)])
    assert bench.agreement(never, bench.stored_verdicts(never, KEY), ["a"] * 6).correlation_ci is None


def test_the_error_of_a_bias_knows_that_topics_differ(tmp_path: Path) -> None:
    def rows(topics: tuple[str, str]) -> list[dict[str, object]]:
        return [
            summary([(0.5, 1), (0.5, 1)], {KEY: [(value, 1), (value, 1)]}, topic=topic, subtopic_id=f"s{value}{place}")
            for topic, value in zip(topics, (1.0, 0.0), strict=True)
            for place in range(5)
        ]

    one, two = (loaded(tmp_path, *rows(topics)) for topics in (("t", "t"), ("t", "u")))
    same, apart = (bench.measured_bias("j", s, bench.stored_verdicts(s, KEY), ["a"] * 10) for s in (one, two))
    assert same is not None and apart is not None
    assert (same.mean, same.n_insights, same.n_summaries, same.topics) == (0.0, 20, 10, (0.0,))
    # Ten subtopics, each 0.5 off, the farthest counted twice: (10 + 1) x 0.25 / 10 / 10.
    assert same.se == pytest.approx(math.sqrt(11 * 0.25 / 100))
    assert apart.topics == (0.5, -0.5)
    # Within each topic, all summaries are equal. Between topics, the variance of 0.5 and -0.5 is 0.5.
    assert apart.se == pytest.approx(math.sqrt(same.se**2 + 0.5))


def test_biases_are_written_and_read(tmp_path: Path) -> None:
    summaries = loaded(tmp_path, *[summary([(0.5, 1)], {KEY: [(1.0, 1)]}) for _ in range(3)])
    bias = bench.measured_bias("mine", summaries, bench.stored_verdicts(summaries, KEY), ["a", "b", "b"])
    assert bias is not None
    assert bench.read_biases(bench.biases_json([bias], "test")) == (bias,)
    for text, why in {
        "{": "it is not JSON",
        "[]": "it has no list of judges",
        '{"judges": [1]}': "it has no list of judges",
        '{"judges": [{"judge": "j"}]}': r"judges\[0\], j: mean is missing or not a number",
    }.items():
        with pytest.raises(ValueError, match=f"^{why}$"):
            bench.read_biases(text)


def test_dollars_of_stored_predictions_go_by_the_papers_prices(tmp_path: Path) -> None:
    summaries = loaded(tmp_path, summary([(1.0, 1), (0.0, None)], {KEY: [(1.0, 1), (0.0, None)]}))
    verdicts = bench.stored_verdicts(summaries, KEY)

    def micros(model: str, wanted: list[int]) -> int | None:
        return bench.stored_micros(model, summaries, verdicts, [wanted])

    both, first = micros(KEY, [0, 1]), micros(KEY, [0])
    assert both is not None and first is not None
    assert both > first > 0
    assert micros(KEY, []) == 0
    # Every call contains the nine examples.
    assert (micros("predictions_9fs_gpt-4o", [0]) or 0) > first
    # $5 per million tokens in and $15 out are twenty and twelve times Haiku's price.
    assert 12 < first / (micros("predictions_prompted_claude3-haiku", [0]) or 1) < 21
    assert micros("predictions_prompted_nobody", [0]) is None
    assert micros("predictions_of_mine", [0]) is None


PAPER = {  # Table 1, on all 200 summaries: correlation, linking accuracy.
    "predictions_prompted_gpt-4o": (0.716, 0.889),
    "predictions_prompted_claude3-haiku": (0.498, 0.877),
    "predictions_prompted_claude3-opus": (0.677, 0.879),
    "predictions_prompted_gemini-1.5-pro": (0.751, 0.893),
    "predictions_prompted_gpt3.5": (0.495, 0.867),
    "predictions_9fs_gpt-4o": (0.719, 0.892),
}


def test_the_releases_predictions_come_near_table_1_and_table_6(summhay_data: Path) -> None:
    summaries = bench.load_summaries(summhay_data / "judge_annotations.json")
    assert sorted({key for summary in summaries for key in summary.stored}) == sorted(PAPER)
    for key, (correlated, linked) in PAPER.items():
        found = bench.agreement(summaries, bench.stored_verdicts(summaries, key), ["all"] * len(summaries))
        assert (found.n_scored, found.n_expected) == (1094, 1094)
        assert found.correlation == pytest.approx(correlated, abs=0.025), key
        assert found.linking_accuracy == pytest.approx(linked, abs=0.01), key
        assert found.correlation_ci is not None and found.correlation_ci[0] < correlated < found.correlation_ci[1], key
    gpt = bench.agreement(summaries, bench.stored_verdicts(summaries, "predictions_prompted_gpt-4o"), ["all"] * len(summaries))
    assert gpt.length_score_corr == pytest.approx(-0.122, abs=0.06)
    assert gpt.length_delta_corr == pytest.approx(0.02, abs=0.06)


def test_the_shipped_file_has_measured_biases() -> None:
    shipped = {bias.judge: bias for bias in bench.shipped_biases()}
    assert {"offline/judge", "stored/predictions_prompted_gpt-4o"} <= set(shipped)
    assert "released" in shipped["stored/predictions_prompted_gpt-4o"].names
    assert all(bias.se > 0 and -0.5 < bias.mean < 0.5 and bias.source for bias in shipped.values())
    # Only figures of the released file may be shipped, and no text of a topic.
    text = json.dumps([dict(bias.summarizers) for bias in shipped.values()])
    assert "topic" not in text


def test_what_ships_is_what_judge_bench_measures_now(summhay_data: Path) -> None:
    """If this fails: summhay judge-bench judge_annotations.json --held-out --out, with the judges of measured_bias.json."""
    summaries = bench.load_summaries(summhay_data / "judge_annotations.json")
    shipped = {bias.judge: bias for bias in bench.shipped_biases()}
    measured = fit.measure(summaries)
    for name, together in (("offline/judge", True), ("per_insight(offline)", False)):
        rows = fit.held_out(measured, together)
        verdicts = [[Verdict(one.coverage, '"NA"', one.value) for one in row] for row in rows]
        found = bench.measured_bias(name, summaries, verdicts, ["all"] * len(summaries))
        assert found is not None
        assert (found.mean, found.se) == (pytest.approx(shipped[name].mean, abs=1e-4), pytest.approx(shipped[name].se, abs=1e-4))
