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
