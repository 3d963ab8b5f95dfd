"""The spool: local folders in which log records wait to be shipped to a bucket. Part of the store room.

`<spool>/<hash of the store's URI>/<writer>.<token>/` holds `lock`, which is locked (flock) while the writer lives, and one file
for each segment that is not in the store yet. The writer's first segment holds the token too, which shows whether the writer of
a folder won or lost the race for its name.
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
from summhay_ray.store.files import Files, make_folder, sync_folder

SPOOL = "SUMMHAY_SPOOL"
_STATE = "XDG_STATE_HOME"
_LOCK = "lock"
_NEW = ".new-"


class Evicted(OSError):
    """Another process has ended this writer or closed its seat. It can write nothing more, since no reader would see it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A writer's folder in the spool, locked by this process."""

    writer: str
    token: str
    folder: Path
    lock: int

    def parts(self) -> dict[int, Path]:
        """Segment number -> the file with its records, in order."""
        parts = {int(path.stem): path for path in self.folder.glob("*.jsonl") if path.stem.isdigit()}
        return dict(sorted(parts.items()))

    def part(self, number: int) -> Path:
        """The path of a segment's file."""
        return self.folder / f"{number:08d}.jsonl"

    def release(self) -> None:
        """Release the lock; the folder stays for a sweep."""
        os.close(self.lock)

    def remove(self) -> None:
        """Remove the folder, whose records are all in the store or invalid, and release the lock."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self.lock)


def spool_of(files: Files, environ: Mapping[str, str] | None = None) -> Path:
    """This machine's spool folder for a store."""
    environ = os.environ if environ is None else environ
    state = environ.get(_STATE) or Path("~/.local/state").expanduser()
    root = Path(environ.get(SPOOL) or Path(state) / "summhay" / "spool")
    # The region is left out: it says how the bucket is reached, not which bucket it is.
    place = files.uri.split("?")[0] + "".join(re.findall(r"[?&]endpoint_url=[^&]*", files.uri))
    return root / hashlib.sha256(place.encode()).hexdigest()[:16]


def begin(files: Files, writer: str) -> Held:
    """Create and lock a folder for a new writer. Raises StoreError if that fails."""
    spool, token = spool_of(files), uuid.uuid4().hex[:16]
    new = spool / f"{_NEW}{token}"
    try:
        make_folder(spool)
        new.mkdir(mode=0o700)
        lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"{spool}: answers on their way to {files.uri} cannot be kept there ({error.strerror}); "
            f"set {SPOOL} to a folder on a disk of this machine"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Renamed only once it is locked: a sweep would take an unlocked folder for a dead writer's.
        folder = new.rename(spool / f"{writer}.{token}")
        sync_folder(spool)
    except BaseException:
        os.close(lock)
        raise
    return Held(writer, token, folder, lock)


def left_behind(files: Files) -> Iterator[tuple[str, Path]]:
    """(writer, folder) of everything in the spool, whether the writer is alive or dead."""
    spool = spool_of(files)
    if not spool.is_dir():
        return
    for folder in sorted(spool.iterdir()):
        writer, _, token = folder.name.rpartition(".")
        if writer and token and not folder.name.startswith("."):
            yield writer, folder


def hold(writer: str, folder: Path) -> Held | None:
    """Lock the folder; None if a living process holds the lock. Raises FileNotFoundError if the folder is gone."""
    lock = os.open(folder / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may have been removed, together with its lock file, between opening and locking.
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
    """Write all bytes of `content`. The OSError that it raises names the folder."""
    block = memoryview(content)
    try:
        while block:
            block = block[os.write(descriptor, block) :]
    except OSError as error:
        # The error of a full disk does not say which disk it is.
        raise OSError(error.errno, error.strerror, str(Path(f"/proc/self/fd/{descriptor}").resolve().parent)) from error
