"""Where a run's own Ray lives on this machine: a private folder, the loopback interface alone, a token of its own.

Part of the grid room. A home is a folder that its driver holds locked: the lock ends with the process, however that ends, and the
next start removes what is not locked.
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
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

PREFIX = "summhay-ray-"
LONGEST_BASE = 16
"""Bytes: a socket's path holds 103, of which Ray's session and ours take the others."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PRIVATE = 0o700


@contextlib.contextmanager
def own_variables() -> Iterator[None]:
    """What the block and Ray put into this process's environment ends with it: a caller's next cluster is a cluster of its own.

    Ray leaves the mode of its tokens there, for one, which no other cluster then understands.
    """
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(("RAY_", "PYTHONBREAKPOINT")) and name not in before]:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("RAY_")})
        _read_variables_again()


@contextlib.contextmanager
def ray_home() -> Iterator[Path]:
    """Ray's temporary folder, for a Ray that starts in the block; to be used within `own_variables`. Raises OSError."""
    base = Path(tempfile.gettempdir())
    if len(os.fsencode(base)) > LONGEST_BASE:
        base = Path("/tmp")
    _sweep(base)
    home, lock = _locked_home(base)
    # What Ray makes it opens to everybody.
    temporary, clusters = home / "r", ray_constants.ENABLE_RAY_CLUSTER
    try:
        _guard(home / "token")
        # A Ray of one machine is what this means: it listens on the loopback interface alone. Ray reads the variable
        # when it is imported, which has been in this process.
        os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"
        ray_constants.ENABLE_RAY_CLUSTER = False
        yield temporary
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        shutil.rmtree(home, ignore_errors=True)
        os.close(lock)


def is_on_loopback() -> bool:
    """Whether the Ray of this process keeps to this machine."""
    return ipaddress.ip_address(ray.util.get_node_ip_address()).is_loopback


def _guard(token: Path) -> None:
    """Have Ray ask for a new token, which it and all that it starts read from a file that nobody else can read."""
    with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32))
    for name in ("RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH"):
        os.environ.pop(name, None)
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    _read_variables_again()


def _read_variables_again() -> None:
    """Ray keeps the mode and the token as it read them first."""
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _locked_home(base: Path) -> tuple[Path, int]:
    """A new home, and the descriptor that holds its lock; no process that is started later inherits it."""
    while True:
        home = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        # Another start may take it for a dead one's before it is locked.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(home, _FOLDER)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if home.exists():
                return home, lock
            os.close(lock)


def _sweep(base: Path) -> None:
    """Remove the homes of drivers that were killed; a folder that is not ours alone, or only looks like one, is left."""
    for home in base.glob(f"{PREFIX}*"):
        # Somebody else's, a link, locked by a living driver, or gone meanwhile.
        with contextlib.suppress(OSError):
            lock = os.open(home, _FOLDER)
            try:
                found = os.fstat(lock)
                if found.st_uid == os.geteuid() and found.st_mode & 0o777 == _PRIVATE:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(home, ignore_errors=True)
            finally:
                os.close(lock)
