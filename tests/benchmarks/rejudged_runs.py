"""A run's summaries, judged again in this process with the items, gateway, ledger and commits of a cluster."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from inline_runs import N_INSIGHTS, N_QUERIES, answered

from summhay_ray import api
from summhay_ray.benchmarks.rejudge import Rejudge, RejudgeRequest, load_rejudge
from summhay_ray.engine import RunResult
from summhay_ray.store import RunStore, Store

__all__ = ["N_INSIGHTS", "N_QUERIES", "PRICE", "judged_again", "rejudging", "source_run"]

PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}


def source_run(folder: Path, **fields: Any) -> RunStore:
    """A finished run on the news sample with its store in the folder. It is a copy, because many tests judge the same run
    again."""
    place, run = _stored(json.dumps(fields))
    shutil.copytree(place.name, folder / "store")
    return Store(str(folder / "store")).run(run)


@functools.cache
def _stored(fields: str) -> tuple[tempfile.TemporaryDirectory[str], str]:
    """The store of this run, and the run's id."""
    place = tempfile.TemporaryDirectory()
    return place, answered(place.name, **json.loads(fields))[1].run_id


def rejudging(run: RunStore, *judges: str, **options: Any) -> Rejudge:
    """The work of these judges, with every name checked."""
    return load_rejudge(run, RejudgeRequest(judges, **options))


def judged_again(run: RunStore, *judges: str, **options: Any) -> tuple[RunStore, RunResult]:
    """The rejudge by these judges, and its result."""
    result = api.rejudge(run.run_id, judges, run.store.uri, executor="inline", **options)
    return run.store.run(result.run), result
