"""The answers that this worker had last: who asks the same again has them at once. Part of the llm room, for the room alone.

Each stands in the response log already, whose word they are: what is forgotten here is read there.
"""

from __future__ import annotations

from summhay_ray.llm.raw_answer import RawAnswer
from summhay_ray.outcome import Outcome

KEPT_LETTERS = 8_000_000
"""All answers that are kept have so many letters together at most."""
ENTRY = 1_000
"""What an answer takes beside its letters."""

Answered = tuple[Outcome[RawAnswer], RawAnswer]


class RecentAnswers:
    """By the request's key, the latest ones."""

    def __init__(self, letters: int = KEPT_LETTERS) -> None:
        self._most = letters
        self._letters = 0
        self._answers: dict[str, Answered] = {}

    def get(self, key: str) -> Answered | None:
        """The answer, None where it is not among the latest."""
        return self._answers.get(key)

    def put(self, outcome: Outcome[RawAnswer], raw: RawAnswer) -> None:
        """Keep one that the log has; the oldest make room."""
        if raw.key in self._answers or _size(raw) > self._most:
            return
        self._answers[raw.key] = outcome, raw
        self._letters += _size(raw)
        while self._letters > self._most:
            oldest = next(iter(self._answers))
            self._letters -= _size(self._answers.pop(oldest)[1])


def _size(raw: RawAnswer) -> int:
    return ENTRY + sum(map(len, raw.texts)) + len(raw.logprobs)
