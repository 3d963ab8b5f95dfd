"""The topics of a synthesis: made-up ones never repeat, and names distinguish topics without changing the haystacks."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, small, write_files

from summhay_ray.benchmarks.synth.spec import MOST_MADE_UP
from summhay_ray.benchmarks.synth.topics import made_by, made_up
from summhay_ray.errors import UserError
from summhay_ray.store import Store

pytestmark = pytest.mark.core

ONE, OTHER = "Café strike", "cafe strike!"
"""Two topics of one name, cafe_strike."""


def named(*topics: Any, **fields: Any) -> list[str]:
    return [topic.name for topic in small(topics=list(topics), **fields).recipe.topics]


def refusal(*topics: Any) -> str:
    with pytest.raises(UserError) as caught:
        small(topics=list(topics))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_made_up_topic_that_is_written_as_well_is_refused() -> None:
    third = list(made_up(0, 3))[2]
    said = refusal(third, {"made_up": 3})
    assert f"{third!r} is listed twice and would give the same insights; reword it, or use another seed" in said
    assert len(named(third, {"made_up": 2})) == 3, "the third is not made up"
    assert len(named({"topic": third, "participants": ["Ann"]}, {"made_up": 3})) == 4, "asked otherwise"


def test_files_of_one_text_do_not_make_two_topics_of_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.txt": "The ferry sank.", "b.txt": "The ferry sank.", "c.txt": "The ferry swam."})
    first, same, third = ({"topic": "a ferry", "context": [str(tmp_path / f"{name}.txt")]} for name in "abc")
    assert "'a ferry' is listed twice" in refusal(first, same)
    assert len(set(named(first, third))) == 2


@pytest.mark.soak
def test_a_hundred_thousand_topics_take_seconds() -> None:
    began = time.process_time()
    found = small(topics=[{"made_up": MOST_MADE_UP - 1}, "a ferry"]).recipe.topics
    # About one second; comparing each name with all earlier ones would take half an hour.
    assert time.process_time() - began < 30
    assert len({topic.name for topic in found}) == MOST_MADE_UP


def test_topics_with_the_same_name_are_distinguished_by_content() -> None:
    one, other = named(ONE, OTHER)
    assert one[:12] == other[:12] == "cafe_strike_" and one != other and len(one) == len(other) == 20
    assert int(one[12:], 16) != int(other[12:], 16)
    assert named(OTHER, "a ferry", ONE) == [other, "a_ferry", one], "not by their order"
    assert named(ONE, OTHER, "CAFE STRIKE")[:2] == [one, other], "nor by how many there are"
    assert named(ONE, seed=4) == named(ONE) == ["cafe_strike"], "one alone needs nothing"


def test_a_given_name_is_kept_and_another_makes_room() -> None:
    one, other = named(ONE, OTHER)
    assert named({"topic": "a ferry", "name": "Cafe_Strike"}, ONE) == ["Cafe_Strike", one]
    assert named({"topic": OTHER, "name": "second"}, ONE) == ["second", "cafe_strike"]
    assert f"'Café strike' would get the name of another topic, '{one}'; give it a name" in refusal(
        {"topic": "a ferry", "name": one}, ONE, OTHER
    )
    # Two topics with the same words but other speakers; two whose names are cut at the same place.
    assert len(set(named("a ferry", {"topic": "a ferry", "participants": ["Ann"]}))) == 2
    long = named(f"{'a very long strike ' * 4}in May", f"{'a very long strike ' * 4}in June")
    assert len(set(long)) == 2 and max(map(len, long)) <= 60
    assert len(set(named("罢工", "渡轮"))) == 2


def test_what_is_made_of_a_topic_does_not_hang_on_its_neighbours(tmp_path: Path) -> None:
    both, single = small(topics=[ONE, OTHER]), small(topics=[OTHER])
    (first, second), (alone_too,) = both.recipe.topics, single.recipe.topics
    assert both.recipe.cell_id(second) == single.recipe.cell_id(alone_too) != both.recipe.cell_id(first)
    assert both.recipe.of(second) == single.recipe.of(alone_too)
    store = Store(str(tmp_path))
    first, before = run_inline(both, store)
    again, after = run_inline(single, store)
    assert before.calls["made"] > 0 == after.calls["made"], "every answer is there, so none is paid for twice"
    assert after.calls["reused"] > 0
    cell = single.recipe.cell_id(single.recipe.topics[0])
    assert made_by(again)[cell].digest == made_by(first)[cell].digest, "the same haystack, to the byte"
    assert [one.name for one in before.scores.haystacks] == [topic.name for topic in both.recipe.topics]
    assert [one.name for one in after.scores.haystacks] == ["cafe_strike"]
