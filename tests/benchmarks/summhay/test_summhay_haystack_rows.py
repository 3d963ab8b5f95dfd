"""A run's haystacks: their sources are stored when the run begins, their rows when their first cell is prepared."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from summhay_grids import grid_of_files

from summhay_ray import engine
from summhay_ray.benchmarks.summhay import workload as workload_module
from summhay_ray.engine import open_run
from summhay_ray.engine.registry import stored_workload
from summhay_ray.errors import UserError
from summhay_ray.store import Store

pytestmark = pytest.mark.core


def test_sources_and_record_are_there_and_a_second_start_adds_nothing(tmp_path: Path) -> None:
    (grid, _), store = grid_of_files(tmp_path, 3), Store(str(tmp_path / "store"))
    run = open_run(grid, store)
    assert run.run_id == grid.run_id
    record = run.record
    assert (record["cells"], len(record["haystacks"])) == (6, 3)
    for source, entry in zip(grid.grid.haystacks.metadata, record["haystacks"], strict=True):
        assert entry == {"haystack_id": source.haystack_id, "name": source.name, "object": source.digest}
        kept = json.loads(store.get_object("haystack", source.digest))
        assert kept == grid.grid.haystacks.file(source.haystack_id).raw
    assert open_run(grid, store).record == record


@pytest.mark.parametrize("limit", [1, 3, None])
def test_each_haystack_of_an_asked_cell_has_its_rows_once(tmp_path: Path, limit: int | None) -> None:
    (grid, _), store = grid_of_files(tmp_path, 3), Store(str(tmp_path / "store"))
    engine.run_workload(grid, store, {"limit": limit})
    run = store.run(grid.run_id)
    asked = set(run.table("summaries")["haystack_id"])
    tables = run.tables(["haystacks", "documents", "insights", "subtopics"])
    assert {name: frame.height for name, frame in tables.items()} == {
        "haystacks": len(asked),
        "documents": 4 * len(asked),
        "insights": 4 * len(asked),
        "subtopics": 2 * len(asked),
    }
    assert set(tables["documents"]["haystack_id"]) == asked
    again, _ = grid_of_files(tmp_path, 3)
    engine.run_workload(again, store, {})
    assert store.run(grid.run_id).table("documents").height == 12


def test_a_run_that_stopped_while_it_prepared_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (grid, _), store = grid_of_files(tmp_path, 3), Store(str(tmp_path / "store"))
    calls = []

    def dies(source: object) -> object:
        calls.append(source)
        if len(calls) > 1:
            raise OSError(errno.EIO, "Input/output error")
        return rows(source)

    rows = workload_module.haystack_rows
    monkeypatch.setattr(workload_module, "haystack_rows", dies)
    with pytest.raises(UserError, match="Input/output error"):
        engine.run_workload(grid, store, {})
    monkeypatch.setattr(workload_module, "haystack_rows", rows)
    other, whole = Store(str(tmp_path / "other")), grid_of_files(tmp_path, 3)[0]
    engine.run_workload(whole, other, {})
    again, _ = grid_of_files(tmp_path, 3)
    engine.run_workload(again, store, {})
    assert store.run(grid.run_id).digests() == other.run(grid.run_id).digests()


def test_a_source_that_was_lost_is_put_back(tmp_path: Path) -> None:
    (grid, _), store = grid_of_files(tmp_path, 2), Store(str(tmp_path / "store"))
    open_run(grid, store)
    lost = tmp_path / "store" / "objects" / "haystack" / grid.grid.haystacks.metadata[1].digest
    content = lost.read_bytes()
    lost.unlink()
    again, _ = grid_of_files(tmp_path, 2)
    open_run(again, store)
    assert lost.read_bytes() == content


@pytest.mark.parametrize("change", ["other", "broken"])
def test_a_file_that_changed_since_it_was_read_is_refused_and_nothing_counts(tmp_path: Path, change: str) -> None:
    (grid, _), store = grid_of_files(tmp_path, 2), Store(str(tmp_path / "store"))
    file = tmp_path / f"{grid.grid.haystacks.metadata[1].name}.json"
    file.write_text("{" if change == "broken" else file.read_text(encoding="ascii").replace("?", "!"), encoding="ascii")
    with pytest.raises(UserError, match=f"{file.name}: was changed since it was read"):
        open_run(grid, store)
    assert store.run_ids() == []


def test_after_the_start_the_store_s_copies_are_read(tmp_path: Path) -> None:
    (grid, _), store = grid_of_files(tmp_path, 2), Store(str(tmp_path / "store"))
    open_run(grid, store)
    for source in grid.grid.haystacks.metadata:
        (tmp_path / f"{source.name}.json").unlink()
    kept = stored_workload(store, store.run(grid.run_id).record)
    assert kept.run_id == grid.run_id
    assert [kept.grid.haystacks[source.haystack_id].name for source in kept.grid.haystacks.metadata] == [
        source.name for source in grid.grid.haystacks.metadata
    ]
