"""Starts a private Ray or joins a cluster. Imports Ray.

Ray Data is imported only where it is used, because its import takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from summhay_ray.engine.ray.placement import PlacementError
from summhay_ray.engine.run.execution import hear_sigterm
from summhay_ray.errors import UserError
from summhay_ray.logs import asked_level

LONGEST_BASE = 16
"""Maximum bytes of the path of the temporary folder: a socket's path may have 103 bytes, and Ray's and our subfolders need the
rest."""
RAYS_LISTENER = "ray_listen_error_messages"


class RayMissing(UserError):
    """Ray did not start, or its cluster cannot be joined."""

    exit_code = 1


@contextlib.contextmanager
def ray_session(address: str, from_here: bool = False) -> Iterator[str]:
    """A context with a Ray connection: `local` starts a private Ray and ends it; `auto` or HOST:PORT joins a cluster.

    The context's value is the URL of Ray's dashboard; empty if there is none.

    `from_here`: let workers import the user's own modules from the current folder.
    """
    if ray.is_initialized():
        raise RayMissing("this process is connected to a Ray already; nothing was asked, call ray.shutdown() and run again")
    _check_address(address)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(_private_folder())
        except OSError as error:
            raise RayMissing(f"Ray has no temporary folder ({error}); nothing was asked, mend it or set TMPDIR") from error
        options: dict[str, Any] = {}
        if address == "local":
            # Ray makes its own folder readable for everybody, so it goes inside the private one.
            options |= {"_temp_dir": str(folder / "r"), "include_dashboard": False, "object_store_memory": 512 * 2**20}
            # Turn off the metrics, which nobody reads and which cost seconds, and the workers that Ray starts in advance for each
            # CPU.
            options["_system_config"] = {"enable_metrics_collection": False, "prestart_worker_first_driver": False}
        elif from_here:
            paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
            options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
        # Ray's workers search modules first in the folder where their driver starts Ray: it must be empty.
        empty = None if from_here else folder / "empty"
        if empty is not None:
            empty.mkdir()
        yield from _session(address, options, empty)


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A temporary folder that no other user can read. Raises OSError."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > LONGEST_BASE:
        base = "/tmp"
    with tempfile.TemporaryDirectory(prefix="summhay_ray-", dir=base, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _session(address: str, options: dict[str, Any], stand: Path | None) -> Iterator[str]:
    known = set(os.environ)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # At this level Ray's C++ code neither warns about Ray Data's own actors nor reports that a level was set.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # This process prints the workers' output only if the user has asked for it; Ray's log files always have it.
    options = {**options, "log_to_driver": asked_level() is not None, "logging_level": "ERROR"}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with _silent(), contextlib.chdir(stand) if stand else contextlib.nullcontext():
            dashboard = ray.init(address=address, **options).dashboard_url
    except (UserError, KeyboardInterrupt):
        _leave(known)
        raise
    # Ray raises a bare Exception if its processes do not start in time.
    except Exception as error:
        _leave(known)
        raise RayMissing(f"Ray does not start: {' '.join(str(error).split())[:300]}; nothing was asked, run again") from error
    hear_sigterm()
    try:
        with contextlib.redirect_stdout(_WithoutRaysOwn(sys.stdout)):
            yield f"http://{dashboard}" if dashboard else ""
    finally:
        _leave(known)
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


def _leave(known: set[str]) -> None:
    """Shut Ray down, even while it is starting. Unset its environment variables, so that they do not affect other clusters."""
    with contextlib.redirect_stdout(io.StringIO()):
        ray.shutdown()
    for name in set(os.environ) - known:
        if name.startswith("RAY_"):
            del os.environ[name]


class _WithoutRaysOwn:
    """A stdout without the lines that a thread of Ray prints when a worker dies and is restarted. Ray's logs have them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return len(text) if threading.current_thread().name == RAYS_LISTENER else int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """A context in which nothing is written to stderr, not even by native code. Errors still come as exceptions."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _check_address(address: str) -> None:
    """Raises PlacementError if no head answers at the address; Ray itself would try for many minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        message = f"--address {address}: no Ray head answers there ({error}); give a running one's address, or local"
        raise PlacementError(message) from error


def configure_ray_data(in_order: bool = False) -> None:
    """Configure the pipelines of this process: they print nothing, and a pool grows as soon as all of its actors are busy.

    `in_order`: whether results keep the order of the input.
    """
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = in_order
    context.autoscaling_config = replace(context.autoscaling_config, actor_pool_util_upscaling_threshold=1.0)
    # Logged errors are raised as well. Without this, a stopped stream would print its traceback.
    for name in ("ray.data", "ray.data.exceptions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
