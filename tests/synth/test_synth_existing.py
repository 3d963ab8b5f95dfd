"""Checks of existing haystacks: those synthesized here pass, and faults planted in them are found."""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from typing import Any

import plants
import pytest

from summhay_ray.haystack import InvalidHaystack, released_from
from summhay_ray.records import Check
from summhay_ray.synth import (
    Difficulty,
    ExistingCheck,
    ModelAsker,
    Shape,
    Synthesized,
    Topic,
    TopicRecipe,
    load_domain,
    synthesize,
    verify_haystack,
)
from summhay_ray.synth.making.domains import domain_names

pytestmark = pytest.mark.core

HARD = Difficulty(documents_per_insight=6, paraphrase=1, distractors=1, conflicts=2, cross_references=0.5)
SHAPE = Shape(subtopics=4, insights=4, documents=20, words=300)


@functools.cache
def made(name: str, difficulty: Difficulty = HARD) -> Synthesized:
    models: Any = dict.fromkeys(("outline", "write"), "offline/writer")
    asker = ModelAsker(dict.fromkeys(models, plants.written), load_domain(name), models, {})
    result = asyncio.run(
        synthesize(TopicRecipe("c", Topic("t", "a new tram line"), load_domain(name), SHAPE, difficulty, 3), asker)
    )
    assert isinstance(result, Synthesized), result
    return result


def raw_of(name: str = "news") -> dict[str, Any]:
    return copy.deepcopy(made(name).raw)


def verified(raw: dict[str, Any]) -> tuple[ExistingCheck, ...]:
    return verify_haystack(released_from(raw, "t.json"))


def is_otherwise(one: ExistingCheck) -> bool:
    """Whether the check disagrees with the haystack."""
    return one.check.found != one.check.expected


def otherwise(raw: dict[str, Any]) -> set[tuple[str, str, str]]:
    """(kind, subject, object) of the checks that disagree with the haystack."""
    return {(one.check.kind, one.check.subject, one.check.object) for one in verified(raw) if is_otherwise(one)}


def told(check: Check) -> tuple[str, str, str, str, str]:
    return check.kind, check.subject, check.object, check.found, check.evidence


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ("news", "conversation") else pytest.mark.soak) for name in domain_names()]
)
def test_a_haystack_made_here_passes_and_is_checked_as_in_its_synthesis(name: str) -> None:
    held = verified(raw_of(name))
    assert [one.check for one in held if is_otherwise(one)] == []
    assert [one.check.position for one in held] == list(range(len(held)))
    # The last round's row of each document and insight, from the synthesis and from now.
    last = {(one.subject, one.object): told(one) for one in made(name).checks if one.kind == "document_insight"}
    now = {(one.check.subject, one.check.object): told(one.check) for one in held if one.check.kind == "document_insight"}
    assert now == last and len(now) == 20 * (5 * 4 + 2)
    kinds = {one.check.kind for one in held}
    assert kinds == {one.kind for one in made(name).checks} - {"chapter_insight"}


def test_wrongly_annotated_insights_are_found() -> None:
    raw = raw_of()
    document = raw["documents"][3]
    lost = document["insights_included"].pop(0)
    strange = next(
        one["insight_id"]
        for subtopic in raw["subtopics"]
        for one in subtopic["insights"]
        if one["insight_id"] not in (*document["insights_included"], lost)
    )
    document["insights_included"].append(strange)
    # Only the insight's words count: a conflict's other side in the same document does not matter.
    found = otherwise(raw)
    assert found == {("document_insight", document["document_id"], one) for one in (lost, strange)}
    rows = {one.check.object: one for one in verified(raw) if one.check.subject == document["document_id"] and is_otherwise(one)}
    assert rows[lost].check.evidence in document["document_text"] and rows[lost].check.found == "yes"
    assert (rows[strange].check.found, rows[strange].check.evidence) == ("no", "")


def test_a_duplicate_subtopic_and_a_leaking_query_are_found() -> None:
    raw = raw_of()
    first, second = raw["subtopics"][:2]
    second["subtopic"] = f"What is known of {first['subtopic'][0].lower()}{first['subtopic'][1:]}"
    assert ("subtopic_distinct", second["subtopic_id"], first["subtopic_id"]) in otherwise(raw)
    raw = raw_of()
    told = raw["subtopics"][2]["insights"][1]
    raw["subtopics"][2]["query"] = f"Is it true that {told['insight'].rstrip('.')}?"
    assert ("query_leak", raw["subtopics"][2]["subtopic_id"], told["insight_id"]) in otherwise(raw)


def test_a_copied_document_and_a_missing_reference_are_found() -> None:
    raw = raw_of()
    one, two = raw["documents"][4], raw["documents"][9]
    two["document_text"], two["insights_included"] = one["document_text"], list(one["insights_included"])
    found = {(kind, subject) for kind, subject, _ in otherwise(raw)}
    assert ("document_copy", two["document_id"]) in found and ("document_copy", "") in found
    raw = raw_of()
    naming = next(one for one in raw["documents"] if one["document_metadata"]["refers_to"])
    named = next(one for one in raw["documents"] if one["document_id"] == naming["document_metadata"]["refers_to"][0])
    named["document_metadata"]["date"] = "1931-02-03"
    named["document_text"] = "Nobody else begins a report like this one does. " + named["document_text"]
    assert ("document_reference", naming["document_id"], named["document_id"]) in otherwise(raw)


def test_a_file_without_synthesis_metadata_is_checked() -> None:
    raw = raw_of()
    del raw["topic_metadata"]
    for document in raw["documents"]:
        del document["document_metadata"]
    held = verified(raw)
    assert {one.check.kind for one in held if is_otherwise(one)} <= {"insight_distinct", "insight_subtopic"}
    assert not [one for one in held if one.check.kind == "document_reference"]


TICKETS = {
    "crash": (
        "Uploading a picture makes the app crash.",
        "As soon as I attach a photo, everything quits and I am back at the home screen.",
    ),
    "slow": (
        "Search has become slow since the redesign.",
        "With the new look it takes ages until anything turns up when I look for an order.",
    ),
    "refund": ("Refunds arrive late.", "I am still waiting for my money back; support keeps telling me to be patient."),
    "price": ("The yearly plan costs 89 dollars.", "The subscription for a whole year was 79 dollars when I signed up."),
    "owner": ("Odile Brandt answers the complaints.", "Someone from the team wrote back to me within the hour."),
    "date": ("The outage began on 3 May 2024.", "Nothing worked from one morning in May on; I lost two days."),
}


def test_paraphrases_are_unsure_and_an_absent_number_name_or_date_is_sure() -> None:
    insights = [{"insight_id": name, "insight": text} for name, (text, _) in TICKETS.items()]
    raw = {
        "topic": "A shop's app",
        "subtopics": [
            {"subtopic_id": "all", "subtopic": "Complaints", "query": "What do people complain of?", "insights": insights}
        ],
        "documents": [
            {"document_id": f"t-{name}", "document_text": text, "insights_included": [name]}
            for name, (_, text) in TICKETS.items()
        ],
    }
    own = {one.check.object: one for one in verified(raw) if one.check.subject == f"t-{one.check.object}"}
    assert {name for name, one in own.items() if one.sure and one.check.found == "no"} == {"price", "owner", "date"}
    # Nothing else that differs from the file is certain, except that an insight names nothing.
    others = [one.check for one in verified(raw) if is_otherwise(one) and one.sure and one.check.kind != "document_insight"]
    assert {(one.kind, one.subject) for one in others} <= {("insight_specific", name) for name in TICKETS}


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda raw: raw["topic_metadata"]["synthesis"].update(distractors=3), "synthesis.distractors: expected a list, found 3"),
        (
            lambda raw: raw["topic_metadata"]["synthesis"]["distractors"][0]["insights"][0].pop("documents"),
            "distractors[0].insights[0].documents: expected this field",
        ),
        (lambda raw: raw["topic_metadata"]["synthesis"].update(conflicts=[["s1-i1"]]), "conflicts[0]: expected a list of two"),
        (lambda raw: raw["topic_metadata"]["synthesis"].update(manner=["German"]), "synthesis.manner: expected an object"),
        (
            lambda raw: raw["documents"][2]["document_metadata"].update(refers_to=["nowhere"]),
            "documents[2].document_metadata.refers_to[0]: expected the id of a document",
        ),
        (lambda raw: raw["documents"][2]["document_metadata"].update(date=7), "documents[2].document_metadata.date: expected a"),
    ],
)
def test_unreadable_metadata_is_named(break_it: Any, said: str) -> None:
    raw = json.loads(json.dumps(raw_of()))
    break_it(raw)
    with pytest.raises(InvalidHaystack) as caught:
        verify_haystack(released_from(raw, "t.json"), "t.json")
    assert str(caught.value).startswith("t.json: ") and said in str(caught.value)
