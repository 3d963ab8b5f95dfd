"""The run on Ray: what is to be asked comes streaming (`streams.py`), and goes cell by cell to async actors (`lanes.py`).

Part of the grid room.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.grid.actors import SWEEPING_S, LedgerActor, lives, start_sweeping
from summhay_ray.grid.cells import Grid
from summhay_ray.grid.lanes import Dispatcher, Kind, Receipt
from summhay_ray.grid.notices import SETUP_HOOK
from summhay_ray.grid.placing import CPUS_A_WORKER, PlacementError, Work, placed
from summhay_ray.grid.streams import packets_of
from summhay_ray.grid.worker import DRAIN_S, CellWorker, WorkOrder
from summhay_ray.llm import Budgets
from summhay_ray.problems import Problem
from summhay_ray.store import StoreUnavailable, Superseded

CLOSING_S = 30.0
LOOK_EVERY_S = 0.25
BY_SIGTERM = "stopped by SIGTERM; the same command goes on where it was"
TASKS_AT_ONCE = 100_000
"""More than the lanes ever send to one worker: Ray must not make one lane wait for another."""


class RayMissing(Problem):
    """Ray did not come up, or cannot be joined."""

    exit_code = 1


class Stopped(Problem):
    """Somebody ended the run; what was answered is kept."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(address: str, own_modules: bool = False) -> Iterator[None]:
    """A Ray connection: `local` starts a Ray of its own and ends it, `auto` or HOST joins a cluster.

    `own_modules`: the spec names a module:Class, which the workers look for where the person stands.
    """
    _check_address(address)
    with _own_variables():
        yield from _session(address, own_modules)


def _session(address: str, own_modules: bool) -> Iterator[None]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's C++ side warns of Ray Data's own actors, and at its start it tells that it was asked not to.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    environment: dict[str, Any] = {"worker_process_setup_hook": SETUP_HOOK}
    if own_modules:
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
        environment["env_vars"] = {"PYTHONPATH": paths}
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
    folder = tempfile.mkdtemp(prefix="summhay-") if address == "local" else None
    before = signal.getsignal(signal.SIGTERM)
    if folder:
        options |= {"include_dashboard": False, "_temp_dir": folder, "object_store_memory": 512 * 2**20}
    try:
        with _silent():
            ray.init(address=address, **options)
    except (Problem, KeyboardInterrupt):
        _leave(folder)
        raise
    # Ray raises a bare Exception where its processes do not come up in time.
    except Exception as error:
        # Not ended: it may be a person's own that is in the way.
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise RayMissing(f"Ray does not start: {' '.join(str(error).split())[:300]}; nothing was asked, run again") from error
    hear_sigterm()
    try:
        yield
    finally:
        _leave(folder)
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


def _leave(folder: str | None) -> None:
    """End Ray, also one that is still coming up, and take away what it wrote."""
    with _unheard():
        ray.shutdown()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _own_variables() -> Iterator[None]:
    """What the block and Ray put into this process's environment ends with it: a caller's next cluster is a cluster of its own.

    Ray leaves the mode of its tokens there, for one, which no other cluster then understands.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(("RAY_", "PYTHONBREAKPOINT")) and name not in before]:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("RAY_")})


def hear_sigterm() -> None:
    """SIGTERM is an exception from now on, as Ctrl-C is; Ray's and asyncio's own ends take it away again."""

    def stop(*_: object) -> None:
        raise Stopped(BY_SIGTERM)

    # Only the main thread may hear signals; in a notebook's the person stops the cell.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, stop)


def _unheard() -> contextlib.AbstractContextManager[Any]:
    """While workers end with their driver: Ray prints of each that it died and is started again."""
    return contextlib.redirect_stdout(io.StringIO())


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Nothing reaches stderr from outside Python either; what goes wrong comes as an exception."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


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


def sweep_nodes(store_uri: str) -> None:
    """Bring to the store what dead writers left on the disks of the cluster's machines. Raises StoreUnavailable."""
    sweeping = {node["NodeID"]: start_sweeping(node["NodeID"], store_uri) for node in ray.nodes() if node["Alive"]}
    for node, one in sweeping.items():
        try:
            ray.get(one, timeout=SWEEPING_S)
        except ray.exceptions.RayError as error:
            # A machine that has gone meanwhile has nothing left to bring; of one that lives the answers must not be given up.
            if lives(node):
                raise StoreUnavailable(f"the disk of node {node} cannot be swept ({type(error).__name__}); run again") from error


def start_ledger(order: WorkOrder, grid: Grid, budgets: Budgets, told: str) -> Any:
    """The run's ledger, on the driver's node. `told`: where the driver is, for whom it takes the run from."""
    limits = {model: settings.limits for model, settings in grid.settings().items() if not settings.local}
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    # Workers find it by its name: a handle among a worker's arguments would lie in the object store, and could be lost.
    actor = LedgerActor.options(name=order.ledger, scheduling_strategy=here)  # type: ignore[attr-defined]
    ledger = actor.remote((order.store_uri, order.run_id), (order.tenure, told), budgets, limits)
    ray.get(ledger.begin.remote())
    return ledger


def answer(work: Work, order: WorkOrder, ledger: Any, superseded: Callable[[], str]) -> Counter[str]:
    """Answer and commit all cells that are left; gives how many cells, judgments and failures were committed.

    `superseded` names who has taken the run over, if anybody has. Whatever ends it early (that, SIGTERM, Ctrl-C, an error), the
    calls in flight are waited for, and what they gave is in the store. Raises Superseded, Stopped, RayError, PlacementError.
    """
    first = asyncio.Event()
    actors = {kind: [_start(order, kind, seat) for seat in range(n)] for kind, n in work.seats.items()}

    async def send(kind: Kind, worker: int, text: str) -> Sequence[Receipt]:
        receipts: Sequence[Receipt] = await actors[kind][worker].answer.remote(text)
        return receipts

    async def dispatch() -> Counter[str]:
        dispatcher = Dispatcher(work.lanes, send)
        async with contextlib.aclosing(packets_of(work, order, first)) as packets:
            await dispatcher.run(packets)
        return dispatcher.counts

    async def run() -> Counter[str]:
        everybody = [actor for workers in actors.values() for actor in workers]
        work_itself = asyncio.ensure_future(dispatch())
        beginning = placed([actor.ready.remote() for actor in everybody], work, first)
        others = [asyncio.ensure_future(beginning), asyncio.ensure_future(_told_to_end(superseded))]
        try:
            waiting = {work_itself, *others}
            while not work_itself.done():
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            await _all_of([actor.close.remote() for actor in everybody], CLOSING_S)
            return work_itself.result()
        except BaseException:
            with _unheard():
                await _drain(ledger, everybody)
            raise
        finally:
            for one in (work_itself, *others):
                one.cancel()
            await asyncio.gather(work_itself, *others, return_exceptions=True)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            return asyncio.run(run())
        finally:
            hear_sigterm()
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
            raise Stopped(BY_SIGTERM)
        if who := superseded():
            raise Superseded(f"another driver ({who}) took the run over; this one stops, nothing is lost")


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


def _start(order: WorkOrder, kind: Kind, seat: int) -> Any:
    actor = ray.remote(CellWorker).options(
        num_cpus=CPUS_A_WORKER,
        max_restarts=-1,
        max_task_retries=-1,
        max_concurrency=TASKS_AT_ONCE,
        scheduling_strategy="SPREAD",
    )
    return actor.remote(order, kind, seat)
