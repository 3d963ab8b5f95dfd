"""Many released files at once: the batches of an import as Ray Data. Ray only where the files are many.

Blocks are batches of files, by name: what a task holds is one file, what travels are outlines and what a manifest says of a
block. Order is kept, so that the store gets what it gets without Ray.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from summhay_ray.benchmarks.summhay.imports import Batch, ImportResult, Workbench, check_batch, import_released, keep_batch
from summhay_ray.benchmarks.summhay.sources import Outline
from summhay_ray.engine import answers, many, through
from summhay_ray.errors import UserError
from summhay_ray.haystack import InvalidHaystack
from summhay_ray.store import Block, Store

FILES_ALONE = 256
"""More files than these are worth the seconds that Ray takes to start."""


def import_files(paths: Sequence[str], store: Store, address: str = "") -> ImportResult:
    """`import_released`; many files, or those for a cluster at `address`, which must see them, as a Ray Data pipeline."""
    if not address and len(paths) <= FILES_ALONE:
        return import_released(paths, store)
    return import_many(paths, store, address or "local")


def import_many(paths: Sequence[str], store: Store, address: str = "local") -> ImportResult:
    """`import_released` over a Ray of its own, or the one at `address`, whose nodes must see files and store."""
    with many(address):
        return import_released(paths, store, OnRay())


class OnRay(Workbench):
    """The batches as a Ray Data pipeline, streaming: no more of them are under way than there are CPUs."""

    def check(self, batches: Iterable[Batch]) -> Iterator[Sequence[Outline]]:
        """See `Workbench`."""
        return ([Outline.from_json(one) for one in found] for found in through(_check, map(asdict, batches), InvalidHaystack))

    def keep(self, batches: Iterable[Batch]) -> Iterator[tuple[Block, Mapping[str, int]]]:
        """See `Workbench`."""
        return (
            (Block.from_json(found["block"]), found["rows"]) for found in through(_keep, map(asdict, batches), InvalidHaystack)
        )


def _batches(rows: Mapping[str, Any]) -> list[Batch]:
    read = [json.loads(text) for text in rows["item"]]
    return [Batch(**{**one, "paths": tuple(one["paths"]), "ids": tuple(one["ids"])}) for one in read]


def _check(rows: Mapping[str, Any]) -> dict[str, Any]:
    def one(batch: Batch) -> dict[str, Any]:
        try:
            return {"found": [outline.to_json() for outline in check_batch(batch)]}
        except InvalidHaystack as error:
            return {"invalid": str(error)}

    return answers(map(one, _batches(rows)))


def _keep(rows: Mapping[str, Any]) -> dict[str, Any]:
    def one(batch: Batch) -> dict[str, Any]:
        try:
            block, counted = keep_batch(batch)
        except UserError as error:
            return {"problem": str(error)}
        return {"found": {"block": block.to_json(), "rows": dict(counted)}}

    return answers(map(one, _batches(rows)))
