"""An outline: what fails a check is requested again within bounds, and the outline ends with a reason if that fails."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from synth_world import SMALL, FakeVerifier, World, domain, job

from summhay_ray.outcome import Failed
from summhay_ray.synth import Difficulty, Shape, Topic, TopicRecipe
from summhay_ray.synth.making.asking import GaveUp, Work
from summhay_ray.synth.making.kinds import PlannedHaystack
from summhay_ray.synth.making.outline import half, make_outline, seeded

pytestmark = pytest.mark.core


def made(world: World, eyes: FakeVerifier | None = None, **changes: Any) -> PlannedHaystack:
    return asyncio.run(make_outline(Work(job(**changes), world), eyes or FakeVerifier()))


def gave_up(world: World, **changes: Any) -> GaveUp:
    with pytest.raises(GaveUp) as caught:
        made(world, **changes)
    return caught.value


def test_without_faults_everything_is_requested_once() -> None:
    world = World()
    outline = made(world)
    assert [one.subtopic_id for one in outline.subtopics] == ["s1", "s2", "s3", "s4"]
    assert [one.insight_id for one in outline.subtopics[1].insights] == ["s2-i1", "s2-i2", "s2-i3"]
    assert [one.query for one in outline.subtopics] == [f"What of Theme {place}?" for place in range(4)]
    assert [world.count(task) for task in ("subtopics", "insights", "query", "conflicting_insight")] == [1, 4, 4, 0]


def test_requests_for_insights_show_those_of_other_subtopics() -> None:
    world = World()
    made(world, topic=Topic("t", "rain", ("Bo",), ("a seed",)))
    third = [given for task, given, _ in world.calls if task == "insights"][2]
    assert (third["subtopic"], third["n"], third["avoid"]) == ("Theme 2", 3, [])
    assert [one["subtopic"] for one in third["others"]] == ["Theme 0", "Theme 1", "Theme 3"]
    assert [len(one["insights"]) for one in third["others"]] == [3, 3, 0]
    assert (third["participants"], third["context"], third["topic"]) == (["Bo"], ["a seed"], "rain")


def test_a_dropped_subtopic_is_replaced_and_listed_as_to_be_avoided() -> None:
    class Once(World):
        def _do_subtopics(self, given: Any, bad: bool, chance: Any) -> Any:
            return (
                super()._do_subtopics(given, bad, chance) if given["avoid"] else (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"))
            )

    world = Once()
    outline = made(world)
    assert [one.subtopic_id for one in outline.subtopics] == ["s1", "s3", "s4", "s5"]
    (_, first, sample), (_, second, again) = [call for call in world.calls if call[0] == "subtopics"]
    assert (first["n"], first["avoid"], sample) == (4, [], 0)
    assert (second["n"], [one["text"] for one in second["avoid"]], again) == (1, ["x", "y", "z", "x"], 1)


def test_a_dropped_insight_is_replaced_under_a_new_id() -> None:
    class Vague(World):
        def _do_insights(self, given: Any, bad: bool, chance: Any) -> Any:
            return super()._do_insights(given, given["subtopic"] == "Theme 1" and len(given["avoid"]) < 4, chance)

    world, eyes = Vague(), FakeVerifier()
    outline = made(world, eyes)
    assert [one.insight_id for one in outline.subtopics[1].insights] == ["s2-i2", "s2-i3", "s2-i5"]
    theirs = [call for call in world.calls if call[0] == "insights" and call[1]["subtopic"] == "Theme 1"]
    asked = [(given["n"], len(given["avoid"]), sample) for _, given, sample in theirs]
    assert asked == [(3, 0, 0), (1, 3, 1), (1, 4, 2)]
    assert world.count("insights") == 4 + 2
    assert [round for (what, round) in eyes.rounds if what == "insights"] == [0, 1, 2]


def test_a_subtopic_with_fewer_than_three_insights_is_dropped_until_too_few_are_left() -> None:
    class Poor(World):
        def _do_insights(self, given: Any, bad: bool, chance: Any) -> Any:
            return super()._do_insights(given, given["subtopic"] in self.poor, chance)

    world = Poor()
    world.poor = ("Theme 1", "Theme 3")  # type: ignore[attr-defined]
    outline = made(world)
    assert [one.subtopic_id for one in outline.subtopics] == ["s1", "s3"]
    # The third insight of both is requested in each of the three rounds.
    assert world.count("insights") == 4 + 2 * 3
    world.poor = ("Theme 0", "Theme 1", "Theme 3")  # type: ignore[attr-defined]
    reason = gave_up(world)
    assert (reason.stage, reason.error) == ("subtopics", "too_few_subtopics")
    # Three of four requested insights are enough.
    assert [len(one.insights) for one in made(world, shape=Shape(4, 4, 12)).subtopics] == [3, 3, 4, 3]


def test_distractors_come_last_and_have_no_query() -> None:
    world = World()
    outline = made(world, difficulty=Difficulty(distractors=2))
    assert [one.asked for one in outline.subtopics] == [True] * 4 + [False] * 2
    assert [one.query for one in outline.subtopics[4:]] == ["", ""]
    assert world.count("query") == 4 and world.count("insights") == 6


@pytest.mark.parametrize("distractors", [1, 2, 5])
def test_distractors_do_not_change_the_other_subtopics(distractors: int) -> None:
    faults = {"subtopics": 0.5, "insights": 0.3, "query": 0.3}
    plain = made(World(faults=faults, seed=5)).subtopics
    asked = [
        one for one in made(World(faults=faults, seed=5), difficulty=Difficulty(distractors=distractors)).subtopics if one.asked
    ]
    assert [(one.text, one.query) for one in asked] == [(one.text, one.query) for one in plain]


def test_conflicting_insights_name_each_other_and_belong_to_subtopics_with_queries() -> None:
    outline = made(World(), difficulty=Difficulty(conflicts=5, distractors=1))
    by_id = {one.insight_id: one for one in outline.insights}
    sides = [one for one in outline.insights if one.conflicts_with]
    assert len(sides) == 2 * 5 and len(by_id) == 5 * 3 + 5
    for one in sides:
        other = by_id[one.conflicts_with]
        assert other.conflicts_with == one.insight_id and other.subtopic_id == one.subtopic_id != "s5"
        assert other.text != one.text
    # One in each of the four subtopics before a second in any.
    assert sorted(sum(bool(one.conflicts_with) for one in subtopic.insights) for subtopic in outline.subtopics) == [0, 2, 2, 2, 4]


def test_a_failed_conflict_is_replaced_by_one_of_another_insight() -> None:
    world = World(faults={"conflicting_insight": 0.5}, seed=4)
    outline = made(world, difficulty=Difficulty(conflicts=3))
    assert sum(bool(one.conflicts_with) for one in outline.insights) == 2 * 3
    assert 3 < world.count("conflicting_insight") <= 12
    reason = gave_up(World(faults={"conflicting_insight": 1}), difficulty=Difficulty(conflicts=3))
    assert (reason.stage, reason.error) == ("insights", "too_few_conflicts")
    assert "0 of 3 insights got a conflicting one" in reason.message


def test_a_conflict_that_fails_its_checks_is_undone() -> None:
    class Strict(FakeVerifier):
        async def insights(self, subtopics: Any, round: int) -> set[str]:
            found = [one for subtopic in subtopics for one in subtopic.insights]
            first = next((one.insight_id for one in found if one.insight_id.endswith("-i4")), "")
            return {first} if first and round == 1 else set()

    outline = made(World(), Strict(), difficulty=Difficulty(conflicts=2))
    texts = {one.insight_id: one for one in outline.insights}
    pairs = {(one.insight_id, one.conflicts_with) for one in outline.insights if one.conflicts_with}
    assert len(pairs) == 4 and all((other, one) in pairs for one, other in pairs)
    assert len(texts) == 12 + 2


def test_a_leaking_query_is_requested_again_until_the_outline_fails() -> None:
    world = World(faults={"query": 0.5}, seed=3)
    outline = made(world)
    assert world.count("query") > 4 and all(one.query == f"What of {one.text}?" for one in outline.subtopics)
    reason = gave_up(World(faults={"query": 1}), domain=domain(outline_rounds=2))
    assert (reason.stage, reason.error) == ("queries", "query_leaks") and "after 2 regenerations" in reason.message


@pytest.mark.parametrize(("task", "stage"), [("subtopics", "subtopics"), ("insights", "insights"), ("query", "queries")])
def test_a_failed_call_ends_the_outline_in_its_stage(task: str, stage: str) -> None:
    reason = gave_up(World(always={task: Failed("budget", "spent", "k", retryable=True)}))
    assert (reason.stage, reason.error) == (stage, "budget") and reason.outcome is not None and reason.outcome.key == "k"


def test_the_order_of_answers_does_not_change_the_outline() -> None:
    class Slow(World):
        async def ask(self, task: Any, given: Any, sample: int = 0) -> Any:
            outcome = await super().ask(task, given, sample)
            for _ in range(zlib.crc32(f"{given.get('subtopic')} {self.busiest}".encode()) % 7):
                await asyncio.sleep(0)
            return outcome

    rates = {"subtopics": 0.5, "insights": 0.3, "query": 0.3, "conflicting_insight": 0.3}
    wanted: dict[str, Any] = {"difficulty": Difficulty(conflicts=2, distractors=1)}
    assert made(World(rates, seed=11), **wanted) == made(Slow(rates, seed=11), **wanted)


def test_half_rounds_up_and_seeds_are_reproducible() -> None:
    assert [half(wanted) for wanted in (0, 1, 2, 3, 9)] == [0, 1, 1, 2, 5]
    assert seeded(1, "a").random() == seeded(1, "a").random() != seeded(1, "b").random()
    assert isinstance(job(), TopicRecipe) and SMALL.documents == 12
