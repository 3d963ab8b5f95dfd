"""The tables of a run's haystacks. Only a few haystacks are in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.sources import Haystacks
from summhay_ray.haystack import ReleasedFile

STAGE = "haystack"
"""Stage under which the store lists haystacks."""
HAYSTACKS_A_BLOCK = 16

T = TypeVar("T")


def open_haystacks(run: RunStore, haystacks: Haystacks) -> None:
    """Write the tables of those haystacks that the run does not hold yet."""
    kept = run.finished(STAGE)
    # Sorted by id, as the tables are, so that each commit holds neighbours.
    absent = sorted(haystack.haystack_id for haystack in haystacks.metadata if haystack.haystack_id not in kept)
    for block in blocks_of(absent):
        run.commit_units(STAGE, {haystack_id: haystack_rows(haystacks.file(haystack_id)) for haystack_id in block})


def blocks_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in groups of HAYSTACKS_A_BLOCK."""
    return (items[start : start + HAYSTACKS_A_BLOCK] for start in range(0, len(items), HAYSTACKS_A_BLOCK))


def haystack_rows(source: ReleasedFile) -> dict[str, list[Any]]:
    """Table name -> the rows of one haystack."""
    haystack = source.haystack
    return {
        "haystacks": [haystack],
        "subtopics": list(haystack.subtopics),
        "insights": list(haystack.insights),
        "documents": list(haystack.documents),
    }
