"""A run's dollars, in the words of every command: spent, reserved, uncertain, left. Part of the engine room; no calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from summhay_ray.outcome import MICROS
from summhay_ray.store import LogIndex, living


class Money(NamedTuple):
    """A run's money in micro-dollars. The sum counts against its budget."""

    spent: int
    """Charged for calls that have ended."""
    reserved: int
    """The most that calls in flight may cost."""
    uncertain: int
    """The most that calls may have cost whose end a kill has left unknown."""

    def usd(self, budget_usd: float | None) -> dict[str, float | None]:
        """The three in dollars, the `budget`, and what is `left` of it; these two are null without a budget."""
        left = None if budget_usd is None else max(0.0, budget_usd - sum(self) / MICROS)
        return {**{name: micros / MICROS for name, micros in self._asdict().items()}, "left": left, "budget": budget_usd}


def money_of(index: LogIndex, run: str, alive: Mapping[int, bool] | None = None) -> Money:
    """The run's money. `alive`: session -> whether its driver is alive, if that is known already; other sessions are over."""
    spent, unended = 0, Counter[int]()
    for writer, tallies in index.spent_of(run).items():
        settled = sum(tally.settled_micros for tally in tallies.values())
        spent += settled
        session = writer.partition("-")[0]
        # Writers of earlier versions are of no session: 0.
        unended[int(session) if session.isdigit() else 0] += sum(tally.usd_micros for tally in tallies.values()) - settled
    numbers = [number for number, micros in unended.items() if micros and number]
    going = living(index.files, numbers) if alive is None else {number for number in numbers if alive.get(number)}
    reserved = sum(unended[number] for number in going)
    return Money(spent, reserved, unended.total() - reserved)
