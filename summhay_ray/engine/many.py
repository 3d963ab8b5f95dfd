"""One task for each of many files, over Ray; what the files are, it does not know. Part of the engine room.

Who has few does without Ray, so that it is imported when this is called.
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
    """While the block runs, `through` has a Ray of its own, or the one at `address`."""
    from summhay_ray.engine.on_ray import ray_session

    with ray_session(address):
        yield


def through(work: Any, items: Iterable[Mapping[str, Any]], error: type[UserError] = UserError) -> Iterator[Any]:
    """Each item's result, in order, by a pipeline with a task each: `work` takes them as JSON, in the column `item`, and gives
    `answers`. A UserError travels as its message: whoever waits here raises it, as an `error` where it is an input's."""
    import ray.data

    from summhay_ray.engine.ray_data import in_order_and_quiet

    in_order_and_quiet()
    rows = [{"item": json.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(work, batch_size=1, num_cpus=CPUS_A_TASK)
    with contextlib.closing(iter(data.iter_batches(batch_size=None, prefetch_batches=1))) as found:
        for block in found:
            for text in block["found"]:
                answer = json.loads(text)
                if "invalid" in answer:
                    raise error(answer["invalid"])
                if "problem" in answer:
                    raise UserError(answer["problem"])
                yield answer["found"]


def answers(found: Iterable[Any]) -> dict[str, Any]:
    """What `through` reads: each one's `found`, or why there is none, as `invalid` or `problem`."""
    return {"found": np.array([json.dumps(one) for one in found], dtype=object)}
