"""How a provider's counts compare with ours, learned from the answers that say what they used. Part of the llm room.

An answer without usage is charged by our own count. The margin of a tokenizer that nobody knows would waste a budget on them,
where a thousand other answers of the same model have told how it counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from summhay_ray.llm.models import ModelSettings

ENOUGH = 30
"""So many counts tell how a model counts."""

LONG_ENOUGH = 40
"""Tokens from which on a count tells something: in a short text one token more is a large share."""

SAFETY = 1.02
SPARE = 4


@dataclass
class Learned:
    """What is known of one model; `ratio` is the largest that was seen."""

    seen: int = 0
    ratio: float = 0.0

    def note(self, ours: int, theirs: int) -> None:
        """The provider counted `theirs` where we count `ours`."""
        if ours >= LONG_ENOUGH:
            self.seen += 1
            self.ratio = max(self.ratio, theirs / ours)

    def most_tokens(self, settings: ModelSettings, counted: int) -> int:
        """The most tokens that the provider may have counted: by what was learned, or by the margin of a strange tokenizer."""
        strange = settings.most_tokens(counted)
        if self.seen < ENOUGH:
            return strange
        return min(strange, math.ceil(counted * self.ratio * SAFETY) + SPARE)
