"""The home of a run's own Ray: a private folder that goes with its driver, and who can reach the Ray that lives there."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
import ray
from paid_runs import KEY_ENV, fields_of
from runs import PATIENCE_S, listening, open_to_others, process_tree, start, write_spec
from simulated_provider import KEY, simulated_provider, until

from summhay_ray.engine.ray_home import WATCHERS, own_variables, ray_home, unwatched

# Whoever has no token asks Ray for the nodes of its cluster.
STRANGER = """
import sys
from ray._raylet import GcsClient
try:
    print(len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=20)), "nodes")
except Exception as error:
    print(error)
"""
NEXT = """
import os, sys
import ray
from summhay_ray.engine.on_ray import ray_session

def variables():
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}

before = variables()
with ray_session("local"):
    pass
assert variables() == before
ray.init(address="local", include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[1])
print(ray.get(ray.remote(lambda: os.environ["RAY_AUTH_MODE"]).remote()))
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of a short name."""
    folder = Path(tempfile.mkdtemp(prefix="rh", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    shutil.rmtree(folder)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.core
def test_folder_and_token_are_private_and_end_with_the_block(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a person's own")
    tokens = []
    for _ in range(2):
        with own_variables(), ray_home() as folder:
            (home,) = temporary.iterdir()
            token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
            assert (mode(home), mode(token), folder.parent, token.parent) == (0o700, 0o600, home, home)
            assert os.environ["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN" not in os.environ
            tokens.append(token.read_text())
        assert list(temporary.iterdir()) == [] and os.environ["RAY_AUTH_TOKEN"] == "a person's own"
    assert len(set(tokens)) == 2 and {len(token) for token in tokens} == {64}


@pytest.mark.ray
@pytest.mark.timeout(240)
def test_an_unwatched_ray_has_no_processes_that_nobody_reads(temporary: Path) -> None:
    before = [getattr(ray._private.node.Node, name) for name in WATCHERS]
    with own_variables(), ray_home() as folder:
        with unwatched():
            ray.init(address="local", num_cpus=1, log_to_driver=False, logging_level="ERROR", _temp_dir=str(folder))
        try:
            commands = [" ".join(process.cmdline()) for process in process_tree(os.getpid())]
            assert ray.get(ray.remote(lambda: 7).remote()) == 7
        finally:
            ray.shutdown()
    assert any("raylet" in command for command in commands)
    assert not [command for command in commands if "dashboard.py" in command or "monitor.py" in command]
    assert [getattr(ray._private.node.Node, name) for name in WATCHERS] == before


@pytest.mark.core
def test_a_long_temporary_folder_gives_way_to_one_that_sockets_fit_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with own_variables(), ray_home() as folder:
        assert folder.parent.parent == Path("/tmp")
        assert len(f"{folder}/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store") <= 103


@pytest.mark.core
def test_a_start_removes_what_the_dead_left_and_nothing_else(temporary: Path) -> None:
    elsewhere, dead = temporary / "elsewhere", temporary / "summhay-ray-dead"
    for folder in (elsewhere, dead, temporary / "summhay-ray-open", temporary / "summhay-job-1", temporary / "summhay-ray-alien"):
        folder.mkdir(mode=0o700)
        (folder / "file").touch()
    (dead / "link").symlink_to(elsewhere)
    (temporary / "summhay-ray-open").chmod(0o755)
    (temporary / "summhay-ray-link").symlink_to(elsewhere)
    (temporary / "summhay-ray-file").touch()
    others = set(temporary.iterdir()) - {dead, temporary / "summhay-ray-alien"}
    if os.geteuid() == 0:
        os.chown(temporary / "summhay-ray-alien", 65534, -1)
        others.add(temporary / "summhay-ray-alien")
    with own_variables(), ray_home() as living, own_variables(), ray_home() as other:
        assert set(temporary.iterdir()) == others | {living.parent, other.parent}
    assert set(temporary.iterdir()) == others and (elsewhere / "file").exists()


class Run:
    """A run that goes on, whose calls nobody answers."""

    def __init__(self, folder: Path, base: str) -> None:
        folder.mkdir()
        self.store = folder / "store"
        self.process = start(write_spec(folder, fields_of(base, workers=1, executor="ray")), self.store)

    def tree(self) -> list[psutil.Process]:
        """Its driver and all of its Ray."""
        return process_tree(self.process.pid)

    def home(self) -> Path:
        """As its Ray is told."""
        return next(Path(one.environ()["RAY_AUTH_TOKEN_PATH"]).parent for one in self.tree() if one.name() == "gcs_server")

    def kill(self) -> None:
        """SIGKILL to the driver alone; waits for its Ray, which ends by itself."""
        tree = self.tree()
        self.process.kill()
        self.process.communicate()
        _, living = psutil.wait_procs(tree, timeout=120)
        assert [one for one in living if one.status() != psutil.STATUS_ZOMBIE] == []


@pytest.fixture
def run(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv(KEY_ENV, KEY)
    with simulated_provider("--latency", "600") as provider:
        found = Run(tmp_path / "run", provider.base)
        try:
            assert until(lambda: bool(provider.calls()) or found.process.poll() is not None, PATIENCE_S)
            assert found.process.poll() is None, found.process.communicate()
            yield found
        finally:
            if found.process.poll() is None:
                found.kill()


@pytest.mark.soak
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_nobody_else_reaches_a_runs_ray_and_a_kill_leaves_nothing_for_long(run: Run, temporary: Path) -> None:
    home, tree = run.home(), run.tree()
    assert list(temporary.iterdir()) == [home] and mode(home) == 0o700 and mode(home / "token") == 0o600
    names = {process.name() for process in tree}
    assert {"gcs_server", "raylet", "ray::DashboardAgent", "ray::RuntimeEnvAgent"} <= names
    assert open_to_others(tree) == []

    token = (home / "token").read_text()
    assert [one.name() for one in tree if token in " ".join([*one.cmdline(), *one.environ().values()])] == []
    written = [file for folder in (home, run.store) for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    assert [file for file in written if token.encode() in file.read_bytes()] == [home / "token"]
    (port,) = {port for one in tree if one.name() == "gcs_server" for _, port in listening(one)}
    assert nodes_for(port, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}) == "1 nodes"
    for stranger in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token[::-1]}):
        assert "InvalidAuthToken" in nodes_for(port, stranger)

    with own_variables(), ray_home() as living:
        run.kill()
        assert home.is_dir()
        with own_variables(), ray_home() as following:
            assert set(temporary.iterdir()) == {living.parent, following.parent}


def nodes_for(port: int, variables: Mapping[str, str]) -> str:
    """What a process of such variables is told that asks a cluster for its nodes."""
    command = [sys.executable, "-c", STRANGER, f"127.0.0.1:{port}"]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


@pytest.mark.soak
@pytest.mark.ray
def test_a_callers_next_cluster_is_one_of_its_own(temporary: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", NEXT, str(temporary)]
    done = subprocess.run(command, env={**variables, "RAY_AUTH_MODE": "disabled"}, capture_output=True, text=True, timeout=240)
    assert (done.stdout, done.returncode) == ("disabled\n", 0), done.stderr[-2000:]
