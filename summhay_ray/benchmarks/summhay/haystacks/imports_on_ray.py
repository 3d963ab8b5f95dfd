"""Import many released files in parallel, as a Ray Data pipeline. For few files, Ray is not started.

Tasks receive batches of file names and read one file at a time; only metadata and descriptions of parts travel back. Order is
kept, so the store ends up the same as without Ray.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from summhay_ray.benchmark import Parts, Store, map_in_tasks, ray_tasks
from summhay_ray.benchmarks.summhay.haystacks.imports import (
    Batch,
    ImportResult,
    Workbench,
    check_batch,
    import_released,
    keep_batch,
)
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata
from summhay_ray.haystack import InvalidHaystack

FILES_ALONE = 256
"""Up to this many files are imported without Ray, whose start takes seconds."""


def import_files(paths: Sequence[str], store: Store, address: str = "") -> ImportResult:
    """`import_released`, on Ray if there are many files or an `address` of a cluster is given; its nodes must see the files."""
    if not address and len(paths) <= FILES_ALONE:
        return import_released(paths, store)
    return import_many(paths, store, address or "local")


def import_many(paths: Sequence[str], store: Store, address: str = "local") -> ImportResult:
    """`import_released` on a local Ray, or on the cluster at `address`, whose nodes must see the files and the store."""
    with ray_tasks(address):
        return import_released(paths, store, OnRay())


class OnRay(Workbench):
    """Runs the batches as a streaming Ray Data pipeline, at most one per CPU at a time."""

    def check(self, batches: Iterable[Batch]) -> Iterator[Sequence[HaystackMetadata]]:
        return (
            [HaystackMetadata.from_json(haystack) for haystack in checked]
            for checked in map_in_tasks(_check, map(asdict, batches), InvalidHaystack)
        )

    def keep(self, batches: Iterable[Batch]) -> Iterator[tuple[Parts, Mapping[str, int]]]:
        return (
            (Parts.from_json(part["parts"]), part["rows"]) for part in map_in_tasks(_keep, map(asdict, batches), InvalidHaystack)
        )


def _batch(written: Mapping[str, Any]) -> Batch:
    return Batch(**{**written, "paths": tuple(written["paths"]), "ids": tuple(written["ids"])})


def _check(written: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [haystack.to_json() for haystack in check_batch(_batch(written))]


def _keep(written: Mapping[str, Any]) -> dict[str, Any]:
    parts, counted = keep_batch(_batch(written))
    return {"parts": parts.to_json(), "rows": dict(counted)}
