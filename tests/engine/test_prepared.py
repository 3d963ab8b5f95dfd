"""The first batches of sources are small, and no source is left out."""

from __future__ import annotations

from summhay_ray.engine.items import Item
from summhay_ray.engine.run.worker import SOURCES_A_BATCH, batches


def test_a_workers_first_batch_is_one_source_and_none_is_left_out() -> None:
    left = {f"source {number}": [Item(f"item {number}", "queue")] for number in range(500)}
    found = list(batches(left, 2))
    assert [*map(len, found)] == [1, 1, *[SOURCES_A_BATCH] * 15, 18]
    assert {source: items for batch in found for source, items in batch.items()} == left
    few = dict(list(left.items())[:20])
    assert [*map(len, batches(few, 2))] == [1, 1, *[2] * 9] and not list(batches({}))


def test_sources_that_read_the_same_are_prepared_together() -> None:
    # Sources of one file do not follow one another in the run.
    left = {f"{file}/{number}": [Item(f"{file}/{number}", reads=file)] for number in range(20) for file in "abcdefghijkl"}
    found = list(batches(left, 2))
    assert sorted(source for batch in found for source in batch) == sorted(left)
    assert {len({source[0] for source in batch}) for batch in found} == {1}
    # Both workers begin with the first file.
    assert [*map(len, found)] == [1, 1, 18, *[20] * 11]
