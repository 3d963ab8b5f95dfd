"""A worker's cache of its latest answers, for repeated requests. Part of the llm room, for the room alone.

Every answer in it is in the response log already, from which it is read once it is dropped here.
"""

from __future__ import annotations

from summhay_ray.llm.calls.raw_answer import RawAnswer
from summhay_ray.outcome import Outcome

KEPT_LETTERS = 8_000_000
"""Capacity in characters, over all answers."""
ENTRY = 1_000
"""Characters that each answer counts in addition to its texts."""

Answered = tuple[Outcome[RawAnswer], RawAnswer]


class RecentAnswers:
    """The latest answers by the keys of their requests."""

    def __init__(self, letters: int = KEPT_LETTERS) -> None:
        self._most = letters
        self._letters = 0
        self._answers: dict[str, Answered] = {}

    def get(self, key: str) -> Answered | None:
        """The answer to a request; None if it is not cached."""
        return self._answers.get(key)

    def put(self, outcome: Outcome[RawAnswer], raw: RawAnswer) -> None:
        """Add an answer that is in the log, in place of an earlier one. The oldest ones are dropped to make room."""
        if (earlier := self._answers.pop(raw.key, None)) is not None:
            self._letters -= _size(earlier[1])
        if _size(raw) > self._most:
            return
        self._answers[raw.key] = outcome, raw
        self._letters += _size(raw)
        while self._letters > self._most:
            oldest = next(iter(self._answers))
            self._letters -= _size(self._answers.pop(oldest)[1])


def _size(raw: RawAnswer) -> int:
    return ENTRY + sum(map(len, raw.texts)) + len(raw.logprobs)
