"""A run's beginning: its sources and haystacks get into the store a few at a time, once, and come back when they are lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from summhay_grids import grid_of_files

from summhay_ray.benchmarks.summhay import workload as opening_module
from summhay_ray.benchmarks.summhay.haystacks.metadata import HAYSTACKS_A_BLOCK, blocks_of
from summhay_ray.engine import open_run
from summhay_ray.engine.registry import stored_workload
from summhay_ray.errors import UserError
from summhay_ray.store import Store

pytestmark = pytest.mark.core


def test_blocks_are_full_but_the_last() -> None:
    assert list(map(len, blocks_of(range(2 * HAYSTACKS_A_BLOCK + 1)))) == [HAYSTACKS_A_BLOCK, HAYSTACKS_A_BLOCK, 1]
    assert list(blocks_of([])) == []


def test_sources_record_and_tables_are_there_and_a_second_start_adds_nothing(tmp_path: Path) -> None:
    (grid, _), store = grid_of_files(tmp_path, HAYSTACKS_A_BLOCK + 1), Store(str(tmp_path / "store"))
    run = open_run(grid, store)
    assert run.run_id == grid.run_id and run.version() == 2, "two blocks, two commits"
    tables = run.tables(["haystacks", "documents", "insights", "subtopics"])
    n = HAYSTACKS_A_BLOCK + 1
    assert {name: frame.height for name, frame in tables.items()} == {
        "haystacks": n,
        "documents": 4 * n,
        "insights": 4 * n,
        "subtopics": 2 * n,
    }
    record = run.record
    assert (record["cells"], len(record["haystacks"])) == (2 * n, n)
    for source, entry in zip(grid.grid.haystacks.metadata, record["haystacks"], strict=True):
        assert entry == {"haystack_id": source.haystack_id, "name": source.name, "object": source.digest}
        kept = json.loads(store.get_object("haystack", source.digest))
        assert kept == grid.grid.haystacks.file(source.haystack_id).raw
    assert open_run(grid, store).version() == 2 and open_run(grid, store).digests() == run.digests()


def test_a_start_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (grid, _), store = grid_of_files(tmp_path, 2 * HAYSTACKS_A_BLOCK), Store(str(tmp_path / "store"))
    calls = []

    def dies(source: object) -> object:
        calls.append(source)
        if len(calls) > HAYSTACKS_A_BLOCK:
            raise KeyboardInterrupt
        return rows(source)

    rows = opening_module.haystack_rows
    monkeypatch.setattr(opening_module, "haystack_rows", dies)
    with pytest.raises(KeyboardInterrupt):
        open_run(grid, store)
    assert store.run(grid.run_id).table("haystacks").height == HAYSTACKS_A_BLOCK
    monkeypatch.setattr(opening_module, "haystack_rows", rows)
    whole = open_run(grid, Store(str(tmp_path / "other")))
    assert open_run(grid, store).digests() == whole.digests()


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
