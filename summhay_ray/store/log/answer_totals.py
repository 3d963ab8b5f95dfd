"""What a run's answers have cost, by stage and model. Part of the store room; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Purpose = tuple[str, str]
"""(stage, model): what money was spent on; a stage is summarize, judge, ..."""

_CLAIMED = ("claimed_tokens", "claimed_micros", "claimed_margin")


class Excess(NamedTuple):
    """A claimed usage above what was reserved for the call: what the provider claims, and what is charged instead."""

    model: str
    claimed_tokens: int
    charged_tokens: int
    claimed_micros: int
    charged_micros: int
    token_margin: float
    """The `token_margin` of the model that would have reserved enough."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Excess | None:
        """The excess in an answer record, or its head; None if its usage was within the reservation."""
        if not record.get("claimed_margin"):
            return None
        tokens, micros, margin = (record[name] for name in _CLAIMED)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], margin)


@dataclass
class AnswerTotals:
    """The totals of one run's answers for one purpose."""

    usd_micros: int = 0
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """How much more the answers would have cost without the provider's cache."""

    def add(self, head: Mapping[str, Any]) -> None:
        """Add an answer, by its head, or the totals of several."""
        self.answers += head.get("answers", 1)
        self.usd_micros += head["usd_micros"]
        self.input_tokens += head["input_tokens"]
        self.cached_tokens += head["cached_tokens"]
        self.output_tokens += head["output_tokens"]
        self.saved_micros += head.get("saved_micros", 0)
