"""The names of a store's files and folders, and the entries of a listing."""

import re
from dataclasses import dataclass
from typing import Any

from summhay_ray.store.errors import DamagedRecord

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


def is_plain(name: Any) -> bool:
    """Whether a file or folder of a store may have this name: letters, digits, `_`, `-` and `.`, but not `.` alone or `..`."""
    return isinstance(name, str) and bool(_PLAIN.fullmatch(name)) and name != "." and ".." not in name


def plain_name(name: Any) -> str:
    """A name from a record (of a table, part, run, ...), checked so that it can become part of a path.

    Raises ValueError unless `is_plain`: a record may come from somebody else, who can compute a valid hash.
    """
    if not is_plain(name):
        raise ValueError(f"{str(name)[:80]!r} is no name: expected letters, digits, '_', '.' and '-', and no '..'")
    return str(name)


def check_path(path: str, store: str) -> None:
    """Raises DamagedRecord unless the path of a file or folder in a store consists of plain names."""
    if path and not all(map(is_plain, path.split("/"))):
        raise DamagedRecord(f"store {store!r}: {path[:200]!r} is no name of a file in it, and is not read or written")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's name, size and time in a listing."""

    name: str
    size: int
    """Bytes."""
    written: float
    """When it was written: seconds since 1970, by the clock of the disk or bucket."""
