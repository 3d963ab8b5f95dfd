"""The first batches of sources are small, and no source is left out."""

from __future__ import annotations

from summhay_ray.engine.contract import Item
from summhay_ray.engine.prepared import SOURCES_A_BATCH, batches


def test_batches_grow_from_one_source_for_each_worker() -> None:
    left = {f"source {number}": [Item(f"item {number}", "queue")] for number in range(100)}
    found = list(batches(left, 2))
    assert list(map(len, found)) == [
        1,
        1,
        2,
        2,
        4,
        4,
        8,
        8,
        SOURCES_A_BATCH,
        SOURCES_A_BATCH,
        SOURCES_A_BATCH,
        SOURCES_A_BATCH,
        6,
    ]
    assert {source: items for batch in found for source, items in batch.items()} == left
    assert list(map(len, batches(left)))[:3] == [1, 2, 4] and not list(batches({}))


def test_sources_that_read_the_same_go_to_one_worker_and_none_is_idle() -> None:
    left = {f"{file}/{number}": [Item(f"{file}/{number}", reads=file)] for file in "abc" for number in range(40)}
    shares = [[source for batch in list(batches(left, 2))[worker::2] for source in batch] for worker in (0, 1)]
    assert sorted(shares[0] + shares[1]) == sorted(left)
    assert [{source[0] for source in share} for share in shares] == [{"a", "c"}, {"b", "c"}]
    assert abs(len(shares[0]) - len(shares[1])) <= SOURCES_A_BATCH
    alone = {source: items for source, items in left.items() if source[0] == "a"}
    assert [len(batch) for batch in batches(alone, 2)][:4] == [1, 1, 2, 2]
    assert [list(batches(alone, 2))[worker].popitem()[0] for worker in (0, 1)] == ["a/0", "a/20"]
