"""A file as its folder lists it. Part of the store room."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """What a listing tells of a file."""

    name: str
    size: int
    """Bytes."""
    written: float
    """Seconds since 1970, by the clock of the place."""
