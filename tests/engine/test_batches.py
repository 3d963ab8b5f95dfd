"""Batch APIs: whatever happens to driver, replies and batches, every request is paid once, and the tables are those of any
run."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from runs import PATIENCE_S, start, summhay, write_spec
from simulated_provider import KEY, Simulated, in_thread, until

from summhay_ray import cli

KEY_ENV = "BATCHES_KEY"
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}
WRITERS = ("openai/writer-a", "anthropic/writer-b")
N_SUMMARIES = 8
BUDGET, PARTIAL, WAITING = 3, 4, 5
RESULTS = ("summaries", "judgments", "bullets")

# A model of Anthropic is called through litellm.
pytestmark = pytest.mark.usefixtures("litellm")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


@contextlib.contextmanager
def provider(**settings: Any) -> Iterator[Simulated]:
    """A provider that gives the answers of the free models."""
    from summhay_ray.simulator import offline_answer

    with in_thread(offline_answer(), cache_lifetime=0.0, **settings) as simulated:
        yield simulated


def spec_of(folder: Path, at: Simulated, batch: Any = True, judge: Mapping[str, Any] | None = None, **changes: Any) -> Path:
    """A spec of two summarizers, one for each protocol of batches, and a judge that is asked synchronously."""
    known = {"api_base": at.base, "api_key_env": KEY_ENV, "price": PRICE}
    fields = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25"],
        "token_budget": 1500,
        "summarizers": [{"model": model, **known, "batch": batch} for model in WRITERS],
        "judges": [{"model": "openai/judge", **known, **(judge or {})}],
        "budget_usd": 100,
        **changes,
    }
    folder.mkdir(exist_ok=True)
    return write_spec(folder, fields)


def run(spec: Path, store: Path, *more: str, code: int = 0) -> dict[str, Any]:
    return summhay("run", spec, "--store", store, "--executor", "inline", *more, code=code)


def results_of(document: Mapping[str, Any], store: Path) -> dict[str, Any]:
    """The hashes of the tables with texts and labels; the tables of raw answers contain prices."""
    tables = summhay("status", document["run"], "--store", store)["tables"]
    return {name: table for name, table in tables.items() if name in RESULTS}


def batches_at(at: Simulated) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = at.get("/simulated/batches").body
    return found


def check_books(at: Simulated, document: Mapping[str, Any]) -> None:
    """The provider's bill equals the run's spending, and no prompt was answered twice."""
    stats = at.stats()
    assert stats["micros"] == round(document["usd"]["spent"] * 1e6)
    assert stats["repeated_answered"] == 0
    assert document["usd"]["reserved"] == document["usd"]["uncertain"] == 0


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """The run without batches: its document, and the hashes of its tables."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch, provider() as standard:
        patch.setenv(KEY_ENV, KEY)
        document = run(spec_of(folder, standard, batch=False), folder / "store")
    return document, results_of(document, folder / "store")


FAULTS: Mapping[str, Mapping[str, float]] = {
    "nothing": {},
    "lost replies, other order, duplicates": {"batch_lost": 1, "batch_shuffled": 1, "batch_duplicates": 0.5},
    "expiry and failing polls": {"batch_expired": 1, "poll_errors": 0.3},
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("faults", FAULTS)
def test_batches_cost_half_and_give_the_same_tables(
    tmp_path: Path, faults: str, plain: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    standard, expected = plain
    with provider(batch_duration=0.5, **FAULTS[faults]) as simulated:
        done = run(spec_of(tmp_path / "batch", simulated), tmp_path / "store")
        check_books(simulated, done)
        channels = simulated.stats()["channels"]
    assert expected and results_of(done, tmp_path / "store") == expected
    assert channels["batch"]["served"] == N_SUMMARIES and done["run"] == standard["run"]
    saved = standard["usd"]["spent"] - done["usd"]["spent"]
    assert saved == pytest.approx(channels["batch"]["micros"] / 1e6, abs=1e-5)


@pytest.mark.timeout(300)
def test_a_detached_driver_ends_while_batches_are_out_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with provider(batch_duration=8.0) as simulated:
        # The judge uses batches, too: its wave follows that of the summaries.
        spec = spec_of(tmp_path, simulated, judge={"batch": True})
        assert summhay("plan", spec, "--store", store)["waves"] == 2
        left = run(spec, store, "--detach", code=WAITING)
        assert left["status"] == "waiting" and left["cells"]["done"] == 0 < left["usd"]["reserved"]
        status = summhay("status", left["run"], "--store", store)
        assert status["status"] == "waiting" and status["usd"] == left["usd"]
        batches = [status["batches"][name] for name in ("submitted", "in_progress", "done", "requests")]
        assert batches == [2, 2, 0, N_SUMMARIES], batches
        with pytest.raises(SystemExit) as stop:
            cli.main(["run", str(spec), "--store", str(store), "--executor", "inline", "--detach"])
        assert stop.value.code == WAITING and f"summhay run {spec} --store {store}" in capsys.readouterr().out
        done = run(spec, store)
        check_books(simulated, done)
        assert done["status"] == "done" and done["batches"]["in_progress"] == 0
        assert set(simulated.stats()["channels"]) == {"batch"}


@pytest.mark.timeout(300)
def test_a_detached_driver_submits_what_is_ready_before_it_ends(tmp_path: Path) -> None:
    with provider(batch_duration=600.0, latency=0.5) as simulated:
        known = {"api_base": simulated.base, "api_key_env": KEY_ENV, "price": PRICE}
        batched, direct = ({"model": f"openai/{name}", **known, "batch": name == "batched"} for name in ("batched", "direct"))
        # The judgments of the direct writer become a batch after that of the other writer was submitted.
        spec = spec_of(tmp_path, simulated, summarizers=[batched, direct], judge={"batch": True})
        left = run(spec, tmp_path / "store", "--detach", code=WAITING)
        assert left["batches"]["in_progress"] == len(batches_at(simulated)) == 2


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_on_ray_a_prompt_that_several_items_ask_is_in_one_batch(tmp_path: Path) -> None:
    with provider(batch_duration=2.0, batch_lost=1) as simulated:
        spec, store = spec_of(tmp_path, simulated, judge={"batch": True}), tmp_path / "store"
        done = summhay("run", spec, "--store", store, "--executor", "ray")
        check_books(simulated, done)
        assert sum(batch["requests"] for batch in batches_at(simulated)) == done["calls"]["made"]
        assert done["executor"] == "ray" and set(simulated.stats()["channels"]) == {"batch"}


@pytest.mark.timeout(300)
def test_a_budget_that_ends_inside_a_batch_is_not_exceeded_and_the_rest_follows_with_more(tmp_path: Path) -> None:
    with provider(batch_duration=0.5) as simulated:
        spec, store = spec_of(tmp_path, simulated), tmp_path / "store"
        most = summhay("plan", spec, "--store", store)["stages"][0]["usd_max"]
        stopped = run(spec, store, "--budget", str(0.6 * most), code=BUDGET)
        assert 0 < stopped["usd"]["spent"] <= 0.6 * most and stopped["status"] == "budget"
        assert 0 < sum(batch["requests"] for batch in batches_at(simulated)) < N_SUMMARIES
        check_books(simulated, stopped)
        check_books(simulated, run(spec, store))


@pytest.mark.timeout(300)
def test_batches_that_are_cancelled_are_booked_and_what_they_lack_is_asked_again(tmp_path: Path) -> None:
    with provider(batch_duration=12.0) as simulated:
        spec, store = spec_of(tmp_path, simulated), tmp_path / "store"
        left = run(spec, store, "--detach", code=WAITING)
        assert until(lambda: any(batch["answered"] for batch in batches_at(simulated)))
        summhay("stop", left["run"], "--store", store, "--cancel-batches")
        status = summhay("status", left["run"], "--store", store)
        answered = sum(batch["answered"] for batch in batches_at(simulated))
        assert {batch["status"] for batch in batches_at(simulated)} == {"cancelled"} and 0 < answered < N_SUMMARIES
        assert status["batches"] == {**status["batches"], "in_progress": 0, "done": 2, "answered": answered}
        check_books(simulated, status)
        with pytest.raises(SystemExit) as stop:
            cli.main(["stop", left["run"], "--store", str(store), "--cancel-batches"])
        assert stop.value.code == 2
        check_books(simulated, run(spec, store))


@pytest.mark.timeout(300)
def test_a_batch_is_cancelled_after_its_longest_wait_and_the_rest_is_asked_again(tmp_path: Path) -> None:
    with provider(batch_duration=16.0) as simulated:
        spec = spec_of(tmp_path, simulated, batch={"max_wait_h": 10 / 3600, "min_requests": N_SUMMARIES // 2})
        check_books(simulated, run(spec, tmp_path / "store"))
        assert {batch["status"] for batch in batches_at(simulated)} == {"cancelled"}
        assert simulated.stats()["channels"]["batch"]["served"] < N_SUMMARIES


@pytest.mark.timeout(300)
def test_few_requests_are_asked_synchronously(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with provider(batch_duration=0.5) as simulated:
        spec, store = spec_of(tmp_path, simulated, batch={"min_requests": 5}), tmp_path / "store"
        with pytest.raises(SystemExit) as stop:
            cli.main(["run", str(spec), "--store", str(store), "--executor", "inline", "--json"])
        assert not stop.value.code and capsys.readouterr().err.count("asked synchronously") == len(WRITERS)
        assert not batches_at(simulated)


FAILURES: Mapping[str, tuple[Mapping[str, float], str]] = {
    "results are gone": ({"batch_gone": 1}, "batch_incomplete"),
    "errors in each line": ({"batch_errors": 1}, "server_error"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", FAILURES)
def test_a_request_that_no_batch_answers_is_a_failure_with_its_class(tmp_path: Path, fault: str) -> None:
    settings, error = FAILURES[fault]
    with provider(batch_duration=0.2, **settings) as simulated:
        done = run(spec_of(tmp_path, simulated), tmp_path / "store", code=PARTIAL)
        assert done["failures"] == {error: N_SUMMARIES}
        # Money that may have been paid is neither spent nor forgotten.
        bill = simulated.stats()["micros"] / 1e6
        assert done["usd"]["spent"] <= bill <= done["usd"]["spent"] + done["usd"]["uncertain"]


def test_a_model_without_batches_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(
        tmp_path,
        {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": [{"model": "offline/lead", "batch": True}]},
    )
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", str(spec), "--store", str(tmp_path / "store")])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "offline/lead: batch" in said and said.count("\n") == 1


def killed(spec: Path, store: Path, number: int, after_s: float) -> bool:
    """Start the run, kill it `after_s` seconds after its session (of this number) has begun, and return True if it was killed."""
    process = start(spec, store, "--executor", "inline")
    begun = until((store / "drivers" / f"{number:08d}.json").exists, PATIENCE_S)
    assert begun, process.communicate()
    try:
        process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    return False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.soak)])
def test_a_killed_driver_loses_no_batch_and_pays_none_twice(
    tmp_path: Path, kills: int, plain: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    standard, expected = plain
    draw, store = random.Random(kills), tmp_path / "store"
    with provider(batch_duration=4.0 * kills, batch_lost=1) as simulated:
        # The judge uses batches, too: a synchronous call that a kill interrupts is uncertain.
        spec = spec_of(tmp_path / "batch", simulated, judge={"batch": True})
        # The first kills come before, during and after the creation of the batches; later ones during booking and judgments.
        for number in range(1, kills + 1):
            killed(spec, store, number, draw.uniform(0.5, 3.0))
        done = run(spec, store)
        check_books(simulated, done)
        assert results_of(done, store) == expected
        # No batch is submitted twice or lost: each request is in one batch.
        assert (
            sum(batch["requests"] for batch in batches_at(simulated)) == done["batches"]["answered"] == standard["calls"]["made"]
        )
