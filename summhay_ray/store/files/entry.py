"""One file in a folder listing. Part of the store room."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A file's name, size and time in a listing."""

    name: str
    size: int
    """Bytes."""
    written: float
    """When it was written: seconds since 1970, by the clock of the disk or bucket."""
