"""Starts and ends a run's workers as its work and its cluster grow and shrink. Imports Ray.

A worker that waits for room makes a cluster's autoscaler start a node, and a node without workers is released. So a worker is
added while items wait and the providers accept more calls, and a worker that has been idle for a while is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import ray

from summhay_ray.engine.ray.placement import Bounds, placed, result_of
from summhay_ray.engine.work.queues import Dispatcher, Kind, Pending, WorkerLost

LOOK_EVERY_S = 5.0
IDLE_S = 30.0
USED = 0.8
"""If this share of the maximum number of concurrent calls is in flight, more workers would not help."""


class Workers:
    """The workers of a run. `start` starts one, given its kind and its number among those of its kind."""

    def __init__(self, bounds: Mapping[Kind, Bounds], start: Callable[[Kind, int], Any]) -> None:
        self._bounds, self._start = bounds, start
        self._actors = {kind: {seat: start(kind, seat) for seat in range(some.fewest)} for kind, some in bounds.items()}
        self.seats = {kind: set(actors) for kind, actors in self._actors.items()}
        """Kind -> the numbers of the workers that can receive items."""
        self._busy: dict[tuple[Kind, int], float] = {}
        """Kind and number of a worker -> when it last had something to do."""
        self._preparing: Counter[tuple[Kind, int]] = Counter()
        self._pending = Pending()
        self._lost: set[tuple[Kind, int]] = set()
        """Workers that the ledger has not heard from. They get no items until they are back."""

    def __getitem__(self, place: tuple[Kind, int]) -> Any:
        kind, seat = place
        return self._actors[kind][seat]

    def all(self) -> list[Any]:
        """The workers that can receive items."""
        return [self[kind, seat] for kind, seats in self.seats.items() for seat in seats]

    def prepare(self, text: str) -> tuple[Awaitable[str], int]:
        """Send a batch to the worker with the fewest batches to prepare; returns the result and the worker's number."""
        first = self._least_preparing()

        async def prepared(place: tuple[Kind, int]) -> str:
            while True:
                self._preparing[place] += 1
                try:
                    done: str = await self._pending.wait(*place, result_of(self[place].prepare.remote(text)))
                    return done
                except WorkerLost:
                    place = self._least_preparing()
                finally:
                    self._preparing[place] -= 1

        return asyncio.ensure_future(prepared(first)), first[1]

    def _least_preparing(self) -> tuple[Kind, int]:
        places = ((kind, seat) for kind, seats in self.seats.items() for seat in sorted(seats))
        return min(places, key=self._preparing.__getitem__)

    async def run(self, dispatcher: Dispatcher, snapshot: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """Grow and shrink until cancelled. Raises PlacementError. `snapshot`: the ledger's."""
        begun = [actor.ready.remote() for actor in self.all()]
        try:
            async with asyncio.TaskGroup() as beginning:
                beginning.create_task(placed(begun))
                while True:
                    await asyncio.sleep(LOOK_EVERY_S)
                    self._replace_lost(dispatcher, set((await snapshot()).get("lost_workers", ())))
                    growing = {kind: some for kind, some in self._bounds.items() if some.fewest < some.most}
                    for kind, bounds in growing.items():
                        n_known = len(self.seats[kind]) + sum(lost == kind for lost, _ in self._lost)
                        if n_known == len(self._actors[kind]) < bounds.most and await may_grow(kind, dispatcher, snapshot):
                            seat = next(seat for seat in range(bounds.most) if seat not in self._actors[kind])
                            self._actors[kind][seat] = self._start(kind, seat)
                            beginning.create_task(self._open(dispatcher, kind, seat))
                        await self._shrink(kind, dispatcher)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _replace_lost(self, dispatcher: Dispatcher, lost: set[str]) -> None:
        """Give the work of lost workers (`lost`: their places) to others, if there are any, and send items again to workers that
        are back."""
        for kind, seats in self.seats.items():
            for seat in sorted(self._actors[kind]):
                is_lost = f"{kind} {seat}" in lost
                if is_lost and seat in seats and len(seats) > 1:
                    seats.remove(seat)
                    self._lost.add((kind, seat))
                    # When its process continues, it ends, and Ray restarts it in the same place.
                    self[kind, seat].ready.remote()
                    self._pending.give_up(kind, seat)
                    dispatcher.give_away(kind, seat)
                elif not is_lost and (kind, seat) in self._lost:
                    self._lost.discard((kind, seat))
                    seats.add(seat)
                    dispatcher.pump()

    async def _open(self, dispatcher: Dispatcher, kind: Kind, seat: int) -> None:
        await result_of(self[kind, seat].ready.remote())
        self.seats[kind].add(seat)
        dispatcher.pump()

    async def _shrink(self, kind: Kind, dispatcher: Dispatcher) -> None:
        now = time.monotonic()
        for seat in self.seats[kind]:
            idle = not self._preparing[kind, seat] and all(queue.is_idle(seat) for queue in dispatcher.of(kind))
            self._busy[kind, seat] = self._busy.get((kind, seat), now) if idle else now
        idlest = max(self.seats[kind])
        if len(self.seats[kind]) > self._bounds[kind].fewest and now - self._busy[kind, idlest] > IDLE_S:
            self.seats[kind].remove(idlest)
            actor = self._actors[kind].pop(idlest)
            # This fails if a node has disappeared in the meantime.
            with contextlib.suppress(ray.exceptions.RayError):
                await result_of(actor.drain.remote())
            ray.kill(actor)


async def may_grow(kind: Kind, dispatcher: Dispatcher, snapshot: Callable[[], Awaitable[Mapping[str, Any]]]) -> bool:
    """Whether more workers of this kind would help: items wait, and either ask no provider or ask one that accepts more
    concurrent calls."""
    full = [queue for queue in dispatcher.of(kind) if queue.is_full]
    if not all(queue.settings.calls for queue in full):
        return True
    if not full:
        return False
    models = (await snapshot())["models"].values()
    sent, taken = (sum(model[name] for model in models) for name in ("in_flight", "cap"))
    return bool(sent < USED * taken) and not any(model["paused_s"] for model in models)
