"""Decides how many workers and pools a run gets on a cluster, and reports missing resources."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
from ray.util.state import list_cluster_events

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.ray.session import PlacementError
from summhay_ray.engine.run.execution import Work
from summhay_ray.engine.run.queues import COMPUTING, Kind, QueueSettings, queue_settings
from summhay_ray.engine.run.worker import divided
from summhay_ray.engine.spec.spec import RangeSpec, ResourcesSpec

POOL: Kind = "pool"
EMBED: Kind = "embed"
"""The key of a spec's `resources` for the actors that run `Workload.compute`."""
CPUS_A_WORKER = 0.25
CALLS_A_WORKER = 64
"""Minimum number of concurrent calls per worker, unless the spec sets the number of workers. One worker can make about 2,000."""
CPUS_IN_A_POOL = 0.75
"""CPUs of a pool's actor that answers items. A worker fits on the rest of the same CPU."""
MOST_IN_A_POOL = 1000
"""Maximum number of a pool's actors, more than any cluster has room for. Ray Data adds actors while nodes have room, including
nodes that the autoscaler may start."""
NO_TYPE, STARTS = "No available node types can fulfill", "Adding "
"""Beginnings of the autoscaler's messages that it cannot meet a request, and that it starts a node."""
TYPES_WITHIN_S = 15.0
"""Maximum time to wait for one of these messages before the run. The autoscaler runs every 5 s."""
CHECK_EVERY_S = 5.0
MOST_WORKERS_A_NODE = 4

PLACED_WITHIN_S = 120.0
SLOW_ROUNDS = 5
"""After this many waits of `PLACED_WITHIN_S` without a new worker, the missing ones have no room, even on a slow machine."""
GROWN_ROUNDS = 3
"""After this many waits of `PLACED_WITHIN_S` without a new worker, a cluster that is too small does not grow."""


@dataclass(frozen=True)
class Bounds:
    """The minimum and maximum number of workers."""

    fewest: int
    most: int


@dataclass(frozen=True)
class Pool:
    """The number of a pool's actors, and the resources of each actor."""

    fewest: int
    most: int
    cpus: float
    gpus: float = 0.0
    first: int = 1
    """The initial number of actors, if there is room. The number changes with the work."""


@dataclass(frozen=True)
class Placement:
    """The workers and the pools of a run."""

    workload: Workload[Any]
    queues: Mapping[str, QueueSettings]
    """Queue -> its settings, for the queues whose items ask a provider."""
    pools: Mapping[Kind, Pool]
    """The pool POOL answers items that ask only models in this cluster. The pool EMBED runs `Workload.compute`."""
    families: Mapping[Kind, Pool]
    """Family of models with `resources` in the spec, or EMBED -> the resources of each of its workers."""
    workers: Mapping[Kind, Bounds]
    """Kind of worker -> the minimum and maximum number of workers."""
    types: NodeTypes | None = None
    """Checks the types of nodes; None for a private Ray, which starts no nodes."""

    def holds(self, kind: Kind) -> dict[str, float]:
        """Return the resources of a worker of this kind, as Ray's options."""
        found = self.families.get(kind)
        return {"num_cpus": CPUS_A_WORKER} if found is None else {"num_cpus": found.cpus, "num_gpus": found.gpus}


def place(work: Work, own_ray: bool = True, dashboard: str = "") -> Placement:
    """Return the workers and pools for a run. They may exceed a cluster's room, since an autoscaler starts nodes for waiting
    actors.

    `own_ray`: whether Ray is private. `dashboard`: the URL of the cluster's dashboard.

    Raises PlacementError if a private Ray is too small for them, or if no node of the cluster and no node that the autoscaler may
    start has the resources of one actor.
    """
    workload, resources = work.workload, work.workload.spec.resources
    cpus, nodes = float(ray.cluster_resources().get("CPU", 0.0)), sum(1 for node in ray.nodes() if node["Alive"])
    for_workers, for_pool = divided(workload, work.left)
    left = Counter(item.queue for items in for_workers.values() for item in items)
    now = max(1, min(int(cpus), MOST_WORKERS_A_NODE * nodes))
    if said := workload.spec.workers:
        bounds = Bounds(max(1, said.min), said.max)
    else:
        at_once = sum(model.limits.concurrency for model in workload.models.settings().values() if not model.local)
        bounds = Bounds(now, now if own_ray else max(now, -(-at_once // CALLS_A_WORKER)))
    queues = queue_settings(workload, left, bounds.most, resources)
    of = {kind: Bounds(max(1, one.actors.min), one.actors.max) for kind, one in resources.items()}
    if not said and not own_ray and any(queue.kind == COMPUTING and not queue.calls for queue in queues.values()):
        of[COMPUTING] = Bounds(now, MOST_IN_A_POOL)
    workers = {queue.kind: of.get(queue.kind, bounds) for queue in queues.values()}
    queues = {name: replace(queue, workers=workers[queue.kind].most) for name, queue in queues.items()}
    seats = {kind: some.fewest for kind, some in workers.items()}
    kinds = [POOL] if for_pool else []
    if workload.computations([item for items in work.left.values() for item in items]):
        kinds.append(EMBED)
    seated, n_pools = sum(seats.values()), len(kinds)
    needed = CPUS_A_WORKER * (seated + n_pools)
    if cpus < needed and own_ray:
        # A spec may give a range such as {min: 1, max: 8}: there must be room for the minimum.
        fixed = n_pools + sum(n for kind, n in seats.items() if kind in resources)
        fit = (int(cpus / CPUS_A_WORKER) - fixed) // max(1, len(seats.keys() - resources.keys()))
        mend = f"set workers: {fit} or less" if seats and fit > 0 else "start more nodes"
        and_pools = f" and {n_pools} pools" if n_pools else ""
        raise PlacementError(f"{seated} workers{and_pools} need {needed:g} CPUs and the cluster has {cpus:g}; {mend}")
    room = cpus - CPUS_A_WORKER * seated
    # A cluster without CPUs consists only of a head, which starts nodes.
    share = max(CPUS_A_WORKER, room / max(1, n_pools)) if cpus else 1.0
    asked = {kind: resources[kind] for kind in {*kinds, *seats} & resources.keys()}
    if EMBED in kinds:
        asked.setdefault(EMBED, ResourcesSpec(actors=RangeSpec(max=MOST_IN_A_POOL)))
    types = None
    if own_ray:
        asked = {kind: _without_gpus(kind, wanted) for kind, wanted in asked.items()}
    else:
        types = NodeTypes({kind: {"CPU": min(one.cpus, share), "GPU": one.gpus} for kind, one in asked.items()}, dashboard)
        types.ask()
    own = {}
    for kind, wanted in asked.items():
        # The actors get fewer CPUs if otherwise their minimum number would not fit.
        cpus_each = max(CPUS_A_WORKER / 2, min(wanted.cpus, share / max(1, wanted.actors.min)))
        own[kind] = Pool(wanted.actors.min, wanted.actors.max, cpus_each, wanted.gpus)
    pools = {EMBED: own[EMBED]} if EMBED in kinds else {}
    if POOL in kinds:
        each = min(CPUS_IN_A_POOL, share)
        fewest, most = (bounds.fewest, bounds.most) if said else (1, MOST_IN_A_POOL)
        pools[POOL] = Pool(fewest, most, each, first=int(share / each))
    return Placement(workload, queues, pools, own, workers, types)


def _without_gpus(kind: Kind, wanted: ResourcesSpec) -> ResourcesSpec:
    """Return the resources of actors in a private Ray. Without GPUs, embedding models run on CPUs; other models raise
    PlacementError."""
    there = float(ray.cluster_resources().get("GPU", 0.0))
    if wanted.gpus <= there:
        return wanted
    if kind == EMBED and not there:
        return wanted.model_copy(update={"gpus": 0.0})
    lack = f"resources.{kind}: an actor needs {wanted.gpus:g} GPUs and this machine has {there:g}"
    raise PlacementError(f"{lack}; set gpus: {there:g}, or give the --address of a cluster that has them")


class NodeTypes:
    """Finds out from the autoscaler whether some type of node has the actors' resources.

    Ray does not list the types of nodes that an autoscaler may start. But it reports a request that no type can meet.
    """

    def __init__(self, asked: Mapping[Kind, Mapping[str, float]], dashboard: str) -> None:
        """`asked`: kind of actor -> the resources of one actor (CPU, GPU). `dashboard`: the URL of Ray's dashboard."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._asked = {
            kind: needs
            for kind, needs in asked.items()
            if dashboard and not any(all(node.get(name, 0.0) >= n for name, n in needs.items()) for node in nodes)
        }
        self._dashboard = dashboard
        self._known = {event.event_id for event in self._events()} if self._asked else set()

    def ask(self) -> None:
        """Request these resources in tasks that do nothing, before the run needs them. Raises PlacementError."""
        tasks = [
            ray.remote(num_cpus=needs["CPU"], num_gpus=needs["GPU"], max_retries=0)(_nothing).remote()
            for needs in self._asked.values()
        ]
        end = time.monotonic() + TYPES_WITHIN_S
        try:
            while tasks and time.monotonic() < end and ray.wait(tasks, num_returns=len(tasks), timeout=0.5)[1]:
                if any(message.startswith(STARTS) for message in self.check()):
                    break
        finally:
            for task in tasks:
                ray.cancel(task)

    def check(self) -> list[str]:
        """Return the autoscaler's new messages. Raises PlacementError if no type of node has the requested resources."""
        messages = [event.message for event in self._events() if event.event_id not in self._known]
        for kind, needs in self._asked.items():
            wanted = [f"'{name}': {n}" for name, n in needs.items() if n]
            if any(NO_TYPE in message and all(part in message for part in wanted) for message in messages):
                needed = f"{needs['GPU']:g} GPUs and {needs['CPU']:.2g} CPUs"
                lack = f"an actor needs {needed}, and no type of the cluster's nodes has them"
                raise PlacementError(f"resources.{kind}: {lack}; ask for less, or give the cluster nodes that have them")
        return messages

    async def watch(self) -> None:
        """Keep checking until cancelled, since a busy autoscaler may answer late. Raises PlacementError."""
        while self._asked:
            await asyncio.sleep(CHECK_EVERY_S)
            await asyncio.to_thread(self.check)

    def _events(self) -> list[Any]:
        """Return all messages of the autoscaler so far."""
        try:
            return [*list_cluster_events(self._dashboard, raise_on_missing_output=False)]
        # Ray raises a bare Exception if its dashboard does not answer.
        except Exception:  # noqa: BLE001
            return []


def _nothing() -> None:
    pass


async def placed(beginning: Sequence[Any]) -> None:
    """Wait until all workers have started. `beginning`: a reference for each worker.

    Raises PlacementError if other jobs hold the resources or the cluster has too few. If a worker fails to start, raises its
    error.
    """
    begun = [asyncio.ensure_future(reference) for reference in beginning]
    rounds = 0
    try:
        while waiting := {start for start in begun if not start.done()}:
            done, _ = await asyncio.wait(waiting, timeout=PLACED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            for start in done:
                start.result()
            rounds += not done
            if not done:
                _check_room(len(waiting), len(begun), rounds)
    finally:
        for start in begun:
            start.cancel()
        await asyncio.gather(*begun, return_exceptions=True)


def _check_room(late: int, workers: int, rounds: int) -> None:
    """Raise PlacementError if no CPUs are free because other jobs hold them, or if the cluster has had too few for many rounds.

    At first, workers that have not started count as if they held CPUs. After many rounds they do not: other jobs hold these CPUs.
    """
    free, cpus = ray.available_resources().get("CPU", 0.0), float(ray.cluster_resources().get("CPU", 0.0))
    others = cpus - free - CPUS_A_WORKER * (workers - late if rounds > SLOW_ROUNDS else workers)
    if free >= CPUS_A_WORKER:
        return
    if others >= CPUS_A_WORKER:
        why, mend = f"other jobs hold them ({cpus:g} in all)", "wait, or set"
    elif cpus < CPUS_A_WORKER * workers and rounds >= GROWN_ROUNDS:
        why, mend = f"the cluster has {cpus:g} in all and does not grow", "start more nodes, or set"
    else:
        return
    raise PlacementError(
        f"{late} of {workers} workers found no room within {rounds * PLACED_WITHIN_S:.0f} s: each needs {CPUS_A_WORKER} CPUs, "
        f"and {why}; {mend} workers: {max(1, workers - late)}"
    )
