"""The engine's view of a synthesis: its items, their queue and data, and the workload of a stored run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from synth_runs import small

from summhay_ray.benchmarks.synth import Synth
from summhay_ray.engine import open_run, workload_of
from summhay_ray.errors import UserError
from summhay_ray.store import Store

pytestmark = pytest.mark.core

HOSTED = {"model": "openai/writer", "api_base": "http://127.0.0.1:9/v1", "price": 0}
CONTEXT = {"topic": "a ferry", "name": "ferry", "participants": ["Ann", "Bo"]}


def test_an_item_is_given_its_whole_topic() -> None:
    # More topics than are read at once.
    grid = small(topics=[CONTEXT, {"made_up": 40}])
    by_source: dict[str, list[Any]] = {}
    for item in grid.items():
        by_source.setdefault(item.source, []).append(item)
    assert len(by_source) > 1
    given = {known: own for source, items in by_source.items() for known, own in grid.prepare(source, items).own.items()}
    assert given == {grid.recipe.cell_id(topic): asdict(topic) for topic in grid.recipe.topics}
    [one, *_] = by_source.values()
    assert list(grid.prepare(one[0].source, one[3:5]).own) == [item.id for item in one[3:5]], "none that is done is read for"


def test_a_stored_synthesis_is_the_workload_that_it_was(tmp_path: Path) -> None:
    grid, store = small(topics=["a tram", CONTEXT], domain="conversation"), Store(str(tmp_path))
    again = workload_of(open_run(grid, store))
    assert isinstance(again, Synth) and again.run_id == grid.run_id and again.spec == grid.spec
    assert again.recipe.domain == grid.recipe.domain and list(again.recipe.topics) == list(grid.recipe.topics)
    assert [again.recipe.of(topic) for topic in again.recipe.topics] == [grid.recipe.of(topic) for topic in grid.recipe.topics]
    assert list(again.items()) == list(grid.items())


@pytest.mark.parametrize(
    ("fields", "computes", "at_once"),
    [
        ({}, True, 2),
        ({"models": {"write": HOSTED}}, False, 16),
        ({"models": {"write": HOSTED}, "limits": {"openai/writer": {"concurrency": 16}}}, False, 4),
        ({"models": {"write": HOSTED}, "limits": {"openai/writer": {"concurrency": 2}}}, False, 2),
        # Haystacks of ten million words are made one at a time.
        ({"documents": 10_000, "words": 1000, "difficulty": {}}, True, 1),
    ],
)
def test_a_worker_holds_few_topics_at_once(fields: dict[str, Any], computes: bool, at_once: int) -> None:
    [queue] = small(**fields).queues().values()
    assert (queue.computes, queue.max_in_flight, queue.batch_size) == (computes, at_once, 1)


def test_a_plan_that_cannot_be_valid_is_refused_before_any_call() -> None:
    with pytest.raises(UserError) as caught:
        small(documents=2, difficulty={"least": 5})
    assert "\n" not in str(caught.value)
