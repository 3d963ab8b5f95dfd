"""The offline checks of an outline."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.synth.checking.outline_checks import assigned, leak, overlap, refers, same_insight, specific

pytestmark = pytest.mark.core

TICKET = "A ticket costs 28 pounds for adults, and children under 12 come free."


@pytest.mark.parametrize(
    ("text", "found", "sure"),
    [
        (TICKET, True, True),
        ("Two first-aiders stay all weekend.", True, True),
        ("The review ends in September.", True, True),
        ("The talk is given by Amara Quill.", True, True),
        ("Corvane pays for the repair.", True, False),
        ("Banks may demand more collateral from borrowers.", False, True),
        ("The weather was pleasant.", False, True),
        # The first word of a sentence may be a name.
        ("Google acquired the startup.", False, False),
        ("Marta sold her bakery to the cooperative.", False, False),
        ("Funding dried up within weeks.", False, True),
        ("雨が降る。", False, False),
        ("", False, False),
    ],
)
def test_an_insight_is_specific_if_it_has_a_number_a_date_or_a_name(text: str, found: bool, sure: bool) -> None:
    verdict = specific(text)
    assert (verdict.found, verdict.sure) == (found, sure)
    assert (verdict.evidence == text) == found or not text


@pytest.mark.parametrize(
    "other",
    [
        "Income, costs and the budget of the weekend",
        "The weekend's budget, costs and income",
        "News of the income, costs and budget",
    ],
)
def test_a_subtopic_with_reordered_words_overlaps(other: str) -> None:
    assert overlap("Income, costs and the budget of the weekend", other).found


def test_words_of_the_topic_are_no_overlap() -> None:
    pair = ("Costs of the tram line", "Safety of the tram line")
    assert overlap(*pair).found
    assert not overlap(*pair, topic="The tram line").found


@pytest.mark.parametrize("other", [TICKET.replace("28", "30"), TICKET.replace("12", "fourteen")])
def test_another_number_is_another_insight(other: str) -> None:
    verdict = same_insight(TICKET, other)
    assert not verdict.found and verdict.score < 0.5


SUBTOPICS = ("Ticket prices and money", "Safety and first aid", "Food and drink")
OTHERS = (
    ("The ticket money of 900 pounds is kept in a box.", "A second ticket costs 20 pounds."),
    ("Two first aid posts are on the site.", "A safety officer comes on Friday."),
    ("Drink is sold until two.", "A food van comes."),
)


def test_an_insight_is_assigned_by_its_words() -> None:
    place, verdict = assigned("A ticket costs 28 pounds of money.", SUBTOPICS, OTHERS)
    assert place == 0 and verdict.found and verdict.sure and verdict.evidence == SUBTOPICS[0]


QUERY = "What does the weekend cost?"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (QUERY, False),
        ("What do adults and children pay for tickets?", True),
        (f"Is it true that {TICKET[0].lower()}{TICKET[1:-1]}?", True),
        ("Why is a ticket 28 pounds?", True),
    ],
)
def test_a_query_that_gives_an_insight_away_is_found(query: str, found: bool) -> None:
    verdict = leak(query, TICKET, "Costs of the weekend")
    assert verdict.found == found and (verdict.evidence == query) == found


def test_a_name_gives_more_away_than_a_word() -> None:
    insight = "The talk on comets and their tails is given by Amara Quill."
    assert leak("What does Amara Quill bring?", insight, "Programme").found
    assert not leak("What is the talk?", insight, "Programme").found


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_are_checked(one: str, other: str) -> None:
    verdicts = [
        specific(one),
        overlap(one, other),
        same_insight(one, other),
        leak(one, other, one),
        assigned(one, [other, one])[1],
    ]
    for verdict in verdicts:
        assert 0 <= verdict.score <= 1
        assert verdict.found == (verdict.score >= 0.5) or verdict.evidence == ""
    assert overlap(one, other).score == overlap(other, one).score
    assert same_insight(one, other).score == same_insight(other, one).score


def test_the_released_outlines_pass(summhay_data: Path) -> None:
    """No subtopics overlap, no insights are the same, no query leaks. Words alone assign two thirds rightly; sure ones all."""
    for name, least in (("topic_news1", 0.75), ("topic_news2", 0.63)):
        subtopics = json.loads((summhay_data / f"{name}.json").read_text(encoding="utf-8"))["subtopics"]
        texts = [subtopic["subtopic"] for subtopic in subtopics]
        insights = [(place, one["insight"]) for place, subtopic in enumerate(subtopics) for one in subtopic["insights"]]
        assert not any(overlap(*pair).found for pair in combinations(texts, 2))
        assert not any(same_insight(one, two).found for (_, one), (_, two) in combinations(insights, 2))
        told = [leak(s["query"], one["insight"], s["subtopic"]) for s in subtopics for one in s["insights"]]
        assert not any(verdict.found or not verdict.sure for verdict in told)
        right, sure = 0, []
        for place, text in insights:
            others = [[one for spot, one in insights if spot == at and one != text] for at in range(len(texts))]
            found, verdict = assigned(text, texts, others)
            right += found == place
            sure += [found == place] if verdict.sure else []
        assert right / len(insights) >= least
        assert len(sure) >= 5 and all(sure)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It rained. As was told on 5 May 2021, the pier is closed. So it is.", True),
        ("As was told on 5 May, the pier is closed.", True),
        ("The report of 2021-05-05 says so.", True),
        ("Engineers had looked at rusty piles below that pier before.", True),
        ("Engineers had been there before.", False),
        ("The pier of Calaford is open.", False),
        ("In May 2021 it rained.", False),
        ("On May 5th, 2021, the pier was closed.", True),
        ("In the report of 5/5/2021 and elsewhere.", True),
        ("Bruno Fendane resigned on 5 May 1998.", False),
        ("In May, 5 people complained.", False),
        ("", False),
    ],
)
def test_a_document_is_referred_to_by_its_date_or_its_headline(text: str, found: bool) -> None:
    verdict = refers((text, text), "2021-05-05", "Engineers look at rusty piles below Calaford's pier", "The pier of Calaford")
    assert verdict.found == found and bool(verdict.evidence) == found
    assert verdict.evidence in text and not verdict.evidence.startswith("It rained")
    assert not refers((text, text), "", "", "").found
