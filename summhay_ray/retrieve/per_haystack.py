"""What retrievers of this room prepare once a haystack (tokens, an index), kept for the last few haystacks of a worker."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from summhay_ray.records import Haystack

T = TypeVar("T")


class PerHaystack(Generic[T]):
    """`build(haystack)`, remembered by haystack_id (a content hash) for the `kept` haystacks used last."""

    def __init__(self, build: Callable[[Haystack], T], kept: int = 4) -> None:
        self._build = build
        self._kept = kept
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, haystack: Haystack) -> T:
        with self._lock:
            if haystack.haystack_id not in self._made:
                self._made[haystack.haystack_id] = self._build(haystack)
                while len(self._made) > self._kept:
                    self._made.popitem(last=False)
            self._made.move_to_end(haystack.haystack_id)
            return self._made[haystack.haystack_id]
