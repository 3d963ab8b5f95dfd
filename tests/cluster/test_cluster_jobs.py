"""Jobs and runs on a cluster of real Ray nodes, started by the commands of cluster/aws.yaml."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
import yaml
from inline_runs import SAMPLE
from local_http import chatting
from paid_runs import KEY_ENV, N_JUDGMENTS, N_SUMMARIES, fields_of
from runs import has_ended, start, write_spec
from simulated_provider import KEY, simulated_provider, until
from summhay_grids import grid_of_files
from tickets import write_tickets

from summhay_ray import api, engine
from summhay_ray.haystack import InvalidHaystack
from summhay_ray.store import Store

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]
SUMMHAY = Path(sys.executable).with_name("summhay")
CANARY = "sk-canary4711never0leaves"
PATIENCE_S = 240.0
GATE = """
import time
from pathlib import Path

from gate_helper import HERE
from summhay_ray.retrieve import make

class Gate:
    name = "gate"
    whole = False

    def __init__(self, argument="", seed=0):
        self._inner = make("keywords", seed)

    def rank(self, subtopic, haystack):
        while not Path(HERE).exists():
            time.sleep(0.1)
        return self._inner.rank(subtopic, haystack)
"""


def load_local() -> Any:
    spec = importlib.util.spec_from_file_location("cluster_local", ROOT / "cluster" / "local.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def api_base() -> Iterator[str]:
    """A provider. Models that are called need no pool, which would take seconds more."""
    with chatting(lambda messages: "- The ferry was cancelled [1].") as base:
        yield base


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    local = load_local()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_metrics_report_interval_ms", "1000")
        with local.cluster(1) as started:
            sessions = [process.pid for process in started._started]
            yield started
    # A killed process may need a moment to disappear.
    end = time.monotonic() + 20
    while any(local._session(one) for one in sessions) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(local._session(one) for one in sessions)


class Person:
    """A user with a spec, a module in the same folder, and a key in the environment."""

    def __init__(self, folder: Path, url: str, api_base: str) -> None:
        self.folder, self.url, self.store = folder, url, folder / "store"
        self.gate = folder / "gate-is-open"
        (folder / "gate_module.py").write_text(GATE, encoding="utf-8")
        (folder / "gate_helper.py").write_text(f"HERE = {str(self.gate)!r}\n", encoding="utf-8")
        spec = {
            "name": "gated",
            "haystacks": ["sample/news"],
            "retrievers": ["gate_module:Gate"],
            "summarizers": [{"model": "xinference/writer", "api_base": api_base, "price": 0}],
            "workers": 1,
        }
        (folder / "spec.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
        keys = {"OPENAI_API_KEY": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY + "-aws", "RAY_AUTH_MODE": "disabled"}
        self.environment = os.environ | keys | {"RAY_ADDRESS": "127.0.0.1:1"}

    def submit(self, *options: str, spec: str = "spec.yaml") -> subprocess.Popen[str]:
        line = [str(SUMMHAY), "submit", spec, "--address", self.url, "--store", "store", *options]
        pipe = subprocess.PIPE
        return subprocess.Popen(line, cwd=self.folder, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def jobs(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/api/jobs/", timeout=30) as answer:
            return {job["submission_id"]: job for job in json.loads(answer.read()) if job["submission_id"]}

    def until(self, job: str, *wanted: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.jobs().get(job, {}).get("status") not in wanted:
            assert time.monotonic() < end
            time.sleep(0.3)

    def drivers(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if str(self.store).encode() in words and b"summhay_ray.cli" in words:
                    found.append(int(entry.name))
        return found


def said_until(process: subprocess.Popen[str], text: str) -> str:
    assert process.stderr is not None
    said = ""
    while text not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


def test_a_job_is_left_watched_killed_and_goes_on(nodes: Any, tmp_path: Path, api_base: str) -> None:
    person = Person(tmp_path, nodes.url, api_base)
    first = person.submit()
    run = said_until(first, "is sent").split("of run ")[1].split()[0]
    person.until(f"{run}-1", "RUNNING")

    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=30)
    assert first.returncode == 1
    assert f"job {run}-1 runs on; look: summhay status {run} --store {person.store}" in said
    assert f"ray job stop {run}-1 --address {person.url}" in said
    assert person.jobs()[f"{run}-1"]["status"] == "RUNNING"

    second = person.submit("--json")
    assert f"job {run}-1 of run {run} is already running" in said_until(second, "already running")
    end = time.monotonic() + PATIENCE_S
    while not (drivers := person.drivers()):
        assert time.monotonic() < end
        time.sleep(0.2)
    for pid in drivers:
        os.kill(pid, signal.SIGKILL)
    out, said = second.communicate(timeout=PATIENCE_S)
    told = json.loads(out)
    assert (second.returncode, told["status"], told["exit_code"], told["attached"]) == (1, "FAILED", 1, True)
    assert f"job {run}-1 ended FAILED" in said and "submit again to go on" in said

    person.gate.touch()
    third = person.submit()
    out, said = third.communicate(timeout=PATIENCE_S)
    assert third.returncode == 0, out + said
    assert f"job {run}-2 of run {run} is sent" in said
    assert "status    done" in out

    assert_no_canary(person)


def assert_no_canary(person: Person) -> None:
    """The key is in no answer of the job server, and in none of its packages."""
    jobs = person.jobs()
    assert len(jobs) == 2
    told = json.dumps(jobs)
    for job, details in jobs.items():
        with urllib.request.urlopen(f"{person.url}/api/jobs/{job}/logs", timeout=30) as answer:
            told += answer.read().decode()
        for uri in [details["runtime_env"]["working_dir"], *details["runtime_env"]["py_modules"]]:
            name = uri.removeprefix("gcs://").removesuffix(".zip")
            folders = list(Path("/tmp").glob(f"sr-*/session_*/runtime_resources/*/{name}"))
            assert folders
            told += "".join(
                file.read_text(errors="replace") for folder in folders for file in folder.rglob("*") if file.is_file()
            )
    assert "class Gate" in told and "def store_for_job" in told
    assert CANARY not in told
    assert all(set(details["runtime_env"]["env_vars"]) == {"RAY_JOB_STOP_WAIT_TIME_S"} for details in jobs.values())


def test_many_haystacks_are_read_by_a_cluster_that_the_run_uses_anyway(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    alone, paths = grid_of_files(tmp_path, 50)
    spec = {**SAMPLE, "haystacks": list(map(str, paths))}
    with engine.Cluster(f"127.0.0.1:{nodes.port}", "ray") as cluster:
        few = engine.load_workload({**spec, "haystacks": spec["haystacks"][:49]}, mapped=cluster.mapped)
        assert len(list(few.items())) == 98 and not ray.is_initialized(), "fewer are read here, and nothing starts"
        read = engine.load_workload(spec, mapped=cluster.mapped)
        assert ray.is_initialized() and (read.run_id, list(read.items())) == (alone.run_id, list(alone.items()))
        paths[30].write_text('{"topic": 7}', encoding="ascii")
        with pytest.raises(InvalidHaystack, match=f"{paths[30].name}: topic: expected a string"):
            engine.load_workload(spec, mapped=cluster.mapped)
    assert not ray.is_initialized()


@pytest.mark.soak
def test_a_folder_that_a_pool_prepares_is_the_haystack_of_one_process(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    said = write_tickets(tmp_path / "tickets", 501)
    results = {
        executor: api.mine(
            tmp_path / "tickets",
            tmp_path / f"{executor}.json",
            str(tmp_path / f"store-{executor}"),
            executor=executor,
            address=f"127.0.0.1:{nodes.port}" if executor == "ray" else None,
        )
        for executor in ("inline", "ray")
    }
    assert [result.status for result in results.values()] == ["done", "done"]
    assert not results["inline"].computing and results["ray"].computing["compute_s"] > 0
    made = (tmp_path / "ray.json").read_text(encoding="utf-8")
    assert made == (tmp_path / "inline.json").read_text(encoding="utf-8") and all(fact in made for fact in said)
    # The results of the blocks are kept until the haystack is made.
    assert not list(tmp_path.glob("store-*/runs/*/blocks/*"))


@contextlib.contextmanager
def silent(pid: int) -> Iterator[None]:
    """The provider answers nobody while the block runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def figures(url: str) -> dict[tuple[str, str, str], float]:
    """(run, metric, model) -> value, of the metrics of runs that a node exports."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("ray_summhay_")]
    found = {}
    for line in lines:
        tags = dict(re.findall(r'(\w+)="([^"]*)"', line))
        name = line.removeprefix("ray_summhay_").partition("{")[0]
        found[tags["run"], name, tags["model"]] = float(line.rsplit(" ", 1)[1])
    return found


@pytest.mark.soak
def test_a_run_is_watched_and_goes_on_elsewhere_when_a_node_is_drained(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {KEY_ENV: KEY, "RAY_AUTH_MODE": "disabled"}.items():
        monkeypatch.setenv(name, value)
    with simulated_provider("--latency", "0.5", "--cache-lifetime", "0") as provider:
        assert provider.pid is not None
        for _ in range(2):
            nodes.worker()
        spec, where = write_spec(tmp_path, fields_of(provider.base, workers=3)), f"127.0.0.1:{nodes.port}"
        run = start(spec, tmp_path / "store", "--address", where, "--log-level", "info")
        assert until(lambda: provider.stats()["served"] >= 24 or run.poll() is not None, PATIENCE_S)
        assert run.poll() is None, run.communicate()
        told: dict[tuple[str, str, str], float] = {}

        def stands_still() -> bool:
            # The ledger sets its figures each second, and Ray exports them each second.
            time.sleep(2.5)
            before = dict(told)
            told.update({key: value for url in nodes.metrics for key, value in figures(url).items()})
            return told == before and sum(value for (_, metric, _), value in told.items() if metric == "in_flight") > 0

        with silent(provider.pid):
            assert until(stands_still, 60), told
            with urllib.request.urlopen(f"{nodes.url}/api/v0/actors", timeout=30) as answer:
                actors = {one["name"] for one in json.loads(answer.read())["data"]["result"]["result"] if one["state"] == "ALIVE"}
        drained, ended_at = [psutil.Process(pid) for pid in nodes.drain_worker()], time.monotonic()
        assert any("WorkerActor" in process.name() for process in drained)
        # Ray would end the node after 30 s; its workers end before, and none comes back.
        assert until(lambda: all(map(has_ended, drained)), 25), (drained, time.monotonic() - ended_at)
        out, said = (text.decode() for text in run.communicate(timeout=PATIENCE_S))
        stats = provider.stats()
    document = json.loads(out)
    assert (run.returncode, document["status"], document["usd"]["uncertain"]) == (0, "done", 0), said
    assert stats["served"] == stats["prompts"] == N_SUMMARIES + N_JUDGMENTS

    name = document["run"]
    assert actors >= {f"{name} ledger 1", *(f"{name} calling {number}" for number in range(3))}
    models = {"openai/writer", "openai/judge-a", "openai/judge-b"}
    metrics = {metric for _, metric, model in told if model}
    known = {metric: {model: told[name, metric, model] for model in models} for metric in metrics}
    total = {metric: sum(values.values()) for metric, values in known.items()}
    assert 24 <= total["calls"] + total["in_flight"] <= stats["served"] and known["input_tokens"]["openai/writer"] > 0
    assert 0 < total["spent_usd"] < document["usd"]["spent"] and total["output_tokens"] > 0 < total["reserved_usd"]
    assert total["queued"] + total["calls"] + total["in_flight"] <= stats["served"]
    assert [total[metric] for metric in ("uncertain_usd", "retries", "limited")] == [0, 0, 0]
    cells = {
        metric: told[name, metric, ""] for metric in ("cells", "cells_done", "cells_failed", "cells_left", "stalled", "ended")
    }
    n_cells = document["cells"]["total"]
    assert cells["cells"] == n_cells == cells["cells_done"] + cells["cells_left"] and cells["cells_left"] > 0
    assert [cells[metric] for metric in ("cells_failed", "stalled", "ended")] == [0, 0, 0]

    lines = said.splitlines()
    assert {number for number in range(3) if any(f"INFO {name} calling {number}: starts" in line for line in lines)} == {0, 1, 2}
    assert any(f"WARNING {name} calling" in line and "drains" in line for line in lines)
    assert any(f"INFO {name} ledger 1: ends" in line for line in lines)
    assert KEY not in said and "(raylet)" not in said


WRITER = {"model": "offline/writer", "max_tokens": 600, "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}
LITTLE = 0.004
"""Dollars: some six calls of about 0.0006 of the two dozen that two topics take; each reserves up to 0.002."""


@pytest.mark.soak
def test_a_synthesis_is_a_job_that_its_budget_stops(nodes: Any, tmp_path: Path, api_base: str) -> None:
    person = Person(tmp_path, nodes.url, api_base)
    files = {"minutes.yaml": "name: minutes\ngenre: the minutes of a town council\n", "seed.txt": "The bridge was closed."}
    topics = ["the new swimming pool", {"topic": "the bridge", "context": ["seed.txt"]}]
    models = {"outline": WRITER, "write": WRITER}
    spec = {
        "topics": topics,
        "domain": "minutes.yaml",
        "models": models,
        "workers": 1,
        "subtopics": 2,
        "insights": 2,
        "documents": 6,
        "words": 120,
        "license": "CC-BY-4.0",
        "difficulty": {"least": 2, "documents_per_insight": 3},
    }
    files["synth.yaml"] = yaml.safe_dump(spec)
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    workload = api.load(tmp_path / "synth.yaml")
    job = person.submit("--budget", str(LITTLE), spec="synth.yaml")
    assert f"job {workload.run_id}-1 of run {workload.run_id} is sent" in said_until(job, "is sent")
    for name in files:
        (tmp_path / name).unlink()
    out, said = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 3, out + said
    assert f"run       {workload.run_id}\nstatus    budget" in out and "to go on: summhay submit synth.yaml" in said

    # Answers that the job paid for are not requested again, and the result is that of an undisturbed synthesis.
    made = int(out.split("calls    ")[1].split(" made")[0].replace(",", ""))
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    stores = [person.store, tmp_path / "clean"]
    rest, whole = (api.run(tmp_path / "synth.yaml", str(store), executor="inline") for store in stores)
    assert made > 0 and made + rest.calls["made"] == whole.calls["made"]
    tables, clean = (Store(str(store)).run(workload.run_id).digests() for store in stores)
    assert tables == clean


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "options", "status"),
    [
        ("budget", ["--budget", "0.0001"], "STOPPED"),
        ("wrong", ["--set", "nonsense=1"], "FAILED"),
    ],
)
def test_a_job_that_another_start_would_not_change_ends_stopped(
    nodes: Any, tmp_path: Path, name: str, options: list[str], status: str
) -> None:
    """KubeRay restarts a job that is FAILED, and leaves one that is STOPPED."""
    model = {"model": "openai/writer", "api_base": "http://127.0.0.1:9/v1", "api_key_env": KEY_ENV}
    price = {"price": {"input_per_mtok": 1000, "output_per_mtok": 1000}}
    fields = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "token_budget": 1500, "judges": ["offline/judge"]}
    spec = write_spec(tmp_path, {**fields, "summarizers": [{**model, **price}]})
    run = [sys.executable, ROOT / "jobs" / "run.py", spec, "--store", tmp_path / "store", "--settle", *options]
    line = [
        "ray",
        "job",
        "submit",
        "--address",
        nodes.url,
        "--submission-id",
        name,
        "--no-wait",
        "--",
        "env",
        f"{KEY_ENV}={KEY}",
        *run,
    ]
    subprocess.run([str(word) for word in line], check=True, env=os.environ | {"RAY_AUTH_MODE": "disabled"}, timeout=PATIENCE_S)

    def ended() -> str:
        with urllib.request.urlopen(f"{nodes.url}/api/jobs/{name}", timeout=30) as answer:
            found = str(json.loads(answer.read())["status"])
        return found if found in ("SUCCEEDED", "FAILED", "STOPPED") else ""

    assert until(lambda: bool(ended()), PATIENCE_S)
    assert ended() == status
