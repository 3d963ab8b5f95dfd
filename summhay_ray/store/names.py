"""The names of a store's files, the entries of its listings, and the errors that a store raises."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.errors import StoreError

PLAIN = r"^\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$"
"""The names that files and folders of a store may have: letters, digits, `_`, `-` and `.`, but not `.` alone or `..`."""


class DamagedRecord(StoreError):
    """A record of the store was changed, does not fit its schema, or was replaced by something like a link.

    `flaw`: what is damaged, and how to mend it. With `uri`, the message also names the command that reads the whole store there.
    """

    exit_code = 1

    def __init__(self, flaw: str, uri: str = "") -> None:
        super().__init__(f"{flaw}; run summhay doctor --store {uri}" if uri else flaw)
        self.flaw = flaw


class NoCredentials(StoreError):
    """This machine has no credentials for the bucket; another machine, such as a cluster node, may have them."""


class StoreUnavailable(StoreError):
    """The store did not answer within the retry time, or its disk is full. The request itself is valid."""

    exit_code = 1


class Superseded(StoreError):
    """Another driver has taken the run over. The commits of this driver stay valid.

    Its exit code is its own, so that a scheduler does not start the job again: the two would take the run from each other.
    """

    exit_code = 6


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's name, size and time in a listing."""

    name: str
    size: int
    """Bytes."""
    written: float
    """When it was written: seconds since 1970, by the clock of the disk or bucket."""


@dataclass(slots=True)
class NewFile:
    """A local file that is being written, and the name that it gets in the store."""

    path: Path
    name: str


def is_plain(name: Any) -> bool:
    """Whether a file or folder of a store may have this name, see `PLAIN`."""
    return isinstance(name, str) and re.fullmatch(PLAIN, name) is not None


def check_path(path: str, store: str) -> None:
    """Raises DamagedRecord unless the path of a file or folder in a store consists of plain names."""
    if path and not all(map(is_plain, path.split("/"))):
        raise DamagedRecord(f"store {store!r}: {path[:200]!r} is no name of a file in it, and is not read or written")
