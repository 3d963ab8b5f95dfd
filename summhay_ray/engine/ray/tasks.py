"""Runs one Ray task per item, such as a file, for work outside runs.

Ray is imported only when this is called, since callers with few items do not need it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from summhay_ray.engine.run.execution import before_ray
from summhay_ray.errors import UserError

CPUS_A_TASK = 1


@contextlib.contextmanager
def ray_tasks(address: str = "local") -> Iterator[None]:
    """A context in which `map_in_tasks` can be used: it starts a private Ray, or joins the cluster at `address`."""
    before_ray(address)
    from summhay_ray.engine.ray.session import ray_session

    with ray_session(address):
        yield


def map_in_tasks(work: Callable[[Any], Any], items: Iterable[Any], error: type[UserError] = UserError) -> Iterator[Any]:
    """The result of each item, in order, computed by one task per item.

    `work`: item -> result, both as JSON. An exception of type `error` or UserError in `work` is raised here with the same type.
    """
    import ray.data

    from summhay_ray.engine.ray.session import configure_ray_data

    here = os.getcwd()

    def tried(text: str) -> dict[str, Any]:
        # Workers start in another folder, so relative paths are resolved here.
        with contextlib.suppress(OSError):
            os.chdir(here)
        try:
            return {"found": work(json.loads(text))}
        except error as problem:
            return {"invalid": str(problem)}
        except UserError as problem:
            return {"problem": str(problem)}

    def batch(rows: Mapping[str, Any]) -> dict[str, Any]:
        return {"found": np.array([json.dumps(tried(text)) for text in rows["item"]], dtype=object)}

    configure_ray_data(in_order=True)
    rows = [{"item": json.dumps(item)} for item in items]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(batch, batch_size=1, num_cpus=CPUS_A_TASK)
    with contextlib.closing(iter(data.iter_batches(batch_size=None, prefetch_batches=1))) as blocks:
        for block in blocks:
            for text in block["found"]:
                answer = json.loads(text)
                if "invalid" in answer:
                    raise error(answer["invalid"])
                if "problem" in answer:
                    raise UserError(answer["problem"])
                yield answer["found"]
