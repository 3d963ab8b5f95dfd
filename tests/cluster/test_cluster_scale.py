"""Ray's autoscaler adds nodes of aws.yaml's types to the local cluster when actors need CPUs, or GPUs that no node has."""

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
from tiny_models import sentence_model, writer

pytestmark = pytest.mark.ray

LOCAL = Path(__file__).resolve().parents[2] / "cluster" / "local.py"
# Four whole CPUs: the head has two, and so has a spot worker.
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
def test_models_get_their_gpus_from_nodes_that_were_not_there_and_nothing_else_waits_for_them(tmp_path: Path) -> None:
    fields = {
        "haystacks": ["sample/news", "sample/conversation"],
        "retrievers": ["bm25", {"embed": str(sentence_model(tmp_path / "small"))}],
        "token_budget": 2500,
        "summarizers": ["offline/lead", {"model": f"transformers/{writer(tmp_path / 'writer')}", "max_tokens": 40}],
        "judges": ["offline/judge"],
        "resources": {"embed": {"gpus": 0.5, "actors": {"min": 0, "max": 4}}, "transformers": {"gpus": 0.5, "actors": 2}},
    }
    command = [SUMMHAY, "run", write_spec(tmp_path, fields), "--store", tmp_path / "store", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"RAY_AUTH_MODE": "disabled"}
    most = 0
    with cluster_on_this_machine().cluster(3, scale=True) as nodes:
        line = [*map(str, command), "--address", f"127.0.0.1:{nodes.port}"]
        for kind in fields["resources"]:
            refused = subprocess.run(
                [*line, "--set", f"resources.{kind}.gpus=8"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert refused.returncode == 2 and f"resources.{kind}: an actor needs 8 GPUs and " in refused.stderr.splitlines()[-1]
        assert nodes.alive() == 1
        done = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while done.poll() is None:
            most = max(most, nodes.alive())
            time.sleep(1)
        out, told = done.communicate()
    assert done.returncode == 0, told
    found = json.loads(out)
    # The head has no GPU. An idle node is released before the run ends.
    assert most >= 2
    assert found["computing"]["actors"] >= 1 and found["computing"]["texts"] == 72 and "warnings" not in found["computing"]
    # The small models give the same results on any node: the tables are those of one process.
    alone = {**fields, "resources": {}}
    one = summhay("run", write_spec(tmp_path, alone), "--store", tmp_path / "alone", "--executor", "inline")
    tables = [summhay("status", found["run"], "--store", tmp_path / store)["tables"] for store in ("store", "alone")]
    assert one["run"] == found["run"] and tables[0] == tables[1]


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
