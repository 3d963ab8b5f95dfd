"""A run's own Ray: a private folder, and the processes that can reach this Ray."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from paid_runs import KEY_ENV, fields_of
from runs import PATIENCE_S, listening, open_to_others, process_tree, start, write_spec
from simulated_provider import KEY, simulated_provider, until

# A process without a token asks Ray for the nodes of its cluster.
STRANGER = """
import sys
from ray.autoscaler.v2.sdk import get_cluster_status
try:
    status = get_cluster_status(sys.argv[1], timeout=20)
    print(len(status.active_nodes) + len(status.idle_nodes), "nodes")
except Exception as error:
    print(error)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder with a short name."""
    folder = Path(tempfile.mkdtemp(prefix="rh", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.soak
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_nobody_else_reaches_a_runs_ray(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    with simulated_provider("--latency", "600") as provider:
        run = start(write_spec(tmp_path, fields_of(provider.base, workers=1, executor="ray")), tmp_path / "store")
        try:
            assert until(lambda: bool(provider.calls()) or run.poll() is not None, PATIENCE_S)
            assert run.poll() is None, run.communicate()
            (home,) = temporary.iterdir()
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
            tree = process_tree(run.pid)
            assert {"gcs_server", "raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent"} <= {one.name() for one in tree}
            assert open_to_others(tree) == []
            (port,) = {port for one in tree if one.name() == "gcs_server" for _, port in listening(one)}
            assert nodes_for(port, {"RAY_AUTH_MODE": "token"}) == "1 nodes"
            for stranger in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}):
                assert "InvalidAuthToken" in nodes_for(port, stranger)
        finally:
            run.terminate()
            run.terminate()
            run.communicate()


def nodes_for(port: int, variables: Mapping[str, str]) -> str:
    """The answer to a process with these variables that asks a cluster for its nodes."""
    command = [sys.executable, "-c", STRANGER, f"127.0.0.1:{port}"]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()
