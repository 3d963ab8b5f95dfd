"""Metadata agrees with the haystacks. Haystacks are loaded when they are needed, and few are kept."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from big_haystacks import haystack as made_haystack
from summhay_grids import SMALL, grid_of, grid_of_files

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, metadata_of, source_bytes, stored_metadata
from summhay_ray.benchmarks.summhay.haystacks.sources import KEPT, Haystacks
from summhay_ray.engine.registry import stored_workload
from summhay_ray.errors import UserError
from summhay_ray.haystack import ReleasedFile, load_sample, read_released
from summhay_ray.store import Store, StoreError

pytestmark = pytest.mark.core


def record_of(grid: SummHay, store: Store) -> dict[str, Any]:
    """The workload's part of a run's record; the metadata is then in the store."""
    return {"kind": grid.kind, **grid.record(store)}


def released(name: str = "news") -> ReleasedFile:
    return read_released(json.dumps(load_sample(name)), f"{name}.json")


class Shelf:
    """Small haystacks by id; counts the loads."""

    def __init__(self, number: int) -> None:
        self.contents: dict[str, bytes] = {}
        self.read: list[str] = []
        for seed in range(number):
            content = json.dumps(made_haystack(seed, **SMALL)).encode()
            self.contents[read_released(content, "x").haystack.haystack_id] = content
        self.ids = list(self.contents)

    def __call__(self, haystack_id: str) -> tuple[bytes, str]:
        self.read.append(haystack_id)
        return self.contents[haystack_id], f"{haystack_id}.json"


@pytest.mark.parametrize("name", ["news", "conversation"])
def test_metadata_says_what_the_haystack_says(name: str) -> None:
    source = released(name)
    haystack, known = source.haystack, metadata_of(source)
    assert (known.haystack_id, known.name, known.domain) == (haystack.haystack_id, name, haystack.domain)
    assert known.n_documents == len(haystack.documents) == 32
    assert known.subtopics == haystack.subtopics
    assert known.n_insights == tuple(len(haystack.insights_of(one.subtopic_id)) for one in haystack.subtopics)
    assert list(known.gold.items()) == list(haystack.gold.items())
    assert HaystackMetadata.from_json(json.loads(json.dumps(known.to_json()))) == known


def test_metadata_holds_no_documents() -> None:
    longer = made_haystack(1, **{**SMALL, "words": 3000})
    sizes = [
        len(json.dumps(metadata_of(read_released(json.dumps(raw), "x")).to_json())) for raw in (made_haystack(1, **SMALL), longer)
    ]
    assert sizes[1] < sizes[0] + 200 and len(json.dumps(longer)) > 10 * sizes[1]


def test_metadata_comes_back_from_the_store_and_from_the_sources_where_another_version_kept_them(tmp_path: Path) -> None:
    grid, store = grid_of(haystacks=["sample/news", "sample/conversation"]), Store(str(tmp_path / "store"))
    record = record_of(grid, store)
    assert tuple(stored_metadata(store, record)) == tuple(grid.grid.haystacks.metadata)
    for source in grid.grid.haystacks.metadata:
        assert store.put_object("haystack", source_bytes(grid.grid.haystacks.file(source.haystack_id).raw)) == source.digest
    for kept in ({}, {"outlines": store.put_object("outlines", b"of another version")}):
        record = {name: value for name, value in record.items() if name != "outlines"} | kept
        assert tuple(stored_metadata(store, record)) == tuple(grid.grid.haystacks.metadata)


def test_what_is_none_of_the_grid_s_or_has_changed_is_refused() -> None:
    shelf = Shelf(2)
    haystacks = Haystacks(shelf.ids, shelf)
    with pytest.raises(KeyError):
        haystacks["0123456789abcdef"]
    first, second = shelf.ids
    shelf.contents[first] = shelf.contents[second]
    with pytest.raises(UserError, match=f"{first}.json: was changed since it was read"):
        haystacks[first]


def test_one_load_for_all_that_wait_for_it() -> None:
    shelf = Shelf(1)

    def slow(haystack_id: str) -> tuple[bytes, str]:
        time.sleep(0.1)
        return shelf(haystack_id)

    haystacks, found = Haystacks(shelf.ids, slow), []
    threads = [threading.Thread(target=lambda: found.append(haystacks[shelf.ids[0]])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shelf.read) == 1 and len(found) == 8 and all(one is found[0] for one in found)


def test_the_event_loop_goes_on_while_a_haystack_is_loaded() -> None:
    shelf, gone_on = Shelf(2), threading.Event()

    def waits(haystack_id: str) -> tuple[bytes, str]:
        # Would wait forever if the loop waited for it.
        assert gone_on.wait(10)
        return shelf(haystack_id)

    async def work() -> list[Any]:
        haystacks = Haystacks(shelf.ids, waits)
        asked = [asyncio.create_task(haystacks.fetch(one)) for one in (*shelf.ids, *shelf.ids)]
        await asyncio.sleep(0)
        gone_on.set()
        return await asyncio.gather(*asked)

    assert [one.haystack_id for one in asyncio.run(work())] == [*shelf.ids, *shelf.ids]
    assert sorted(shelf.read) == sorted(shelf.ids)


def test_a_stored_grid_reads_no_source_and_has_the_same_cells(tmp_path: Path) -> None:
    grid, store = grid_of(), Store(str(tmp_path / "store"))
    record = record_of(grid, store)
    shutil.rmtree(tmp_path / "store" / "objects" / "haystack")
    stored = stored_workload(store, record)
    assert isinstance(stored, SummHay)
    assert stored.grid.systems == grid.grid.systems and stored.models.settings() == grid.models.settings()
    assert list(stored.items()) == list(grid.items()) and stored.run_id == grid.run_id
    with pytest.raises(StoreError, match="has no haystack"):
        stored.grid.haystacks[grid.grid.haystacks.metadata[0].haystack_id]


def test_a_grid_holds_only_the_haystacks_it_read_last(tmp_path: Path) -> None:
    grid, paths = grid_of_files(tmp_path, KEPT + 2)
    assert [source.name for source in grid.grid.haystacks.metadata] == [path.stem for path in paths]
    for path in paths[1:]:
        path.unlink()
    for held, source in enumerate(grid.grid.haystacks.metadata[2:], 2):
        assert grid.grid.haystacks[source.haystack_id].name == paths[held].stem
    assert grid.grid.haystacks[grid.grid.haystacks.metadata[0].haystack_id].name == paths[0].stem
    with pytest.raises(UserError, match=paths[1].name):
        grid.grid.haystacks[grid.grid.haystacks.metadata[1].haystack_id]
