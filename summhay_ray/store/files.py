"""Where a store's bytes live: a folder of this machine, or a bucket. Part of the store room; other rooms never see paths.

What counts is written by `create` (all of a file or nothing, and never over another), so that readers see whole things only;
a folder's response log is appended (`summhay_ray.store.response_log`), its records carry length and checksum. `put` writes over
what is there: for hints, on which nothing depends but speed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from summhay_ray.store.entry import Entry
from summhay_ray.store.errors import StoreError, StoreUnavailable
from summhay_ray.store.s3_place import SCHEME


class Files(Protocol):
    """A store's files. Names are relative and use `/`. Raises StoreError, OSError where the place cannot be reached."""

    @property
    def uri(self) -> str:
        """What `open_files` takes to open the same place, on another machine too."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder, where the files are one that every process of this machine can append to; None elsewhere."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write `content` under `name`, durably and whole. False where the name is taken: nothing is written then."""
        ...

    def put(self, name: str, content: bytes) -> None:
        """Write whole, over what is there. For hints alone."""
        ...

    def writing(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """A file of this machine to write to. What it holds when the block ends stands under `name`, over what was there.

        Whoever looks sees all of it or what stood there before; nothing is written where the block raises.
        """
        ...

    def read(self, name: str) -> bytes:
        """The whole content. Raises FileNotFoundError."""
        ...

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on, fewer at the end. Raises FileNotFoundError."""
        ...

    def exists(self, name: str) -> bool:
        """Whether `name` was created."""
        ...

    def where(self, name: str) -> str:
        """`name` as a person finds it."""
        ...

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """Names of the files right in `folder`, sorted. A bucket's listing may lag: nothing that counts may depend on it."""
        ...

    def folders(self, folder: str) -> Iterator[str]:
        """Last parts of the names of the folders right in `folder`, sorted. May lag as `names` may."""
        ...

    def entries(self, folder: str) -> Iterator[Entry]:
        """The files right in `folder`, unfinished ones (`.NAME.part`) among them; may lag as `names` may."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file that nobody needs; nothing where it is gone."""
        ...

    def check(self) -> None:
        """Whether a store can live here, within seconds: it can be reached, read and written, and `create` creates once.

        Raises StoreError, which says in one line what is in the way and how to mend it.
        """
        ...


class LocalFiles:
    """A folder."""

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
        """Write `content` under `name`, durably and whole. False where the name is taken: nothing is written then."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            return False
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
        """The whole content. Raises FileNotFoundError."""
        return self.path(name).read_bytes()

    def put(self, name: str, content: bytes) -> None:
        """See `Files`."""
        with self.writing(name) as part:
            part.write_bytes(content)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """See `Files`."""
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            yield part
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """See `Files`."""
        with self.path(name).open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)

    def exists(self, name: str) -> bool:
        """Whether `name` was created."""
        return self.path(name).exists()

    def folders(self, folder: str) -> Iterator[str]:
        """See `Files`."""
        here = self.path(folder)
        if here.is_dir():
            yield from sorted(entry.name for entry in here.iterdir() if entry.is_dir() and not entry.name.startswith("."))

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Hold `name` while the block runs; gives False where another process of this machine holds it. Ends with the process."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """Names of the files right in `folder`, sorted; none where the folder does not exist."""
        here = self.path(folder)
        if not here.is_dir():
            return
        with os.scandir(here) as entries:
            found = sorted(entry.name for entry in entries if entry.is_file() and not entry.name.startswith("."))
        for name in found:
            if name.endswith(suffix):
                yield f"{folder}/{name}" if folder else name

    def entries(self, folder: str) -> Iterator[Entry]:
        """See `Files`."""
        here = self.path(folder)
        if not here.is_dir():
            return
        with os.scandir(here) as found:
            for entry in found:
                # A file may be gone meanwhile: another cleans, or it was unfinished.
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        told = entry.stat()
                        yield Entry(f"{folder}/{entry.name}", told.st_size, told.st_mtime)

    def delete(self, name: str) -> None:
        """See `Files`."""
        self.path(name).unlink(missing_ok=True)

    def check(self) -> None:
        """See `Files`. Makes the folder; leaves nothing in it."""
        probe = f".summhay-check-{uuid.uuid4().hex[:12]}"
        try:
            try:
                created_once = self.create(probe, b"summhay\n") and not self._link(probe) and self.read(probe) == b"summhay\n"
            finally:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.path(probe).unlink()
        except OSError as error:
            raise _problem_of(self.root, error) from None
        if not created_once:
            raise StoreError(f"store {str(self.root)!r}: its file system does not create files once; use another one")

    def _link(self, name: str) -> bool:
        """Whether a taken name is given once more, as no file system must."""
        try:
            self.create(f"{name}-second", b"")
            os.link(self.path(f"{name}-second"), self.path(name))
        except FileExistsError:
            return False
        finally:
            self.path(f"{name}-second").unlink(missing_ok=True)
        return True


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_files(uri: str) -> Files:
    """The files behind a store URI: a folder's path, or `s3://bucket/prefix`. Reaches nothing; raises StoreError for others."""
    if uri.startswith(SCHEME):
        from summhay_ray.store.s3 import open_s3

        return open_s3(uri)
    if "://" in uri and not uri.startswith("file://"):
        scheme = uri.partition("://")[0]
        raise StoreError(f"store {scheme}://...: not supported; give a folder such as ./summhay-store, or s3://BUCKET/PREFIX")
    root = Path(uri.removeprefix("file://")).expanduser().absolute()
    if root.exists() and not root.is_dir():
        raise StoreError(f"store {uri!r}: is a file; give a folder")
    if (above := next((one for one in root.parents if one.exists()), None)) is not None and not above.is_dir():
        raise StoreError(f"store {uri!r}: {above} is a file; give a folder")
    return LocalFiles(root)


def _problem_of(root: Path, error: OSError) -> StoreError:
    """Why a folder cannot be a store."""
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
