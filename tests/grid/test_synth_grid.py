"""What lanes, streams and workers see of a synthesis, and the main job on what each domain gives. No Ray."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import answer_all
from synth_runs import small, synthesize_all

from summhay_ray import api
from summhay_ray.grid.lanes import Packet, lane_settings, make_gates, order_text, read_order
from summhay_ray.grid.rejudging import stored_grid
from summhay_ray.grid.standing import StillRun, standing_of
from summhay_ray.grid.streams import TopicReader
from summhay_ray.grid.synth import made_haystacks, open_synth
from summhay_ray.grid.synth_topics import stored_topics, topic_from
from summhay_ray.grid.synthesizing import Made, Synthesizing, topic_cell
from summhay_ray.grid.worker import WorkOrder
from summhay_ray.problems import Problem
from summhay_ray.store import Store
from summhay_ray.synth import domain_names

pytestmark = pytest.mark.core

HOSTED = {"model": "openai/writer", "api_base": "http://127.0.0.1:9/v1", "price": 0}
CONTEXT = {"topic": "a ferry", "name": "ferry", "participants": ["Ann", "Bo"]}


def test_a_topic_is_a_cell_with_no_judgments() -> None:
    grid = small(topics=["a tram", CONTEXT])
    cells = list(grid.cells())
    assert [cell.unit.haystack_id for cell in cells] == ["a_tram", "ferry"] and grid.n_cells == 2
    assert len({cell.cell_id for cell in cells}) == 2 and {cell.summarizer for cell in cells} == {0}
    assert [grid.topic_of[cell.unit].name for cell in cells] == ["a_tram", "ferry"]


def test_where_a_synthesis_stands(tmp_path: Path) -> None:
    grid, store = small(topics=["a tram", CONTEXT]), Store(str(tmp_path))
    standing = standing_of(grid, StillRun(open_synth(grid, store)))
    assert (standing.total, sum(standing.judgments().values()), len(standing.left())) == (2, 0, 2)


def test_a_stored_synthesis_is_the_grid_that_it_was(tmp_path: Path) -> None:
    grid, store = small(topics=["a tram", CONTEXT], domain="conversation"), Store(str(tmp_path))
    run = open_synth(grid, store)
    again = stored_grid(store, run.record)
    assert isinstance(again, Synthesizing) and again.run_id == grid.run_id == run.run_id
    assert again.domain == grid.domain and list(again.topics) == list(grid.topics)
    assert [again.job(topic) for topic in again.topics] == [grid.job(topic) for topic in grid.topics]


def test_topics_travel_with_all_that_they_are_made_of(tmp_path: Path) -> None:
    grid, store = small(topics=["a tram", CONTEXT]), Store(str(tmp_path))
    run = open_synth(grid, store)
    kept = stored_topics(store, run.record)
    assert [cell for cell, _ in kept] == [cell.cell_id for cell in grid.cells()]
    order = WorkOrder(store.uri, run.run_id, 1, grid.spec.model_dump(mode="json"), {})
    found = TopicReader(order)({"unit": np.array([json.dumps([kept[1][0]])], dtype=object)})
    [packet] = read_order(found["unit"][0])
    assert packet == Packet(0, (topic_cell(*kept[1]),), topic=json.loads(json.dumps(asdict(grid.topics[1]))))
    assert packet.topic is not None and topic_from(packet.topic) == grid.topics[1]
    assert list(read_order(order_text([packet]))) == [packet]


@pytest.mark.parametrize(
    ("fields", "kind", "at_once"),
    [
        ({}, "computing", 2),
        ({"models": {"write": HOSTED}}, "calling", 16),
        ({"models": {"write": HOSTED}, "limits": {"openai/writer": {"concurrency": 16}}}, "calling", 4),
        ({"models": {"write": HOSTED}, "limits": {"openai/writer": {"concurrency": 2}}}, "calling", 2),
        # Of haystacks of ten million words none is made beside another.
        ({"documents": 10_000, "words": 1000, "difficulty": {}}, "computing", 1),
    ],
)
def test_a_worker_holds_few_topics_at_once(fields: dict[str, Any], kind: str, at_once: int) -> None:
    grid = small(**fields)
    [lane] = lane_settings(grid, {0: 500}, workers=3).values()
    assert (lane.kind, lane.at_once, lane.an_order, lane.workers) == (kind, at_once, 1, 3)
    assert lane_settings(grid, {}, workers=3) == {}
    make_gates(grid)


def test_a_unit_of_a_haystack_names_it(tmp_path: Path) -> None:
    made = Made("c" * 32, "h" * 16, "d" * 64, "ferry")
    assert made.unit.split("/") == ["c" * 32, "h" * 16, "d" * 64]
    assert (made.entry, made.source()["object"]) == (f"store/{'d' * 64}/ferry.json", "d" * 64)


@pytest.mark.parametrize("domain", domain_names())
def test_the_main_job_runs_on_a_haystack_of_every_domain(domain: str, tmp_path: Path) -> None:
    difficulty = {"least": 2, "documents_per_insight": 4, "distractors": 1, "conflicts": 1, "cross_references": 0.5}
    store = Store(str(tmp_path))
    grid = small(domain=domain, documents=10, insights=3, words=150, difficulty=difficulty)
    run, _, _ = synthesize_all(grid, store)
    [made] = made_haystacks(run)
    assert (made.domain, made.documents, made.subtopics, made.insights) == (domain, 10, 2, 7), "six, and the other side of one"
    spec = {"haystacks": [made.entry], "retrievers": ["oracle", "full"], "summarizers": ["offline/support"]}
    answered, _, _ = answer_all(api.load(spec, store=store.uri), store)
    assert answered.table("failures").height == 0
    assert answered.table("summaries").height == 4 and answered.table("scores").height == 14
    covered = answered.table("scores")["coverage"].mean()
    assert isinstance(covered, float) and covered > 0.3, "what several documents say is found"


def test_what_no_plan_can_hold_is_said_before_any_call(tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        small(documents=2, difficulty={"least": 5})
    assert "\n" not in str(caught.value)
