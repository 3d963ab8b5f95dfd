"""Exports write one haystack at a time, all of them or none, and change no existing file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up import commit_all
from summhay_grids import grid_of_files

from summhay_ray import api
from summhay_ray.engine import open_run
from summhay_ray.errors import UserError
from summhay_ray.store import RunStore, Store

pytestmark = pytest.mark.core


def grid_run(tmp_path: Path) -> tuple[RunStore, list[Path]]:
    grid, paths = grid_of_files(tmp_path, 3)
    run = open_run(grid, Store(str(tmp_path / "store")))
    commit_all(grid, run)
    return run, paths


def export(run: RunStore, folder: Path) -> list[Path]:
    return api.export(run.run_id, folder, run.store.uri)


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
    again = api.import_released(written, str(tmp_path / "again"))
    # Each of three haystacks has two queries of two insights.
    assert (again.haystacks, again.summaries, again.judgments) == (3, 6, 12)


def test_nothing_is_written_where_one_haystack_cannot_be(tmp_path: Path) -> None:
    run, paths = grid_run(tmp_path)
    lost = tmp_path / "store" / "objects" / "haystack" / run.record["haystacks"][2]["object"]
    lost.unlink()
    with pytest.raises(UserError, match="has no haystack"):
        export(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("mine")
    with pytest.raises(UserError, match="has no haystack"):
        export(run, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note.txt"]
