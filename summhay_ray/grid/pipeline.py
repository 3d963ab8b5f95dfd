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
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import ray
import ray.data
from ray.data import ActorPoolStrategy, DataContext
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.grid.actors import SWEEPING_S, LedgerActor, start_sweeping
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.lanes import Dispatcher, Kind, LaneSettings, Packet, Packing, Receipt, lane_settings
from summhay_ray.grid.notices import SETUP_HOOK
from summhay_ray.grid.worker import DRAIN_S, CellWorker, ContextWorker, WorkOrder
from summhay_ray.llm import Budgets
from summhay_ray.problems import Problem
from summhay_ray.store import Superseded

UNITS_A_BATCH = 16
UNITS_A_CONTEXT_WORKER = 200
"""With fewer units than that, a further worker takes longer to start than it saves."""

CPUS_A_WORKER = 0.25
MOST_WORKERS_A_NODE = 4
CLOSING_S = 30.0
PLACED_WITHIN_S = 120.0
LOOK_EVERY_S = 0.25
TASKS_AT_ONCE = 100_000
"""More than the lanes ever send to one worker: Ray must not make one lane wait for another."""


class PlacementError(Problem):
    """The cluster cannot hold the run's workers; the message says what they need and what there is."""


class Stopped(Problem):
    """Somebody ended the run; what was answered is kept."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(address: str, own_modules: bool = False) -> Iterator[None]:
    """A Ray connection: `local` starts a Ray of its own and ends it, `auto` or HOST joins a cluster.

    `own_modules`: the spec names a module:Class, which the workers look for where the person stands.
    """
    _check_address(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's C++ side warns of actors with arguments in the object store; they live as long as the driver, as the run does.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    environment: dict[str, Any] = {"worker_process_setup_hook": SETUP_HOOK}
    if own_modules:
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
        environment["env_vars"] = {"PYTHONPATH": paths}
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
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


@dataclass(frozen=True)
class Work:
    """What is left to do, and who does it."""

    grid: Grid
    left: Mapping[Unit, Sequence[Cell]]
    """Unit -> its unfinished cells, in the order in which they are to be asked."""
    lanes: Mapping[int, LaneSettings]
    contexts: int
    """Workers that make contexts."""

    @property
    def seats(self) -> dict[Kind, int]:
        """Kind of worker -> how many."""
        return {lane.kind: lane.workers for lane in self.lanes.values()}


def sweep_nodes(store_uri: str) -> None:
    """Bring to the store what dead writers left on the disks of the cluster's machines."""
    sweeping = [start_sweeping(node["NodeID"], store_uri) for node in ray.nodes() if node["Alive"]]
    for one in sweeping:
        # A machine that has gone meanwhile has nothing left to bring.
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(one, timeout=SWEEPING_S)


def start_ledger(order: WorkOrder, grid: Grid, budgets: Budgets, told: str) -> Any:
    """The run's ledger, on the driver's node. `told`: where the driver is, for whom it takes the run from."""
    limits = {model: settings.limits for model, settings in grid.settings().items() if not settings.local}
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = LedgerActor.options(scheduling_strategy=here)  # type: ignore[attr-defined]
    return actor.remote((order.store_uri, order.run_id), (order.tenure, told), budgets, limits)


def answer(work: Work, order: WorkOrder, ledger: Any, superseded: Callable[[], str]) -> Counter[str]:
    """Answer and commit all cells that are left; gives how many cells, judgments and failures were committed.

    `superseded` names who has taken the run over, if anybody has. Whatever ends it early (that, SIGTERM, Ctrl-C, an error), the
    calls in flight are waited for, and what they gave is in the store. Raises Superseded, Stopped, RayError, PlacementError.
    """
    actors = {kind: [_start(order, ledger, kind, seat) for seat in range(n)] for kind, n in work.seats.items()}

    async def send(kind: Kind, worker: int, text: str) -> Sequence[Receipt]:
        receipts: Sequence[Receipt] = await actors[kind][worker].answer.remote(text)
        return receipts

    async def dispatch() -> Counter[str]:
        dispatcher = Dispatcher(work.lanes, send)
        packing = Packing(work.grid, work.left, work.lanes)
        async with contextlib.aclosing(_packets(_contexts(work, order, ledger), packing)) as packets:
            await dispatcher.run(packets)
        return dispatcher.counts

    async def run() -> Counter[str]:
        everybody = [actor for workers in actors.values() for actor in workers]
        work_itself = asyncio.ensure_future(dispatch())
        others = [asyncio.ensure_future(_placed(everybody, work)), asyncio.ensure_future(_told_to_end(superseded))]
        try:
            waiting = {work_itself, *others}
            while not work_itself.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            await _all_of([actor.close.remote() for actor in everybody], CLOSING_S)
            return work_itself.result()
        except BaseException:
            await _drain(ledger, everybody)
            raise
        finally:
            for one in (work_itself, *others):
                one.cancel()
            await asyncio.gather(work_itself, *others, return_exceptions=True)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    # A notebook has a loop of its own, which cannot be entered again.
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, run()).result()


async def _told_to_end(superseded: Callable[[], str]) -> None:
    """Raises Superseded, or Stopped when SIGTERM comes."""
    stop = asyncio.Event()
    # Only the main thread may hear signals; in a notebook the person stops the cell.
    with contextlib.suppress(ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)
        if stop.is_set():
            raise Stopped("stopped by SIGTERM; the same command goes on where it was")
        if who := superseded():
            raise Superseded(f"another driver ({who}) took the run over; this one stops, nothing is lost")


async def _placed(actors: Sequence[Any], work: Work) -> None:
    """Return when all workers have begun. Raises PlacementError where others keep the room that they need."""
    begun = [asyncio.ensure_future(_result(actor.ready.remote())) for actor in actors]
    try:
        while waiting := {one for one in begun if not one.done()}:
            await asyncio.wait(waiting, timeout=PLACED_WITHIN_S)
            free, cpus = ray.available_resources().get("CPU", 0.0), ray.cluster_resources().get("CPU", 0.0)
            late, needed = sum(not one.done() for one in begun), CPUS_A_WORKER * (len(actors) + work.contexts)
            # A slow machine takes long to start them: only where somebody else can hold what is missing, nobody comes.
            if late and free < CPUS_A_WORKER <= cpus - needed:
                raise PlacementError(
                    f"{late} of {len(actors)} workers found no room within {PLACED_WITHIN_S:.0f} s: each needs {CPUS_A_WORKER} "
                    f"CPUs, and other jobs hold them ({cpus:g} in all); wait, or set workers: {max(1, len(actors) - late)}"
                )
    finally:
        for one in begun:
            one.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


async def _drain(ledger: Any, actors: Sequence[Any]) -> None:
    with contextlib.suppress(ray.exceptions.RayError):
        await ledger.stop.remote()
    await _all_of([actor.drain.remote() for actor in actors], DRAIN_S + CLOSING_S / 2)


async def _all_of(references: Sequence[Any], timeout_s: float) -> int:
    """Wait for all; gives how many have not come by then. What they raise is their own matter: the dead say nothing."""
    waiting = [asyncio.ensure_future(_result(one)) for one in references]
    if not waiting:
        return 0
    _, late = await asyncio.wait(waiting, timeout=timeout_s)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return len(late)


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


def _contexts(work: Work, order: WorkOrder, ledger: Any) -> Iterator[Any]:
    """Blocks of units with their contexts, in order."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    rows = [{"unit": json.dumps(asdict(unit))} for unit in work.left]
    batch = max(1, min(UNITS_A_BATCH, len(rows) // (work.contexts * 4)))
    data = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // batch)).map_batches(
        ContextWorker,
        fn_constructor_args=(order, ledger),
        compute=ActorPoolStrategy(size=work.contexts),
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


def place(grid: Grid, left: Mapping[Unit, Sequence[Cell]]) -> Work:
    """What is left, with the workers that the cluster has room for. Raises PlacementError where it has too little."""
    cells = Counter(cell.summarizer for cells in left.values() for cell in cells)
    cpus = ray.cluster_resources().get("CPU", 0.0)
    nodes = sum(1 for node in ray.nodes() if node["Alive"])
    workers = grid.spec.workers or max(1, min(int(cpus), MOST_WORKERS_A_NODE * nodes))
    lanes = lane_settings(grid, cells, workers)
    kinds = len({settings.kind for settings in lanes.values()})
    room = int(cpus / CPUS_A_WORKER) - kinds * workers
    if room < 1:
        fit = (int(cpus / CPUS_A_WORKER) - 1) // kinds
        needed = CPUS_A_WORKER * (kinds * workers + 1)
        mend = f"set workers: {fit} or less" if fit > 0 else "start more nodes"
        raise PlacementError(f"{kinds * workers + 1} workers need {needed} CPUs and the cluster has {cpus:g}; {mend}")
    return Work(grid, left, lanes, max(1, min(workers, room, len(left) // UNITS_A_CONTEXT_WORKER)))
