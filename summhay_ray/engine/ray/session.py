"""Starts a private Ray or joins a cluster, and maps functions in Ray tasks.

Ray is imported inside the functions, since importing it is slow and callers with few items do not need it.
"""

import contextlib
import io
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from summhay_ray.engine.run.execution import hear_sigterm
from summhay_ray.engine.spec.inputs import Mapped
from summhay_ray.errors import UserError
from summhay_ray.logs import asked_level

LONGEST_BASE = 16
"""Maximum length in bytes of the temporary folder's path. A socket's path may have 103 bytes, and Ray's and our subfolders need
the rest."""
RAYS_LISTENER = "ray_listen_error_messages"

A = TypeVar("A")
B = TypeVar("B")


class RayMissing(UserError):
    """Raised if Ray does not start, or if its cluster cannot be joined."""

    exit_code = 1


class PlacementError(UserError):
    """Raised if the cluster cannot be reached, or has no room for the run's workers. The message gives the needed and the
    available resources."""


@contextlib.contextmanager
def ray_session(address: str = "local", from_here: bool = False) -> Iterator[str]:
    """Return a context with a Ray connection: `local` starts a private Ray and ends it; `auto` or HOST:PORT joins a cluster.

    The context's value is the URL of Ray's dashboard; empty if there is none.

    `from_here`: let workers import the user's own modules from the current folder.
    """
    # Ray reads these variables when it is imported. The first one keeps a thread of Ray Data that outlives our session from
    # connecting again. The second one keeps Ray from merging workers' log lines that differ only in numbers.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    if address == "local" and "ray" not in sys.modules:
        # With this setting, Ray listens on the loopback interface only.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    if ray.is_initialized():
        raise RayMissing("this process is connected to a Ray already; nothing was asked, call ray.shutdown() and run again")
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        # Check the address first, since Ray would try for many minutes.
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            message = f"--address {address}: no Ray head answers there ({error}); give a running one's address, or local"
            raise PlacementError(message) from error
    with contextlib.ExitStack() as stack:
        # Other users cannot read this temporary folder.
        base = tempfile.gettempdir()
        base = base if len(os.fsencode(base)) <= LONGEST_BASE else "/tmp"
        try:
            private = tempfile.TemporaryDirectory(prefix="summhay_ray-", dir=base, ignore_cleanup_errors=True)
        except OSError as error:
            raise RayMissing(f"Ray has no temporary folder ({error}); nothing was asked, mend it or set TMPDIR") from error
        folder = Path(stack.enter_context(private))
        options: dict[str, Any] = {}
        if address == "local":
            # Ray's own folder is readable for everybody, so put it into the private one.
            options |= {"_temp_dir": str(folder / "r"), "include_dashboard": False, "object_store_memory": 512 * 2**20}
            # Turn off metrics, which cost seconds and which nobody reads. Also turn off the workers that Ray starts in advance
            # for each CPU.
            options["_system_config"] = {"enable_metrics_collection": False, "prestart_worker_first_driver": False}
        elif from_here:
            paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), os.getcwd()]))
            options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
        # Ray's workers first search for modules in the folder in which the driver starts Ray, so this folder must be empty.
        empty = None if from_here else folder / "empty"
        if empty is not None:
            empty.mkdir()
        yield from _connected(address, options, empty)


def _connected(address: str, options: dict[str, Any], start_in: Path | None) -> Iterator[str]:
    import ray

    known = set(os.environ)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # At this level, Ray's C++ code does not warn about Ray Data's actors, and does not print that a level was set.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Print the workers' output only if the user has asked for it. Ray's log files always contain it.
    options = {**options, "log_to_driver": asked_level() is not None, "logging_level": "ERROR"}
    before = signal.getsignal(signal.SIGTERM)
    try:
        try:
            with _silent(), contextlib.chdir(start_in) if start_in else contextlib.nullcontext():
                dashboard = ray.init(address=address, **options).dashboard_url
        except (UserError, KeyboardInterrupt):
            raise
        # Ray raises a bare Exception if its processes do not start in time.
        except Exception as error:
            raise RayMissing(f"Ray does not start: {' '.join(str(error).split())[:300]}; nothing was asked, run again") from error
        hear_sigterm()
        with contextlib.redirect_stdout(_WithoutRaysOwn(sys.stdout)):
            yield f"http://{dashboard}" if dashboard else ""
    finally:
        # Shut Ray down even if it is still starting. Remove its environment variables, which would affect other clusters.
        with contextlib.redirect_stdout(io.StringIO()):
            ray.shutdown()
        for name in set(os.environ) - known:
            if name.startswith("RAY_"):
                del os.environ[name]
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


@dataclass(eq=False)
class _WithoutRaysOwn:
    """A stdout that drops the lines which a thread of Ray prints when a worker dies and is restarted. Ray's logs have these
    lines."""

    stream: Any

    def write(self, text: str) -> int:
        return len(text) if threading.current_thread().name == RAYS_LISTENER else int(self.stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Return a context in which nothing is written to stderr, not even by native code. Exceptions are still raised."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def configure_ray_data() -> None:
    """Configure Ray Data in this process: pipelines print nothing, and a pool grows as soon as all of its actors are busy."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.verbose_stats_logs = False
    context.print_on_execution_start = False
    context.autoscaling_config = replace(context.autoscaling_config, actor_pool_util_upscaling_threshold=1.0)
    # Errors are raised, so they need not be logged. Otherwise a stopped pipeline would print its traceback.
    for name in ("ray.data", "ray.data.exceptions"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def map_in_tasks(work: Callable[[A], B], items: Iterable[A], error: type[UserError] = UserError) -> Iterator[B]:
    """Yield the result of each item, in order, computed by one Ray task per item inside a `ray_session`. Keeps few items in
    memory.

    An exception of type `error` or UserError in `work` is raised here with the same type.
    """
    import ray

    here = os.getcwd()

    def done(item: A) -> tuple[B | None, str, bool]:
        # Workers start in another folder. Change to the driver's folder, if the node has it, for relative paths.
        with contextlib.chdir(here) if os.path.isdir(here) else contextlib.nullcontext():
            try:
                return work(item), "", False
            except UserError as problem:
                return None, str(problem), isinstance(problem, error)

    def result(task: Any) -> B:
        found, problem, of_type = ray.get(task)
        if problem:
            raise (error if of_type else UserError)(problem)
        return found  # type: ignore[no-any-return]

    # The tasks are short and reserve no CPU. So they do not wait for other jobs, or for a new node in a cluster without CPUs.
    task, waiting = ray.remote(num_cpus=0, scheduling_strategy="SPREAD")(done), deque[Any]()
    most = max(1, int(ray.cluster_resources().get("CPU", 0)))
    for item in items:
        waiting.append(task.remote(item))
        if len(waiting) >= most:
            yield result(waiting.popleft())
    while waiting:
        yield result(waiting.popleft())


@dataclass(eq=False)
class Cluster(contextlib.AbstractContextManager["Cluster", None]):
    """The Ray connection of a start, to a private Ray or to the cluster at `address`. It is opened when it is first needed, and
    closed at the end of the `with` block."""

    address: str | None
    executor: str | None = None
    """The executor that the user chose; None: the spec's."""
    from_here: bool = False
    """See `ray_session`."""
    _connection: contextlib.ExitStack = field(default_factory=contextlib.ExitStack, init=False)
    _dashboard: str | None = field(default=None, init=False)

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._dashboard = None

    def connect(self) -> str:
        """Connect if not yet connected. Returns the URL of Ray's dashboard; empty if there is none."""
        if self._dashboard is None:
            self._dashboard = self._connection.enter_context(ray_session(self.address or "local", self.from_here))
        return self._dashboard

    def mapped(self, executor: str = "auto") -> Mapped | None:
        """Return a function that maps in Ray tasks; None unless it is certain that the start runs on Ray. `executor`: the
        spec's."""
        return self._map if self.address or (self.executor or executor) == "ray" else None

    def _map(self, work: Callable[[A], B], items: Iterable[A], error: type[UserError]) -> Iterator[B]:
        self.connect()
        return map_in_tasks(work, items, error)
