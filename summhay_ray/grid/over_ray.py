"""One task for each of many items, as a Ray Data pipeline; what the items are, it does not know. Part of the grid room.

Who has few items does without Ray, so that this is imported where there are many.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import ray.data
from ray.data import DataContext

from summhay_ray.haystack import InvalidHaystack
from summhay_ray.problems import Problem

CPUS_A_TASK = 1


def in_order_and_quiet() -> None:
    """How this process's pipelines run: results in the order of what they are of, and nothing printed but what is raised."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # What it logs at that level it raises as well: a stream that is stopped would print its traceback.
    logging.getLogger("ray.data.exceptions").setLevel(logging.CRITICAL)


def through(work: Any, items: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Each item's result, in order, by a pipeline with a task each: `work` takes them as JSON, in the column `item`, and gives
    `answers`. A Problem travels as its message: whoever waits here raises it."""
    in_order_and_quiet()
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


def answers(found: Iterable[Any]) -> dict[str, Any]:
    """What `through` reads: each one's `found`, or why there is none, as `invalid` or `problem`."""
    return {"found": np.array([json.dumps(one) for one in found], dtype=object)}
