"""A paid rejudge with a simulated provider is killed, stopped by its budget and resumed, and asks nothing twice."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from rejudged_runs import N_INSIGHTS, N_QUERIES, PRICE, judged_again, source_run
from runs import SUMMHAY, log_records, summhay, wait_for_answers
from simulated_provider import KEY, Simulated, simulated_provider

from summhay_ray.store import RunStore, Store

KEY_ENV = "REJUDGE_TEST_KEY"
IN_FLIGHT = 2
ALL_CALLS = 2 * N_INSIGHTS
"""Two systems' summaries, one call an insight."""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    monkeypatch.setenv(KEY_ENV, KEY)
    with simulated_provider("--cache-lifetime", "0", "--latency", "0.2") as found:
        yield found


def spec_of(folder: Path, provider: Simulated) -> Path:
    path = folder / "judges.yaml"
    entry = f"{{model: openai/judge, api_base: '{provider.base}', api_key_env: {KEY_ENV}, price: {PRICE}}}"
    path.write_text(f"judges: [{entry}]\nlimits: {{openai/judge: {{concurrency: {IN_FLIGHT}}}}}\nworkers: 1\n", encoding="utf-8")
    return path


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(SUMMHAY), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def answered(store: Path) -> Counter[str]:
    """Key -> paid answers in the log."""
    return Counter(one["key"] for one in log_records(store) if one["model"] == "openai/judge")


def same_rows(one: RunStore, other: RunStore) -> bool:
    mine, theirs = one.digests(), other.digests()
    return all(mine[name] == theirs[name] for name in ("judgments", "scores", "raw_answers", "failures"))


@pytest.mark.soak
@pytest.mark.core
def test_a_rejudge_is_resumed_after_a_kill_and_within_its_budget(tmp_path: Path, provider: Simulated) -> None:
    run = source_run(tmp_path, summarizers=["offline/lead", "offline/support"])
    store, spec, before = tmp_path / "store", spec_of(tmp_path, provider), run.digests()
    command = ("rejudge", run.run_id, "--spec", spec, "--store", store, "--executor", "inline")

    already = len(log_records(store))
    process = start(*command)
    assert wait_for_answers(process, store, already + ALL_CALLS // 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    killed = answered(store)
    assert 0 < len(killed) < ALL_CALLS

    # Spent money counts: the budget leaves room for a part of the rest.
    spent = sum(one["usd_micros"] for one in log_records(store)) / 1e6
    budget = spent * ALL_CALLS / len(killed) * 0.7
    stopped = summhay(*command, "--budget", f"{budget:.6f}", code=3)
    assert stopped["status"] == "budget" and stopped["usd"]["spent"] <= budget
    assert stopped["left"]["cells"] > 0 and stopped["left"]["calls"] > 0
    told = summhay("status", stopped["run"], "--store", store)
    assert (told["status"], told["cells"]["total"]) == ("budget", 2 * N_QUERIES)

    done = summhay(*command)
    assert (done["status"], done["cells"]["failed"], done["run"]) == ("done", 0, stopped["run"])
    assert [(one["judge"], one["n_judged"]) for one in done["judges"]] == [("openai/judge", ALL_CALLS)]
    again = summhay(*command)
    assert (again["status"], again["calls"]["made"], again["calls"]["failed"]) == ("done", 0, 0)
    assert set(answered(store).values()) == {1} and len(answered(store)) == ALL_CALLS
    assert ALL_CALLS <= provider.stats()["served"] <= ALL_CALLS + IN_FLIGHT, (
        "beyond each call once, what was in flight at the kill"
    )

    # The same judge on the same summaries in another store, without interruptions, gives the same tables.
    other = source_run(tmp_path / "other", summarizers=["offline/lead", "offline/support"])
    clean, _ = judged_again(other, spec=str(spec))
    assert clean.run_id == done["run"] and same_rows(Store(str(store)).run(done["run"]), clean)
    assert run.digests() == before


@pytest.mark.soak
@pytest.mark.ray
def test_on_ray_and_inline_its_tables_are_the_same(tmp_path: Path, provider: Simulated) -> None:
    spec, held = spec_of(tmp_path, provider), []
    for executor in ("ray", "inline"):
        run = source_run(tmp_path / executor, summarizers=["offline/lead", "offline/support"])
        # The free judge of the cascade is done already, so one Ray suffices for the rest.
        judged_again(run, "offline")
        names = ("--judge", "openai/judge", "--judge", "cascade(offline,replay/gpt-4o,0.5)")
        command = ("rejudge", run.run_id, *names, "--spec", spec, "--store", run.store.uri, "--executor", executor)
        document = summhay(*command, code=4)
        assert document["executor"] == executor
        held.append(run.store.run(document["run"]))
    assert held[0].run_id == held[1].run_id and same_rows(*held)
