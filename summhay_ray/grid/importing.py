"""Many released files at once: the batches of an import as Ray Data. Part of the grid room.

Blocks are batches of files, by name: what a task holds is one file, what travels are outlines and what a manifest says of a
block. Order is kept, so that the store gets what it gets without Ray.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import ray.data
from ray.data import DataContext

from summhay_ray.grid.imports import Batch, ImportResult, Workbench, check_batch, import_released, keep_batch
from summhay_ray.grid.pipeline import ray_session
from summhay_ray.grid.sources import Outline
from summhay_ray.haystack import InvalidHaystack
from summhay_ray.problems import Problem
from summhay_ray.store import Block, Store

CPUS_A_TASK = 1


def import_many(paths: Sequence[str], store: Store, address: str = "local") -> ImportResult:
    """`import_released` over a Ray of its own, or the one at `address`, whose nodes must see files and store."""
    with ray_session(address):
        return import_released(paths, store, OnRay())


class OnRay(Workbench):
    """The batches as a Ray Data pipeline, streaming: no more of them are under way than there are CPUs."""

    def check(self, batches: Iterable[Batch]) -> Iterator[Sequence[Outline]]:
        """See `Workbench`."""
        return ([Outline.from_json(one) for one in found] for found in through(_check, map(asdict, batches)))

    def keep(self, batches: Iterable[Batch]) -> Iterator[tuple[Block, Mapping[str, int]]]:
        """See `Workbench`."""
        return ((Block.from_json(found["block"]), found["rows"]) for found in through(_keep, map(asdict, batches)))


def through(work: Any, items: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Each item's result, in order, by a pipeline with a task each: `work` takes them as JSON, in the column `item`, and gives
    `answers`. A Problem travels as its message: whoever waits here raises it."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    rows = [{"item": json.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(work, batch_size=1, num_cpus=CPUS_A_TASK)
    with contextlib.closing(iter(data.iter_batches(batch_size=None, prefetch_batches=1))) as found:
        for block in found:
            for text in block["found"]:
                answer = json.loads(text)
                if "invalid" in answer:
                    raise InvalidHaystack(answer["invalid"])
                if "problem" in answer:
                    raise Problem(answer["problem"])
                yield answer["found"]


def _batches(rows: Mapping[str, Any]) -> list[Batch]:
    read = [json.loads(text) for text in rows["item"]]
    return [Batch(**{**one, "paths": tuple(one["paths"]), "ids": tuple(one["ids"])}) for one in read]


def answers(found: Iterable[Any]) -> dict[str, Any]:
    """What `through` reads: each one's `found`, or why there is none, as `invalid` or `problem`."""
    return {"found": np.array([json.dumps(one) for one in found], dtype=object)}


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
        except Problem as error:
            return {"problem": str(error)}
        return {"found": {"block": block.to_json(), "rows": dict(counted)}}

    return answers(map(one, _batches(rows)))
