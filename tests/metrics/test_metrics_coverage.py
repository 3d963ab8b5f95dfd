"""One judged insight: default and release readings of every possible judge's answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.metrics import Compat, score_summary
from summhay_ray.metrics.coverage_citation_joint import figures, score_judgment
from summhay_ray.records import Failure, Judgment, Score

pytestmark = pytest.mark.core

BULLETS = ("First [1].", "Second [2].", "Third [3].", "Fourth [4].")
GOLD = frozenset({1, 2, 3, 4})


def judged(bullet_id: str, coverage: str = "FULL_COVERAGE", insight_id: str = "i", position: int = 0) -> Judgment:
    return Judgment("cell", "judge", insight_id, position, "raw-key", coverage, bullet_id)


def scored(judgment: Judgment, bullets: tuple[str, ...] = BULLETS, compat: Compat = "default") -> Score:
    row = score_judgment(judgment, bullets, GOLD, compat)
    assert isinstance(row, Score), row
    return row


def failed(judgment: Judgment, bullets: tuple[str, ...] = BULLETS, compat: Compat = "default") -> Failure:
    row = score_judgment(judgment, bullets, GOLD, compat)
    assert isinstance(row, Failure), row
    assert (row.kind, row.stage, row.key, row.cell_id) == ("malformed", "judge", "raw-key", "cell")
    assert row.message.isprintable()
    return row


def test_a_covered_insight() -> None:
    row = score_judgment(judged("2", "PARTIAL_COVERAGE"), ("Title", "Said [1][2, 9]."), frozenset({2, 3, 4, 5}))
    precision, recall = 1 / 3, 1 / 4
    f1 = 2 * precision * recall / (precision + recall)
    assert row == Score("cell", "judge", "i", 0, 0.5, 2, (1, 2, 9), (2, 3, 4, 5), precision, recall, f1, 0.5 * f1)


def test_an_insight_that_is_not_covered_asks_for_no_bullet() -> None:
    for bullet_id in ('"NA"', "99", "[1, 2]", "", "no json"):
        for compat in ("default", "release"):
            row = scored(judged(bullet_id, "NO_COVERAGE"), compat=compat)  # type: ignore[arg-type]
            assert row == Score("cell", "judge", "i", 0, 0.0, None, (), (1, 2, 3, 4), None, None, None, 0.0)


def test_shares_of_nothing_are_zero() -> None:
    for cited, gold in ((0, 1), (1, 0), (0, 0), (1, 1)):
        found = figures(0.5, 0, cited, gold)
        assert found.pop("coverage") == 0.5 and set(found.values()) == {0}


@given(st.frozensets(st.integers(1, 12)), st.frozensets(st.integers(1, 12)))
def test_f1_is_twice_the_hits_over_all(cited: frozenset[int], gold: frozenset[int]) -> None:
    right, n_cited, n_gold = len(cited & gold), len(cited), len(gold)
    found, swapped = figures(1, right, n_cited, n_gold), figures(1, right, n_gold, n_cited)
    assert found["citation_f1"] == pytest.approx(2 * right / max(1, n_cited + n_gold)) == swapped["citation_f1"]
    assert found["citation_precision"] == swapped["citation_recall"]


@pytest.mark.parametrize("bullet_id", ["3", '"3"', '" 3 "'])
def test_usable_bullet_ids(bullet_id: str) -> None:
    assert scored(judged(bullet_id)).cited == (3,)
    assert scored(judged(bullet_id), compat="release").cited == (3,)


@pytest.mark.parametrize(
    ("bullet_id", "released_bullet"),
    [
        ("0", 4),  # bullets[0 - 1]
        ("-1", 3),  # bullets[-1 - 1]
        ("-3", 1),
        ('"NA"', 3),  # int("NA") fails: -1, bullets[-2]
        ("[1, 2]", 3),
        ("[]", 3),
        ("null", 3),
        ("{}", 3),
        ('"3.0"', 3),
        ("1e400", 3),
        ("not json", 3),
        ("2.7", 2),
        ("true", 1),
        ('"٤"', 4),
        ('"' + "9" * 5000 + '"', 3),
    ],
)
def test_unusable_bullet_ids(bullet_id: str, released_bullet: int) -> None:
    assert failed(judged(bullet_id)).error == "unusable_bullet"
    row = scored(judged(bullet_id), compat="release")
    assert (row.bullet, row.cited) == (released_bullet, (released_bullet,))


@pytest.mark.parametrize("bullet_id", ["5", "-4", '"99"', ""])
def test_bullets_that_end_the_script_are_failures_in_both_modes(bullet_id: str) -> None:
    for compat in ("default", "release"):
        row = failed(judged(bullet_id), compat=compat)  # type: ignore[arg-type]
        assert row.error == "unusable_bullet"
        assert "1 to 4" in row.message


def test_a_summary_of_one_bullet_or_none() -> None:
    assert failed(judged('"NA"'), ("Only [1].",), "release").error == "unusable_bullet"
    assert scored(judged("0"), ("Only [1].",), "release").bullet == 1
    assert "without bullets" in failed(judged("1"), ()).message


@pytest.mark.parametrize("word", ["full", "", "FULL\nCOVERAGE", "x" * 500])
def test_unknown_coverage_words(word: str) -> None:
    row = failed(judged("1", word))
    assert row.error == "unknown_coverage"
    assert len(row.message) < 200
    assert scored(judged("1", word), compat="release").coverage == 0


def test_an_insight_judged_twice_counts_once_by_default() -> None:
    judgments = [judged("1"), judged("2", "PARTIAL_COVERAGE", position=1), judged("1", insight_id="gone", position=2)]
    gold = {"i": GOLD}
    first, second, third = score_summary(judgments, BULLETS, gold)
    assert isinstance(first, Score) and first.coverage == 1
    assert isinstance(second, Failure) and second.error == "judged_twice"
    assert isinstance(third, Failure) and third.error == "unknown_insight"
    first, second, third = score_summary(judgments, BULLETS, gold, "release")
    assert isinstance(second, Score) and second.coverage == 0.5
    assert isinstance(third, Failure)


def test_two_judges_of_one_insight_are_not_one_judge_twice() -> None:
    other = Judgment("cell", "other", "i", 0, "", "NO_COVERAGE", '"NA"')
    assert all(isinstance(row, Score) for row in score_summary([judged("1"), other], BULLETS, {"i": GOLD}))


JSON_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5), st.lists)


@given(JSON_VALUES, st.text(max_size=20))
def test_whatever_a_judge_answers_is_a_row(value: object, coverage: str) -> None:
    for word in ("FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE", coverage):
        for compat in ("default", "release"):
            row = score_judgment(judged(json.dumps(value), word), BULLETS, GOLD, compat)  # type: ignore[arg-type]
            assert isinstance(row, Score | Failure)
