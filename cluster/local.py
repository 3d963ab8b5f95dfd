"""Start a Ray cluster on this machine, to rehearse a real one: `python cluster/local.py [NODES] [--scale]`.

Ctrl-C or SIGTERM ends it. Nodes are started by the commands in cluster/aws.yaml, each with its own ports. All nodes share this
machine's disk, so they can use a local store. Each offers 2 CPUs, whatever the machine has. With --scale only a head is started,
and Ray's autoscaler adds up to NODES - 1 nodes of the worker types in aws.yaml if a run needs them. The GPUs of these nodes exist
only by name.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CPUS_A_NODE = 2
START_S = 45.0
TRIES = 3
STOP_S = 15.0
# Ray uses 10002-19999 for workers, and the system gives ports above 32767 to any process.
PORTS = range(20000, 32000)
CONFIG = Path(__file__).resolve().with_name("aws.yaml")


class Nodes:
    """Ray nodes, each in its own process group. They are ended by process id, since `ray stop` would also end other nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._config: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
        self._ports = free_ports()
        self._started: list[subprocess.Popen[bytes]] = []
        self.metrics: list[str] = []
        """Addresses at which the started nodes export their metrics, the head's first."""
        self.port, self.dashboard = next(self._ports), next(self._ports)

    @property
    def url(self) -> str:
        """The address of the job server."""
        return f"http://127.0.0.1:{self.dashboard}"

    def head(self, scale_to: int = 0) -> None:
        """Start the head. With `scale_to`, its autoscaler adds up to that many nodes."""
        options = ["--block", "--dashboard-port", str(self.dashboard), "--ray-client-server-port", str(next(self._ports))]
        options += ["--temp-dir", str(self._folder), "--node-ip-address", "127.0.0.1"]
        self._start("head_start_ray_commands", options, self._scaling(scale_to))

    def worker(self) -> None:
        """Start another node, and wait until it has joined: if two nodes start at once on one machine, one may fail."""
        self._start("worker_start_ray_commands", ["--node-ip-address", "127.0.0.1"], {"RAY_HEAD_IP": "127.0.0.1"})
        self.wait(len(self._started))

    def _scaling(self, scale_to: int) -> dict[str, str]:
        if not scale_to:
            return {"SUMMHAY_SCALING": ""}
        types = self._config["available_node_types"]
        # Ray's provider for one machine requires this name for the head's type.
        lists = ["cluster_synced_files", "rsync_exclude", "initialization_commands", "setup_commands", "head_setup_commands"]
        lists += ["worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands"]
        scaled: dict[str, Any] = {
            **{name: [] for name in lists},
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            "file_mounts_sync_continuously": False,
            "upscaling_speed": self._config["upscaling_speed"],
            "cluster_name": "summhay-local",
            "max_workers": scale_to,
            "idle_timeout_minutes": 1,
            "provider": {
                "type": "fake_multinode",
                "gcs_address": f"127.0.0.1:{self.port}",
                # All nodes have this machine's address, and need no setup.
                **dict.fromkeys(("use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check"), True),
            },
            "head_node_type": "ray.head.default",
            "available_node_types": {
                "ray.head.default": {"resources": {"CPU": CPUS_A_NODE}, "node_config": {}, "max_workers": 0},
                **{
                    name: {**kind, "node_config": {}, "max_workers": min(scale_to, kind["max_workers"])}
                    for name, kind in types.items()
                    if name != self._config["head_node_type"]
                },
            },
        }
        path = self._folder.with_suffix(".scaling.yaml")
        path.write_text(yaml.safe_dump(scaled), encoding="utf-8")
        return {
            "SUMMHAY_SCALING": f"--autoscaling-config={path}",
            "RAY_FAKE_CLUSTER": "1",
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        }

    def _start(self, which: str, options: list[str], variables: dict[str, str]) -> None:
        options += ["--num-cpus", str(CPUS_A_NODE), "--dashboard-agent-listen-port", str(next(self._ports))]
        environment = {name: value for name, value in os.environ.items() if name not in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")}
        metrics = next(self._ports)
        self.metrics.append(f"http://127.0.0.1:{metrics}/metrics")
        environment |= {
            # Ray requires a token if it finds one in ~/.ray, but a rehearsal needs none.
            "RAY_AUTH_MODE": "disabled",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")]),
            "RAY_USAGE_STATS_ENABLED": "0",
            "SUMMHAY_RAY_STOP": ":",
            "SUMMHAY_SERVICE": "",
            "SUMMHAY_RAY_PORT": str(self.port),
            "SUMMHAY_OBJECT_PORT": str(next(self._ports)),
            "SUMMHAY_METRICS_PORT": str(metrics),
            "SUMMHAY_RAY_OPTIONS": " ".join(options),
            **variables,
        }
        log = self._folder.with_suffix(f".node{len(self._started)}.log")
        *before, last = (["bash", "-c", command] for command in self._config[which])
        for command in before:
            subprocess.run(command, env=environment, check=True)
        with log.open("wb") as stream:
            process = subprocess.Popen(last, env=environment, stdout=stream, stderr=stream, start_new_session=True)
        self._started.append(process)

    def wait(self, nodes: int) -> None:
        """Wait until the job server answers and this many nodes are alive. Raises SystemExit if that takes too long."""
        end = time.monotonic() + START_S
        while self.alive() < nodes:
            if time.monotonic() > end or any(process.poll() is not None for process in self._started):
                logs = sorted(self._folder.parent.glob(f"{self._folder.name}.node*.log"))
                tail = "\n".join(log.read_text(errors="replace")[-1500:] for log in logs)
                raise SystemExit(f"the nodes did not start within {START_S:.0f} s:\n{tail}")
            time.sleep(0.3)

    def alive(self) -> int:
        """Return the number of nodes that the head reports as alive; 0 if it does not answer yet."""
        try:
            with urllib.request.urlopen(f"{self.url}/nodes?view=summary", timeout=5) as answer:
                summary = json.loads(answer.read())["data"]["summary"]
        except (OSError, ValueError, KeyError):
            return 0
        return sum(node.get("raylet", {}).get("state") == "ALIVE" for node in summary)

    def drain_worker(self) -> list[int]:
        """Ask the last node to end, like a machine that shuts down: Ray drains it. Returns its processes, which end
        afterwards."""
        process = self._started.pop()
        pids = _session(process.pid)
        process.terminate()
        return pids

    def kill_worker(self) -> None:
        """End the last node immediately, like a spot instance that is taken away."""
        process = self._started.pop()
        _kill(_session(process.pid))
        process.wait()

    def stop(self) -> None:
        """End every node, the head last."""
        for process in reversed(self._started):
            # The node ends its own processes in order. Its workers have their own process groups, but share its session.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            _kill(_session(process.pid))
            process.wait()


def free_ports() -> Iterator[int]:
    """Yield unused ports, without repeats."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port


def _session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name may contain anything. The fields after it are state, parent, group, session.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def cluster(nodes: int = 1, scale: bool = False) -> Iterator[Nodes]:
    """Run a cluster that ends with the block."""
    for left in reversed(range(TRIES)):
        # The folder contains sockets, whose paths must be short.
        folder = Path(tempfile.mkdtemp(prefix="sr-", dir="/tmp"))
        started = Nodes(folder)
        try:
            try:
                _begin(started, nodes, scale)
            except SystemExit:
                # Another process may have taken a port after we found it unused.
                if left:
                    continue
                raise
            yield started
            return
        finally:
            started.stop()
            shutil.rmtree(folder, ignore_errors=True)
            for leftover in folder.parent.glob(f"{folder.name}.*"):
                leftover.unlink(missing_ok=True)


def _begin(started: Nodes, nodes: int, scale: bool) -> None:
    started.head(nodes - 1 if scale else 0)
    started.wait(1)
    for _ in range(0 if scale else nodes - 1):
        started.worker()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Start the cluster, print how to use it, and wait."""
    parser = argparse.ArgumentParser(description="A Ray cluster on this machine; Ctrl-C ends it.")
    parser.add_argument("nodes", nargs="?", type=int, default=2)
    parser.add_argument("--scale", action="store_true", help="start only a head; Ray's autoscaler adds the other nodes on demand")
    given = parser.parse_args()
    # A shell starts background processes with SIGINT ignored.
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, _interrupted)
    try:
        with cluster(given.nodes, given.scale) as started:
            kind = f"1 of at most {given.nodes} nodes" if given.scale else f"{given.nodes} nodes"
            sys.stdout.write(f"{kind}; summhay run SPEC --address 127.0.0.1:{started.port}\n")
            sys.stdout.write(f"or as a job: summhay submit SPEC --address {started.url}\n")
            sys.stdout.write(f"metrics: {' '.join(started.metrics)}\n")
            sys.stdout.flush()
            while True:
                signal.pause()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")


if __name__ == "__main__":
    main()
