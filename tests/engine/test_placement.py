"""Workers without room: either others hold the CPUs (one clear line), or the machine is slow (wait)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import still_time
from inline_runs import loaded

from summhay_ray.engine import Item
from summhay_ray.engine.ray import placement
from summhay_ray.engine.ray.executor import Workers
from summhay_ray.engine.ray.placement import (
    CPUS_A_WORKER,
    CPUS_IN_A_POOL,
    MOST_IN_A_POOL,
    PLACED_WITHIN_S,
    POOL,
    Bounds,
    Placement,
    PlacementError,
    Pool,
    place,
    placed,
)
from summhay_ray.engine.run.execution import Work
from summhay_ray.engine.run.queues import Dispatcher, QueueSettings, WorkItem
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

WORKERS = 4
CALLED = {"model": "openai/mine", "price": 0, "api_base": "http://127.0.0.1:1/v1"}


def cluster(patch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    """The cluster as Ray reports it."""
    patch.setattr(placement.ray, "cluster_resources", lambda: {"CPU": cpus})
    patch.setattr(placement.ray, "available_resources", lambda: {"CPU": free} if free else {})


def begin(begun_after_s: Sequence[float | None]) -> None:
    """Wait for workers that begin after this many seconds (None: never)."""

    async def ready(after_s: float | None) -> None:
        await (asyncio.sleep(after_s) if after_s is not None else asyncio.Future())

    async def run() -> None:
        await placed([ready(after_s) for after_s in begun_after_s])
        assert len(asyncio.all_tasks()) == 1

    still_time.run(run())


def test_where_others_hold_the_room_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four workers need 1 of 8 CPUs each. If nothing is free, others have the rest.
    cluster(monkeypatch, 8.0, 0.0)
    with pytest.raises(PlacementError) as said:
        begin([0.0, 0.0, None, None])
    assert said.value.exit_code == 2
    assert "2 of 4 workers" in str(said.value) and str(said.value).endswith("workers: 2")


@pytest.mark.parametrize(
    ("cpus", "free"),
    [
        (8.0, CPUS_A_WORKER),  # There is room: they are starting.
        # The run has every CPU of the cluster: nobody else holds any.
        (CPUS_A_WORKER * WORKERS, 0.0),
        # The remaining CPUs are too few for one worker.
        (CPUS_A_WORKER * (WORKERS + 0.9), 0.0),
    ],
)
def test_a_slow_start_is_waited_for(monkeypatch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    cluster(monkeypatch, cpus, free)
    begin([0.0, 2.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S])


def test_who_has_not_begun_after_long_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    # All CPUs may be the run's own: only the elapsed time shows the problem.
    cluster(monkeypatch, CPUS_A_WORKER * WORKERS, 0.0)
    with pytest.raises(PlacementError, match="2 of 4 workers found no room"):
        begin([0.0, 0.0, None, None])


def test_a_cluster_that_stays_too_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 2 * CPUS_A_WORKER, 0.0)
    with pytest.raises(PlacementError, match="2 of 4 workers .*, and the cluster has 0.5 in all and does not grow"):
        begin([0.0, 0.0, None, None])
    # Wait for a cluster that grows late.
    begin([0.0, 0.0, 2.5 * PLACED_WITHIN_S, 3.5 * PLACED_WITHIN_S])


def grid_work(**fields: Any) -> Work:
    grid = loaded(**fields)
    return Work(grid, None, {"": list(grid.items())})  # type: ignore[arg-type]


def one_node(patch: pytest.MonkeyPatch, cpus: float) -> None:
    cluster(patch, cpus, cpus)
    patch.setattr(placement.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": cpus}}, {"Alive": False}])


def test_only_what_asks_a_provider_has_workers_and_the_rest_is_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    one_node(monkeypatch, 2.0)
    free = place(grid_work(summarizers=["offline/lead", "replay/gpt-4o"]))
    assert not free.workers and free.pools == {POOL: Pool(1, MOST_IN_A_POOL, CPUS_IN_A_POOL, first=2)}
    both = place(grid_work(summarizers=["offline/lead", CALLED]))
    # The same preparation serves both.
    assert both.workers == {"calling": Bounds(2, 2), "computing": Bounds(2, 2)} and not both.pools
    assert place(grid_work(summarizers=["offline/lead"], workers=3)).pools[POOL].most == 3
    assert not place(grid_work(summarizers=[CALLED])).pools
    # A free summarizer with a paid judge asks a provider.
    judged = place(grid_work(summarizers=["offline/lead"], judges=[CALLED]))
    assert judged.workers == {"computing": Bounds(2, 2)}


def test_workers_grow_where_the_cluster_does(monkeypatch: pytest.MonkeyPatch) -> None:
    one_node(monkeypatch, 2.0)

    def bounds(own_ray: bool = False, **fields: Any) -> Bounds:
        return place(grid_work(summarizers=[CALLED], **fields), own_ray).workers["calling"]

    assert bounds(workers={"min": 0, "max": 5}) == Bounds(1, 5) and bounds(workers=3) == Bounds(3, 3)
    # The default range is from the present nodes' room to the number of calls that the providers may get at once.
    many = {"openai/mine": {"concurrency": 1000}}
    assert bounds() == Bounds(2, 2) and bounds(limits=many) == Bounds(2, 16)
    assert bounds(own_ray=True, limits=many) == Bounds(2, 2)
    # Only CPUs limit work that asks no provider.
    both = place(grid_work(summarizers=[CALLED, "offline/lead"]), own_ray=False).workers
    assert both == {"calling": Bounds(2, 2), "computing": Bounds(2, MOST_IN_A_POOL)}


def test_models_that_embed_run_on_cpus_where_this_machine_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    one_node(monkeypatch, 8.0)
    wanted = {"embed": {"actors": {"min": 1, "max": 4}, "gpus": 1, "cpus": 2}}
    work = grid_work(retrievers=[{"embed": "all-MiniLM-L6-v2"}], resources=wanted)
    monkeypatch.setattr(type(work.workload), "computations", lambda self, items: [{"part": 1}])
    assert place(work).pools["embed"] == Pool(1, 4, 2.0, 0.0)
    monkeypatch.setattr(placement.ray, "cluster_resources", lambda: {"CPU": 8.0, "GPU": 1.0})
    assert place(work).pools["embed"] == Pool(1, 4, 2.0, 1.0)


def test_models_with_resources_have_actors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one_node(monkeypatch, 8.0)

    def placement_of(**own: Any) -> Placement:
        return place(grid_work(summarizers=["offline/lead", "replay/mine"], workers=3, resources={"replay": own}))

    found = placement_of(actors=2, cpus=2, gpus=0)
    assert found.workers == {"replay": Bounds(2, 2), "computing": Bounds(3, 3)} and not found.pools
    assert found.holds("replay") == {"num_cpus": 2, "num_gpus": 0} and found.holds("calling") == {"num_cpus": CPUS_A_WORKER}
    assert placement_of(actors={"max": 3}).workers["replay"] == Bounds(1, 3)
    # As many CPUs as the other actors leave; an actor never waits for more than a machine has.
    assert placement_of(actors=2, cpus=9).holds("replay")["num_cpus"] == (8 - CPUS_A_WORKER * 5) / 2
    with pytest.raises(PlacementError, match="resources.replay: an actor needs 0.5 GPUs and this machine has 0"):
        placement_of(actors=2, gpus=0.5)
    with pytest.raises(UserError, match="resources: nothing in the spec computes in actors of 'summarize'"):
        loaded(resources={"summarize": {"actors": 2}})
    with pytest.raises(UserError, match="resources: offline: batch_size is for embed only"):
        loaded(resources={"offline": {"batch_size": 2}})
    with pytest.raises(UserError, match="resources.offline.actors: min is 3 and max is 2"):
        loaded(resources={"offline": {"actors": {"min": 3, "max": 2}}})


@pytest.mark.parametrize(
    ("cpus", "fields", "message"),
    [
        (2.0, {"workers": 8}, ""),
        (2.0, {"workers": 9}, "9 workers need 2.25 CPUs and the cluster has 2; set workers: 8 or less"),
        # With `both`, `workers` actors make calls, and as many compute items of the same sources without a provider.
        (2.0, {"workers": 5, "both": True}, "10 workers need 2.5 CPUs and the cluster has 2; set workers: 4 or less"),
        (0.2, {"workers": 1}, "1 workers need 0.25 CPUs and the cluster has 0.2; start more nodes"),
        (0.2, {}, "0 workers and 1 pools need 0.25 CPUs and the cluster has 0.2; start more nodes"),
        (0.5, {"workers": {"min": 1, "max": 20}}, ""),
    ],
)
def test_workers_that_have_no_room_are_refused(
    monkeypatch: pytest.MonkeyPatch, cpus: float, fields: dict[str, Any], message: str
) -> None:
    one_node(monkeypatch, cpus)
    models = [
        *([CALLED] if "workers" in fields else []),
        *(["offline/lead"] if "workers" not in fields or "both" in fields else []),
    ]
    work = grid_work(summarizers=models, workers=fields.get("workers"))
    if message:
        with pytest.raises(PlacementError, match=message):
            place(work)
    else:
        assert place(work).workers


class Seat:
    """A worker that is ready at once."""

    class ready:
        @staticmethod
        async def remote() -> None: ...


@pytest.mark.parametrize(("calls", "taken", "most"), [(False, 0, 3), (True, 64, 3), (True, 4, 1), (True, 0, 1)])
def test_workers_are_added_while_waiting_items_could_run(calls: bool, taken: int, most: int) -> None:
    async def grown() -> int:
        async def send(*_: Any) -> Any:
            await asyncio.Future()

        async def items() -> AsyncGenerator[Sequence[WorkItem], None]:
            yield [WorkItem(Item(str(n), "q")) for n in range(99)]

        async def snapshot() -> Any:
            return {"models": {"m": {"in_flight": 4, "cap": taken, "paused_s": 0}} if taken else {}}

        workers = Workers({"computing": Bounds(1, 3)}, lambda kind, seat: Seat())
        dispatcher = Dispatcher({"q": QueueSettings("computing", 3, 4, 1, calls)}, send, workers.seats)
        both = [asyncio.create_task(work) for work in (dispatcher.run(items()), workers.run(dispatcher, snapshot))]
        await asyncio.sleep(60)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        return len(workers.all())

    assert still_time.run(grown()) == most
