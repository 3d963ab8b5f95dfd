"""Isolates a run's own Ray on this machine: a private folder, the loopback interface only, and its own token.

Part of the engine room. The driver keeps a lock on its folder. The lock ends with the process, however that ends, and the next
start removes folders that are not locked.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ray
from ray._private import ray_constants
from ray._private.node import Node
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

PREFIX = "summhay-ray-"
WATCHERS = ("start_api_server", "start_monitor", "start_log_monitor")
"""The methods by which Ray's node starts its dashboard, its autoscaler and its log monitor."""
LONGEST_BASE = 16
"""Maximum bytes of the path of the temporary folder: a socket's path holds 103, and Ray's and our folders need the rest."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PRIVATE = 0o700


@contextlib.contextmanager
def own_variables() -> Iterator[None]:
    """Restore Ray's environment variables after the block, so that the caller can join another cluster afterwards.

    Otherwise the token mode of this Ray, for example, would stay set, and another cluster would refuse it.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [
            name for name in os.environ if name.startswith(("RAY_", "__RAY_", "PYTHONBREAKPOINT")) and name not in before
        ]:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("RAY_")})
        _read_variables_again()


@contextlib.contextmanager
def ray_home() -> Iterator[Path]:
    """A temporary folder for a Ray that is started in the block. Use it within `own_variables`. Raises OSError."""
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > LONGEST_BASE:
        base = Path("/tmp")
    _sweep(base)
    home, lock = _locked_home(base)
    # Ray makes its own folder readable for everybody, so it goes inside the private one.
    temporary, clusters = home / "r", ray_constants.ENABLE_RAY_CLUSTER
    try:
        _guard(home / "token")
        # This makes Ray a single-machine one, which listens on the loopback interface only. Ray reads the variable when it is
        # imported; this process has imported it already, so the constant is set as well.
        os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
        ray_constants.ENABLE_RAY_CLUSTER = False
        yield temporary
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        shutil.rmtree(home, ignore_errors=True)
        os.close(lock)


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """A context in which Ray starts without its dashboard, autoscaler and log monitor.

    Nobody looks at a run's own Ray, and these take half the time of its start. Ray has no options to leave them out.
    """
    # Another version of Ray may start them otherwise: then they run, and the start takes longer.
    before = {name: getattr(Node, name) for name in WATCHERS if hasattr(Node, name)}

    def start_nothing(node: Node, **_: object) -> None:
        # Ray reads it once its dashboard has started.
        node._webui_url = ""

    try:
        for name in before:
            setattr(Node, name, start_nothing)
        yield
    finally:
        for name, start in before.items():
            setattr(Node, name, start)


def is_on_loopback() -> bool:
    """Whether the Ray of this process uses the loopback interface only."""
    return ipaddress.ip_address(ray.util.get_node_ip_address()).is_loopback


def _guard(token: Path) -> None:
    """Make Ray require a new token, which Ray and its processes read from a file that other users cannot read."""
    with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    for name in ("RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH"):
        os.environ.pop(name, None)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    _read_variables_again()


def _read_variables_again() -> None:
    """Make Ray read the token's mode and the token again, which it caches."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _locked_home(base: Path) -> tuple[Path, int]:
    """A new folder, and the file descriptor that holds its lock. Child processes do not inherit it."""
    while True:
        home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        # Another start may remove the folder as abandoned before it is locked; then try again.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(home, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if home.exists():
                return home, lock
            os.close(lock)


def _sweep(base: Path) -> None:
    """Remove the folders of drivers that were killed. Folders of other users, or with other permissions, are left alone."""
    for home in base.glob(f"{PREFIX}*"):
        # It may be another user's, a link, locked by a living driver, or gone already.
        with contextlib.suppress(OSError):
            lock = os.open(home, _FOLDER)
            try:
                found = os.fstat(lock)
                if found.st_uid == os.geteuid() and found.st_mode & 0o777 == _PRIVATE:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(home, ignore_errors=True)
            finally:
                os.close(lock)
