"""Ray's autoscaler adds nodes of aws.yaml's spot type to the local cluster where actors need them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


@pytest.mark.soak
def test_the_autoscaler_adds_the_node_that_is_needed() -> None:
    spec = importlib.util.spec_from_file_location("cluster_local_scaled", LOCAL)
    assert spec is not None and spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    with local.cluster(3, scale=True) as nodes:
        assert nodes.alive() == 1
        line = [sys.executable, "-c", DRIVER, f"127.0.0.1:{nodes.port}"]
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"} | {"RAY_AUTH_MODE": "disabled"}
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=150, check=False)
        assert (done.returncode, done.stdout) == (0, "2"), done.stderr
        end = time.monotonic() + 20
        while nodes.alive() < 2:
            assert time.monotonic() < end
            time.sleep(0.2)
