"""How cells reach the workers: one lane a summarizer, so that no model slows another. Part of the grid room; no Ray.

A lane sends its cells to the workers of its kind on its own account: how many of them are out at a worker is bounded for each
lane and worker, and a lane that is slow holds back nobody. Calls that share a long prefix (all queries of one haystack and
ordering, under a retriever that shows the whole haystack) go to one worker, in order, so that the gateway there can send the
first of them alone (paper, section 5.5: the documents stand first).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from summhay_ray import retrieve
from summhay_ray.grid.cells import Cell, Grid, Unit
from summhay_ray.grid.synthesizing import Synthesizing

Kind = Literal["calling", "computing"]
"""Of a worker: models that run in the worker compute, and would hold up the calls of others in its event loop."""

CALLING_AT_ONCE = 2000
"""At least; and twice what a model of the lane may be asked at once, so that there is always a next one to ask."""

COMPUTING_AT_ONCE = (4, 32)
JUDGED_AT_ONCE = 128
"""Of the summaries that a model in the worker judges: each takes it milliseconds."""

TOPICS_AT_ONCE = (2, 16)
"""Of a synthesis, in each worker: where all is computed there, and at most where models are called."""
ASKED_A_TOPIC = 8
"""Calls that a topic has in flight, about, over its stages: alone its documents are written at once."""
WORDS_AT_ONCE = 8_000_000
"""Of the documents that are in the making in a worker, with their checks some 50 bytes a word."""

CELLS_AN_ORDER = 16
"""An order travels as one task, and is done when its last cell is: more would wait for the slowest."""

BUDGET_STOPS = 64
"""Cells in a row that did not fit into the budget: then the lane sends no more."""

AHEAD = 4000
"""Cells that wait in each lane: while every lane has so many, no more units are taken."""


@dataclass(frozen=True, slots=True)
class Packet:
    """The cells of one unit and one lane, and what their summarizer is shown."""

    lane: int
    """Index of the summarizer in the spec."""
    cells: tuple[Cell, ...]
    context: Mapping[str, Any] | None = None
    """The fields of a Context; None where there is none."""
    problem: Sequence[str] | None = None
    """Why there is no context: class of the error, and the message."""
    group: str = ""
    """Packets of one group share a long prefix."""
    summary: Mapping[str, Any] | None = None
    """The fields of a Summary, of the packet's one cell, that is judged as it is."""
    asked: Mapping[str, Sequence[str]] | None = None
    """Cascade's label -> ids of the insights that it asks about, where they are chosen over all summaries."""
    topic: Mapping[str, Any] | None = None
    """The fields of a Topic, of the packet's one cell, that a haystack is made of."""

    def to_json(self) -> dict[str, Any]:
        """The packet as it travels."""
        unit = self.cells[0].unit
        cells = [(cell.cell_id, cell.repeat, cell.system) for cell in self.cells]
        where = [unit.haystack_id, unit.subtopic_id, unit.retriever, unit.ordering]
        named = ("lane", "context", "problem", "summary", "asked", "topic")
        return {"unit": where, "cells": cells, **{name: getattr(self, name) for name in named}}


def order_text(packets: Sequence[Packet]) -> str:
    """An order as JSON text."""
    return json.dumps([packet.to_json() for packet in packets])


def read_order(text: str) -> Iterator[Packet]:
    """The packets of an order."""
    for content in json.loads(text):
        unit = Unit(*content["unit"])
        cells = tuple(Cell(cell_id, unit, content["lane"], repeat, system) for cell_id, repeat, system in content["cells"])
        more = {name: content[name] for name in ("summary", "asked", "topic")}
        yield Packet(content["lane"], cells, content["context"], content["problem"], **more)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a cell: committed, or stopped at the budget."""

    cell_id: str
    over_budget: bool = False
    judgments: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """Where a lane's cells go, and how many at once."""

    kind: Kind
    workers: int
    at_once: int
    """Cells that may be out at each worker."""
    an_order: int
    """Cells that travel together, at most."""


def lane_settings(grid: Grid, cells: Mapping[int, int], workers: int) -> dict[int, LaneSettings]:
    """Summarizer -> its lane, for the summarizers that have cells left (`cells`: how many). `workers`: of each kind."""
    if isinstance(grid, Synthesizing):
        return _topic_lane(grid, sum(cells.values()), workers)
    models = grid.settings()
    judges = [models[name] for name in (*(judge.model for judge in grid.spec.judges), *grid.spec.partners())]
    found = {}
    for lane, n_cells in sorted(cells.items()):
        # Where the summaries are there, their judges compute or call.
        first = [models[one.model] for one in grid.spec.summarizers[lane : lane + 1]]
        local, share = all(model.local for model in first or judges), -(-n_cells // (workers * 4))
        called = [model.limits.concurrency for model in (*first, *judges) if not model.local]
        # Only what computes from its first to its last word is done sooner, and spread better, a few cells at a time.
        least, most = COMPUTING_AT_ONCE
        at_once = max(CALLING_AT_ONCE, 2 * max(called)) if called else max(least, min(most if first else JUDGED_AT_ONCE, share))
        an_order = 1 if local and first else max(1, min(CELLS_AN_ORDER, share))
        found[lane] = LaneSettings("computing" if local else "calling", workers, at_once, an_order)
    return found


def _topic_lane(grid: Synthesizing, n_topics: int, workers: int) -> dict[int, LaneSettings]:
    """The one lane of a synthesis: a worker holds few topics at once, since each is a whole haystack in the making."""
    called = [model.limits.concurrency for model in grid.settings().values() if not model.local]
    least, most = TOPICS_AT_ONCE
    wanted = max(least, min(most, 2 * max(called) // ASKED_A_TOPIC)) if called else least
    fits = WORDS_AT_ONCE // max(1, grid.shape.documents * grid.shape.words)
    settings = LaneSettings("calling" if called else "computing", workers, max(1, min(wanted, fits)), 1)
    return {0: settings} if n_topics else {}


class Packing:
    """From a unit with its context to the packets of its lanes."""

    def __init__(self, grid: Grid, left: Mapping[Unit, Sequence[Cell]], lanes: Mapping[int, LaneSettings]) -> None:
        self._left = left
        self._lanes = lanes
        self._whole = functools.cache(lambda retriever: retrieve.make(retriever, grid.spec.seed).whole)

    def pack(self, unit: Unit, context: Mapping[str, Any] | None, problem: Sequence[str] | None) -> list[Packet]:
        """The unit's unfinished cells, apart for each lane, no more in a packet than travel together."""
        by_lane: dict[int, list[Cell]] = {}
        for cell in self._left[unit]:
            by_lane.setdefault(cell.summarizer, []).append(cell)
        shared = f"{unit.haystack_id}/{unit.retriever}/{unit.ordering}" if self._whole(unit.retriever) else ""
        packets = []
        for lane, cells in by_lane.items():
            settings = self._lanes[lane]
            group = shared if settings.kind == "calling" else ""
            for start in range(0, len(cells), settings.an_order):
                packets.append(Packet(lane, tuple(cells[start : start + settings.an_order]), context, problem, group))
        return packets


class Lane:
    """The cells of one summarizer: those that wait, and how many are out at each worker."""

    def __init__(self, settings: LaneSettings) -> None:
        self.settings = settings
        self.waiting = 0
        self.closed = False
        """The budget is used up: nothing more is sent."""
        self._out = [0] * settings.workers
        self._shared: deque[Packet] = deque()
        self._own: list[deque[Packet]] = [deque() for _ in range(settings.workers)]
        self._own_cells = [0] * settings.workers
        self._groups: dict[str, int] = {}
        self._stops = 0

    def put(self, packet: Packet) -> None:
        """Queue a packet; one of a group goes to the worker that has the group."""
        if self.closed:
            return
        self.waiting += len(packet.cells)
        if not packet.group:
            self._shared.append(packet)
            return
        idlest = min(range(self.settings.workers), key=lambda worker: self._out[worker] + self._own_cells[worker])
        worker = self._groups.setdefault(packet.group, idlest)
        self._own[worker].append(packet)
        self._own_cells[worker] += len(packet.cells)

    def take(self) -> tuple[int, list[Packet]] | None:
        """The next order and the worker that it goes to; None while nothing waits or no worker has room."""
        for worker in sorted(range(self.settings.workers), key=self._out.__getitem__):
            if self._out[worker] >= self.settings.at_once:
                return None
            packets = self._order_for(worker)
            if packets:
                n_cells = sum(len(packet.cells) for packet in packets)
                self._out[worker] += n_cells
                self.waiting -= n_cells
                return worker, packets
        return None

    def _order_for(self, worker: int) -> list[Packet]:
        packets: list[Packet] = []
        n_cells = 0
        while queue := self._own[worker] or self._shared:
            if packets and n_cells + len(queue[0].cells) > self.settings.an_order:
                break
            packet = queue.popleft()
            if packet.group:
                self._own_cells[worker] -= len(packet.cells)
            packets.append(packet)
            n_cells += len(packet.cells)
        return packets

    def done(self, worker: int, receipts: Sequence[Receipt]) -> None:
        """An order came back."""
        self._out[worker] -= len(receipts)
        for receipt in receipts:
            self._stops = self._stops + 1 if receipt.over_budget else 0
            if self._stops >= BUDGET_STOPS:
                self._close()

    def _close(self) -> None:
        self.closed, self.waiting = True, 0
        for queue in (self._shared, *self._own):
            queue.clear()


Send = Callable[[Kind, int, str], Awaitable[Sequence[Receipt]]]
"""Hand an order to a worker (kind, index) and wait until all its cells are committed or given up."""


class Dispatcher:
    """Feeds all lanes at once. `counts`: cells, judgments and failures of the orders that came back."""

    def __init__(self, lanes: Mapping[int, LaneSettings], send: Send) -> None:
        self._lanes = {lane: Lane(settings) for lane, settings in lanes.items()}
        self._send = send
        self._moved = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def run(self, blocks: AsyncIterator[Sequence[Packet]]) -> None:
        """Until every packet is done, or every lane has used up its budget. The first error of any order ends all, raised."""
        try:
            async with asyncio.TaskGroup() as orders:
                async for packets in blocks:
                    for packet in packets:
                        self._lanes[packet.lane].put(packet)
                    for lane in self._lanes.values():
                        self._pump(lane, orders)
                    await self._hungry()
                    if all(lane.closed for lane in self._lanes.values()):
                        break
        except BaseExceptionGroup as found:
            raise found.exceptions[0] from None

    def _pump(self, lane: Lane, orders: asyncio.TaskGroup) -> None:
        while (order := lane.take()) is not None:
            orders.create_task(self._one(lane, *order, orders))

    async def _one(self, lane: Lane, worker: int, packets: Sequence[Packet], orders: asyncio.TaskGroup) -> None:
        receipts = await self._send(lane.settings.kind, worker, order_text(packets))
        for receipt in receipts:
            if not receipt.over_budget:
                numbers = {"cells_done": 1, "judgments": receipt.judgments, "failures": receipt.failures}
                self.counts.update(numbers)
        lane.done(worker, receipts)
        self._pump(lane, orders)
        self._moved.set()

    async def _hungry(self) -> None:
        while all(lane.closed or lane.waiting >= AHEAD for lane in self._lanes.values()):
            if all(lane.closed for lane in self._lanes.values()):
                return
            self._moved.clear()
            await self._moved.wait()


class Gates:
    """How many cells of a worker ask at once, for each summarizer and each judge apart: first come, first served.

    A cell waits here as a small thing; past the gate it holds a prompt, which may be half a megabyte. The gates are no limits:
    calls at once are bounded by each model's concurrency, and each gate lets in somewhat more than that.
    """

    def __init__(self, summaries: Mapping[str, int] | None = None, judgings: Mapping[str, int] | None = None) -> None:
        self._summaries = {label: asyncio.Semaphore(n) for label, n in (summaries or {}).items()}
        self._judgings = {label: asyncio.Semaphore(n) for label, n in (judgings or {}).items()}

    def summary(self, label: str) -> contextlib.AbstractAsyncContextManager[None]:
        """While a cell asks its summary; open for a label without a gate."""
        return self._summaries.get(label) or contextlib.nullcontext()

    def judging(self, label: str) -> contextlib.AbstractAsyncContextManager[None]:
        """While a cell asks a judge; open for a label without a gate."""
        return self._judgings.get(label) or contextlib.nullcontext()


LOCAL_AT_ONCE = 4
MORE_THAN_ONCE = 16
"""Further cells past a gate: those that wait for the first of their prefix, and the next to be sent."""


def make_gates(grid: Grid) -> Gates:
    """The gates of one worker, from each model's concurrency (over the whole cluster, since one worker may have it all)."""
    models = grid.settings()

    def width(model: str) -> int:
        return LOCAL_AT_ONCE if models[model].local else models[model].limits.concurrency + MORE_THAN_ONCE

    return Gates(
        {spec.label: width(spec.model) for spec in grid.spec.summarizers},
        {spec.label: width(spec.model) for spec in grid.spec.judges},
    )
