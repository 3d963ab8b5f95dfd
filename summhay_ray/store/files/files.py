"""The files of a store, in a folder on this machine or in a bucket. Part of the store room; other rooms never see paths.

Data is written by `create`, which writes a whole file or nothing and never overwrites, so readers never see half a file. The
response log in a folder is appended to instead (`summhay_ray.store.log.log_writer`); each of its records carries its length and a
checksum. `put` replaces a file as a whole, such as a heartbeat.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from summhay_ray.store.errors import StoreError, StoreUnavailable
from summhay_ray.store.files.entry import Entry
from summhay_ray.store.files.s3_place import SCHEME


class Files(Protocol):
    """A store's files. Names are relative and use `/`. Methods raise StoreError or OSError if the store cannot be reached.

    A listing shows what was written before, as that of a disk, S3, Google, Azure and MinIO does. One that lags shows an earlier
    state: nothing is overwritten for that, since `create` fails.
    """

    @property
    def uri(self) -> str:
        """The URI by which `open_files` opens the same store, also on another machine."""
        ...

    @property
    def folder(self) -> Path | None:
        """The local folder that holds the files and that every process of this machine can append to; None for a bucket."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write `content` under `name`, durably and whole. Return False and write nothing if the name is taken."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write the whole file, replacing what is there. It is not synced: after a power failure the old content may be back."""
        ...

    def writing(self, name: str, named: Callable[[Path], str] | None = None) -> contextlib.AbstractContextManager[Path]:
        """Give a local file to write to; when the block ends, its content replaces the file `name`.

        Readers see either the old content or the new. Nothing is written if the block raises. `named`: gives the name in the same
        folder by what was written, durably.
        """
        ...

    def move(self, name: str, to: str) -> None:
        """Move a file; does nothing if there is none (any more). Readers find it under either name at any time, or both."""
        ...

    def read(self, name: str) -> bytes:
        """Read the whole file. Raises FileNotFoundError."""
        ...

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Read `length` bytes, at least 1, starting at `offset`, fewer at the end of the file. Raises FileNotFoundError."""
        ...

    def exists(self, name: str) -> bool:
        """Whether `name` exists."""
        ...

    def where(self, name: str) -> str:
        """The full path or S3 URI of `name`, for messages."""
        ...

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """Names of the files directly in `folder`, sorted."""
        ...

    def folders(self, folder: str) -> Iterator[str]:
        """Base names of the folders directly in `folder`, sorted."""
        ...

    def entries(self, folder: str, deep: bool = False) -> Iterator[Entry]:
        """The files directly in `folder`, including unfinished ones (`.NAME.part`). `deep`: those in folders below it, too."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file; does nothing if it is already gone."""
        ...

    def check(self) -> None:
        """Check, within seconds, that the store can be reached, read and written, and that `create` never overwrites.

        Raises StoreError with one line that says what is wrong and how to mend it.
        """
        ...


class LocalFiles:
    """A store in a local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def uri(self) -> str:
        """See `Files`."""
        return str(self.root)

    @property
    def folder(self) -> Path | None:
        """See `Files`."""
        return self.root

    def where(self, name: str) -> str:
        """See `Files`."""
        return str(self.path(name))

    def path(self, name: str) -> Path:
        """The file system path of `name`."""
        return self.root / name

    def create(self, name: str, content: bytes) -> bool:
        """See `Files`."""
        target = self.path(name)
        make_folder(target.parent)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            with part.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(part, target)
        except FileExistsError:
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        sync_folder(target.parent)
        return True

    def read(self, name: str) -> bytes:
        """See `Files`."""
        return self.path(name).read_bytes()

    def put(self, name: str, content: bytes) -> None:
        """See `Files`."""
        with self.writing(name) as part:
            part.write_bytes(content)

    @contextlib.contextmanager
    def writing(self, name: str, named: Callable[[Path], str] | None = None) -> Iterator[Path]:
        """See `Files`."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            yield part
            if named is None:
                part.replace(target)
                return
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
            part.replace(self.path(named(part)))
            sync_folder(target.parent)
        finally:
            part.unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        """See `Files`."""
        make_folder(self.path(to).parent)
        with contextlib.suppress(FileNotFoundError):
            self.path(name).replace(self.path(to))
            sync_folder(self.path(to).parent)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `Files`."""
        with self.path(name).open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def exists(self, name: str) -> bool:
        """See `Files`."""
        return self.path(name).exists()

    def folders(self, folder: str) -> Iterator[str]:
        """See `Files`."""
        here = self.path(folder)
        if here.is_dir():
            yield from sorted(entry.name for entry in here.iterdir() if entry.is_dir() and not entry.name.startswith("."))

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """See `Files`. Yields nothing if the folder does not exist."""
        for name in sorted(entry.name for entry in self.entries(folder)):
            if name.endswith(suffix) and not name.rpartition("/")[2].startswith("."):
                yield name

    def entries(self, folder: str, deep: bool = False) -> Iterator[Entry]:
        """See `Files`."""
        here = self.path(folder)
        for path in here.rglob("*") if deep else here.glob("*"):
            # A file may vanish meanwhile: another process cleans the store, or the file was unfinished.
            with contextlib.suppress(FileNotFoundError):
                found = path.stat()
                if stat.S_ISREG(found.st_mode):
                    yield Entry(path.relative_to(self.root).as_posix(), found.st_size, found.st_mtime)

    def delete(self, name: str) -> None:
        """See `Files`."""
        self.path(name).unlink(missing_ok=True)

    def check(self) -> None:
        """See `Files`. Creates the folder and leaves nothing in it."""
        probe = f".summhay-check-{uuid.uuid4().hex[:12]}"
        try:
            try:
                created_once = self.create(probe, b"first\n") and not self.create(probe, b"second\n")
            finally:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.path(probe).unlink()
        except OSError as error:
            raise _problem_of(self.root, error) from None
        if not created_once:
            raise StoreError(f"store {str(self.root)!r}: its file system lets one file overwrite another; use another one")


def make_folder(folder: Path) -> None:
    """Make the folder and those above it, durably, where they do not exist."""
    new = list(itertools.takewhile(lambda above: not above.exists(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=True)
    for made in new:
        # A folder that may be written to, but not read, cannot be synced.
        with contextlib.suppress(PermissionError):
            sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the folder's directory entries are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_files(uri: str) -> Files:
    """The files of a store URI: a folder's path, or `s3://bucket/prefix`. Makes no connection.

    Raises StoreError for any other URI.
    """
    if uri.startswith(SCHEME):
        from summhay_ray.store.files.s3 import open_s3

        return open_s3(uri)
    # With one slash, a bucket would become a folder named s3:.
    if ("://" in uri and not uri.startswith("file://")) or uri.lower().startswith("s3:"):
        scheme = uri.partition(":")[0]
        raise StoreError(f"store {scheme}:...: not supported; give a folder such as ./summhay-store, or s3://BUCKET/PREFIX")
    root = Path(uri.removeprefix("file://")).expanduser().absolute()
    there = next(place for place in (root, *root.parents) if place.exists())
    if not there.is_dir():
        raise StoreError(f"store {uri!r}: {there} is a file; give a folder")
    return LocalFiles(root)


def _problem_of(root: Path, error: OSError) -> StoreError:
    """The error to raise for a folder that cannot be a store."""
    store, why = f"store {str(root)!r}", error.strerror or type(error).__name__
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreUnavailable(
            f"{store}: no room is left on its disk ({why}); make room, then run again: nothing that is paid for is lost"
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreError(f"{store}: cannot be written ({why}); give yourself the right to write there, or choose another folder")
    if error.errno in {errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}:
        return StoreError(f"{store}: its file system has no hard links ({why}), by which files are created once; use another one")
    return StoreError(f"{store}: cannot be used ({why}); choose another folder")
