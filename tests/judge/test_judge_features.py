"""The features of `offline/judge`: words, and measures by visible arithmetic."""

from __future__ import annotations

import time
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge.offline import (
    ALONE,
    TOGETHER,
    UNSAID,
    features,
    remove_citations,
    roots,
)

pytestmark = pytest.mark.core

TEXTS = st.lists(st.text(max_size=60), max_size=4)


def seen(insights: list[str], bullets: list[str], place: int = 0) -> dict[str, float]:
    found = features(insights, bullets)[place]
    assert found is not None
    return dict(zip(TOGETHER if len(insights) > 1 else ALONE, found.values, strict=True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The ferries were cancelled.", ["ferry", "cance"]),
        ("Cancelling a ferry, cancels it", ["cance", "ferry", "cance"]),
        ("prescribe prescription prescribed", ["presc", "presc", "presc"]),
        ("stopping stopped stops", ["stop", "stop", "stop"]),
        ("1,025 hp, 3.5% and 10-minute 1234567", ["1025", "hp", "3.5", "10", "minut", "1234567"]),
        ("glasses thing red bring string", ["glas", "thing", "red", "bring", "strin"]),
        ("Ålesund's ÉTÉ", ["ålesu", "été"]),
        ("e\u0301te\u0301 caf\u00e9", ["été", "café"]),
        ("渡船は運休", ["渡", "船", "は", "運", "休"]),
        ("Паром отменён", ["паром", "отмен"]),
        ("It is what they were, or not", []),
        ("", []),
    ],
)
def test_words_are_roots_and_characters_of_unspaced_scripts(text: str, words: list[str]) -> None:
    assert roots(text) == words


@pytest.mark.parametrize("citation", ["[8]", "[8][11]", "[8, 11]", "[8-11; 12]", "[Article 8]", "[Articles 8, Doc 9]", "【8】"])
def test_citations_are_no_words(citation: str) -> None:
    assert roots(f"walks {citation}") == ["walk"]
    assert remove_citations(f"walks {citation}").strip() == "walks"


def test_recall_is_weighted_by_rarity_over_bullets_and_insights() -> None:
    insights, bullets = ["ferry price euro", "ferry storm"], ["ferry winter ice", "ferry price", "pier"]
    # Four of 5 texts have ferry, two have price, one has euro, and no bullet has euro.
    ferry, price, euro = log(6 / 4), log(6 / 2), UNSAID * log(6 / 1)
    total = ferry + price + euro
    # The best bullet is "ferry price", and all bullets together have no more of the insight.
    found = seen(insights, bullets)
    assert found["recall"] == pytest.approx((ferry + price) / total)
    assert found["whole"] == pytest.approx((ferry + price) / total)


@pytest.mark.parametrize(
    ("bullet", "pairs"),
    [("ice price", 1), ("price ice", 1), ("ice x y price", 1), ("ice x y z price", 0), ("pier price ice", 3), ("ice", 0)],
)
def test_pairs_stand_within_three_words_in_either_order(bullet: str, pairs: int) -> None:
    assert seen(["ice price pier"], [bullet])["pairs"] == pytest.approx(log(1 + pairs))


def test_the_lead_is_over_the_best_other_insight_at_that_bullet() -> None:
    insights = ["ice price", "ice price", "pier"]
    assert seen(insights, ["ice price", "pier"])["lead"] == pytest.approx(0.0)
    assert seen(insights, ["ice price", "pier"], 2)["lead"] == pytest.approx(1.0)
    # The bullet belongs to the first insight: it has only one of the two words of the second.
    assert seen(["ice price", "ice pier"], ["ice price"])["lead"] > 0 > seen(["ice price", "ice pier"], ["ice price"], 1)["lead"]


def test_the_best_bullet_says_least_besides_and_is_the_first_of_equals() -> None:
    found = features(["ice price"], ["pier", "ice price harbour storm", "ice price", "price ice"])[0]
    assert found is not None and found.bullet == 2


@pytest.mark.parametrize(("insight", "bullets"), [("", ["x"]), ("It is what they were", ["ice"]), ("ice", []), ("!?", [""])])
def test_without_words_there_are_no_features(insight: str, bullets: list[str]) -> None:
    assert features([insight], bullets) == [None]


@given(TEXTS, TEXTS)
def test_measures_stay_in_their_bounds(insights: list[str], bullets: list[str]) -> None:
    found = features(insights, bullets)
    assert len(found) == len(insights)
    for one in found:
        if one is not None:
            recall, whole, pairs, lead = one.values
            assert 0 <= recall <= whole + 1e-9 and whole <= 1 + 1e-9
            assert pairs >= 0 and abs(lead) <= 1 + 1e-9 and 0 <= one.bullet < len(bullets)


def test_words_scattered_over_a_copied_document_are_no_statement() -> None:
    filler = "Ministers met again. Talks went on. Snow fell. Trams ran late."
    insight = "The ferry to Norhaven costs nine euros in winter."
    scattered = f"A ferry sank. {filler} Norhaven elected a mayor. {filler} Bread costs nine euros. {filler} Winter began."
    whole = f"{filler} {filler} {insight} {filler}"
    assert seen([insight], [scattered])["recall"] < 0.6 < seen([insight], [whole])["recall"]


def test_a_huge_bullet_is_read_in_seconds() -> None:
    huge = "ice price " * 100_000 + "[" * 50_000 + "x" * 200_000
    start = time.process_time()
    assert seen(["ice price pier"], [huge, "pier"])["recall"] > 0
    assert time.process_time() - start < 10
