"""Runs one Ray task per item, such as a file, for work outside runs. Part of the engine room.

Ray is imported only when this is called, since callers with few items do without it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from summhay_ray.errors import UserError

CPUS_A_TASK = 1


@contextlib.contextmanager
def many(address: str = "local") -> Iterator[None]:
    """A context in which `through` can be used: it starts a Ray of its own, or joins the one at `address`."""
    from summhay_ray.engine.on_ray import ray_session

    with ray_session(address):
        yield


def through(work: Any, items: Iterable[Mapping[str, Any]], error: type[UserError] = UserError) -> Iterator[Any]:
    """The result of each item, in order, computed by one task per item.

    `work` is called with a batch whose column `item` holds JSON, and returns `answers(...)`. An answer with `invalid` (a message
    about an input) is raised here as `error`, one with `problem` as UserError.
    """
    import ray.data

    from summhay_ray.engine.ray_data import in_order_and_quiet

    in_order_and_quiet()
    rows = [{"item": json.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(work, batch_size=1, num_cpus=CPUS_A_TASK)
    with contextlib.closing(iter(data.iter_batches(batch_size=None, prefetch_batches=1))) as blocks:
        for block in blocks:
            for text in block["found"]:
                answer = json.loads(text)
                if "invalid" in answer:
                    raise error(answer["invalid"])
                if "problem" in answer:
                    raise UserError(answer["problem"])
                yield answer["found"]


def answers(found: Iterable[Any]) -> dict[str, Any]:
    """The output that `through` expects from `work`: a mapping per item with `found` (the result), `invalid` or `problem`."""
    return {"found": np.array([json.dumps(answer) for answer in found], dtype=object)}
