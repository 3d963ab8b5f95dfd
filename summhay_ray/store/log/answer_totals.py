"""What a run's answers have cost, by stage and model. Part of the store room; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from summhay_ray.store.log.answer_record import Totals

Purpose = tuple[str, str]
"""(stage, model): what money was spent on; a stage is summarize, judge, ..."""


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
        # What is 0 is left out, such as the price of a free model.
        tokens, micros = record.get("claimed_tokens", 0), record.get("claimed_micros", 0)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], record["claimed_margin"])


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

    def add(self, totals: Totals) -> None:
        """Add the totals of further answers."""
        self.answers += totals["answers"]
        self.usd_micros += totals["usd_micros"]
        self.input_tokens += totals["input_tokens"]
        self.cached_tokens += totals["cached_tokens"]
        self.output_tokens += totals["output_tokens"]
        self.saved_micros += totals["saved_micros"]
