"""Reads the user's files safely, and writes new files without overwriting others.

Reading refuses endless pipes and files that would fill the memory.

A path that a user or a spec names may be a link. But a link inside a named folder may not lead out of that folder. The store also
opens its files with `open_unfollowed`. Imports only `errors`.
"""

import io
import itertools
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from summhay_ray.errors import UserError

LIMIT = "SUMMHAY_MAX_FILE_MB"
"""Environment variable with the maximum size of a file, in MB (2**20 bytes)."""

MAX_MB = 256
VALUES_A_MB = 8000
"""Maximum number of JSON values per MB of the limit. An empty object needs three bytes in a file, but 72 in memory."""

NO_DATA = ("/proc", "/sys", "/dev")
"""Folders that are never read as data, since they have information about the machine and its processes, including environments
with keys."""

_MB = 2**20
KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
"""Kind of a file by `stat.S_IFMT` -> its name in messages."""
_STRING_OR_VALUE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(,|[\[{](?!\s*+[\]}]))', re.DOTALL)
"""Matches a string or, as group 1, a comma or the opening bracket of a non-empty container. Each value except the first has one
match of group 1."""


def read_file(path: str | Path, most_mb: float | None = None, within: Iterable[str | Path] = ()) -> bytes:
    """Return the content of a regular file of at most `most_mb` MB, by default `$SUMMHAY_MAX_FILE_MB`. `within`: see `real_path`.

    Raises UserError for another kind of file, a larger file or a path that `real_path` refuses; OSError for an unreadable file.
    """
    most = max_mb() if most_mb is None else most_mb
    real = real_path(path, *within)
    kind = stat.S_IFMT(os.stat(real).st_mode)
    if kind != stat.S_IFREG:
        raise UserError(f"{path}: cannot be read: it is {KINDS.get(kind, 'no file')}; give a regular file")
    with open_unfollowed(real) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most * _MB:
            mend = f"make it smaller, or set {LIMIT} higher" if most_mb is None else "make it smaller"
            raise UserError(f"{path}: is larger than {most:g} MB; {mend}")
        return stream.read(size)


def open_unfollowed(path: str | Path) -> io.BufferedReader:
    """Open a file by its real path. Does not block if a pipe has replaced the file. Raises OSError, for example if a link has
    replaced it."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW))


def real_path(path: str | Path, *within: str | Path) -> Path:
    """Follow all links in `path`, and return the real path. Raises UserError if it is outside one of the folders (or files)
    `within`, or if it is in a folder of `NO_DATA`."""
    real = os.path.realpath(path)
    if any(os.path.commonpath([place, folder]) == folder for place in (real, os.path.abspath(path)) for folder in NO_DATA):
        raise UserError(f"{path}: what is under {', '.join(NO_DATA)} is not data and is not read; give a file of your own")
    for place in within:
        if os.path.commonpath([real, folder := os.path.realpath(place)]) != folder:
            raise UserError(f"{path}: is outside {place}, at {real}; put the file itself there, not a link")
    return Path(real)


def read_json(path: str | Path, within: Iterable[str | Path] = ()) -> bytes:
    """Like `read_file`, but for JSON: refuses a file with too many values before it is parsed."""
    content = read_file(path, within=within)
    most = int(max_mb() * VALUES_A_MB)
    # Each value needs at least two bytes, so a small file cannot have too many.
    if len(content) > 2 * most:
        found = (match for match in _STRING_OR_VALUE.finditer(content) if match[1])
        if next(itertools.islice(found, most, None), None):
            raise UserError(f"{path}: holds more than {most:,} values; make it smaller, or set {LIMIT} above {max_mb():g}")
    return content


def max_mb() -> float:
    """Return the maximum size of a file, in MB. Raises UserError if the environment variable is not a number."""
    return positive_setting(LIMIT, MAX_MB, "MB")


def positive_setting(name: str, default: float, unit: str) -> float:
    """Return the number in an environment variable, or the default if it is unset or empty. Raises UserError for anything
    else."""
    setting = os.environ.get(name, "")
    try:
        number = float(setting or default)
    except ValueError:
        number = 0.0
    if not 0 < number < 2**20:
        raise UserError(f"{name} is {setting!r}; expected a number of {unit}, such as {4 * default:g}")
    return number


def find(entry: str, *folders: Path) -> Path | None:
    """Return the path of `entry` in the first folder that has it as a regular file, else in the first that has it at all; None if
    none has it."""
    paths = [folder / entry for folder in folders]
    try:
        return next(filter(Path.is_file, paths), None) or next(filter(Path.exists, paths), None)
    except OSError:
        return None


def write_new(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their relative paths, texts as UTF-8, and return the paths. Raises UserError for an existing file or a path
    that leads out of the folder, before it writes any file; also if the folder is not writable."""
    if outside := next((name for name in files if Path(name).is_absolute() or ".." in Path(name).parts), None):
        raise UserError(f"{outside[:200]!r} leads out of {folder}; nothing is written")
    paths = [folder / name for name in files]
    if existing := next((path for path in paths if path.exists()), None):
        raise UserError(f"{existing} exists; give another folder")
    try:
        for path, content in zip(paths, files.values(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); give another folder") from error
    return paths
