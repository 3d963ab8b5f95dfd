"""Finding the insights of a text offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.haystack import load_sample
from summhay_ray.synth.checking.presence import Presence
from summhay_ray.synth.making.kinds import Finding

pytestmark = pytest.mark.core

TICKET = "A ticket costs 28 pounds for adults, and children under 12 come free."
TALK = "Dr. Amara Quill, who discovered two comets, gives the main talk on Saturday at eight."
TANK = "A water tank of 1,000 litres is hired because the farm's tap is too slow."
TRUST = "The Larch Trust gives 1,500 pounds, which must be spent by 30 September."
VAN = "The pancake van Batter Days serves until two in the morning."
INSIGHTS = (TICKET, TALK, TANK, TRUST, VAN)
FILLER = "The path was wet, and nobody had brought a map. It was going to be a long day, they said."


def found(text: str, insights: tuple[str, ...] = INSIGHTS) -> set[str]:
    return {insight for insight, verdict in zip(insights, Presence(insights).find(text), strict=True) if verdict.found}


@pytest.mark.parametrize(
    ("insight", "told"),
    [
        (TICKET, TICKET),
        (TICKET, "Adults pay £28 a ticket. Children who are not yet twelve come free."),
        (TALK, "On Saturday at eight, the main talk is by Amara Quill. She is the one who discovered both comets."),
        (TANK, "The tap of the farm is slow. So a tank is hired for the water. It holds one thousand litres."),
        (TRUST, "£1.5k is given by the Larch Trust. It has to be spent by September 30th."),
        (VAN, "Tobias: Batter Days, the van with pancakes?\nImke: It serves until 2 in the morning."),
    ],
)
def test_an_insight_is_found_in_other_words(insight: str, told: str) -> None:
    assert found(f"{FILLER} {told} {FILLER}") == {insight}


def test_evidence_is_the_sentences_that_say_it() -> None:
    text = f"{FILLER} The tap is slow. So a water tank is hired for the farm. It holds 1,000 litres. {FILLER}"
    verdict = Presence(INSIGHTS).find(text)[2]
    assert verdict.evidence == "The tap is slow. So a water tank is hired for the farm. It holds 1,000 litres."
    assert Presence(INSIGHTS).find(f"{FILLER} {TANK} {FILLER}")[2] == Finding(True, True, 1.0, TANK)


def test_facts_far_apart_do_not_add_up() -> None:
    apart = f" {FILLER} {FILLER} "
    far = apart.join(["A water tank is hired.", "The tap of the farm is slow.", "There were 1,000 litres."])
    assert TANK not in found(far)


SIDES = (
    "An audit by Wesopta Works traced 71.7 percent of the damage to the manual.",
    "An audit by Wesopta Works traced 71.9 percent of the damage to the manual.",
    "The share of calls that cause trouble in Toroka fell to 71.9 percent after July 2007.",
)


@pytest.mark.parametrize("side", [0, 1])
def test_sides_of_a_conflict_are_distinguished(side: int) -> None:
    verdicts = Presence(SIDES).find(f"{FILLER} {SIDES[side]} {FILLER}")
    assert verdicts[side].found and not verdicts[1 - side].found
    assert verdicts[1 - side].sure and verdicts[1 - side].score <= 0.1


def test_a_side_does_not_borrow_its_number_from_the_next_sentence() -> None:
    assert found(f"{SIDES[0]} {SIDES[2]}", SIDES) == {SIDES[0], SIDES[2]}


def test_an_acronym_matches_its_words() -> None:
    insights = ("Dodge challenges its loyal customers to adapt to EVs.", TICKET)
    assert found("Dodge challenges loyal customers: adapt to electric vehicles.", insights) == {insights[0]}


def test_a_script_without_blanks() -> None:
    insights = ("東京の新しい橋は長さ512メートルです。", "大阪の古い駅は1931年に建てられました。")
    assert found("天気は晴れでした。新しい東京の橋は、長さが512メートルです。", insights) == {insights[0]}


@given(st.lists(st.text(max_size=40), max_size=4), st.text(max_size=200))
def test_any_texts_are_compared(insights: list[str], text: str) -> None:
    verdicts = Presence(insights).find(text)
    assert len(verdicts) == len(insights)
    assert all(0 <= verdict.score <= 1 and (verdict.evidence == "" or verdict.found) for verdict in verdicts)
    assert all(verdict.found == (verdict.score >= 0.5) for verdict in verdicts)


def verdicts_of(raw: dict[str, Any]) -> list[tuple[Finding, bool]]:
    """All verdicts on a haystack, each with the haystack's own annotation."""
    insights = [insight for subtopic in raw["subtopics"] for insight in subtopic["insights"]]
    presence = Presence([insight["insight"] for insight in insights])
    pairs = []
    for document in raw["documents"]:
        verdicts = presence.find(document["document_text"])
        held = document["insights_included"]
        pairs += [(verdict, insight["insight_id"] in held) for verdict, insight in zip(verdicts, insights, strict=True)]
    return pairs


def precision_recall(pairs: list[tuple[Finding, bool]]) -> tuple[float, float]:
    both = sum(verdict.found and held for verdict, held in pairs)
    return both / sum(verdict.found for verdict, _ in pairs), both / sum(held for _, held in pairs)


PUMPS = "The council of Wexmoor ordered 64 pumps and 31 valves from Karl Moser for 4.8 million euros on 14 March 2022."


@pytest.mark.parametrize(
    ("exact", "other"),
    [("64", "46"), ("4.8", "5"), ("14", "15"), ("March", "April"), ("2022", "2021"), ("Karl Moser", "Ilse Brandt")],
)
def test_another_number_date_or_name_is_not_the_insight(exact: str, other: str) -> None:
    insights = (PUMPS, *INSIGHTS)
    assert PUMPS in found(f"{FILLER} {PUMPS}", insights)
    verdict = Presence(insights).find(f"{FILLER} {PUMPS.replace(exact, other)}")[0]
    assert not (verdict.found and verdict.sure)
    assert not verdict.found or exact == "Karl Moser"


@pytest.mark.parametrize(
    "text",
    [
        PUMPS.replace("ordered", "never ordered"),
        f"It is untrue that {PUMPS[0].lower()}{PUMPS[1:]}",
        PUMPS.replace(".", "").replace("48", "4.8") + "?",
        PUMPS.replace("ordered", "sold").replace("euros", "pounds"),
        PUMPS.replace("64 pumps and 31 valves", "31 pumps and 64 valves"),
    ],
)
def test_denied_questioned_or_reversed_insights_are_left_to_a_model(text: str) -> None:
    verdict = Presence((PUMPS, *INSIGHTS)).find(f"{FILLER}\n{text}\n{FILLER}")[0]
    assert verdict.found and not verdict.sure


def test_a_title_is_not_enough_for_a_name() -> None:
    brandt = "Engineer Ilse Brandt counted 37 leaking valves in the north hall."
    looked = Presence((brandt, *INSIGHTS))
    assert looked.find("Engineer Brandt counted 37 leaking valves in the north hall.")[0].found
    assert not looked.find("Engineer Moser counted 37 leaking valves in the north hall.")[0].sure


@pytest.mark.parametrize("name", ["conversation", "news"])
def test_insights_of_the_samples_are_found(name: str) -> None:
    pairs = verdicts_of(load_sample(name))
    precision, recall = precision_recall(pairs)
    assert precision == 1 and recall >= 0.95
    assert all(verdict.found == held for verdict, held in pairs if verdict.sure)


@pytest.mark.parametrize(
    ("name", "precision", "recall", "unsure"),
    [("topic_news1", 0.93, 0.9, 0.187), pytest.param("topic_news2", 0.99, 0.8, 0.157, marks=pytest.mark.soak)],
)
def test_the_released_haystacks(summhay_data: Path, name: str, precision: float, recall: float, unsure: float) -> None:
    raw = json.loads((summhay_data / f"{name}.json").read_text(encoding="utf-8"))
    pairs = verdicts_of(raw)
    measured = precision_recall(pairs)
    assert measured[0] >= precision and measured[1] >= recall
    assert sum(not verdict.sure for verdict, _ in pairs) / len(pairs) <= unsure
    assert all(held for verdict, held in pairs if verdict.sure and verdict.found)
