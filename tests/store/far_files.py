"""A store far away for tests without a server: a folder that says it is none, that can fail, and that counts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from summhay_ray.store import LocalFiles, StoreUnavailable


class Lost(BaseException):
    """The process ends here."""


class FarFiles(LocalFiles):
    """`before(operation, name)` is called before each operation and may raise; `after` after it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.counts: Counter[str] = Counter()
        self.before: Callable[[str, str], None] = lambda operation, name: None
        self.after: Callable[[str, str], None] = lambda operation, name: None

    @property
    def folder(self) -> Path | None:
        return None

    @property
    def uri(self) -> str:
        return f"far:{self.root}"

    def create(self, name: str, content: bytes) -> bool:
        return bool(self._do("create", name, lambda: LocalFiles.create(self, name, content)))

    def put(self, name: str, content: bytes) -> None:
        self._do("put", name, lambda: LocalFiles.put(self, name, content))

    def read(self, name: str) -> bytes:
        content: bytes = self._do("read", name, lambda: LocalFiles.read(self, name))
        return content

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        content: bytes = self._do("read_range", name, lambda: LocalFiles.read_range(self, name, offset, length))
        return content

    def exists(self, name: str) -> bool:
        return bool(self._do("exists", name, lambda: LocalFiles.exists(self, name)))

    def names(self, folder: str, suffix: str = "") -> Any:
        raise AssertionError(f"{folder} was listed")

    def _do(self, operation: str, name: str, act: Callable[[], Any]) -> Any:
        self.before(operation, name)
        self.counts[operation] += 1
        done = act()
        self.after(operation, name)
        return done


class Gate:
    """For `before`: while it is shut, writing is refused (`shut`) or hangs (`hold`)."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.down = False

    def __call__(self, operation: str, name: str) -> None:
        if operation == "create" and name.startswith("log/"):
            self._open.wait(20)
            if self.down:
                raise StoreUnavailable(f"{name}: nobody answers")

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()


def answer(key: str, usd_micros: int = 0, call: str = "", run: str = "r", **more: Any) -> dict[str, Any]:
    return {"kind": "answer", "call": call or f"call-{key}", "run": run, "key": key, "usd_micros": usd_micros, **more}


def intent(key: str, usd_micros: int, run: str = "r", **more: Any) -> dict[str, Any]:
    return {"kind": "intent", "call": f"call-{key}", "run": run, "key": key, "usd_micros": usd_micros, **more}


def void(key: str, usd_micros: int, run: str = "r", **more: Any) -> dict[str, Any]:
    return {**intent(key, usd_micros, run, **more), "kind": "void"}
