"""Requests and tokens of a model in the last minute, for the live view. Part of the llm room."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

WINDOW_S = 60


@dataclass
class Meter:
    """Counters of one model; requests and tokens are kept per second."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    limited: int = 0
    retries: int = 0
    _seconds: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def sent(self, at: float) -> None:
        """Count a request."""
        self._seconds[int(at)]["requests"] += 1

    def answered(self, at: float, input_tokens: int, output_tokens: int) -> None:
        """Count an answer and its tokens."""
        self.calls += 1
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self._seconds[int(at)].update({"input": input_tokens, "output": output_tokens})

    def read(self, now: float) -> dict[str, int]:
        """Calls answered, 429s and retries so far; requests and tokens of the last minute."""
        for second in [second for second in self._seconds if second <= now - WINDOW_S]:
            del self._seconds[second]
        total: Counter[str] = Counter()
        for counts in self._seconds.values():
            total.update(counts)
        minute = {f"{name}_per_min": total[name] for name in ("requests", "input", "output")}
        return {"calls": self.calls, "limited": self.limited, "retries": self.retries, **minute}
