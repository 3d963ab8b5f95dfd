"""A remote store for tests without a server: a folder that pretends to be remote, that can fail, and that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from summhay_ray.store import LocalFiles


class FarFiles(LocalFiles):
    """`before(operation, name)` is called before each operation and may raise; `after` is called after it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.folder = None
        self.uri = f"far:{root}"
        self.counts: Counter[str] = Counter()
        self.before: Callable[[str, str], None] = lambda operation, name: None
        self.after: Callable[[str, str], None] = lambda operation, name: None

    def create(self, name: str, content: bytes) -> bool:
        return bool(self._do("create", name, lambda: LocalFiles.create(self, name, content)))

    def put(self, name: str, content: bytes) -> None:
        self._do("put", name, lambda: LocalFiles.put(self, name, content))

    def read(self, name: str, offset: int = 0, length: int | None = None, *, is_large: bool = False) -> bytes:
        operation = "read" if length is None else "read_range"
        content: bytes = self._do(operation, name, lambda: LocalFiles.read(self, name, offset, length, is_large=is_large))
        return content

    def exists(self, name: str) -> bool:
        return bool(self._do("exists", name, lambda: LocalFiles.exists(self, name)))

    def names(self, folder: str, suffix: str = "") -> Any:
        return self._do("names", folder, lambda: LocalFiles.names(self, folder, suffix))

    def _do(self, operation: str, name: str, act: Callable[[], Any]) -> Any:
        self.before(operation, name)
        self.counts[operation] += 1
        done = act()
        self.after(operation, name)
        return done
