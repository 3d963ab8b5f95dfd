"""Writes files into a user's folder without overwriting any. Imports only `errors`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from summhay_ray.errors import UserError


def write_new(folder: Path, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by relative path, texts as UTF-8, and return the paths.

    Raises UserError, before writing any file, if a file exists already, if a path leads out of the folder, or if the folder is
    not writable.
    """
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
