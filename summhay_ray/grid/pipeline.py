"""The run on Ray: units -> contexts as Ray Data, streaming, and from there cell by cell to async actors (see `lanes.py`).

Part of the grid room. Ray Data hands out whole batches and puts answers back in order, so that one slow call would hold up the
others of its actor: it makes the contexts, which is computing, and calls go another way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.grid.actors import LedgerActor
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.lanes import Dispatcher, Kind, LaneSettings, Packet, Packing, Receipt, lane_settings
from summhay_ray.grid.worker import CellWorker, ContextWorker, WorkOrder
from summhay_ray.llm import Budgets
from summhay_ray.problems import Problem

UNITS_A_BATCH = 16
UNITS_A_CONTEXT_WORKER = 200
"""With fewer units than that, a further worker takes longer to start than it saves."""

CPUS_A_WORKER = 0.25
MOST_WORKERS = 4
CLOSING_S = 30.0
TASKS_AT_ONCE = 100_000
"""More than the lanes ever send to one worker: Ray must not make one lane wait for another."""


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


def start_ledger(order: WorkOrder, grid: Grid, budgets: Budgets) -> Any:
    """The run's ledger, on the driver's node."""
    limits = {model: settings.limits for model, settings in grid.settings().items() if not settings.local}
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = LedgerActor.options(scheduling_strategy=here)  # type: ignore[attr-defined]
    return actor.remote(order.store_uri, order.run_id, budgets, limits)


@dataclass(frozen=True)
class Work:
    """What is left to do."""

    order: WorkOrder
    grid: Grid
    left: Mapping[Unit, Sequence[Cell]]
    """Unit -> its unfinished cells, in the order in which they are to be asked."""


def answer(work: Work, ledger: Any) -> Counter[str]:
    """Answer and commit all cells that are left; gives how many cells, judgments and failures were committed."""
    lanes, contexts = _place(work)
    actors = {
        kind: [_start(work.order, ledger, kind, seat) for seat in range(workers)]
        for kind, workers in {settings.kind: settings.workers for settings in lanes.values()}.items()
    }

    async def send(kind: Kind, worker: int, order: str) -> Sequence[Receipt]:
        receipts: Sequence[Receipt] = await actors[kind][worker].answer.remote(order)
        return receipts

    async def run() -> Counter[str]:
        dispatcher = Dispatcher(lanes, send)
        packing = Packing(work.grid, work.left, lanes)
        async with contextlib.aclosing(_packets(_contexts(work, contexts), packing)) as packets:
            await dispatcher.run(packets)
        closing = [actor.close.remote() for workers in actors.values() for actor in workers]
        await asyncio.wait([asyncio.ensure_future(_result(one)) for one in closing], timeout=CLOSING_S)
        return dispatcher.counts

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    # A notebook has a loop of its own, which cannot be entered again.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, run()).result()


async def _result(reference: Any) -> Any:
    return await reference


def _start(order: WorkOrder, ledger: Any, kind: Kind, seat: int) -> Any:
    actor = ray.remote(CellWorker).options(
        num_cpus=CPUS_A_WORKER,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=TASKS_AT_ONCE,
        scheduling_strategy="SPREAD",
    )
    return actor.remote(order, ledger, kind, seat)


def _contexts(work: Work, workers: int) -> Iterator[Any]:
    """Blocks of units with their contexts, in order."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    rows = [{"unit": json.dumps(asdict(unit))} for unit in work.left]
    batch = max(1, min(UNITS_A_BATCH, len(rows) // (workers * 4)))
    data = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // batch)).map_batches(
        ContextWorker,
        fn_constructor_args=(work.order,),
        compute=ActorPoolStrategy(size=workers),
        num_cpus=CPUS_A_WORKER,
        batch_size=batch,
    )
    return iter(data.iter_batches(batch_size=None, prefetch_batches=1))


async def _packets(blocks: Iterator[Any], packing: Packing) -> AsyncGenerator[Sequence[Packet], None]:
    """The blocks as packets. Ray Data's iterator blocks, so it is asked in a thread of its own."""
    thread, loop = ThreadPoolExecutor(max_workers=1), asyncio.get_running_loop()
    try:
        while (block := await loop.run_in_executor(thread, next, blocks, None)) is not None:
            packets: list[Packet] = []
            for text in block["unit"]:
                found = json.loads(text)
                packets.extend(packing.pack(Unit(**found["unit"]), found["context"], found["problem"]))
            yield packets
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def _place(work: Work) -> tuple[dict[int, LaneSettings], int]:
    """The lanes and the number of context workers. Raises PlacementError where the cluster has no room for them."""
    cells = Counter(cell.summarizer for cells in work.left.values() for cell in cells)
    cpus = ray.cluster_resources().get("CPU", 0.0)
    asked = work.grid.spec.workers
    workers = asked or max(1, min(int(cpus), MOST_WORKERS))
    lanes = lane_settings(work.grid, cells, workers)
    kinds = len({settings.kind for settings in lanes.values()})
    room = int(cpus / CPUS_A_WORKER) - kinds * workers
    if room < 1:
        fit = (int(cpus / CPUS_A_WORKER) - 1) // kinds
        needed = CPUS_A_WORKER * (kinds * workers + 1)
        raise PlacementError(
            f"{kinds * workers + 1} workers need {needed} CPUs and the cluster has {cpus}; set workers: {fit} or less"
        )
    return lanes, max(1, min(workers, room, len(work.left) // UNITS_A_CONTEXT_WORKER))
