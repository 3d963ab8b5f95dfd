"""The Ray executor: a run on actors, on this machine or a cluster. Part of the engine room; imports Ray."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from summhay_ray.engine.items import Item
from summhay_ray.engine.ray.ledger_actor import LedgerActor
from summhay_ray.engine.ray.placement import EMBED, PlacementError, place, result_of
from summhay_ray.engine.ray.pools import Pools
from summhay_ray.engine.ray.prepared_on_ray import work_items_of
from summhay_ray.engine.ray.scaling import Workers
from summhay_ray.engine.ray.worker_actor import WorkOrder, start_worker
from summhay_ray.engine.run.execution import DRAIN_S, LOOK_EVERY_S, Work, first_end, hear_sigterm, run_stoppable, until_stopped
from summhay_ray.engine.run.heartbeat import Heartbeat
from summhay_ray.engine.work.prepared import Left
from summhay_ray.engine.work.queues import Dispatcher, ItemResult, Kind, WorkItem, batch_text
from summhay_ray.errors import UserError
from summhay_ray.llm import Budgets, Ledger
from summhay_ray.logs import asked_level
from summhay_ray.store import n_vector_files

CLOSING_S = 30.0
VECTORS_TOLD_EVERY_S = 2.0
LONGEST_BASE = 16
"""Maximum bytes of the path of the temporary folder: a socket's path holds 103, and Ray's and our folders need the rest."""
RAYS_LISTENER = "ray_listen_error_messages"


class RayMissing(UserError):
    """Ray did not start, or its cluster cannot be joined."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(address: str, from_here: bool = False) -> Iterator[str]:
    """A context with a Ray connection: `local` starts a private Ray and ends it; `auto` or HOST:PORT joins a cluster.

    It gives the URL of Ray's dashboard; empty if there is none.

    `from_here`: let workers import the user's own modules from the current folder.
    """
    if ray.is_initialized():
        raise RayMissing("this process is connected to a Ray already; nothing was asked, call ray.shutdown() and run again")
    _check_address(address)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_private_folder())
        except OSError as error:
            raise RayMissing(f"Ray has no temporary folder ({error}); nothing was asked, mend it or set TMPDIR") from error
        options: dict[str, Any] = {}
        if address == "local":
            # Ray makes its own folder readable for everybody, so it goes inside the private one.
            options |= {"_temp_dir": str(folder / "r"), "include_dashboard": False, "object_store_memory": 512 * 2**20}
            # Nobody reads its metrics, which cost seconds, and it would start a worker for each CPU ahead.
            options["_system_config"] = {"enable_metrics_collection": False, "prestart_worker_first_driver": False}
        elif from_here:
            paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
            options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
        # Ray's workers look for modules first where their driver stands when it starts Ray: there must be none.
        empty = None if from_here else folder / "empty"
        if empty is not None:
            empty.mkdir()
        yield from _session(address, options, empty)


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A temporary folder that no other user can read. Raises OSError."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > LONGEST_BASE:
        base = "/tmp"
    with tempfile.TemporaryDirectory(prefix="summhay_ray-", dir=base, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _session(address: str, options: dict[str, Any], stand: Path | None) -> Iterator[str]:
    known = set(os.environ)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # At this level Ray's C++ side neither warns of Ray Data's own actors nor prints that a level was set.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Workers' lines come to this process where somebody has asked for them; otherwise they are in Ray's files alone.
    options = {**options, "log_to_driver": asked_level() is not None, "logging_level": "ERROR"}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _silent(), contextlib.chdir(stand) if stand else contextlib.nullcontext():
            dashboard = ray.init(address=address, **options).dashboard_url
    except (UserError, KeyboardInterrupt):
        _leave(known)
        raise
    # Ray raises a bare Exception where its processes do not come up in time.
    except Exception as error:
        _leave(known)
        raise RayMissing(f"Ray does not start: {' '.join(str(error).split())[:300]}; nothing was asked, run again") from error
    hear_sigterm()
    try:
        with contextlib.redirect_stdout(_WithoutRaysOwn(sys.stdout)):
            yield f"http://{dashboard}" if dashboard else ""
    finally:
        _leave(known)
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


def _leave(known: set[str]) -> None:
    """Shut Ray down, even while it is starting, and unset the variables that it has set, which are not for other clusters."""
    with contextlib.redirect_stdout(io.StringIO()):
        ray.shutdown()
    for name in set(os.environ) - known:
        if name.startswith("RAY_"):
            del os.environ[name]


class _WithoutRaysOwn:
    """A stdout without what a thread of Ray prints there of each worker that dies and is restarted, which is in Ray's logs."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if threading.current_thread().name == RAYS_LISTENER else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """A context in which nothing is written to stderr, not even by native code. Errors still come as exceptions."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _check_address(address: str) -> None:
    """Raises PlacementError if no head answers at the address; Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        message = f"--address {address}: no Ray head answers there ({error}); give a running one's address, or local"
        raise PlacementError(message) from error


class RayExecution:
    """One start of a run on the Ray cluster that this process is connected to; see `Execution`."""

    name = "ray"

    def __init__(self, work: Work, own_ray: bool, dashboard: str = "") -> None:
        self._work = work
        self._placement = place(work, own_ray, dashboard)
        if self._placement.pools:
            # It takes a second and more: meanwhile the actors start.
            threading.Thread(target=importlib.import_module, args=("ray.data",), daemon=True).start()
        self._computing: dict[str, Any] = {}
        wanted, pool = work.workload.spec.resources.get(EMBED), self._placement.pools.get(EMBED)
        if wanted and pool and wanted.gpus > pool.gpus:
            self._computing["warnings"] = [f"resources.{EMBED}: this machine has no GPU; the models ran on CPUs"]

    @property
    def workers(self) -> int:
        """See `Execution`."""
        return sum(bounds.fewest for bounds in self._placement.workers.values())

    def begin(self, heartbeat: Heartbeat, budgets: Budgets) -> None:
        """See `Execution`."""
        workload, run = self._work.workload, self._work.run
        files = run.store.files
        self._heartbeat = heartbeat
        self._order = WorkOrder(
            store_uri=files.uri,
            run_id=run.run_id,
            session=heartbeat.session.number,
            record=self._work.record,
            workers=sum(some.most for some in self._placement.workers.values())
            + sum(pool.first for pool in self._placement.pools.values()),
            log_level=asked_level() or logging.INFO,
        )
        limits = {model: settings.limits for model, settings in workload.models.settings().items() if not settings.local}
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Workers find the actor by name: a handle in a worker's arguments would be in the object store, and could be lost.
        actor = LedgerActor.options(name=self._order.ledger, scheduling_strategy=here)  # type: ignore[attr-defined]
        order, session = self._order, heartbeat.session.number
        self._ledger = actor.remote((files.uri, run.run_id), session, budgets, limits, order.ledger, order.log_level)
        # The workers' processes start beside the ledger's, and wait for `ready`.
        placement = self._placement
        self._pools = Pools(workload, self._order, placement.pools)
        self._workers = Workers(
            placement.workers, lambda kind, seat: start_worker(self._order, kind, seat, placement.holds(kind))
        )
        ray.get(self._ledger.begin.remote())

    def snapshot(self) -> dict[str, Any]:
        """See `Execution`."""
        numbers: dict[str, Any] = ray.get(self._ledger.act.remote(Ledger.snapshot))
        return {**numbers, **self._computing}

    def finish(self) -> None:
        """See `Execution`."""
        ray.get(self._ledger.finish.remote())

    def answer(self, left: Mapping[str, Sequence[Item]]) -> Counter[str]:
        """See `Execution`."""
        return run_stoppable(lambda: self._run(left))

    async def _run(self, left: Left) -> Counter[str]:
        placement, workers, pools = self._placement, self._workers, self._pools

        async def send(kind: Kind, worker: int, batch: Sequence[WorkItem]) -> Sequence[ItemResult]:
            results: Sequence[ItemResult] = await workers[kind, worker].answer.remote(batch_text(batch))
            return results

        async def snapshot() -> Mapping[str, Any]:
            numbers: Mapping[str, Any] = await self._ledger.act.remote(Ledger.snapshot)
            return numbers

        async def prepared(sources: AsyncGenerator[Left, None]) -> AsyncGenerator[Sequence[WorkItem], None]:
            async with contextlib.aclosing(sources):
                async for some in sources:
                    async for block in work_items_of(some, placement.workload, workers.prepare, len(workers.all()) or 1):
                        yield block

        dispatcher = Dispatcher(placement.queues, send, workers.seats)
        work = dispatcher.run(*map(prepared, pools.feeds(left)))
        others = [workers.run(dispatcher, snapshot), until_stopped(self._heartbeat, asyncio.current_task()), self._tell_pool()]
        if placement.types is not None:
            others.append(placement.types.watch())
        try:
            await first_end(asyncio.ensure_future(work), [*map(asyncio.ensure_future, others)])
            await _all_of([actor.close.remote() for actor in workers.all()], CLOSING_S)
        except BaseException:
            await self._drain(workers.all())
            raise
        finally:
            self._computing.pop("doing", None)
            self._computing["computing"] = pools.took()
        dispatcher.counts.update(pools.counts)
        return dispatcher.counts

    async def _tell_pool(self) -> None:
        """Let the progress tell what the pool for `Workload.compute` has done, until cancelled."""
        files, pools = self._work.run.store.files, self._pools
        before = await asyncio.to_thread(n_vector_files, files) if EMBED in self._placement.pools else 0
        while True:
            await asyncio.sleep(VECTORS_TOLD_EVERY_S)
            self._computing.pop("doing", None)
            if pools.n_computed < pools.n_parts:
                new = await asyncio.to_thread(n_vector_files, files) - before
                done = f"computing: {pools.n_computed} of {pools.n_parts} parts"
                self._computing["doing"] = f"{done}, {new} blocks of texts embedded" if new else done

    async def _drain(self, actors: Sequence[Any]) -> None:
        with contextlib.suppress(ray.exceptions.RayError):
            await self._ledger.act.remote(Ledger.stop)
            self._work.stopping((await self._ledger.act.remote(Ledger.snapshot))["in_flight"])
        await _all_of([actor.drain.remote() for actor in actors], DRAIN_S + CLOSING_S / 2)
        # The actors of pools have no handles: a model of the user's own that asks a provider ends its calls there by itself.
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._placement.pools and (await self._ledger.act.remote(Ledger.snapshot))["in_flight"]:
                    await asyncio.sleep(LOOK_EVERY_S)
        with contextlib.suppress(ray.exceptions.RayError):
            await self._ledger.end.remote()


async def _all_of(references: Sequence[Any], timeout_s: float) -> None:
    """Wait for all references, at most so long. Their errors are ignored, since dead actors cannot answer."""
    waiting = [asyncio.ensure_future(result_of(reference)) for reference in references]
    if not waiting:
        return
    await asyncio.wait(waiting, timeout=timeout_s)
    for future in waiting:
        future.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
