"""How long a service's vectors are: the same for all requests with the same settings. Part of the store room.

A file `vectors/dimensions/SPACE/N` says that a service answered with vectors of N dimensions; a space is one model with one
choice of settings. Two such files leave in doubt which is right: the service's next answer to another process decides.
"""

from __future__ import annotations

import threading

from summhay_ray.store.files.files import Files
from summhay_ray.store.tables.vectors import FOLDER


class Dimensions:
    """The dimensions of each space, as this process knows them. Thread-safe."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._decided: dict[str, int | None] = {}
        """Space -> its dimensions; None until an answer decides."""
        self._read: dict[str, int] = {}
        """Space -> dimensions of the first stored answer that was read before an answer decided."""
        self.overruled: set[str] = set()
        """Spaces where an answer decided against earlier ones."""
        self._lock = threading.Lock()

    def fits(self, space: str, dimensions: int) -> bool:
        """Whether a stored answer of these dimensions can be used beside the others."""
        with self._lock:
            decided = self._of(space)
            return dimensions == (self._read.setdefault(space, dimensions) if decided is None else decided)

    def expected(self, space: str, dimensions: int) -> int:
        """The dimensions that are right for an answer just received with `dimensions`. The first such answer decides."""
        with self._lock:
            decided = self._of(space)
            if decided is None:
                decided = self._decided[space] = self._decide(space, dimensions)
        if decided != dimensions:
            self._files.create(self._name(space, dimensions), b"")
        return decided

    def _decide(self, space: str, dimensions: int) -> int:
        before = self._there(space)
        if len(before) == 1:
            # Another process has decided meanwhile.
            return before[0]
        if {*before, self._read.get(space, dimensions)} - {dimensions}:
            self.overruled.add(space)
        self._files.create(self._name(space, dimensions), b"")
        for other in before:
            if other != dimensions:
                self._files.delete(self._name(space, other))
        # Empty, unless another process was as quick.
        return next((other for other in self._there(space) if other != dimensions), dimensions)

    def _of(self, space: str) -> int | None:
        if space not in self._decided:
            there = self._there(space)
            self._decided[space] = there[0] if len(there) == 1 else None
        return self._decided[space]

    def _there(self, space: str) -> list[int]:
        names = (name.rpartition("/")[2] for name in self._files.names(f"{FOLDER}/dimensions/{space}"))
        return [int(name) for name in names if name.isdigit()]

    def _name(self, space: str, dimensions: int) -> str:
        return f"{FOLDER}/dimensions/{space}/{dimensions}"
