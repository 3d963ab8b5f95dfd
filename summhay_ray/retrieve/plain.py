"""The constructor of the retrievers of this room that take nothing behind a slash. For this room alone."""

from __future__ import annotations

from typing import ClassVar

from summhay_ray.plugins import UnknownName


class Plain:
    """Refuses an argument; keeps the seed."""

    name: ClassVar[str] = ""
    whole: ClassVar[bool] = False

    def __init__(self, argument: str = "", seed: int = 0) -> None:
        if argument:
            raise UnknownName(f"retriever {self.name!r} takes nothing behind a slash; leave {f'/{argument}'!r} out")
        self.seed = seed
