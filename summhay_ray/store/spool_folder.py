"""Where records wait, on a disk of this machine, for their way to a store far away. Part of the store room.

`<spool>/<hash of the store's URI>/<writer>.<token>/`: `lock`, held (flock) while the writer lives, and one file for each segment
that the store lacks. The token stands in the writer's first segment too: a folder whose writer lost the race for its name is
known by it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files, sync_folder

SPOOL = "SUMMHAY_SPOOL"
_STATE = "XDG_STATE_HOME"
_LOCK = "lock"
_NEW = ".new-"


class Evicted(OSError):
    """Another has ended this writer or closed its seat, and nothing more is written: its records would count for nobody."""


@dataclass(frozen=True, slots=True)
class Held:
    """A writer's folder in the spool, with its lock held."""

    writer: str
    token: str
    folder: Path
    lock: int

    def parts(self) -> dict[int, Path]:
        """Segment number -> the file with its records, in their order."""
        found = {int(path.stem): path for path in self.folder.glob("*.jsonl") if path.stem.isdigit()}
        return dict(sorted(found.items()))

    def part(self, number: int) -> Path:
        """The file of a segment."""
        return self.folder / f"{number:08d}.jsonl"

    def release(self) -> None:
        """Give the lock back; the folder stays for a sweep."""
        os.close(self.lock)

    def remove(self) -> None:
        """Remove the folder: all of it is in the store, or counts for nobody."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


def spool_of(files: Files, environ: Mapping[str, str] | None = None) -> Path:
    """The spool of a store on this machine."""
    environ = os.environ if environ is None else environ
    state = environ.get(_STATE) or Path("~/.local/state").expanduser()
    root = Path(environ.get(SPOOL) or Path(state) / "summhay" / "spool")
    # A region says how the place is reached, not which it is.
    place = files.uri.split("?")[0] + "".join(re.findall(r"[?&]endpoint_url=[^&]*", files.uri))
    return root / hashlib.sha256(place.encode()).hexdigest()[:16]


def begin(files: Files, writer: str) -> Held:
    """A folder of one's own for a writer to be, locked. Raises StoreError where it cannot be made."""
    spool, token = spool_of(files), uuid.uuid4().hex[:16]
    new = spool / f"{_NEW}{token}"
    try:
        new.mkdir(parents=True, mode=0o700)
        lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"{spool}: answers on their way to {files.uri} cannot be kept there ({error.strerror}); "
            f"set {SPOOL} to a folder on a disk of this machine"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Only now can a sweep see it: before, it could be taken for a dead writer's.
        folder = new.rename(spool / f"{writer}.{token}")
        sync_folder(spool)
    except BaseException:
        os.close(lock)
        raise
    return Held(writer, token, folder, lock)


def left_behind(files: Files) -> Iterator[tuple[str, Path]]:
    """(writer, folder) of all that is in the spool, of writers dead or alive."""
    spool = spool_of(files)
    if not spool.is_dir():
        return
    for folder in sorted(spool.iterdir()):
        writer, _, token = folder.name.rpartition(".")
        if writer and token and not folder.name.startswith("."):
            yield writer, folder


def hold(writer: str, folder: Path) -> Held | None:
    """The folder with its lock, None where a living process holds it. Raises FileNotFoundError where it has gone."""
    lock = os.open(folder / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been removed, and the lock with it, between opening and locking.
        if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
            return Held(writer, folder.name.rpartition(".")[2], folder, lock)
        raise FileNotFoundError(folder)
    except BlockingIOError:
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise


def write_all(descriptor: int, content: bytes) -> None:
    """Write until all is written."""
    block = memoryview(content)
    try:
        while block:
            block = block[os.write(descriptor, block) :]
    except OSError as error:
        # A full disk does not say which one it is.
        raise OSError(error.errno, error.strerror, str(Path(f"/proc/self/fd/{descriptor}").resolve().parent)) from error
