"""Where a store's bytes live: a folder of this machine. Part of the store room; other rooms never see paths.

Only two ways to write exist, so that readers see whole things only: `create` (all of a file or nothing, and never over
another), and the response log's append (`summhay_ray.store.response_log`), whose records carry length and checksum.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from summhay_ray.store.errors import StoreError


class LocalFiles:
    """A folder. Names are relative and use `/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

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

    def exists(self, name: str) -> bool:
        """Whether `name` was created."""
        return self.path(name).exists()

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
