"""Exports: one haystack at a time, all of them or none, and nothing that was there is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from big_haystacks import write_haystacks
from inprocess import SAMPLE
from made_up import commit_all

from summhay_ray import api
from summhay_ray.grid import import_released, load_grid, parse_spec
from summhay_ray.grid.exporting import export
from summhay_ray.grid.opening import open_run
from summhay_ray.problems import Problem
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core

SMALL = {"documents": 4, "words": 30, "subtopics": 2, "insights": 2}


def grid_run(tmp_path: Path) -> tuple[RunStore, list[Path]]:
    paths = write_haystacks(tmp_path, 3, **SMALL)
    grid = load_grid(parse_spec({**SAMPLE, "haystacks": [path.name for path in paths]}), tmp_path)
    run = open_run(grid, Store(str(tmp_path / "store")))
    commit_all(grid, run)
    return run, paths


def test_each_haystack_gets_its_own_rows_and_can_be_imported(tmp_path: Path) -> None:
    run, paths = grid_run(tmp_path)
    written = export(run, tmp_path / "out")
    assert (
        [path.name for path in written] == [path.name for path in paths] == sorted(p.name for p in (tmp_path / "out").iterdir())
    )
    for path, original in zip(written, paths, strict=True):
        content, source = json.loads(path.read_bytes()), json.loads(original.read_bytes())
        assert content["documents"] == source["documents"]
        assert [list(one["summaries"]) for one in content["subtopics"]] == [["summary_subtopic_bm25_offline/lead"]] * 2
    again = import_released([str(path) for path in written], Store(str(tmp_path / "again")))
    # Two queries of two insights in each of three haystacks.
    assert (again.haystacks, again.summaries, again.judgments) == (3, 6, 12)


def test_an_import_comes_out_as_it_came_in(tmp_path: Path) -> None:
    paths, store = write_haystacks(tmp_path, 3, **SMALL), Store(str(tmp_path / "store"))
    run = store.run(import_released([str(path) for path in paths], store).run)
    written = export(run, tmp_path / "deep" / "out")
    assert [json.loads(path.read_bytes()) for path in written] == [json.loads(path.read_bytes()) for path in paths]


def test_nothing_is_written_where_one_haystack_cannot_be(tmp_path: Path) -> None:
    run, paths = grid_run(tmp_path)
    lost = tmp_path / "store" / "objects" / "haystack" / run.record["haystacks"][2]["object"]
    lost.unlink()
    with pytest.raises(Problem, match="has no haystack"):
        export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("mine")
    with pytest.raises(Problem, match="has no haystack"):
        export(run, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note.txt"]


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    run, paths = grid_run(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / paths[1].name).write_text("mine")
    with pytest.raises(Problem, match=f"{paths[1].name} exists; give an empty folder"):
        export(run, tmp_path / "out")
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_table_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="no table is named 'cells'; known: checks, contexts, documents"):
        api.table("r", "cells", str(tmp_path))
