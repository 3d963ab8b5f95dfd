"""An outline: what fails a check is requested again within bounds, and the outline ends with a reason if that fails."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import pytest
from synth_world import FakeVerifier, World, domain, job

from summhay_ray.synth import Difficulty, Shape
from summhay_ray.synth.making.asking import GaveUp, Work
from summhay_ray.synth.making.kinds import PlannedHaystack
from summhay_ray.synth.making.outline import make_outline

pytestmark = pytest.mark.core


def made(world: World, eyes: FakeVerifier | None = None, **changes: Any) -> PlannedHaystack:
    return asyncio.run(make_outline(Work(job(**changes), world), eyes or FakeVerifier()))


def gave_up(world: World, **changes: Any) -> GaveUp:
    with pytest.raises(GaveUp) as caught:
        made(world, **changes)
    return caught.value


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


@pytest.mark.parametrize("distractors", [1, 2, 5])
def test_distractors_do_not_change_the_other_subtopics(distractors: int) -> None:
    faults = {"subtopics": 0.5, "insights": 0.3, "query": 0.3}
    plain = made(World(faults=faults, seed=5)).subtopics
    asked = [
        one for one in made(World(faults=faults, seed=5), difficulty=Difficulty(distractors=distractors)).subtopics if one.asked
    ]
    assert [(one.text, one.query) for one in asked] == [(one.text, one.query) for one in plain]


def test_a_failed_conflict_is_replaced_by_one_of_another_insight() -> None:
    world = World(faults={"conflicting_insight": 0.5}, seed=4)
    outline = made(world, difficulty=Difficulty(conflicts=3))
    assert sum(bool(one.conflicts_with) for one in outline.insights) == 2 * 3
    assert 3 < world.count("conflicting_insight") <= 12
    reason = gave_up(World(faults={"conflicting_insight": 1}), difficulty=Difficulty(conflicts=3))
    assert (reason.stage, reason.error) == ("insights", "too_few_conflicts")
    assert "0 of 3 insights got a conflicting one" in reason.message


def test_a_leaking_query_is_requested_again_until_the_outline_fails() -> None:
    world = World(faults={"query": 0.5}, seed=3)
    outline = made(world)
    assert world.count("query") > 4 and all(one.query == f"What of {one.text}?" for one in outline.subtopics)
    reason = gave_up(World(faults={"query": 1}), domain=domain(outline_rounds=2))
    assert (reason.stage, reason.error) == ("queries", "query_leaks") and "after 2 regenerations" in reason.message


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
