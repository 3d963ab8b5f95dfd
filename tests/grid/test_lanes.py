"""How cells reach the workers, with workers that are functions: no lane slows another, and prefixes stay together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import still_time
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import grid_of_fields

from summhay_ray.grid import Cell, Unit
from summhay_ray.grid.lanes import (
    AHEAD,
    BUDGET_STOPS,
    CALLING_AT_ONCE,
    Dispatcher,
    Gates,
    Kind,
    Lane,
    LaneSettings,
    Packet,
    Packing,
    Receipt,
    lane_settings,
    make_gates,
    order_text,
    read_order,
)

pytestmark = pytest.mark.core

QUICK, SLOW = 0, 1
REMOTE = {"api_base": "http://127.0.0.1:1/v1", "price": 0}


def packet(name: str, lane: int = QUICK, n_cells: int = 1, group: str = "") -> Packet:
    unit = Unit("h", name, "bm25", "given")
    cells = tuple(Cell(f"{lane}-{name}-{repeat}", unit, lane, repeat, "system") for repeat in range(n_cells))
    return Packet(lane, cells, {"context_id": name, "numbers": [3, 1]}, None, group)


def lane_of(workers: int = 2, at_once: int = 8, an_order: int = 4) -> Lane:
    return Lane(LaneSettings("calling", workers, at_once, an_order))


def receipts_of(packets: Sequence[Packet], over_budget: bool = False) -> list[Receipt]:
    return [Receipt(cell.cell_id, over_budget) for one in packets for cell in one.cells]


def taken(lane: Lane) -> list[tuple[int, list[Packet]]]:
    """All orders that the lane gives away before one comes back."""
    found = []
    while (order := lane.take()) is not None:
        found.append(order)
    return found


def test_an_order_is_read_as_it_was_written() -> None:
    packets = [packet("q1", SLOW, 3), Packet(QUICK, packet("q2").cells, None, ("missing_scores", "no bm25"))]
    assert list(read_order(order_text(packets))) == [
        packets[0],
        Packet(QUICK, packets[1].cells, None, ["missing_scores", "no bm25"]),
    ]


def test_cells_are_spread_evenly_and_bounded_for_each_worker() -> None:
    lane = lane_of(workers=3, at_once=8, an_order=4)
    for number in range(100):
        lane.put(packet(f"q{number}"))
    orders = taken(lane)
    assert Counter(worker for worker, _ in orders) == {0: 2, 1: 2, 2: 2}
    assert {len(packets) for _, packets in orders} == {4}
    assert lane.waiting == 100 - 3 * 8
    worker, packets = orders[1]
    lane.done(worker, receipts_of(packets))
    assert [worker for worker, _ in taken(lane)] == [worker]


def test_a_group_stays_with_one_worker_in_its_order() -> None:
    lane = lane_of(workers=2, at_once=6, an_order=2)
    for name in ("a", "b"):
        for number in range(9):
            lane.put(packet(f"{name}{number}", group=name))
    seen: dict[int, list[str]] = {0: [], 1: []}
    while orders := taken(lane):
        for worker, packets in orders:
            seen[worker].extend(one.cells[0].unit.subtopic_id for one in packets)
            lane.done(worker, receipts_of(packets))
    assert sorted(seen.values()) == [[f"{name}{number}" for number in range(9)] for name in ("a", "b")]


def test_a_group_whose_worker_is_full_does_not_hold_up_other_packets() -> None:
    lane = lane_of(workers=2, at_once=2, an_order=1)
    for number in range(6):
        lane.put(packet(f"g{number}", group="g"))
    lane.put(packet("free"))
    orders = taken(lane)
    own = {worker for worker, packets in orders if packets[0].group}
    assert len(own) == 1 and len([one for one in orders if one[1][0].group]) == 2
    assert [packets[0].cells[0].unit.subtopic_id for worker, packets in orders if worker not in own] == ["free"]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(1, 5)), max_size=60), st.integers(1, 4), st.data())
@settings(max_examples=60, deadline=None)
def test_every_packet_is_sent_once_whatever_comes_back_first(
    sizes: list[tuple[str, int]], workers: int, data: st.DataObject
) -> None:
    lane = lane_of(workers=workers, at_once=7, an_order=3)
    packets = [packet(f"q{number}", n_cells=n, group=group) for number, (group, n) in enumerate(sizes)]
    for one in packets:
        lane.put(one)
    out: list[tuple[int, list[Packet]]] = []
    sent: list[Packet] = []
    while True:
        for worker, order in taken(lane):
            out.append((worker, order))
            sent.extend(order)
        if not out:
            break
        worker, order = out.pop(data.draw(st.integers(0, len(out) - 1)))
        lane.done(worker, receipts_of(order))
    assert lane.waiting == 0
    assert sorted(one.cells[0].cell_id for one in sent) == sorted(one.cells[0].cell_id for one in packets)
    for group in ("a", "b", "c"):
        assert [one for one in sent if one.group == group] == [one for one in packets if one.group == group]


def test_a_lane_closes_after_so_many_stops_at_the_budget_in_a_row() -> None:
    lane = lane_of(workers=1, at_once=1000, an_order=1)
    for number in range(200):
        lane.put(packet(f"q{number}"))
    (order,) = [lane.take()]
    assert order is not None
    lane.done(0, [Receipt("x", over_budget=True)] * (BUDGET_STOPS - 1))
    lane.done(0, [Receipt("y")])
    lane.done(0, [Receipt("x", over_budget=True)] * (BUDGET_STOPS - 1))
    assert not lane.closed
    lane.done(0, [Receipt("x", over_budget=True)])
    assert lane.closed and lane.waiting == 0 and lane.take() is None
    lane.put(packet("late"))
    assert lane.waiting == 0


class Workers:
    """Workers that take a time of each lane's own; `refuse` says which cells do not fit into the budget."""

    def __init__(self, seconds: dict[int, float], refuse: Callable[[Cell], bool] = lambda cell: False) -> None:
        self.seconds = seconds
        self.refuse = refuse
        self.ended: dict[int, float] = {}
        self.answered: list[str] = []
        self.out: Counter[int] = Counter()
        self.most: Counter[int] = Counter()

    async def __call__(self, kind: Kind, worker: int, order: str) -> list[Receipt]:
        packets = list(read_order(order))
        lane, n_cells = packets[0].lane, sum(len(one.cells) for one in packets)
        self.out[lane] += n_cells
        self.most[lane] = max(self.most[lane], self.out[lane])
        await asyncio.sleep(self.seconds[lane])
        self.out[lane] -= n_cells
        self.ended[lane] = asyncio.get_running_loop().time()
        cells = [cell for one in packets for cell in one.cells]
        self.answered.extend(cell.cell_id for cell in cells if not self.refuse(cell))
        return [Receipt(cell.cell_id, self.refuse(cell), judgments=2, failures=1) for cell in cells]


async def blocks_of(packets: Sequence[Packet], size: int = 16, taken: list[int] | None = None) -> AsyncIterator[Sequence[Packet]]:
    for start in range(0, len(packets), size):
        if taken is not None:
            taken.append(size)
        yield packets[start : start + size]


def dispatch(workers: Workers, packets: Sequence[Packet], at_once: int = 8, **options: Any) -> tuple[Dispatcher, float]:
    """(the dispatcher at its end, when it began on the loop's clock)."""
    lanes = {lane: LaneSettings("calling", 2, at_once, 4) for lane in {one.lane for one in packets}}

    async def run() -> tuple[Dispatcher, float]:
        began = asyncio.get_running_loop().time()
        dispatcher = Dispatcher(lanes, workers)
        await dispatcher.run(blocks_of(packets, **options))
        return dispatcher, began

    return still_time.run(run())


def test_a_slow_lane_holds_back_no_other() -> None:
    names = [f"q{number}" for number in range(400)]
    both = [packet(name, lane) for name in names for lane in (QUICK, SLOW)]
    workers = Workers({QUICK: 0.01, SLOW: 0.04})
    dispatcher, began = dispatch(workers, both)
    alone = Workers({QUICK: 0.01})
    _, began_alone = dispatch(alone, [packet(name) for name in names])
    # 400 cells, 16 at once, 0.01 s each order: 0.25 s; the slow lane takes four times as long.
    quick, quick_alone = workers.ended[QUICK] - began, alone.ended[QUICK] - began_alone
    assert quick <= 1.01 * quick_alone < 0.3 < 0.9 < workers.ended[SLOW] - began
    assert workers.most == {QUICK: 16, SLOW: 16}
    assert dispatcher.counts == {"cells_done": 800, "judgments": 1600, "failures": 800}


def test_a_lane_without_budget_stops_and_the_other_goes_on() -> None:
    packets = [packet(f"q{number}", lane) for number in range(2000) for lane in (QUICK, SLOW)]
    workers = Workers({QUICK: 0.0, SLOW: 0.0}, refuse=lambda cell: cell.summarizer == SLOW and cell.unit.subtopic_id != "q0")
    dispatcher, _ = dispatch(workers, packets)
    assert dispatcher.counts["cells_done"] == 2000 + 1
    assert sum(name.startswith(f"{QUICK}-") for name in workers.answered) == 2000


def test_units_are_no_longer_taken_when_every_lane_has_closed() -> None:
    taken: list[int] = []
    packets = [packet(f"q{number}") for number in range(5000)]
    workers = Workers({QUICK: 0.0}, refuse=lambda cell: True)
    lanes = {QUICK: LaneSettings("calling", 1, 100, 4)}

    async def run() -> Dispatcher:
        dispatcher = Dispatcher(lanes, workers)

        async def slow_blocks() -> AsyncIterator[Sequence[Packet]]:
            async for block in blocks_of(packets, taken=taken):
                yield block
                await asyncio.sleep(0.001)

        await dispatcher.run(slow_blocks())
        return dispatcher

    assert asyncio.run(run()).counts == {}
    assert BUDGET_STOPS <= sum(taken) < 1000


def test_units_are_taken_no_faster_than_the_hungriest_lane_needs_them() -> None:
    taken: list[int] = []
    n_units = 3 * AHEAD
    most_waiting = 0

    class Slow(Workers):
        async def __call__(self, kind: Kind, worker: int, order: str) -> list[Receipt]:
            nonlocal most_waiting
            most_waiting = max(most_waiting, sum(taken) - len(self.answered))
            return await super().__call__(kind, worker, order)

    workers = Slow({QUICK: 0.0})
    dispatch(workers, [packet(f"q{number}") for number in range(n_units)], at_once=400, size=500, taken=taken)
    assert len(workers.answered) == n_units
    # What waits, what is out at two workers, and the block that was taken last.
    assert most_waiting <= AHEAD + 2 * 400 + 500


def test_the_first_error_of_an_order_ends_the_run_as_itself() -> None:
    class Broken(Workers):
        async def __call__(self, kind: Kind, worker: int, order: str) -> list[Receipt]:
            if '"q7"' in order:
                raise OSError(28, "no space left on device")
            await asyncio.sleep(60)
            return []

    with pytest.raises(OSError, match="no space left"):
        dispatch(Broken({QUICK: 0.0}), [packet(f"q{number}") for number in range(32)])


def test_lanes_of_a_grid() -> None:
    remote = [{"model": f"openai/{name}", **REMOTE} for name in ("a", "b")]
    grid = grid_of_fields(summarizers=[*remote, "offline/lead", "replay/gpt-4o"])
    found = lane_settings(grid, {0: 4000, 1: 3, 2: 4000, 3: 2}, workers=2)
    assert {lane: one.kind for lane, one in found.items()} == {0: "calling", 1: "calling", 2: "computing", 3: "computing"}
    assert (found[0].at_once, found[0].an_order, found[1].an_order) == (CALLING_AT_ONCE, 16, 1)
    # A local judge computes, too: few cells at a time, so that no worker has all that is left.
    assert (found[2].at_once, found[3].at_once) == (32, 4)
    judged = grid_of_fields(summarizers=["replay/gpt-4o"], judges=[remote[0]])
    assert lane_settings(judged, {0: 4000}, workers=2)[0].at_once == CALLING_AT_ONCE


def test_queries_over_one_whole_haystack_are_a_group_for_models_that_are_called() -> None:
    remote = {"model": "openai/a", **REMOTE}
    grid = grid_of_fields(
        retrievers=["bm25", "full"], orderings=["top", "bottom"], summarizers=[remote, "offline/lead"], repeats=2
    )
    left = {unit: list(grid.cells_of(unit)) for unit in grid.units()}
    packing = Packing(grid, left, lane_settings(grid, {0: 24, 1: 24}, workers=2))
    packets = [one for unit in grid.units() for one in packing.pack(unit, {}, None)]
    assert sum(len(one.cells) for one in packets) == len(list(grid.cells())) == 12 * 2 * 2
    groups = {(one.lane, one.cells[0].unit.retriever, one.cells[0].unit.ordering, one.group) for one in packets}
    named = {group for lane, _, _, group in groups if lane == 0 and group}
    assert len(named) == 2
    assert {group for lane, retriever, _, group in groups if lane == 1 or retriever == "bm25"} == {""}
    some = next(iter(left))
    left[some] = left[some][:1]
    assert [(one.lane, len(one.cells)) for one in packing.pack(some, None, ("error", "why"))] == [(0, 1)]


def test_gates_let_in_somewhat_more_than_a_model_may_be_asked_at_once() -> None:
    remote = {"model": "openai/a", **REMOTE}
    grid = grid_of_fields(summarizers=[remote], judges=[{"model": "openai/b", **REMOTE}], limits={"openai/b": {"concurrency": 5}})
    gates = make_gates(grid)

    async def inside(gate: Callable[[str], Any], label: str) -> int:
        """How many of 500 are past the gate at once."""
        now = most = 0

        async def one() -> None:
            nonlocal now, most
            async with gate(label):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(one() for _ in range(500)))
        return most

    assert asyncio.run(inside(gates.summary, "openai/a")) == 64 + 16
    assert asyncio.run(inside(gates.judging, "openai/b")) == 5 + 16
    assert asyncio.run(inside(Gates().judging, "any")) == 500


def test_a_gate_is_first_come_first_served() -> None:
    order: list[int] = []

    async def run() -> None:
        gates = Gates({"m": 2})

        async def one(number: int) -> None:
            async with gates.summary("m"):
                order.append(number)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one(number) for number in range(20)))

    asyncio.run(run())
    assert order == list(range(20))
