"""The ratio of a provider's token counts to ours, learned from answers that report usage. Part of the llm room.

An answer without usage is charged by our own count, with a margin. The margin for an unknown tokenizer is large; a ratio learned
from other answers of the same model wastes less of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from summhay_ray.llm.providers.model_settings import ModelSettings

ENOUGH = 30
"""Counts needed before the learned ratio is used."""

LONG_ENOUGH = 40
"""Shortest text, in our tokens, from which the ratio is learned: in shorter ones a single token changes it much."""

SAFETY = 1.02
SPARE = 4


@dataclass
class TokenRatio:
    """What is known of one model: the number of counts, and the largest ratio of the provider's count to ours."""

    seen: int = 0
    largest: float = 0.0

    def note(self, ours: int, theirs: int) -> None:
        """Learn from a text in which we count `ours` tokens and the provider counted `theirs`."""
        if ours >= LONG_ENOUGH:
            self.seen += 1
            self.largest = max(self.largest, theirs / ours)

    def most_tokens(self, settings: ModelSettings, counted: int) -> int:
        """The most tokens that the provider may have counted: by the learned ratio, or by the margin of an unknown tokenizer."""
        by_margin = settings.most_tokens(counted)
        if self.seen < ENOUGH:
            return by_margin
        return min(by_margin, math.ceil(counted * self.largest * SAFETY) + SPARE)
