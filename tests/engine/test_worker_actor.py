"""A worker as an actor, without Ray: its messages at the start, and its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inline_runs import loaded

from summhay_ray.benchmark import RunModels
from summhay_ray.engine import open_run
from summhay_ray.engine.ray import worker_actor
from summhay_ray.engine.ray.worker_actor import WorkerActor, WorkOrder, node_drains
from summhay_ray.engine.run.queues import Kind
from summhay_ray.llm import LocalModel, News
from summhay_ray.store import Store

pytestmark = pytest.mark.core


class LedgerHandle:
    """The ledger's actor as `ray.get_actor` returns it: records the calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        async def said() -> Any:
            if name == "listen":
                await asyncio.sleep(0.2)
            return News() if name in ("exchange", "listen") else None

        def remote(*values: Any) -> Any:
            if name == "act":
                verb, *rest = values
                return getattr(self, verb.__name__).remote(*rest)
            self.asked.append((name, values))
            # Calls without a waiter must not be coroutines that nobody awaits.
            return said() if name in ("exchange", "listen", "leave", "commit") else None

        return SimpleNamespace(remote=remote)

    def names(self) -> list[str]:
        return [name for name, _ in list(self.asked)]


def cluster_of(states: Mapping[str, str]) -> Any:
    """A cluster with these nodes, as Ray reports it."""
    return SimpleNamespace(active_nodes=[SimpleNamespace(node_id=node, node_status=state) for node, state in states.items()])


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """A worker's process has its own log; here it is this process's log."""
    log = logging.getLogger("summhay_ray")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> LedgerHandle:
    found = LedgerHandle()
    context = SimpleNamespace(get_node_id=lambda: "node-1", gcs_address="127.0.0.1:1")
    monkeypatch.setattr(worker_actor.ray, "get_actor", lambda name: found if name.endswith(" ledger 1") else None)
    monkeypatch.setattr(worker_actor, "get_cluster_status", lambda _: cluster_of({"node-1": "RUNNING"}))
    monkeypatch.setattr(worker_actor, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(worker_actor.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(worker_actor, "BEAT_EVERY_S", 0.02)
    return found


def made(folder: Path, kind: Kind = "calling") -> WorkerActor:
    store, workload = Store(str(folder / "store")), loaded()
    run = open_run(workload, store)
    order = WorkOrder(str(folder / "store"), run.run_id, 1, {**run.record, **workload.record(store)})
    return WorkerActor(order, kind, 3)


def test_it_takes_its_place_and_beats(handle: LedgerHandle, tmp_path: Path) -> None:
    one = made(tmp_path)
    asyncio.run(one.ready())
    assert handle.asked[0] == ("hello", (one._log.writer, "calling 3"))
    assert one._log.writer.startswith("00000001-")
    end = time.monotonic() + 60
    while handle.names().count("beat") < 3:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_beats_before_all_that_takes_time(handle: LedgerHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full machine, a worker of low priority may take longer to load its models than the ledger waits for a heartbeat."""
    beaten: list[int] = []

    def slow(_: object) -> dict[str, LocalModel]:
        # Three beats, 0.02 s apart, are sent while the models are loaded.
        end = time.monotonic() + 60.0
        while handle.names().count("beat") < 3 and time.monotonic() < end:
            time.sleep(0.01)
        beaten.append(handle.names().count("beat"))
        return {}

    one = made(tmp_path, "computing")
    monkeypatch.setattr(RunModels, "local", property(slow))
    asyncio.run(one.ready())
    assert beaten and beaten[0] >= 3


def test_when_its_node_is_drained_it_says_all_leaves_and_ends(
    handle: LedgerHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    monkeypatch.setattr(worker_actor.os, "_exit", ends.append)
    states = {"node-1": "RUNNING", "node-2": "DRAINING"}
    monkeypatch.setattr(worker_actor, "get_cluster_status", lambda _: cluster_of(states))
    one = made(tmp_path)

    async def run() -> None:
        assert await one.answer("[]") == []
        await asyncio.sleep(0.1)
        # The end of another node does not concern this worker.
        assert ends == []
        states["node-1"] = "DRAINING"
        while not ends:
            await asyncio.sleep(0.01)

    asyncio.run(run())
    assert ends == [0] and handle.names().count("leave") == 1


def test_a_head_that_does_not_say_is_asked_again(handle: LedgerHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: str) -> None:
        raise RuntimeError("failed to connect to GCS")

    monkeypatch.setattr(worker_actor, "get_cluster_status", gone)
    assert not node_drains()
