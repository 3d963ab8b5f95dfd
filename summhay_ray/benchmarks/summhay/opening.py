"""Haystacks into the store: their sources, and their tables in a run.

Haystacks come and go a few at a time, however many there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from summhay_ray.benchmarks.summhay.sources import Haystacks, Outline, changed, source_bytes
from summhay_ray.haystack import ReleasedFile
from summhay_ray.store import Finished, RunStore, Store

STAGE = "haystack"
"""What the store's blocks call haystacks."""
HAYSTACKS_A_BLOCK = 16
AT_ONCE = 8
"""Sources that are on their way to the store at once."""

T = TypeVar("T")


def open_haystacks(run: RunStore, haystacks: Haystacks, sources: Sequence[Outline]) -> None:
    """Put the haystacks' own tables into a run, as far as they are not there."""
    kept = run.finished(STAGE)
    # In the order of their ids, as the tables are: who reads all documents then reads each block once.
    absent = sorted(source.haystack_id for source in sources if source.haystack_id not in kept)
    for block in blocks_of(absent):
        run.commit(STAGE, [Finished(one, haystack_rows(haystacks.file(one))) for one in block])


def keep_sources(haystacks: Haystacks, sources: Sequence[Outline], store: Store) -> None:
    """Put the sources into the store that are not there yet. Raises UserError for one that has changed since it was outlined."""

    def keep(source: Outline) -> None:
        if store.files.exists(f"objects/haystack/{source.digest}"):
            return
        content, name = haystacks.content(source.haystack_id)
        try:
            kept = source_bytes(json.loads(content))
        except ValueError:
            raise changed(name) from None
        if hashlib.sha256(kept).hexdigest() != source.digest:
            raise changed(name)
        store.put_object("haystack", kept)

    with ThreadPoolExecutor(max_workers=AT_ONCE) as threads:
        for block in blocks_of(sources):
            list(threads.map(keep, block))


def blocks_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items, so many at a time as stand in one block."""
    return (items[start : start + HAYSTACKS_A_BLOCK] for start in range(0, len(items), HAYSTACKS_A_BLOCK))


def haystack_rows(source: ReleasedFile) -> dict[str, list[Any]]:
    """A haystack's own tables."""
    haystack = source.haystack
    return {
        "haystacks": [haystack],
        "subtopics": list(haystack.subtopics),
        "insights": list(haystack.insights),
        "documents": list(haystack.documents),
    }
