"""A request to a model and its key: what a call is, and when two calls are the same call. For all rooms above `llm`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.outcome import Outcome
from summhay_ray.records import RawAnswer


@dataclass(frozen=True, slots=True)
class Request:
    """One call to one model. Every field is semantic: all of them, and nothing else, make the key."""

    model: str
    prompt: str
    """The text of the one user message."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """temperature, max_tokens, seed and the like: what is sent beside the messages."""
    prompt_hash: str = ""
    """sha256 of the prompt template, so that a changed template is another request."""
    sample: int = 0
    """Index of the sample, for several answers to one prompt."""
    lookup: str = ""
    """For `replay/...` models alone: the released answer that the cell stands for."""

    @property
    def key(self) -> str:
        """sha256 (hex) over the canonical JSON of the fields: same content, same key, on every machine."""
        content = {
            "model": self.model,
            "messages": [{"role": "user", "content": self.prompt}],
            "sampling": _plain(self.sampling),
            "prompt_hash": self.prompt_hash,
            "sample": self.sample,
            "lookup": self.lookup,
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def _plain(value: Any) -> Any:
    """The value as JSON has it, a number that is whole without its point: 0 and 0.0 are one temperature."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


Ask = Callable[[Request], Awaitable[Outcome[RawAnswer]]]
"""The gateway as the rooms see it: a request in, a durable answer or the reason why there is none out."""
