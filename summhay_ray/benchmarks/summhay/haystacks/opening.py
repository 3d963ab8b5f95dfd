"""Put haystacks into the store: their sources as objects, their tables into a run.

Only a few haystacks are in memory at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from summhay_ray.benchmarks.summhay.haystacks.sources import Haystacks, Outline, changed, source_bytes
from summhay_ray.haystack import ReleasedFile
from summhay_ray.store import Finished, RunStore, Store

STAGE = "haystack"
"""Stage under which the store lists haystacks."""
HAYSTACKS_A_BLOCK = 16
AT_ONCE = 8
"""Sources written to the store concurrently."""

T = TypeVar("T")


def open_haystacks(run: RunStore, haystacks: Haystacks, sources: Sequence[Outline]) -> None:
    """Write the tables of those haystacks that the run does not hold yet."""
    kept = run.finished(STAGE)
    # Sorted by id, as the tables are, so that each commit holds neighbours.
    absent = sorted(source.haystack_id for source in sources if source.haystack_id not in kept)
    for block in blocks_of(absent):
        run.commit(STAGE, [Finished(haystack_id, haystack_rows(haystacks.file(haystack_id))) for haystack_id in block])


def keep_sources(haystacks: Haystacks, sources: Sequence[Outline], store: Store) -> None:
    """Put the missing sources into the store. Raises UserError for a source that has changed since its outline was made."""

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
