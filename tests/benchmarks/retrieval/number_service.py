"""A service of embeddings and reranking on 127.0.0.1, with the simulator's numbers unless a test damages them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local_http import Asked, serving

from summhay_ray.simulator import vectors
from summhay_ray.text import count_tokens

Damage = Callable[[str, list[str], dict[str, Any]], None]
"""Changes a body: given the task, its texts and the body."""


@dataclass
class Served:
    """`calls`: task and texts of each request. `micros`: the bill, at a dollar per million tokens and 0.002 dollars per
    search."""

    base: str = ""
    damage: Damage | None = None
    dimensions: int = 16
    calls: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    micros: int = 0

    def body(self, task: str, asked: dict[str, Any]) -> dict[str, Any]:
        if task == "embed":
            texts = asked["input"]
            tokens = sum(map(count_tokens, texts))
            data = [{"index": at, "embedding": vectors.embed(text, self.dimensions)} for at, text in enumerate(texts)]
            body: dict[str, Any] = {"data": data, "usage": {"prompt_tokens": tokens}}
            self.micros += tokens
        else:
            texts = asked["documents"]
            scores = vectors.relevance(asked["query"], texts)
            body = {"results": [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]}
            body["meta"] = {"billed_units": {"search_units": 1}}
            self.micros += 2000
        self.calls.append((task, tuple(texts)))
        if self.damage is not None:
            self.damage(task, texts, body)
        return body


@contextmanager
def number_service() -> Iterator[Served]:
    served, lock = Served(), threading.Lock()

    def answer(asked: Asked) -> dict[str, Any]:
        with lock:
            return served.body("rerank" if asked.path.endswith("rerank") else "embed", asked.fields)

    with serving(answer) as address:
        served.base = f"{address}/v1"
        yield served
