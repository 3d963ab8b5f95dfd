"""A cache of what retrievers prepare once per corpus (tokens, an index), for the last few corpora of a process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from summhay_ray.retrieve.corpus import Corpus

T = TypeVar("T")


class PerCorpus(Generic[T]):
    """Caches `build(corpus)` by corpus_id (a content hash), for the `kept` most recently used corpora. Thread-safe."""

    def __init__(self, build: Callable[[Corpus], T], kept: int = 4) -> None:
        self._build = build
        self._kept = kept
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, corpus: Corpus) -> T:
        with self._lock:
            if corpus.corpus_id not in self._made:
                self._made[corpus.corpus_id] = self._build(corpus)
                while len(self._made) > self._kept:
                    self._made.popitem(last=False)
            self._made.move_to_end(corpus.corpus_id)
            return self._made[corpus.corpus_id]
