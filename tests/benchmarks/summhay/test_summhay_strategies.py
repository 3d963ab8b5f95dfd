"""SummHay with several strategies, and with answers that were made elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from runs import summhay, write_spec
from summhay_grids import grid_of

from summhay_ray.errors import SpecError

pytestmark = pytest.mark.core

CHUNKS = {"strategy": "map-reduce", "units": "chunks", "chunk_tokens": 400}


def test_strategies_are_crossed_with_the_summarizers_that_name_none() -> None:
    summarizers = ["offline/support", {"model": "offline/lead", "strategy": "direct"}, {"model": "offline/lead", "name": "leads"}]
    grid = grid_of(strategies=["truncate-all", CHUNKS], summarizers=summarizers)
    chunked = "map-reduce (chunk_tokens=400, units=chunks)"
    assert [one.label for one in grid.spec.summarizers] == [
        *("offline/support+truncate-all", f"offline/support+{chunked}"),
        *("offline/lead", "leads+truncate-all", f"leads+{chunked}"),
    ]
    # The spec, as a stored run has it, is the same again.
    assert type(grid.spec).model_validate(grid.spec.model_dump(mode="json")) == grid.spec
    # Without strategies, the run stays the same.
    assert grid_of(strategies=[]).run_id == grid_of().run_id != grid_of(strategies=["truncate-all"]).run_id


def test_a_strategys_options_may_stand_beside_it() -> None:
    beside, inside = ({"strategy": "map-reduce", "units": "chunks"}, {"strategy": {"strategy": "map-reduce", "units": "chunks"}})
    one, other = (grid_of(summarizers=[{"model": "offline/lead", **entry}]) for entry in (beside, inside))
    assert one.spec == other.spec and one.run_id == other.run_id


def test_an_unknown_strategy_is_refused_before_any_call() -> None:
    with pytest.raises(SpecError, match="option of strategy 'map-reduce' is named 'unit'"):
        grid_of(strategies=[{"strategy": "map-reduce", "unit": "chunks"}])


def test_answers_made_elsewhere_are_judged_and_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    grid = grid_of()
    queries = [subtopic.subtopic_id for source in grid.grid.haystacks.metadata for subtopic in source.subtopics]
    lines = [{"query_id": query, "text": "- First statement. [1][2]\n- Second statement. [3]"} for query in queries[1:]]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    fields = {
        "haystacks": grid.spec.haystacks,
        "retrievers": ["bm25"],
        "strategies": ["truncate-all", "refine-low-to-high"],
        "summarizers": ["offline/support", {"answers": "mine.jsonl", "name": "mine"}],
        "executor": "inline",
    }
    spec = write_spec(tmp_path, fields)
    result = summhay("run", spec, "--store", tmp_path / "store", code=4)
    assert result["cells"] == {"total": 3 * len(queries), "done": 3 * len(queries) - 1, "failed": 1}
    assert {one["model"] for one in result["systems"]} == {
        "offline/support+truncate-all",
        "offline/support+refine-low-to-high",
        "mine",
    }
    [failure] = summhay("failures", result["run"], "--store", tmp_path / "store")["failures"]
    assert (failure["stage"], failure["error"]) == ("summarize", "missing_answer") and repr(queries[0]) in failure["message"]
    # The run does not need its files any more, and other answers make another run.
    (tmp_path / "mine.jsonl").unlink()
    assert summhay("status", result["run"], "--store", tmp_path / "store")["cells"]["done"] == 3 * len(queries) - 1
    (tmp_path / "mine.jsonl").write_text(json.dumps({"query_id": queries[0], "text": "- Other. [1]"}), encoding="utf-8")
    assert summhay("plan", spec, "--store", tmp_path / "store")["run"] != result["run"]


@pytest.mark.parametrize(
    "line,message",
    [
        ("{", "mine.jsonl:1: is no JSON"),
        ("[1]", "mine.jsonl:1: expected an object"),
        ('{"query_id": 3, "text": "a"}', "mine.jsonl:1: query_id: expected text, found 3"),
        ('{"query_id": "q"}', "mine.jsonl:1: text: expected text, found null"),
        (
            '{"query_id": "q", "text": "a"}\n\n{"query_id": "q", "text": "b"}',
            "mine.jsonl:3: query_id: 'q' is on an earlier line",
        ),
    ],
)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "mine.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        grid_of(tmp_path, summarizers=[{"answers": "mine.jsonl", "name": "mine"}])
