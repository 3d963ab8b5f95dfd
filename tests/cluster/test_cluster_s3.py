"""The quickstart on a cluster of real Ray nodes with a bucket as its store: `summhay submit`, and `ray job submit` by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from s3_servers import SECRET, Bucket, S3Server, environment, running, set_credentials

from summhay_ray.haystack import load_sample

pytestmark = [pytest.mark.soak, pytest.mark.ray, pytest.mark.s3, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "jobs" / "quickstart.yaml"
BIN = Path(sys.executable).parent
PATIENCE_S = 280.0


def load_local() -> Any:
    spec = importlib.util.spec_from_file_location("cluster_local_s3", ROOT / "cluster" / "local.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(*words: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    line = [str(BIN / str(words[0])), *map(str, words[1:])]
    variables = environment() | {"RAY_AUTH_MODE": "disabled", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def document(*words: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(command(*words, "--json").stdout)
    return found


@dataclass(frozen=True)
class Cluster:
    """A cluster whose processes have a bucket's credentials in their environment, and the tables of a local run."""

    url: str
    bucket: Bucket
    run: str
    tables: dict[str, Any]

    def jobs(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/api/jobs/", timeout=30) as answer:
            return {job["submission_id"]: job for job in json.loads(answer.read()) if job["submission_id"]}

    def log(self, job: str) -> str:
        with urllib.request.urlopen(f"{self.url}/api/jobs/{job}/logs", timeout=30) as answer:
            return str(json.loads(answer.read())["logs"])

    def package(self, job: str) -> dict[str, str]:
        """The text files of a job's package, as a node unpacked it."""
        name = self.jobs()[job]["runtime_env"]["working_dir"].removeprefix("gcs://").removesuffix(".zip")
        # The session has a folder under its own name, and one as the latest session.
        folder, *_ = Path("/tmp").glob(f"sr-*/session_*/runtime_resources/working_dir_files/{name}")
        return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("local")
    local = document("summhay", "run", QUICKSTART, "--executor", "inline", "--store", folder / "store")
    tables = document("summhay", "status", local["run"], "--store", folder / "store")["tables"]
    server: S3Server = running("moto")
    with pytest.MonkeyPatch.context() as patch:
        set_credentials(patch)
        with load_local().cluster(2) as nodes:
            yield Cluster(nodes.url, Bucket(server, server.bucket()), local["run"], tables)


def test_the_quickstart_is_sent_done_sent_again_and_read_from_outside(cluster: Cluster, tmp_path: Path) -> None:
    store = cluster.bucket.uri()
    submit = ("summhay", "submit", QUICKSTART, "--address", cluster.url, "--store", store)
    first = command(*submit)
    assert f"job {cluster.run}-1 of run {cluster.run} is sent" in first.stderr
    assert "status    done" in first.stdout and "cells     112 done, 0 with failures, of 112" in first.stdout
    told = [line for line in first.stdout.splitlines() if line.startswith(f"{cluster.run}  cells ")]
    assert "  cells 0/112  " in told[0] and " elapsed, starting" in told[0]
    assert "  cells 112/112  " in told[-1] and told[-1].endswith(" elapsed, ended")

    status = document("summhay", "status", cluster.run, "--store", store)
    assert (status["status"], status["tables"]) == ("done", cluster.tables)

    # The same run with one haystack as a file of this machine, which goes through the store.
    (tmp_path / "news.json").write_text(json.dumps(load_sample("news"), indent=2), encoding="utf-8")
    haystacks = json.dumps([str(tmp_path / "news.json"), "sample/conversation"])
    again = command(*submit, "--set", f"haystacks={haystacks}")
    assert f"job {cluster.run}-2" in again.stderr and "calls    0 made, " in again.stdout
    package = cluster.package(f"{cluster.run}-2")
    assert list(package) == ["summhay-spec.yaml"]
    entries = yaml.safe_load(package["summhay-spec.yaml"])["haystacks"]
    assert entries[0].endswith("/news.json") and entries[0].startswith("store/") and entries[1] == "sample/conversation"
    kept = cluster.bucket.keys()
    assert f"store/objects/haystack/{entries[0].split('/')[1]}" in kept
    assert document("summhay", "status", cluster.run, "--store", store)["tables"] == cluster.tables

    everything = json.dumps(cluster.jobs()) + "".join(map(cluster.log, cluster.jobs())) + json.dumps(package)
    assert SECRET not in everything and "AWS_" not in everything


def test_ray_job_submit_by_hand(cluster: Cluster) -> None:
    """The command of cluster/README.md. Ray quotes the command for its shell, so that the `&` stays."""
    store = cluster.bucket.uri("by-hand") + "&region=us-east-1"
    small = ["--set", "retrievers=[bm25]", "--set", "summarizers=[offline/lead]"]
    line = ["ray", "job", "submit", "--address", cluster.url, "--submission-id", "by-hand", "--working-dir", "."]
    line += ["--runtime-env", "cluster/runtime_env.yaml", "--", "python", "jobs/run.py", "jobs/quickstart.yaml"]
    done = command(*line, "--store", store, *small)
    assert "succeeded" in done.stdout
    log = cluster.log("by-hand")
    assert "status    done" in log and "cells     8 done, 0 with failures, of 8" in log
    run = next(text.split()[1] for text in log.splitlines() if text.startswith("run "))
    assert document("summhay", "status", run, "--store", store)["status"] == "done"
    assert set(cluster.jobs()["by-hand"]["runtime_env"]["env_vars"]) == {"RAY_JOB_STOP_WAIT_TIME_S"}
