"""The run as Ray Data: units -> contexts -> cells, streaming, so that a summary is judged while others wait for their context.

Part of the grid room. Blocks are small (at most CELLS_A_BATCH cells), since Ray redoes a whole block when a worker dies.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext

from summhay_ray.grid.actors import LedgerActor
from summhay_ray.grid.cells import Grid, Unit
from summhay_ray.grid.worker import CellWorker, ContextWorker, WorkOrder
from summhay_ray.problems import Problem

CELLS_A_BATCH = 32
CPUS_A_WORKER = 0.25
MOST_WORKERS = 4


class PlacementError(Problem):
    """The cluster cannot hold the run's workers; the message says what they need and what there is."""


@contextlib.contextmanager
def ray_session(address: str, own_modules: bool = False) -> Iterator[None]:
    """A Ray connection: `local` starts a Ray of its own and ends it, `auto` or HOST joins a cluster.

    `own_modules`: the spec names a module:Class, which the workers look for where the person stands.
    """
    _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's C++ side warns of actors with arguments in the object store; they live as long as the driver, as the run does.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if own_modules:
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
        options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
    folder = tempfile.mkdtemp(prefix="summhay-") if address == "local" else None
    if folder:
        options |= {"include_dashboard": False, "_temp_dir": folder, "object_store_memory": 512 * 2**20}
    ray.init(address=address, **options)
    try:
        yield
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _check_address(address: str) -> None:
    """Ray would try for many minutes to reach a head that is not there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        message = f"--address {address}: no Ray head answers there ({error}); give a running one's address, or local"
        raise PlacementError(message) from error


def start_ledger(order: WorkOrder, grid: Grid, budget_micros: int | None) -> Any:
    """The run's ledger, on the driver's node."""
    limits = {model: settings.limits for model, settings in grid.settings().items()}
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = LedgerActor.options(scheduling_strategy=here)  # type: ignore[attr-defined]
    return actor.remote(order.store_uri, order.run_id, budget_micros, limits)


def stream(
    order: WorkOrder, units: Sequence[Unit], finished: frozenset[str], n_cells: int, grid: Grid, ledger: Any
) -> Iterator[Any]:
    """Receipts of the cells as they are committed."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    workers = _workers(grid)
    cells = max(1, min(CELLS_A_BATCH, -(-n_cells // (workers * 4))))
    per_unit = max(1, n_cells // max(1, len(units)))
    blocks = max(1, -(-len(units) // max(1, cells // per_unit)))
    rows = [{"unit": json.dumps(asdict(unit))} for unit in units]
    data = (
        ray.data.from_items(rows, override_num_blocks=min(blocks, len(rows)))
        .map_batches(
            ContextWorker,
            fn_constructor_args=(order, finished),
            compute=ActorPoolStrategy(size=1),
            num_cpus=CPUS_A_WORKER,
            batch_size=max(1, cells // per_unit),
        )
        .map_batches(
            CellWorker,
            fn_constructor_args=(order, ledger),
            compute=ActorPoolStrategy(size=workers),
            num_cpus=CPUS_A_WORKER,
            batch_size=cells,
        )
    )
    for row in data.iter_rows():
        yield json.loads(row["receipt"])


def _workers(grid: Grid) -> int:
    cpus = ray.cluster_resources().get("CPU", 0.0)
    workers = grid.spec.workers or max(1, min(int(cpus), MOST_WORKERS))
    needed = CPUS_A_WORKER * (workers + 1)
    if needed > cpus:
        raise PlacementError(
            f"{workers} workers need {needed} CPUs and the cluster has {cpus}; set workers: {int(cpus * 4) - 1} or less"
        )
    return workers
