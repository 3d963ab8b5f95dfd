"""The verifier's checks of queries and copies, and the order of all rows, which does not depend on timing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from verify_world import (
    FILLER,
    GIVEN,
    RESCUE,
    TICKET,
    Model,
    document,
    insight,
    outline,
    rows,
    run,
    verifier,
)

from summhay_ray.records import Check
from summhay_ray.synth.checking.verifier import Verifier
from summhay_ray.synth.making.kinds import PlannedSubtopic

pytestmark = pytest.mark.core


class TestQueries:
    def asked(self, query: str, model: Model | None = None) -> tuple[bool, list[Check]]:
        made = verifier(model)
        subtopic = outline().subtopics[0]
        asking = PlannedSubtopic("s1", subtopic.name, subtopic.text, query, subtopic.insights)
        return run(made.query(asking, [], 0)), list(made.checks)

    def test_a_query_that_leaks_nothing_passes(self) -> None:
        passed, made = self.asked("What is reported about money?")
        assert passed and [(row.subject, row.object, row.found) for row in made] == [("s1", "s1-i1", "no"), ("s1", "s1-i2", "no")]

    def test_a_query_that_gives_an_insight_away_is_found(self) -> None:
        query = "Why does a ticket cost 28 pounds for adults?"
        passed, made = self.asked(query)
        assert not passed and (made[0].found, made[0].evidence) == ("yes", query)

    @pytest.mark.parametrize(("leaked", "passed"), [((), True), ((0,), False), ((5,), True)])
    def test_the_model_decides_where_the_offline_check_is_unsure(self, leaked: tuple[int, ...], passed: bool) -> None:
        model = Model({"query_leaks": leaked})
        assert self.asked("Who is 12 in the talk of money?", model)[0] == passed
        assert model.asked[0][1]["insights"] == [{"id": 1, "text": TICKET}]

    def test_words_of_the_topic_leak_nothing(self) -> None:
        about = insight("s1-i1", "The Demon 170 sprints in 1.66 seconds.")
        for topic, passed in (("The Demon 170", True), ("A car", False)):
            made = Verifier("cell", Model(), {**GIVEN, "topic": topic})
            assert (
                run(made.query(PlannedSubtopic("s1", "Speed", "Speed", "How fast is the Demon 170?", (about,)), [], 0)) == passed
            )


class TestCopies:
    def test_the_later_of_two_copies_is_named(self) -> None:
        made = verifier()
        text = " ".join(f"{TICKET} {RESCUE} {word} stands alone here today." for word in ("Oak", "Elm", "Fir"))
        assert run(made.copies({"d1": text, "d2": FILLER, "d3": text})) == {"d3"}
        assert rows(made, "document_copy") == [("d3", "d1", "no", "yes", "offline"), ("", "", "no", "yes", "offline")]
        assert run(made.copies({"d1": text, "d2": FILLER})) == set()
        assert [(row.round, row.found) for row in made.checks] == [(0, "yes"), (0, "yes"), (1, "no")]


def everything(delays: list[float]) -> tuple[Check, ...]:
    """The rows of a verifier whose documents and queries are checked concurrently, each after its delay."""
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
        works += [made.query(subtopic, [], 0) for subtopic in planned.subtopics]
        await asyncio.gather(*(after(delay, work) for delay, work in zip(delays, works, strict=True)))
        await made.insights(planned.subtopics, 0)
        await made.subtopics([("s1", "Money"), ("s2", "Safety")], 0)

    run(all_at_once())
    return made.checks


def test_the_order_of_rows_does_not_depend_on_timing() -> None:
    checks = everything([0.0, 0.0, 0.0, 0.0, 0.0])
    assert checks == everything([0.02, 0.01, 0.0, 0.01, 0.0])
    assert [row.position for row in checks] == list(range(len(checks)))
    kinds = list(dict.fromkeys(row.kind for row in checks))
    assert kinds[0] == "subtopic_distinct" and kinds[-3:] == ["query_leak", "document_insight", "document_copy"]
    documents = [row.subject for row in checks if row.kind == "document_insight"]
    assert list(dict.fromkeys(documents)) == ["d1", "d2", "d10"]
    assert {row.cell_id for row in checks} == {"cell"}
