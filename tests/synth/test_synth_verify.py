"""The verifier: offline checks first, the model where they are not sure; each check is a row, in an order without timing."""

from __future__ import annotations

import pytest
from verify_world import (
    ALL,
    FILLER,
    GIVEN,
    HINT,
    INSURANCE,
    STEWARDS,
    TICKET,
    Model,
    document,
    insight,
    outline,
    rows,
    run,
    verifier,
)

from summhay_ray.outcome import Failed, Malformed, NoAnswer, Refusal
from summhay_ray.records import Check
from summhay_ray.synth.checking.verifier import NotChecked, Verifier
from summhay_ray.synth.making.kinds import PlannedSubtopic

pytestmark = pytest.mark.core


class TestDocuments:
    def test_missing_and_extraneous_insights(self) -> None:
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

    def test_the_model_is_asked_once_about_all_unsure_insights(self) -> None:
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

    @pytest.mark.parametrize(
        "claimed",
        [
            "lorem ipsum dolor",
            "The licence requires 14 stewards on duty on Saturday night.",
            "nobody had brought a map",
            "licence",
        ],
    )
    def test_a_model_s_evidence_must_be_in_the_document_and_about_the_insight(self, claimed: str) -> None:
        made = verifier(Model({"insights_present": {0: claimed}}))
        found = run(made.document(document("s2-i1"), f"{FILLER} {HINT}", ALL, 0))
        assert found.missing == ("s2-i1",) or claimed == "licence"
        row = next(row for row in made.checks if row.object == "s2-i1")
        assert row.by == "model/insights_present"
        # The row keeps the evidence, though it does not count.
        assert row.evidence == (claimed if row.found == "yes" else f"not the text's words: {claimed}")

    def test_in_another_language_only_a_clear_absence_is_sure(self) -> None:
        model = Model({"insights_present": {0: TICKET}})
        made = Verifier("cell", model, {**GIVEN, "language": "German"})
        found = run(made.document(document("s1-i1"), f"{TICKET} {FILLER}", ALL, 0))
        assert [one["text"] for one in model.asked[0][1]["insights"]][0] == TICKET and found.missing == ()
        assert {row.object: row.by for row in made.checks}["s1-i1"] == "model/insights_present"

    def test_the_rows_of_a_kept_round_are_repeated_as_the_last_ones(self) -> None:
        made = verifier()
        run(made.document(document("s1-i1"), TICKET, ALL, 0))
        run(made.document(document("s1-i1"), FILLER, ALL, 1))
        made.settle("d1", 0, 2)
        told = [(row.round, row.object, row.found) for row in made.checks if row.object == "s1-i1"]
        assert told == [(0, "s1-i1", "yes"), (1, "s1-i1", "no"), (2, "s1-i1", "yes")]
        assert sum(row.round == 2 for row in made.checks) == len(ALL)

    def test_planned_insights_that_are_nearly_found_are_asked_about(self) -> None:
        nearly = "Adults and children pay for a ticket."
        for planned, asked in (("s1-i1", 1), ("s2-i2", 0)):
            model = Model({"insights_present": {}})
            run(verifier(model).document(document(planned), nearly, ALL, 0))
            assert len(model.asked) == asked

    @pytest.mark.parametrize(
        "outcome", [Failed("rate", "slow", retryable=True), Refusal("no", "never"), Malformed("no_json", "prose")]
    )
    def test_a_missing_answer_is_raised(self, outcome: NoAnswer) -> None:
        with pytest.raises(NotChecked, match="insights_present") as raised:
            run(verifier(Model({"insights_present": outcome})).document(document("s2-i1"), HINT, ALL, 0))
        assert raised.value.outcome is outcome and raised.value.task == "insights_present"


class TestChapters:
    def chapter(self, text: str, model: Model | None = None, expected: str = "s2-i1") -> tuple[bool, Check]:
        made = verifier(model)
        wanted = next(one for one in ALL if one.insight_id == expected)
        return run(made.chapter(text, wanted, outline(), "d1", 0)), made.checks[0]

    def test_a_chapter_with_only_its_insight_passes(self) -> None:
        right, row = self.chapter(f"{FILLER} {STEWARDS}")
        assert right and (row.subject, row.object, row.expected, row.found) == ("d1", "s2-i1", "s2-i1", "s2-i1")
        assert row.evidence == STEWARDS

    def test_a_chapter_with_another_insight_too_fails(self) -> None:
        right, row = self.chapter(f"{STEWARDS} {FILLER} {TICKET}")
        assert not right and (row.found, row.evidence) == ("s1-i1", TICKET)

    @pytest.mark.parametrize(
        ("place", "right", "found"), [(2, True, "s2-i1"), (0, False, "s1-i1"), (None, False, "no"), (9, False, "no")]
    )
    def test_the_model_decides_where_the_offline_check_is_unsure(self, place: int | None, right: bool, found: str) -> None:
        model = Model({"chapter_check": place})
        passed, row = self.chapter(HINT, model)
        assert (passed, row.found, row.by, row.key) == (right, found, "model/chapter_check", "key1")
        given = model.asked[0][1]
        assert [one["id"] for one in given["insights"]] == [1, 2, 3, 4] and len(given["subtopics"]) == 2


class TestOutlines:
    def test_the_later_of_two_overlapping_subtopics_is_dropped(self) -> None:
        made = verifier()
        listed = [("s1", "Ticket prices and money"), ("s2", "Safety and first aid"), ("s3", "Money and ticket prices")]
        assert run(made.subtopics(listed, 0)) == {"s3"}
        assert rows(made, "subtopic_distinct") == [
            ("s1", "", "yes", "yes", "offline"),
            ("s2", "s1", "yes", "yes", "offline"),
            ("s3", "s1", "yes", "no", "offline"),
        ]
        assert made.checks[2].evidence == "Ticket prices and money"

    def test_the_model_sees_all_subtopics_and_finds_overlaps_that_words_do_not_show(self) -> None:
        model = Model({"overlapping_subtopics": ((1, 0),)})
        made = verifier(model)
        assert run(made.subtopics([("s1", "Managing stress"), ("s2", "Coping with anxiety"), ("s3", "Food")], 0)) == {"s2"}
        assert [one["text"] for one in model.asked[0][1]["subtopics"]] == ["Managing stress", "Coping with anxiety", "Food"]
        assert made.checks[1].by == "model/overlapping_subtopics" and made.checks[1].key == "key1"

    def test_settled_subtopics_are_not_compared_again(self) -> None:
        listed = [("s1", "Ticket prices"), ("s2", "Prices of tickets"), ("s3", "Ticket prices and more")]
        model = Model({"overlapping_subtopics": ((0, 1), (0, 2))})
        assert run(verifier(model).subtopics(listed, 0, ["s1", "s2"])) == {"s3"}

    def test_insights_pass(self) -> None:
        made = verifier()
        assert run(made.insights(outline().subtopics, 0)) == set()
        assert [row[3] for row in rows(made, "insight_specific")] == ["yes"] * 4
        assert [row[3] for row in rows(made, "insight_distinct")] == ["yes"] * 4
        assert [row[2] for row in rows(made, "insight_subtopic")] == ["s1", "s1", "s2", "s2"]

    def test_an_unspecific_insight_is_dropped_and_not_checked_further(self) -> None:
        made = verifier()
        assert run(made.insights(outline(s1_i2="The money was well spent.").subtopics, 0)) == {"s1-i2"}
        assert "s1-i2" not in [row[0] for row in rows(made, "insight_distinct") + rows(made, "insight_subtopic")]

    def test_a_duplicate_in_another_subtopic_is_dropped(self) -> None:
        again = "A ticket costs adults 28 pounds of money, and children under 12 come free."
        made = verifier()
        assert "s2-i2" in run(made.insights(outline(s2_i2=again).subtopics, 0))
        assert ("s2-i2", "s1-i1", "yes", "no", "offline") in rows(made, "insight_distinct")

    @pytest.mark.parametrize(
        ("text", "kept"),
        [
            (TICKET.replace("28", "30"), True),
            (f"It is reported that {TICKET}", False),
            ("Pope Francis visited Rio de Janeiro on 22 July 2013.", False),
            (TICKET.replace("28 pounds", "a lot"), False),
        ],
    )
    def test_a_conflicting_insight_must_differ_about_the_same_question(self, text: str, kept: bool) -> None:
        sides = (insight("s1-i1", TICKET, "s1-i9"), insight("s1-i9", text, "s1-i1"))
        made = verifier()
        assert run(made.insights([PlannedSubtopic("s1", "Money", "Money", "", sides)], 0)) == (set() if kept else {"s1-i9"})
        assert rows(made, "insight_conflict") == [("s1-i9", "s1-i1", "yes", "yes" if kept else "no", "offline")]

    def test_an_insight_given_away_by_its_subtopic_is_dropped(self) -> None:
        made = verifier()
        telling = PlannedSubtopic(
            "s1", "Money", "Money: adults pay 28 pounds a ticket, those under 12 nothing", "", outline().subtopics[0].insights
        )
        assert run(made.insights([telling], 0)) == {"s1-i1"}
        assert ("s1", "s1-i1", "no", "yes", "offline") in rows(made, "subtopic_leak")

    def test_the_model_assigns_insights_that_words_do_not(self) -> None:
        model = Model({"assign_subtopic": lambda given: 1 if "Insurance" in given["insight"] else None})
        made = verifier(model)
        plain = outline(s1_i1="The gate opens at 9 on Friday.", s2_i1="Lamps for 14 people hang in the yard.")
        dropped = run(made.insights(plain.subtopics, 0))
        assert {"s1-i1", "s2-i1"} <= dropped
        found = {row[0]: row[3] for row in rows(made, "insight_subtopic")}
        assert found["s1-i1"] == found["s2-i1"] == "none"
        assert all(given["subtopics"] == [{"id": 1, "text": "Money"}, {"id": 2, "text": "Safety"}] for _, given in model.asked)

    def test_in_another_language_offline_checks_drop_nothing(self) -> None:
        german = Verifier("cell", Model(), {**GIVEN, "language": "German"})
        texts = {"s1_i1": "der preis ist hoch.", "s1_i2": "viele leute kamen.", "s2_i1": "es regnete.", "s2_i2": "man wartete."}
        assert run(german.insights(outline(**texts).subtopics, 0)) == set()
        assert run(verifier().insights(outline(**texts).subtopics, 0)) != set()

    def test_an_insight_that_passed_is_not_assigned_again(self) -> None:
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
