"""A person's files, read within bounds: no pipe that never ends, nothing that fills the memory. Imports problems alone."""

from __future__ import annotations

import itertools
import os
import re
import stat
from pathlib import Path

from summhay_ray.errors import UserError

LIMIT = "SUMMHAY_MAX_FILE_MB"
"""Environment variable: how large a file may be, in MB (2**20 bytes)."""

MAX_MB = 256
VALUES_A_MB = 8000
"""Values that JSON may hold for each MB of the limit: an empty object takes three bytes of a file, and 72 of memory."""

_MB = 2**20
_UNSIZED = _MB
"""What is read at most of a file that says no size, as those of /proc."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_STRING_OR_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(,|[\[{](?!\s*+[\]}]))', re.DOTALL)
"""A string, or (group 1) what stands before a value that is not the first: a comma, or the opening of what is not empty."""


def read_file(path: str | Path, most_mb: float | None = None) -> bytes:
    """The content of a regular file of at most so many MB, `$SUMMHAY_MAX_FILE_MB` where not given.

    Raises UserError for another kind of file and for a larger one, and OSError where it cannot be read.
    """
    most = max_mb() if most_mb is None else most_mb
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise UserError(f"{path}: cannot be read: it is {_KINDS.get(kind, 'no file')}; give a regular file")
    # A pipe that takes the file's place meanwhile must not hold us up.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        allowed = min(int(most * _MB), max(os.fstat(stream.fileno()).st_size, _UNSIZED))
        content = stream.read(allowed + 1)
    if len(content) > allowed:
        mend = f"make it smaller, or set {LIMIT} higher" if most_mb is None else "make it smaller"
        raise UserError(f"{path}: is larger than {most:g} MB; {mend}")
    return content


def read_json(path: str | Path) -> bytes:
    """As `read_file`, of a file with JSON in it: one of too many values is refused before any of them takes memory."""
    content = read_file(path)
    most = int(max_mb() * VALUES_A_MB)
    # A value takes two bytes at least.
    if len(content) > 2 * most:
        found = (match for match in _STRING_OR_VALUE.finditer(content) if match[1])
        if next(itertools.islice(found, most, None), None):
            raise UserError(f"{path}: holds more than {most:,} values; make it smaller, or set {LIMIT} above {max_mb():g}")
    return content


def max_mb() -> float:
    """How large a file may be, in MB. Raises UserError where the environment says no number."""
    told = os.environ.get(LIMIT, "")
    try:
        found = float(told or MAX_MB)
    except ValueError:
        found = 0.0
    if not 0 < found < 2**20:
        raise UserError(f"{LIMIT} is {told!r}; expected a number of MB, such as {4 * MAX_MB}")
    return found


def find(entry: str, folder: Path) -> Path | None:
    """The file from the folder, else from where the person stands: a regular one, else whatever has the name; None for none."""
    paths = [folder / entry, Path(entry)]
    try:
        return next(filter(Path.is_file, paths), None) or next(filter(Path.exists, paths), None)
    except OSError:
        return None
