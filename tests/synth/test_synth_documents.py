"""Documents are written, verified, edited and written again, all within bounds; the truth is what was found in their texts."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synth_world import SMALL, FakeVerifier, World, domain, job

from summhay_ray.outcome import Refusal
from summhay_ray.synth import Difficulty, Topic
from summhay_ray.synth.making.asking import GaveUp, Work
from summhay_ray.synth.making.documents import REWRITES, write_documents
from summhay_ray.synth.making.kinds import PlannedDocument, PlannedHaystack, Written
from summhay_ray.synth.making.outline import make_outline
from summhay_ray.synth.making.placement import place

pytestmark = pytest.mark.core

PLAN = Difficulty(documents_per_insight=7, conflicts=1, distractors=1, cross_references=0.5)
Result = tuple[PlannedHaystack, tuple[PlannedDocument, ...], tuple[Written, ...]]


def written(world: World, eyes: FakeVerifier | None = None, **changes: Any) -> Result:
    async def main() -> Result:
        work = Work(job(**{"difficulty": PLAN, "shape": replace(SMALL, documents=20), **changes}), world)
        outline = await make_outline(Work(work.recipe, World()), FakeVerifier())
        planned = place(outline, work.recipe.shape, work.recipe.difficulty, work.recipe.domain, 1)
        return outline, planned, await write_documents(work, eyes or FakeVerifier(), outline, planned)

    return asyncio.run(main())


def gave_up(world: World, eyes: FakeVerifier | None = None, **changes: Any) -> GaveUp:
    with pytest.raises(GaveUp) as caught:
        written(world, eyes, **changes)
    return caught.value


def sound(result: Result, least: int = 5) -> bool:
    """Whether the documents' annotations match their texts, and are sound."""
    outline, planned, documents = result
    other = {one.insight_id: one.conflicts_with for one in outline.insights}
    counts = Counter(one for document in documents for one in document.planned.insight_ids)
    for plan, document in zip(planned, documents, strict=True):
        held = document.planned.insight_ids
        assert document.planned.document_id == plan.document_id and held
        assert set(held) == {one.insight_id for one in outline.insights if one.text in document.text}
        assert not any(other[one] in held for one in held)
    return min(counts[one.insight_id] for one in outline.insights) >= least


@pytest.mark.parametrize("method", ["whole", "chapters"])
def test_without_faults_each_document_is_written_and_checked_once(method: str) -> None:
    world, eyes = World(), FakeVerifier()
    outline, planned, documents = written(world, eyes, domain=domain(method))
    assert [one.planned for one in documents] == list(planned) and {one.corrections for one in documents} == {0}
    assert sound((outline, planned, documents))
    # 5 subtopics of 3 and another side are 16 insights in 7 documents each.
    assert world.count("document") + world.count("chapter") == (20 if method == "whole" else 16 * 7)
    assert eyes.rounds["document", 0] == 20 and eyes.rounds["chapter", 0] == world.count("chapter")


def test_the_input_of_a_document_is_complete() -> None:
    world = World()
    outline, planned, documents = written(world)
    texts = {one.insight_id: one.text for one in outline.insights}
    subtopics = {one.insight_id: one.subtopic_id for one in outline.insights}
    asked = {given["number"]: given for task, given, _ in world.calls if task == "document"}
    for plan in planned:
        given = asked[plan.number]
        assert [one["text"] for one in given["insights"]] == [texts[one] for one in plan.insight_ids]
        touched = {subtopics[one] for one in plan.insight_ids}
        rest = [one for one in texts if subtopics[one] in touched and one not in plan.insight_ids]
        assert sorted(given["avoid"]) == sorted(texts[one] for one in rest)
        assert (given["words"], given["paraphrase"], given["genre"], given["date"]) == (150, 1, "a news article", plan.date)
        headlines = [(planned[number - 1].date, f"Number {number} opens.") for number in plan.refers_to]
        assert [(one["date"], one["headline"]) for one in given["references"]] == headlines
    assert sum(bool(one.refers_to) for one in planned) == 10
    assert documents[0].text.startswith("Number 1 opens.")


def test_a_reference_quotes_the_first_sentence_that_carries_no_insight_and_not_its_speaker() -> None:
    class Spoken(World):
        def _do_document(self, given: Any, bad: bool, chance: Any) -> Any:
            facts = " ".join(one["text"] for one in given["insights"])
            return f"Ann: {facts}\nBo: Number {given['number']} was a good day. And so on.\nAnn: Yes."

    world = Spoken()
    _, planned, _ = written(world, topic=Topic("t", "rain", ("Ann", "Bo")))
    asked = [given for task, given, _ in world.calls if task == "document" and given["references"]]
    assert len(asked) == 10
    for one in asked:
        (earlier,) = planned[one["number"] - 1].refers_to
        assert [other["headline"] for other in one["references"]] == [f"Number {earlier} was a good day."]


def test_documents_are_edited_until_no_insight_is_missing_or_extraneous() -> None:
    world = World(faults={"document": 1, "edit_document": 0.3}, seed=1)
    result = written(world)
    outline, planned, documents = result
    assert sound(result) and [set(one.planned.insight_ids) for one in documents] == [set(one.insight_ids) for one in planned]
    assert world.count("edit_document") == sum(one.corrections for one in documents) >= 20
    edits = [given for task, given, _ in world.calls if task == "edit_document"]
    assert all(given["remove"] or given["add"] for given in edits)
    assert any(given["remove"] for given in edits) and any(given["add"] for given in edits)
    assert all(one["evidence"] in given["document"] for given in edits for one in given["remove"])


def test_a_chapter_that_never_passes_is_left_out_after_its_tries_and_added_by_editing() -> None:
    class Deaf(World):
        def _do_chapter(self, given: Any, bad: bool, chance: Any) -> Any:
            return super()._do_chapter(given, given["insight"] == "Theme 2 has fact 1.", chance)

    world, eyes = Deaf(), FakeVerifier()
    result = written(world, eyes, domain=domain("chapters", tries=3))
    assert sound(result)
    # 7 documents hold the insight: 4 chapters each instead of 1, then one round of editing.
    assert world.count("chapter") == 16 * 7 + 7 * 3 and world.count("edit_document") == 7
    assert [eyes.rounds["chapter", round] for round in range(4)] == [16 * 7, 7, 7, 7]


def test_where_editing_fails_the_plan_is_corrected_if_each_insight_keeps_its_least() -> None:
    world = World(faults={"document": 0.3, "edit_document": 1}, seed=1)
    result = written(world, difficulty=replace(PLAN, least=4))
    outline, planned, documents = result
    assert sound(result, 4)
    pairs = list(zip(documents, planned, strict=True))
    changed = [one for one, plan in pairs if set(one.planned.insight_ids) != set(plan.insight_ids)]
    assert changed and all(one.corrections == 5 for one in changed)
    # Some documents lost an insight and some got another one, and editing mended neither.
    assert {len(one.planned.insight_ids) - len(plan.insight_ids) for one, plan in zip(documents, planned, strict=True)} == {
        -1,
        0,
        1,
    }


def test_documents_of_an_insight_below_its_least_are_written_again_until_it_fails() -> None:
    class Forgets(World):
        def _do_document(self, given: Any, bad: bool, chance: Any) -> Any:
            text: str = super()._do_document(given, False, chance)
            return text.replace("Theme 1 has fact 0.", "")

        def _do_edit_document(self, given: Any, bad: bool, chance: Any) -> Any:
            return given["document"]

    world = Forgets()
    reason = gave_up(world)
    assert (reason.stage, reason.error) == ("documents", "unsound_truth")
    assert "it lacks insight s2-i1, which is in 0 documents and must be in 5, after 2 rewritings (7 such)" in reason.message
    samples = Counter(sample for task, _, sample in world.calls if task == "document")
    assert samples[0] == 20 and 7 <= samples[1] == samples[2] <= 20 and REWRITES == 2 and max(samples) == 2
    # Five rounds of editing for each of the seven, however often they are written.
    assert world.count("edit_document") == 7 * 5


def test_near_copies_and_documents_that_refer_to_them_are_written_again() -> None:
    world, eyes = World(), FakeVerifier([{"d03", "d07"}])
    result = written(world, eyes)
    assert sound(result)
    again = {given["number"] for task, given, sample in world.calls if task == "document" and sample == 1}
    expected = {3, 7}
    for plan in result[1]:
        if expected.intersection(plan.refers_to):
            expected.add(plan.number)
    assert again == expected and world.count("document") == 20 + len(expected)
    first, second = (
        next(given for task, given, sample in world.calls if task == "document" and given["number"] == 3 and sample == time)
        for time in (0, 1)
    )
    assert first["insights"] != second["insights"]
    assert sorted(one["text"] for one in first["insights"]) == sorted(one["text"] for one in second["insights"])


def refusing(times: int) -> World:
    """A world that refuses document 4 a given number of times."""

    class Prude(World):
        async def ask(self, task: Any, given: Any, sample: int = 0) -> Any:
            outcome = await super().ask(task, given, sample)
            refused = given.get("number") == 4 and sum(one.get("number") == 4 for _, one, _ in self.calls) <= times
            return Refusal("content_filter", "filtered", "k") if refused else outcome

    return Prude()


def test_a_refused_document_is_requested_again_in_another_order_until_it_fails() -> None:
    world = refusing(2)
    result = written(world)
    assert sound(result)
    orders = [[one["text"] for one in given["insights"]] for task, given, _ in world.calls if given.get("number") == 4]
    assert len(orders) == 3 and orders[0] != orders[1] != orders[2] and sorted(orders[0]) == sorted(orders[2])
    # Documents that refer to it are written again, too, since there was nothing to quote.
    assert world.count("document") >= 20 + 2
    reason = gave_up(refusing(3))
    assert (reason.stage, reason.error) == ("documents", "content_filter")


@given(st.sampled_from(["whole", "chapters"]), st.floats(0, 0.6), st.floats(0, 0.9), st.integers(0, 9))
def test_documents_end_sound_or_with_a_reason_and_calls_are_bounded(method: str, bad: float, unmended: float, seed: int) -> None:
    rates = {"document": bad, "chapter": bad, "edit_document": unmended}
    world = World(rates, seed=seed)
    assert outcome(world, method) == outcome(World(rates, seed=seed), method)
    assert world.count("document") <= 20 * 3 and world.count("chapter") <= 16 * 7 * 3 * 3
    assert world.count("edit_document") <= 20 * 2 * 3
    keys = [str(call) for call in world.calls]
    assert len(set(keys)) == len(keys), "no two requests are the same"


def outcome(world: World, method: str) -> Any:
    try:
        result = written(world, domain=domain(method, tries=2, rounds=2))
    except GaveUp as reason:
        assert (reason.stage, reason.error) == ("documents", "unsound_truth")
        return reason.message
    assert sound(result)
    return result
