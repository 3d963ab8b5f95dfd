"""Where workers find no room: others hold it (one clear line), or the machine is only slow (patience)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import still_time
from inline_runs import loaded

from summhay_ray.engine import ResourcesSpec, placement
from summhay_ray.engine.execution import Work
from summhay_ray.engine.placement import CPUS_A_WORKER, PLACED_WITHIN_S, Placement, PlacementError, place, placed
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

WORKERS = 4


def cluster(patch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    """What Ray says of the cluster."""
    patch.setattr(placement.ray, "cluster_resources", lambda: {"CPU": cpus})
    patch.setattr(placement.ray, "available_resources", lambda: {"CPU": free} if free else {})


def begin(begun_after_s: Sequence[float | None]) -> None:
    """Wait for workers that begin after so many seconds (None: never)."""

    async def ready(after_s: float | None) -> None:
        await (asyncio.sleep(after_s) if after_s is not None else asyncio.Future())

    async def run() -> None:
        await placed([ready(after_s) for after_s in begun_after_s])
        assert len(asyncio.all_tasks()) == 1

    still_time.run(run())


def test_workers_that_begin_are_all_there_is_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 2.0, 0.0)
    begin([0.0] * WORKERS)


def test_where_others_hold_the_room_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four workers need 1 of 8 CPUs; with nothing free, others have the rest.
    cluster(monkeypatch, 8.0, 0.0)
    with pytest.raises(PlacementError) as said:
        begin([0.0, 0.0, None, None])
    assert said.value.exit_code == 2
    assert str(said.value) == (
        "2 of 4 workers found no room within 120 s: each needs 0.25 CPUs, and other jobs hold them (8 in all); "
        "wait, or set workers: 2"
    )


@pytest.mark.parametrize(
    ("cpus", "free"),
    [
        (8.0, CPUS_A_WORKER),  # there is room: they are starting
        # The cluster is ours to the last CPU: nobody else holds anything.
        (CPUS_A_WORKER * WORKERS, 0.0),
        # What others can hold is too little for one worker.
        (CPUS_A_WORKER * (WORKERS + 0.9), 0.0),
    ],
)
def test_a_slow_start_is_waited_for(monkeypatch: pytest.MonkeyPatch, cpus: float, free: float) -> None:
    cluster(monkeypatch, cpus, free)
    begin([0.0, 2.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S, 4.5 * PLACED_WITHIN_S])


def test_who_has_not_begun_after_long_finds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    # All that is there may be ours: only the time tells.
    cluster(monkeypatch, CPUS_A_WORKER * WORKERS, 0.0)
    with pytest.raises(PlacementError, match="2 of 4 workers found no room"):
        begin([0.0, 0.0, None, None])


def test_a_cluster_that_stays_too_small_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 2 * CPUS_A_WORKER, 0.0)
    with pytest.raises(PlacementError, match="2 of 4 workers .*, and the cluster has 0.5 in all and does not grow; .*: 2$"):
        begin([0.0, 0.0, None, None])
    # One that grows late is waited for.
    begin([0.0, 0.0, 2.5 * PLACED_WITHIN_S, 3.5 * PLACED_WITHIN_S])


def test_what_hinders_a_worker_from_beginning_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 8.0, 0.0)

    async def broken() -> None:
        raise RuntimeError("its actor died")

    with pytest.raises(RuntimeError, match="its actor died"):
        still_time.run(placed([broken()]))


def test_actors_that_compute_wait_for_no_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from summhay_ray.engine.computing import compute

    cluster(monkeypatch, 8.0, 8.0)
    wanted = ResourcesSpec(actors=4, gpus=1)
    # Two parts need no more than two actors.
    with pytest.raises(
        PlacementError, match="resources.embed: 2 actors need 2 GPUs and the cluster has 0; set gpus: 0, or start"
    ):
        asyncio.run(compute([{"part": 1}, {"part": 2}], None, wanted, 1, print))  # type: ignore[arg-type]
    asyncio.run(compute([], None, wanted, 1, print))  # type: ignore[arg-type]


def test_models_that_embed_run_on_cpus_where_the_cluster_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from summhay_ray.engine.computing import at_hand

    wanted = ResourcesSpec(actors=2, gpus=1)
    cluster(monkeypatch, 8.0, 8.0)
    assert at_hand(wanted) == ResourcesSpec(actors=2, gpus=0)
    monkeypatch.setattr(placement.ray, "cluster_resources", lambda: {"CPU": 8.0, "GPU": 1.0})
    assert at_hand(wanted) == wanted


def test_what_a_pool_did_is_summed_over_its_actors() -> None:
    from summhay_ray.engine.computing import took

    def batch(actor: str, started: float, **done: float) -> dict[str, Any]:
        found = {"actor": [actor], "started": [started], "took": [json.dumps(done)]}
        return {name: np.array(values) for name, values in found.items()}

    done = [
        batch("a", 12.5, load_s=2.0, compute_s=1.0, texts=3),
        batch("b", 13.25, load_s=1.0, compute_s=4.0, texts=5),
        batch("a", 12.5, load_s=0.0, compute_s=0.5, texts=2),
        batch("b", 13.25),
    ]
    assert took(done, 10.0) == {"actors": 2, "start_s": 3.25, "load_s": 3.0, "compute_s": 5.5, "texts": 10}


def test_models_with_resources_have_actors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster(monkeypatch, 8.0, 8.0)
    monkeypatch.setattr(placement.ray, "nodes", lambda: [{"Alive": True}])

    def placement_of(**own: Any) -> Placement:
        grid = loaded(summarizers=["offline/lead", "replay/mine"], workers=3, resources={"replay": own})
        return place(Work(grid, None, {"": list(grid.items())}))  # type: ignore[arg-type]

    found = placement_of(actors=2, cpus=2, gpus=0)
    assert found.seats == {"replay": 2, "computing": 3}
    assert found.holds("replay") == {"num_cpus": 2, "num_gpus": 0} and found.holds("computing") == {"num_cpus": CPUS_A_WORKER}
    # As many CPUs as there are beside the others; an actor never waits for more than a machine has.
    assert placement_of(actors=2, cpus=9).holds("replay")["num_cpus"] == (8 - CPUS_A_WORKER * (3 + 1)) / 2
    with pytest.raises(PlacementError, match="resources.replay: 2 actors need 1 GPUs and the cluster has 0; set gpus: 0, or"):
        placement_of(actors=2, gpus=0.5)
    with pytest.raises(
        UserError, match="resources: nothing in the spec computes in actors of 'summarize'; expected one of embed, "
    ):
        loaded(resources={"summarize": {"actors": 2}})
    with pytest.raises(UserError, match="resources: offline: batch_size is for embed only; its models answer one call at a time"):
        loaded(resources={"offline": {"batch_size": 2}})


@pytest.mark.parametrize(
    ("cpus", "fields", "message"),
    [
        (2.0, {"workers": 8}, ""),
        (2.0, {"workers": 9}, "9 workers need 2.25 CPUs and the cluster has 2; set workers: 8 or less"),
        # One kind of worker for the model that is called, another for the one that computes.
        (2.0, {"workers": 5, "both": True}, "10 workers need 2.5 CPUs and the cluster has 2; set workers: 4 or less"),
        (1.0, {"both": True}, ""),
        (0.2, {"workers": 1}, "1 workers need 0.25 CPUs and the cluster has 0.2; start more nodes"),
    ],
)
def test_workers_that_have_no_room_are_refused(
    monkeypatch: pytest.MonkeyPatch, cpus: float, fields: dict[str, Any], message: str
) -> None:
    cluster(monkeypatch, cpus, cpus)
    monkeypatch.setattr(placement.ray, "nodes", lambda: [{"Alive": True}, {"Alive": False}])
    called = {"model": "openai/mine", "price": 0, "api_base": "http://127.0.0.1:1/v1"}
    models = ["offline/lead", *([called] if fields.get("both") else [])]
    grid = loaded(summarizers=models, workers=fields.get("workers"))
    left = {"": list(grid.items())}
    work = Work(grid, None, left)  # type: ignore[arg-type]
    if message:
        with pytest.raises(PlacementError, match=message):
            place(work)
    else:
        found = place(work)
        assert len(found.queues) == len(models)
        assert sum(found.seats.values()) == sum({one.kind: one.workers for one in found.queues.values()}.values())
