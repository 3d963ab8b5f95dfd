"""The files of a store, in a folder on this machine or in a bucket. Other packages do not use paths.

Data is written by `create`, which writes a whole file or nothing, and never overwrites. So readers never see half a file. In a
folder, the response log is appended to instead (`summhay_ray.store.log`); each of its records has its length and a checksum.
`put` replaces a whole file, such as a heartbeat.

A store may come from somebody else, so nothing outside its folder is used. It contains only files and folders with plain names
(`is_plain`). A link, pipe or device counts as damage (`LocalFiles.path`): it is never read, written, listed or followed.
"""

import contextlib
import errno
import itertools
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from summhay_ray.errors import StoreError
from summhay_ray.inputs import KINDS, LIMIT, max_mb, open_unfollowed
from summhay_ray.store.names import SCHEME, DamagedRecord, Entry, NewFile, StoreUnavailable, check_path, is_plain, parse_place

if TYPE_CHECKING:
    from summhay_ray.store.s3 import S3Files

Files: TypeAlias = "LocalFiles | S3Files"
"""A store's files. `LocalFiles` documents the methods."""

_MB = 2**20


class LocalFiles:
    """A store in a local folder. `S3Files` has the same methods.

    File names are relative to the store: plain names separated by `/`. For any other name, and for paths that `path` refuses,
    methods raise DamagedRecord, and listings leave them out. Methods raise StoreError or OSError if the store cannot be reached.

    Listings are consistent on disks, S3, Google, Azure and MinIO: they contain every earlier write. If a service's listings lag
    behind, readers see an earlier state, but nothing is overwritten, since `create` fails.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uri = str(root)
        """The URI with which `open_files` opens the same store, even on another machine."""
        self.folder: Path | None = root
        """The folder; None for a bucket, whose files cannot be appended to."""

    def path(self, name: str) -> Path:
        """Return the path of a file or folder, which need not exist.

        The store's own folder may be a link, since the user named it. Raises DamagedRecord for an invalid name, and if the path
        or a folder above it in the store is neither a file nor a folder, for example a link.
        """
        path = str(self.root)
        check_path(name, path)
        for part in name.split("/") if name else ():
            path = f"{path}/{part}"
            try:
                _check_kind(path, os.lstat(path).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                break
        return self.root / name

    def where(self, name: str) -> str:
        """Return the full path or S3 URI of `name`, for messages."""
        return str(self.root / name)

    def create(self, name: str, content: bytes) -> bool:
        """Write `content` to a new file, durably and as a whole. Returns whether the file now contains `content`: an earlier
        attempt, whose reply was lost, may also have written it. An existing file is never changed."""
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
            try:
                with open_unfollowed(self.path(name)) as stream:
                    if stream.read(len(content) + 1) != content:
                        return False
            except FileNotFoundError:
                return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        # Sync the folder even if the file exists: an earlier attempt may have ended before it did so.
        sync_folder(target.parent)
        return True

    def read(self, name: str, offset: int = 0, length: int | None = None, *, is_large: bool = False) -> bytes:
        """Read a file, or `length` bytes (at least 1) from `offset` on. Returns fewer bytes at the end of the file.

        Raises FileNotFoundError, or DamagedRecord if a local file has too many bytes to read. `is_large`: the file has the
        content of the user's files as JSON in ASCII. That may be three times as large as these files, so the limit is higher than
        theirs. The limit of any other file is far above its usual size.
        """
        path, most_mb = self.path(name), max_mb() * 4 if is_large else max(64.0, max_mb() / 4)
        with open_unfollowed(path) as stream:
            left = max(0, os.fstat(stream.fileno()).st_size - offset)
            size = left if length is None else min(left, length)
            if size > most_mb * _MB:
                mend = f"put back a copy of what it was, or delete it; or set {LIMIT} higher"
                raise DamagedRecord(f"{path}: {size:,} bytes to be read at once, more than {most_mb:g} MB; {mend}")
            stream.seek(offset)
            return stream.read(size)

    def put(self, name: str, content: bytes) -> None:
        """Write a whole file, and replace an existing one. The file is not synced: after a power failure, it may have its old
        content."""
        with self.writing(name) as new:
            new.path.write_bytes(content)

    @contextlib.contextmanager
    def writing(self, name: str, durable: bool = False) -> Iterator[NewFile]:
        """Return a context with a new local file. When the context ends, the new file replaces the file `name`.

        Readers see either the old or the new content. If the block raises, nothing is replaced. The block may set another `name`
        for the new file, in the same folder. `durable`: wait until the file is on disk.
        """
        target = self.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.part")
        new = NewFile(part, name)
        try:
            yield new
            if durable:
                with part.open("rb") as stream:
                    os.fsync(stream.fileno())
            part.replace(self.path(new.name))
            if durable:
                sync_folder(target.parent)
        finally:
            part.unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        """Move a file, if it still exists. At any time, readers find it under the old or the new name, or both."""
        target = self.path(to)
        make_folder(target.parent)
        with contextlib.suppress(FileNotFoundError):
            self.path(name).replace(target)
            sync_folder(target.parent)

    def exists(self, name: str) -> bool:
        """Return whether `name` exists. Also returns True for an entry that cannot be read, such as a link."""
        check_path(name, self.uri)
        self.path(name.rpartition("/")[0])
        return os.path.lexists(self.root / name)

    def folders(self, folder: str) -> Iterator[str]:
        """Yield the base names of the folders directly in `folder`, sorted; none if it does not exist."""
        yield from sorted(name.rpartition("/")[2] for name, found in self._scan(folder) if stat.S_ISDIR(found.st_mode))

    def names(self, folder: str, suffix: str = "") -> Iterator[str]:
        """Yield the names of the files directly in `folder`, sorted; none if it does not exist."""
        for name in sorted(entry.name for entry in self.entries(folder)):
            if name.endswith(suffix) and not name.rpartition("/")[2].startswith("."):
                yield name

    def entries(self, folder: str, deep: bool = False) -> Iterator[Entry]:
        """Yield the files directly in `folder`, including unfinished files (`.NAME.part`). `deep`: also the files in folders
        below it."""
        folders = [folder]
        while folders:
            for name, state in self._scan(folders.pop()):
                if stat.S_ISREG(state.st_mode):
                    yield Entry(name, state.st_size, state.st_mtime)
                elif deep:
                    folders.append(name)

    def _scan(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the names and states of the files and folders directly in `folder`. Ignores hidden entries that are not files,
        since other programs may create them.

        Raises DamagedRecord for anything else.
        """
        try:
            with os.scandir(self.path(folder)) as listing:
                entries = [entry for entry in listing if is_plain(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            # A file may disappear in the meantime, because it was unfinished or because another process cleans the store.
            with contextlib.suppress(FileNotFoundError):
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode) or not entry.name.startswith("."):
                    _check_kind(entry.path, state.st_mode)
                    yield f"{folder}/{entry.name}" if folder else entry.name, state

    def delete(self, name: str) -> None:
        """Delete a file, if it still exists."""
        self.path(name).unlink(missing_ok=True)

    def check(self) -> None:
        """Check within seconds that the store can be reached, read and written, and that `create` never overwrites.

        Creates the folder, and leaves nothing in it. Raises StoreError with one line: what is wrong, and how to fix it.
        """
        probe = f".summhay-check-{uuid.uuid4().hex[:12]}"
        try:
            try:
                created_once = self.create(probe, b"first\n") and not self.create(probe, b"second\n")
            finally:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.path(probe).unlink()
        except OSError as error:
            raise _problem_of(f"store {str(self.root)!r}", error) from None
        if not created_once:
            raise StoreError(f"store {str(self.root)!r}: its file system lets one file overwrite another; use another one")


def _check_kind(path: str, mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = KINDS.get(stat.S_IFMT(mode), "something else")
        raise DamagedRecord(f"{path} is {what}, not a file or folder of its own; put back a copy of what it was, or delete it")


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents durably."""
    new = list(itertools.takewhile(lambda above: not above.exists(), (folder, *folder.parents)))
    folder.mkdir(parents=True, exist_ok=True)
    for made in new:
        # A folder with write but no read permission cannot be synced.
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
    """Return the files of the store at a URI: a folder's path, or `s3://bucket/prefix`. Makes no connection.

    Raises StoreError for any other URI.
    """
    if uri.startswith(SCHEME):
        from summhay_ray.store.s3 import S3Files

        return S3Files(parse_place(uri))
    # Refuse s3:/BUCKET, for which a folder named `s3:` would be created.
    if ("://" in uri and not uri.startswith("file://")) or uri.lower().startswith("s3:"):
        scheme = uri.partition(":")[0]
        raise StoreError(f"store {scheme}:...: not supported; give a folder such as ./summhay-store, or s3://BUCKET/PREFIX")
    root = Path(uri.removeprefix("file://")).expanduser().absolute()
    there = next(place for place in (root, *root.parents) if place.exists())
    if not there.is_dir():
        raise StoreError(f"store {uri!r}: {there} is a file; give a folder")
    return LocalFiles(root)


def _problem_of(store: str, error: OSError) -> StoreError:
    """Return the error to raise for a folder that cannot be a store."""
    why = error.strerror or type(error).__name__
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreUnavailable(
            f"{store}: no room is left on its disk ({why}); make room, then run again: nothing that is paid for is lost"
        )
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return StoreError(f"{store}: cannot be written ({why}); give yourself the right to write there, or choose another folder")
    if error.errno in {errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}:
        return StoreError(f"{store}: its file system has no hard links ({why}), by which files are created once; use another one")
    return StoreError(f"{store}: cannot be used ({why}); choose another folder")
