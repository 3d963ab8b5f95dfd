"""Places a run's workers on a cluster, and reports where it has too little room. Part of the engine room; imports Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.execution import Work
from summhay_ray.engine.queues import Kind, QueueSettings, queue_settings
from summhay_ray.engine.spec import ResourcesSpec
from summhay_ray.errors import UserError

CPUS_A_WORKER = 0.25
MOST_WORKERS_A_NODE = 4

PLACED_WITHIN_S = 120.0
SLOW_ROUNDS = 5
"""Waits of `PLACED_WITHIN_S` without progress after which a missing worker is taken to have no room, even on a slow machine."""
GROWN_ROUNDS = 3
"""Waits of `PLACED_WITHIN_S` without progress after which a cluster that is too small is taken not to grow."""


class PlacementError(UserError):
    """The cluster has no room for the run's workers; the message says what they need and what it has."""


@dataclass(frozen=True)
class Placement:
    """The workers of a run."""

    workload: Workload[Any]
    queues: Mapping[str, QueueSettings]

    @property
    def seats(self) -> dict[Kind, int]:
        """Kind of worker -> number of workers."""
        return {queue.kind: queue.workers for queue in self.queues.values()}

    def holds(self, kind: Kind) -> dict[str, float]:
        """The resources of a worker of this kind, as Ray's options: those of the spec's `resources`, as far as available."""
        wanted = self.workload.spec.resources.get(kind)
        if wanted is None:
            return {"num_cpus": CPUS_A_WORKER}
        free = _cpus() - CPUS_A_WORKER * (sum(n for other, n in self.seats.items() if other != kind) + 1)
        return {"num_cpus": max(CPUS_A_WORKER, min(wanted.cpus, free / self.seats[kind])), "num_gpus": wanted.gpus}


def place(work: Work, own_ray: bool = True) -> Placement:
    """The workers for a run. Raises PlacementError if our own Ray (`own_ray`) is too small for them. A cluster may grow: its
    autoscaler, if any, starts nodes for workers that wait."""
    workload = work.workload
    cpus, nodes = _cpus(), sum(1 for node in ray.nodes() if node["Alive"])
    workers = workload.spec.workers or max(1, min(int(cpus), MOST_WORKERS_A_NODE * nodes))
    resources = workload.spec.resources
    queues = queue_settings(workload, work.in_queues(), workers, resources)
    seats = {settings.kind: settings.workers for settings in queues.values()}
    fixed = sum(n for kind, n in seats.items() if kind in resources)
    kinds, seated = len([kind for kind in seats if kind not in resources]), sum(seats.values())
    needed = CPUS_A_WORKER * seated
    if cpus < needed and own_ray:
        fit = (int(cpus / CPUS_A_WORKER) - fixed) // max(kinds, 1)
        mend = f"set workers: {fit} or less" if fit > 0 else "start more nodes"
        raise PlacementError(f"{seated} workers need {needed} CPUs and the cluster has {cpus:g}; {mend}")
    check_gpus(seats, resources)
    return Placement(workload, queues)


def check_gpus(seats: Mapping[str, int], resources: Mapping[str, ResourcesSpec]) -> None:
    """Raises PlacementError if actors need more GPUs than the cluster has."""
    there = float(ray.cluster_resources().get("GPU", 0.0))
    for kind, n in seats.items():
        if kind in resources and (needed := n * resources[kind].gpus) > there:
            lack = f"resources.{kind}: {n} actors need {needed:g} GPUs and the cluster has {there:g}"
            raise PlacementError(f"{lack}; set gpus: {there / n:g}, or start nodes that have them")


async def placed(beginning: Sequence[Any]) -> None:
    """Return when all workers have started (`beginning`: a reference for each).

    Raises PlacementError if other jobs hold the room or the cluster has too little, and any error with which a worker failed to
    start.
    """
    begun = [asyncio.ensure_future(result_of(reference)) for reference in beginning]
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
    """Raises PlacementError if no CPUs are free and other jobs hold some, or the cluster has had too few for so many rounds.

    After many rounds, late workers count as holding none, so that their CPUs count as held by others.
    """
    free, cpus = ray.available_resources().get("CPU", 0.0), _cpus()
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


def _cpus() -> float:
    return float(ray.cluster_resources().get("CPU", 0.0))


async def result_of(reference: Any) -> Any:
    """The result of a Ray reference, as a coroutine, which asyncio can turn into a task."""
    return await reference
