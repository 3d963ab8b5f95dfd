"""Real runs of the `summhay` command, to watch and to kill."""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
import yaml

from summhay_ray import cli
from summhay_ray.store import open_files
from summhay_ray.store.answers import decode

SUMMHAY = Path(sys.executable).with_name("summhay")
PATIENCE_S = 240.0


def write_spec(folder: Path, fields: Mapping[str, Any]) -> Path:
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(dict(fields)), encoding="utf-8")
    return path


def at_most(document: dict[str, Any]) -> float:
    """The most dollars that a run has cost, from a document of `run` or `status`: spent and uncertain."""
    usd = document["usd"]
    return float(usd["spent"] + usd["reserved"] + usd["uncertain"])


def summhay(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    """The JSON document of a command that must end with `code`; it runs in this process if it does not need Ray."""
    words = [*map(str, arguments), "--json"]
    if "ray" in words:
        done = subprocess.run([str(SUMMHAY), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        ended, out, told = done.returncode, done.stdout, done.stderr
    else:
        said, complaints = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints), pytest.raises(SystemExit) as stop:
            cli.main(words)
        ended, out, told = stop.value.code, said.getvalue(), complaints.getvalue()
    assert ended == code, f"{words}: exit {ended}\n{told[-2000:]}{out[-2000:]}"
    document: dict[str, Any] = json.loads(out)
    return document


def start(spec: Path, store: Path | str, *more: str, into: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """A run in the background. `into`: the file for its output, if nobody reads its pipes before it ends."""
    command = [str(SUMMHAY), "run", str(spec), "--store", str(store), *more, "--json"]
    return subprocess.Popen(command, stdout=into or subprocess.PIPE, stderr=into or subprocess.PIPE)


def log_records(store: Path | str) -> list[dict[str, Any]]:
    """Every complete record of the answers log; a line that is being written is left out."""
    files = open_files(str(store))
    lines = [line for name in files.names("answers", ".jsonl") for line in files.read(name).splitlines(keepends=True)]
    return [record for record in map(decode, lines) if record is not None]


def wait_for_answers(process: subprocess.Popen[bytes], store: Path, n: int) -> bool:
    """Wait until the log has n answers; return False if the run ended before."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if len(log_records(store)) >= n:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.1)
    raise TimeoutError(f"{n} answers did not come in {PATIENCE_S} s")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the driver, like a crash. Its workers notice within seconds, and then write nothing more."""
    workers = [psutil.Process(pid) for pid, title in descendants(process.pid) if is_worker(title)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + PATIENCE_S
    while not all(map(has_ended, workers)):
        assert time.monotonic() < end, "workers outlive their driver"
        time.sleep(0.1)


def is_worker(title: str) -> bool:
    """True if a process calls models, or belongs to a pool that computes."""
    return "WorkerActor" in title or "MapWorker" in title


def has_ended(process: psutil.Process) -> bool:
    """True if a process is gone, or a zombie."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """(pid, title) of all descendants of a process."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            title = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield int(child), title
            yield from descendants(int(child))
        except (FileNotFoundError, ProcessLookupError):
            continue


def kill_worker(driver: int) -> bool:
    """SIGKILL to one worker of a run that this test started; return False if there is none."""
    for pid, title in descendants(driver):
        if is_worker(title):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def process_tree(driver: int) -> list[psutil.Process]:
    """A run's driver and all processes of its Ray."""
    found = psutil.Process(driver)
    return [found, *found.children(recursive=True)]


def listening(process: psutil.Process) -> list[tuple[str, int]]:
    """(address, port) of every socket that listens."""
    found = process.net_connections(kind="inet")
    return [one.laddr for one in found if one.status == psutil.CONN_LISTEN or (one.status == psutil.CONN_NONE and not one.raddr)]


def keeps_to_this_machine(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return ((found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found).is_loopback


def open_to_others(processes: Iterable[psutil.Process]) -> list[tuple[str, tuple[str, int]]]:
    """(process, address and port) of sockets that other machines can reach."""
    return [(one.name(), where) for one in processes for where in listening(one) if not keeps_to_this_machine(where[0])]
