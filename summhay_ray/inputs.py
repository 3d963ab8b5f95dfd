"""Reading the user's files within limits: no endless pipe, no file that fills the memory. Imports `errors` alone."""

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
"""JSON values allowed per MB of the limit: an empty object takes three bytes in a file but 72 in memory."""

_MB = 2**20
_UNSIZED = _MB
"""Bytes read at most from a file that reports no size, such as those in /proc."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_STRING_OR_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(,|[\[{](?!\s*+[\]}]))', re.DOTALL)
"""A string; or, as group 1, a comma or the opening of a non-empty container: one for each value but the first."""


def read_file(path: str | Path, most_mb: float | None = None) -> bytes:
    """The content of a regular file of at most `most_mb` MB; by default `$SUMMHAY_MAX_FILE_MB`.

    Raises UserError for any other kind of file and for a larger one, and OSError where it cannot be read.
    """
    most = max_mb() if most_mb is None else most_mb
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise UserError(f"{path}: cannot be read: it is {_KINDS.get(kind, 'no file')}; give a regular file")
    # Should a pipe have replaced the file by now, opening it must not block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        allowed = min(int(most * _MB), max(os.fstat(stream.fileno()).st_size, _UNSIZED))
        content = stream.read(allowed + 1)
    if len(content) > allowed:
        mend = f"make it smaller, or set {LIMIT} higher" if most_mb is None else "make it smaller"
        raise UserError(f"{path}: is larger than {most:g} MB; {mend}")
    return content


def read_json(path: str | Path) -> bytes:
    """Like `read_file`, for JSON: a file with too many values is refused before it is parsed."""
    content = read_file(path)
    most = int(max_mb() * VALUES_A_MB)
    # Each value takes at least two bytes, so smaller files need no count.
    if len(content) > 2 * most:
        found = (match for match in _STRING_OR_VALUE.finditer(content) if match[1])
        if next(itertools.islice(found, most, None), None):
            raise UserError(f"{path}: holds more than {most:,} values; make it smaller, or set {LIMIT} above {max_mb():g}")
    return content


def max_mb() -> float:
    """The size limit of a file, in MB. Raises UserError where the environment variable is not a number."""
    setting = os.environ.get(LIMIT, "")
    try:
        limit = float(setting or MAX_MB)
    except ValueError:
        limit = 0.0
    if not 0 < limit < 2**20:
        raise UserError(f"{LIMIT} is {setting!r}; expected a number of MB, such as {4 * MAX_MB}")
    return limit


def find(entry: str, folder: Path) -> Path | None:
    """The path of `entry` in `folder`, else in the working directory; None where neither has it. Regular files come first."""
    paths = [folder / entry, Path(entry)]
    try:
        return next(filter(Path.is_file, paths), None) or next(filter(Path.exists, paths), None)
    except OSError:
        return None
