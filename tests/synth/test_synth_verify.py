"""Offline first, the model where that is not sure; each check a row, in an order that no call's duration changes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from summhay_ray.outcome import Answer, Failed, Malformed, NoAnswer, Outcome, Refusal
from summhay_ray.records import Check
from summhay_ray.synth.kinds import Outline, PlannedDocument, PlannedInsight, PlannedSubtopic, Task, Topic
from summhay_ray.synth.verify import NotChecked, Verifier

pytestmark = pytest.mark.core

T = TypeVar("T")
GIVEN = {"topic": "A weekend", "domain": "news", "language": "English"}

TICKET = "A ticket costs 28 pounds of money for adults, and children under 12 come free."
INSURANCE = "Insurance money of 215 pounds is paid to Corvane Mutual."
STEWARDS = "For safety the licence requires 14 stewards on duty on Saturday night."
RESCUE = "Two safety guards from Kelda Mountain Rescue stay on the site all weekend."
HINT = "The licence asks for 14 stewards who are on their feet that evening."
"""Of what STEWARDS says, as much as the offline check is not sure about."""

FILLER = "The path was wet, and nobody had brought a map."


@dataclass
class Model:
    """Answers as told; `told`: task -> value, outcome, or a function of the input."""

    told: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[Task, dict[str, Any]]] = field(default_factory=list)

    def model(self, task: Task) -> str:
        return f"model/{task}" if task in self.told else ""

    async def ask(self, task: Task, given: Any, sample: int = 0) -> Outcome[Any]:
        self.asked.append((task, dict(given)))
        await asyncio.sleep(0.01 / len(self.asked))
        value = self.told[task](given) if callable(self.told[task]) else self.told[task]
        return value if isinstance(value, NoAnswer) else Answer(value, f"key{len(self.asked)}")

    def tasks(self) -> list[Task]:
        return [task for task, _ in self.asked]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def insight(insight_id: str, text: str, conflicts_with: str = "") -> PlannedInsight:
    return PlannedInsight(insight_id, insight_id.split("-")[0], "Name", text, conflicts_with)


def outline(**texts: str) -> Outline:
    """Two subtopics of two insights; `texts`: other texts, by id (`s1_i1`)."""
    usual = {"s1_i1": TICKET, "s1_i2": INSURANCE, "s2_i1": STEWARDS, "s2_i2": RESCUE} | texts
    planned = [insight(name.replace("_", "-"), text) for name, text in usual.items()]
    subtopics = [
        PlannedSubtopic(
            f"s{number}", name, name, "What comes up?", tuple(one for one in planned if one.subtopic_id == f"s{number}")
        )
        for number, name in ((1, "Money"), (2, "Safety"))
    ]
    return Outline(Topic("t", "A weekend"), tuple(subtopics))


ALL = outline().insights


def verifier(model: Model | None = None) -> Verifier:
    return Verifier("cell", model or Model(), GIVEN)


def rows(made: Verifier, kind: str) -> list[tuple[str, str, str, str, str]]:
    return [(row.subject, row.object, row.expected, row.found, row.by) for row in made.checks if row.kind == kind]


def document(*insight_ids: str, number: int = 1) -> PlannedDocument:
    return PlannedDocument(f"d{number}", number, insight_ids)


class TestDocuments:
    def test_what_is_missing_and_what_is_there_besides(self) -> None:
        made = verifier()
        text = f"{FILLER} {TICKET} {FILLER} {STEWARDS}"
        found = run(made.document(document("s1-i1", "s1-i2"), text, ALL, 0))
        assert (found.missing, found.extraneous) == (("s1-i2",), ("s2-i1",))
        assert found.evidence == {"s1-i1": TICKET, "s2-i1": STEWARDS}
        assert rows(made, "document_insight") == [
            ("d1", "s1-i1", "yes", "yes", "offline"),
            ("d1", "s1-i2", "yes", "no", "offline"),
            ("d1", "s2-i1", "no", "yes", "offline"),
            ("d1", "s2-i2", "no", "no", "offline"),
        ]
        assert [(row.evidence, row.key) for row in made.checks] == [(TICKET, ""), ("", ""), (STEWARDS, ""), ("", "")]

    def test_the_model_is_asked_once_about_what_is_not_sure(self) -> None:
        model = Model({"insights_present": {0: "14 stewards"}})
        made = verifier(model)
        found = run(made.document(document("s1-i1", "s2-i1"), f"{TICKET} {FILLER} {HINT}", ALL, 0))
        assert (found.missing, found.extraneous) == ((), ())
        assert found.evidence["s2-i1"] == "14 stewards"
        ((task, given),) = model.asked
        assert task == "insights_present" and given["insights"] == [{"id": 1, "text": STEWARDS}]
        assert {name: given[name] for name in ("task", *GIVEN)} == {"task": task, **GIVEN}
        asked = next(row for row in made.checks if row.object == "s2-i1")
        assert (asked.by, asked.key, asked.evidence, asked.found) == ("model/insights_present", "key1", "14 stewards", "yes")

    def test_the_model_says_no(self) -> None:
        made = verifier(Model({"insights_present": {}}))
        found = run(made.document(document("s2-i1"), f"{FILLER} {HINT}", ALL, 0))
        assert found.missing == ("s2-i1",) and found.evidence == {}
        assert next(row for row in made.checks if row.object == "s2-i1").evidence == ""

    def test_without_a_model_the_offline_verdict_counts(self) -> None:
        made = verifier()
        run(made.document(document("s2-i1"), f"{FILLER} {HINT}", ALL, 0))
        assert {row.by for row in made.checks} == {"offline"}

    def test_what_is_sure_costs_nothing(self) -> None:
        model = Model({"insights_present": {}})
        found = run(verifier(model).document(document("s1-i1", "s2-i2"), f"{TICKET} {FILLER} {RESCUE}", ALL, 0))
        assert not found.missing and not found.extraneous and model.asked == []

    def test_what_was_planned_and_is_nearly_there_is_asked_about(self) -> None:
        nearly = "Adults and children pay for a ticket."
        for planned, asked in (("s1-i1", 1), ("s2-i2", 0)):
            model = Model({"insights_present": {}})
            run(verifier(model).document(document(planned), nearly, ALL, 0))
            assert len(model.asked) == asked

    def test_an_answer_beyond_the_list_is_no_answer_about_it(self) -> None:
        model = Model({"insights_present": {7: "what"}})
        assert run(verifier(model).document(document("s2-i1"), HINT, ALL, 0)).missing == ("s2-i1",)

    @pytest.mark.parametrize(
        "outcome", [Failed("rate", "slow", retryable=True), Refusal("no", "never"), Malformed("no_json", "prose")]
    )
    def test_no_usable_answer_is_raised(self, outcome: NoAnswer) -> None:
        with pytest.raises(NotChecked, match="insights_present") as raised:
            run(verifier(Model({"insights_present": outcome})).document(document("s2-i1"), HINT, ALL, 0))
        assert raised.value.outcome is outcome and raised.value.task == "insights_present"


class TestChapters:
    def chapter(self, text: str, model: Model | None = None, expected: str = "s2-i1") -> tuple[bool, Check]:
        made = verifier(model)
        wanted = next(one for one in ALL if one.insight_id == expected)
        return run(made.chapter(text, wanted, outline(), "d1", 0)), made.checks[0]

    def test_the_insight_and_no_other(self) -> None:
        right, row = self.chapter(f"{FILLER} {STEWARDS}")
        assert right and (row.subject, row.object, row.expected, row.found) == ("d1", "s2-i1", "s2-i1", "s2-i1")
        assert row.evidence == STEWARDS

    def test_another_beside_it(self) -> None:
        right, row = self.chapter(f"{STEWARDS} {FILLER} {TICKET}")
        assert not right and (row.found, row.evidence) == ("s1-i1", TICKET)

    def test_none(self) -> None:
        right, row = self.chapter(FILLER)
        assert not right and (row.found, row.evidence) == ("no", "")

    @pytest.mark.parametrize(
        ("place", "right", "found"), [(2, True, "s2-i1"), (0, False, "s1-i1"), (None, False, "no"), (9, False, "no")]
    )
    def test_the_model_where_it_is_not_sure(self, place: int | None, right: bool, found: str) -> None:
        model = Model({"chapter_check": place})
        passed, row = self.chapter(HINT, model)
        assert (passed, row.found, row.by, row.key) == (right, found, "model/chapter_check", "key1")
        given = model.asked[0][1]
        assert [one["id"] for one in given["insights"]] == [1, 2, 3, 4] and len(given["subtopics"]) == 2

    def test_a_sure_chapter_asks_no_model(self) -> None:
        for text in (STEWARDS, FILLER, f"{STEWARDS} {TICKET}"):
            model = Model({"chapter_check": 2})
            self.chapter(text, model)
            assert model.asked == []


class TestOutlines:
    def test_the_later_of_two_subtopics_that_overlap_goes(self) -> None:
        made = verifier()
        listed = [("s1", "Ticket prices and money"), ("s2", "Safety and first aid"), ("s3", "Money and ticket prices")]
        assert run(made.subtopics(listed, 0)) == {"s3"}
        assert rows(made, "subtopic_distinct") == [
            ("s1", "", "yes", "yes", "offline"),
            ("s2", "s1", "yes", "yes", "offline"),
            ("s3", "s1", "yes", "no", "offline"),
        ]
        assert made.checks[2].evidence == "Ticket prices and money"

    def test_the_model_sees_all_subtopics_and_finds_what_words_do_not(self) -> None:
        model = Model({"overlapping_subtopics": ((1, 0),)})
        made = verifier(model)
        assert run(made.subtopics([("s1", "Managing stress"), ("s2", "Coping with anxiety"), ("s3", "Food")], 0)) == {"s2"}
        assert [one["text"] for one in model.asked[0][1]["subtopics"]] == ["Managing stress", "Coping with anxiety", "Food"]
        assert made.checks[1].by == "model/overlapping_subtopics" and made.checks[1].key == "key1"

    def test_what_overlaps_a_dropped_one_alone_stays(self) -> None:
        listed = [("s1", "Ticket prices"), ("s2", "Ticket prices and first aid"), ("s3", "First aid and night guards")]
        model = Model({"overlapping_subtopics": ((0, 1), (1, 2))})
        assert run(verifier(model).subtopics(listed, 0)) == {"s2"}

    def test_insights_pass(self) -> None:
        made = verifier()
        assert run(made.insights(outline().subtopics, 0)) == set()
        assert [row[3] for row in rows(made, "insight_specific")] == ["yes"] * 4
        assert [row[3] for row in rows(made, "insight_distinct")] == ["yes"] * 4
        assert [row[2] for row in rows(made, "insight_subtopic")] == ["s1", "s1", "s2", "s2"]

    def test_what_is_not_specific_goes_and_is_not_checked_further(self) -> None:
        made = verifier()
        assert run(made.insights(outline(s1_i2="The money was well spent.").subtopics, 0)) == {"s1-i2"}
        assert "s1-i2" not in [row[0] for row in rows(made, "insight_distinct") + rows(made, "insight_subtopic")]

    def test_a_duplicate_in_another_subtopic_goes(self) -> None:
        again = "A ticket costs adults 28 pounds of money, and children under 12 come free."
        made = verifier()
        assert "s2-i2" in run(made.insights(outline(s2_i2=again).subtopics, 0))
        assert ("s2-i2", "s1-i1", "yes", "no", "offline") in rows(made, "insight_distinct")

    def test_sides_of_a_conflict_are_no_duplicates(self) -> None:
        sides = (insight("s1-i1", TICKET, "s1-i9"), insight("s1-i9", TICKET.replace("28", "30"), "s1-i1"))
        model = Model({"duplicate_insights": lambda given: tuple((0, 1) for _ in given["insights"][1:2])})
        subtopic = PlannedSubtopic("s1", "Money", "Money", "", sides)
        assert run(verifier(model).insights([subtopic], 0)) == set() and model.asked == []

    def test_the_model_assigns_what_words_do_not(self) -> None:
        model = Model({"assign_subtopic": lambda given: 1 if "Insurance" in given["insight"] else None})
        made = verifier(model)
        plain = outline(s1_i1="The gate opens at 9 on Friday.", s2_i1="Lamps for 14 people hang in the yard.")
        dropped = run(made.insights(plain.subtopics, 0))
        assert {"s1-i1", "s2-i1"} <= dropped
        found = {row[0]: row[3] for row in rows(made, "insight_subtopic")}
        assert found["s1-i1"] == found["s2-i1"] == "none"
        assert all(given["subtopics"] == [{"id": 1, "text": "Money"}, {"id": 2, "text": "Safety"}] for _, given in model.asked)

    def test_without_a_model_only_a_sure_landing_elsewhere_drops(self) -> None:
        made = verifier()
        assert run(made.insights(outline(s1_i1="The gate opens at 9 on Friday.").subtopics, 0)) == set()
        assert {row[4] for row in rows(made, "insight_subtopic")} == {"offline"}

    def test_what_passed_is_not_assigned_again(self) -> None:
        model = Model({"assign_subtopic": lambda given: 0 if given["insight"] in (TICKET, INSURANCE) else 1})
        made = verifier(model)
        run(made.insights(outline().subtopics, 0))
        before = len(model.asked)
        run(made.insights(outline(s2_i2="Nine guards watch the gate at night.").subtopics, 1))
        assert [given["insight"] for _, given in model.asked[before:]] in ([], ["Nine guards watch the gate at night."])
        assert [row.subject for row in made.checks if row.kind == "insight_specific" and row.round == 1] == ["s2-i2"]

    def test_a_failure_to_assign_is_raised(self) -> None:
        plain = outline(s1_i1="The gate opens at 9 on Friday.")
        with pytest.raises(NotChecked, match="assign_subtopic"):
            run(verifier(Model({"assign_subtopic": Failed("down", "no answer")})).insights(plain.subtopics, 0))


class TestQueries:
    def asked(self, query: str, model: Model | None = None) -> tuple[bool, list[Check]]:
        made = verifier(model)
        subtopic = outline().subtopics[0]
        asking = PlannedSubtopic("s1", subtopic.name, subtopic.text, query, subtopic.insights)
        return run(made.query(asking, 0)), list(made.checks)

    def test_a_query_that_leaks_nothing(self) -> None:
        passed, made = self.asked("What is reported about money?")
        assert passed and [(row.subject, row.object, row.found) for row in made] == [("s1", "s1-i1", "no"), ("s1", "s1-i2", "no")]

    def test_a_query_that_tells_an_insight(self) -> None:
        query = "Why does a ticket cost 28 pounds for adults?"
        passed, made = self.asked(query)
        assert not passed and (made[0].found, made[0].evidence) == ("yes", query)

    @pytest.mark.parametrize(("leaked", "passed"), [((), True), ((0,), False), ((5,), True)])
    def test_the_model_where_it_is_not_sure(self, leaked: tuple[int, ...], passed: bool) -> None:
        model = Model({"query_leaks": leaked})
        assert self.asked("Who is 12 in the talk of money?", model)[0] == passed
        assert model.asked[0][1]["insights"] == [{"id": 1, "text": TICKET}]

    def test_what_the_topic_says_leaks_nothing(self) -> None:
        about = insight("s1-i1", "The Demon 170 sprints in 1.66 seconds.")
        for topic, passed in (("The Demon 170", True), ("A car", False)):
            made = Verifier("cell", Model(), {**GIVEN, "topic": topic})
            assert run(made.query(PlannedSubtopic("s1", "Speed", "Speed", "How fast is the Demon 170?", (about,)), 0)) == passed


class TestCopies:
    def test_the_later_of_two_copies(self) -> None:
        made = verifier()
        text = " ".join(f"{TICKET} {RESCUE} {word} stands alone here today." for word in ("Oak", "Elm", "Fir"))
        assert run(made.copies({"d1": text, "d2": FILLER, "d3": text})) == {"d3"}
        assert rows(made, "document_copy") == [("d3", "d1", "no", "yes", "offline"), ("", "", "no", "yes", "offline")]
        assert run(made.copies({"d1": text, "d2": FILLER})) == set()
        assert [(row.round, row.found) for row in made.checks] == [(0, "yes"), (0, "yes"), (1, "no")]


def everything(delays: list[float]) -> tuple[Check, ...]:
    """A verifier's rows, its documents and queries checked at one time, each after its delay."""
    made = verifier()

    async def after(delay: float, work: Coroutine[Any, Any, Any]) -> None:
        await asyncio.sleep(delay)
        await work

    async def all_at_once() -> None:
        planned = outline()
        await made.copies({"d1": TICKET})
        works: list[Coroutine[Any, Any, Any]] = [
            made.document(document("s1-i1", number=number), TICKET, planned.insights, 0) for number in (1, 2, 10)
        ]
        works += [made.query(subtopic, 0) for subtopic in planned.subtopics]
        await asyncio.gather(*(after(delay, work) for delay, work in zip(delays, works, strict=True)))
        await made.insights(planned.subtopics, 0)
        await made.subtopics([("s1", "Money"), ("s2", "Safety")], 0)

    run(all_at_once())
    return made.checks


def test_rows_are_in_one_order_whatever_ends_first() -> None:
    checks = everything([0.0, 0.0, 0.0, 0.0, 0.0])
    assert checks == everything([0.02, 0.01, 0.0, 0.01, 0.0])
    assert [row.position for row in checks] == list(range(len(checks)))
    kinds = list(dict.fromkeys(row.kind for row in checks))
    assert kinds[0] == "subtopic_distinct" and kinds[-3:] == ["query_leak", "document_insight", "document_copy"]
    documents = [row.subject for row in checks if row.kind == "document_insight"]
    assert list(dict.fromkeys(documents)) == ["d1", "d2", "d10"]
    assert {row.cell_id for row in checks} == {"cell"}
