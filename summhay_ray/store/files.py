"""Where a store's bytes live: a folder of this machine, or a bucket. Part of the store room; other rooms never see paths.

What counts is written by `create` (all of a file or nothing, and never over another), so that readers see whole things only;
a folder's response log is appended (`summhay_ray.store.response_log`), its records carry length and checksum. `put` writes over
what is there: for hints, on which nothing depends but speed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from summhay_ray.store.errors import StoreError


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
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
        try:
            part.write_bytes(content)
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
        for name in sorted(entry.name for entry in here.iterdir()):
            if name.endswith(suffix) and not name.startswith("."):
                yield f"{folder}/{name}"


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_files(uri: str) -> LocalFiles:
    """The files behind a store URI. Raises StoreError for a URI that is not a local folder."""
    if "://" in uri and not uri.startswith("file://"):
        raise StoreError(f"store {uri!r}: only local folders are supported; give a path such as ./summhay-store")
    root = Path(uri.removeprefix("file://")).expanduser().absolute()
    if root.exists() and not root.is_dir():
        raise StoreError(f"store {uri!r}: is a file; give a folder")
    return LocalFiles(root)
