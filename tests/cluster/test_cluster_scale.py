"""Ray's autoscaler adds nodes of aws.yaml's types to the local cluster where actors need them: CPUs, and GPUs from none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runs import SUMMHAY, summhay, write_spec
from tiny_models import sentence_model

pytestmark = pytest.mark.ray

LOCAL = Path(__file__).resolve().parents[2] / "cluster" / "local.py"
# Four whole CPUs: the head has two, so has a spot worker.
DRIVER = """
import sys
import ray

ray.init(sys.argv[1], logging_level="ERROR", log_to_driver=False)

@ray.remote(num_cpus=1)
class Busy:
    def where(self):
        return ray.get_runtime_context().get_node_id()

busy = [Busy.remote() for _ in range(4)]
sys.stdout.write(str(len(set(ray.get([one.where.remote() for one in busy], timeout=100)))))
"""


def cluster_on_this_machine() -> Any:
    spec = importlib.util.spec_from_file_location("cluster_local_scaled", LOCAL)
    assert spec is not None and spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    return local


@pytest.mark.soak
@pytest.mark.embed
def test_a_pool_gets_its_gpu_from_a_node_that_was_not_there_and_nothing_else_waits_for_it(tmp_path: Path) -> None:
    fields = {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["bm25", {"embed": str(sentence_model(tmp_path / "small"))}],
        "token_budget": 2500,
        "summarizers": ["offline/lead"],
        "judges": ["offline/judge"],
        "resources": {"embed": {"gpus": 0.5, "actors": {"min": 0, "max": 4}}},
    }
    command = [SUMMHAY, "run", write_spec(tmp_path, fields), "--store", tmp_path / "store", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"RAY_AUTH_MODE": "disabled"}

    def run(port: int, *more: str) -> subprocess.CompletedProcess[str]:
        line = [*map(str, command), "--address", f"127.0.0.1:{port}", *more]
        return subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300, check=False)

    with cluster_on_this_machine().cluster(3, scale=True) as nodes:
        refused = run(nodes.port, "--set", "resources.embed.gpus=8")
        assert refused.returncode == 2 and "an actor needs 8 GPUs and " in refused.stderr.splitlines()[-1]
        assert nodes.alive() == 1
        done = run(nodes.port)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        # The head has no GPU: the actor was on a node that was started for it, and may have been given back since.
        assert found["computing"]["actors"] >= 1 and found["computing"]["texts"] == 72 and "warnings" not in found["computing"]
    # The small model reads both corpora alike on any node: the tables are those of one process.
    one = summhay("run", write_spec(tmp_path, {**fields, "resources": {}}), "--store", tmp_path / "alone", "--executor", "inline")
    assert one["run"] == found["run"] and one["scores"] == found["scores"]


@pytest.mark.soak
def test_the_autoscaler_adds_the_node_that_is_needed() -> None:
    with cluster_on_this_machine().cluster(3, scale=True) as nodes:
        assert nodes.alive() == 1
        line = [sys.executable, "-c", DRIVER, f"127.0.0.1:{nodes.port}"]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"RAY_AUTH_MODE": "disabled"}
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=150, check=False)
        assert (done.returncode, done.stdout) == (0, "2"), done.stderr
        end = time.monotonic() + 20
        while nodes.alive() < 2:
            assert time.monotonic() < end
            time.sleep(0.2)
