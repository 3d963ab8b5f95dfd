"""What a run still has to ask, by its plan and by what it asked so far. Part of the engine room; no I/O.

The plan counts equal questions once, but cannot know whether questions that follow an unknown answer turn out equal. It counts
them under three assumptions: `most`: no two unknown answers are equal; `same`: equal prompts get equal answers; `least`: all
answers are as guessed. The calls that the run made for what it asked so far tell where between them it is.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_POINTS = 512
"""Points of a course; beyond that, every second one is dropped."""
EVIDENCE = 0.1
"""The assumptions tell something once they differ by this share of the calls; a few calls fail, or are counted a moment later."""

ASKED = "asked"
"""The counters of questions that ended are named "asked", queue, stage and model, with tabs between them."""

Purpose = tuple[str, str]
"""(stage, model)."""
Strand = tuple[str, str, str]
"""(queue, stage, model): queues go on at different speeds."""


class Calls(NamedTuple):
    """The calls for some questions under each assumption."""

    least: float = 0.0
    same: float = 0.0
    most: float = 0.0


@dataclass
class Course:
    """How the calls of a strand grow with its questions, in the order of the items."""

    asked: float = 0.0
    calls: Calls = Calls()
    _points: list[tuple[float, Calls]] = field(default_factory=lambda: [(0.0, Calls())])

    def add(self, share: float, least: bool, same: bool, most: bool) -> None:
        """Add a question, of which a `share` is expected to be asked, and whether it is a new one under each assumption."""
        self.asked += share
        self.calls = Calls(*(old + share * new for old, new in zip(self.calls, (least, same, most), strict=True)))

    def mark(self) -> None:
        """Keep the present point."""
        if self.asked > self._points[-1][0]:
            self._points.append((self.asked, self.calls))
            if len(self._points) > MOST_POINTS:
                del self._points[1:-1:2]

    def at(self, asked: float) -> Calls:
        """The calls for the first `asked` questions."""
        place = bisect.bisect_left(self._points, asked, key=lambda point: point[0])
        if place == len(self._points):
            return self.calls
        if place == 0:
            return Calls()
        (x, before), (end, after) = self._points[place - 1 : place + 1]
        return Calls(*(a + (b - a) * (asked - x) / (end - x) for a, b in zip(before, after, strict=True)))


def asked_in(counts: Mapping[str, Any]) -> dict[Strand, int]:
    """The questions that ended, by strand, among the ledger's counters."""
    named = {tuple(name.split("\t")): n for name, n in counts.items() if name.startswith(f"{ASKED}\t")}
    return {(queue, stage, model): n for (_, queue, stage, model), n in named.items()}


@dataclass
class Remaining:
    """The calls that the run has made and those that are left, by purpose, as expected now."""

    made: dict[Purpose, float] = field(default_factory=lambda: defaultdict(float))
    left: dict[Purpose, float] = field(default_factory=lambda: defaultdict(float))


def remaining(
    courses: Mapping[Strand, Course], asked: Mapping[Strand, int], made: Mapping[str, int], of: Callable[[str], str]
) -> Remaining:
    """What is left of the courses. `asked`: questions that ended; `made`: calls of each group of models, which `of` names."""
    found = Remaining()
    groups: dict[str, list[tuple[Purpose, Calls, Calls]]] = {}
    for strand, course in courses.items():
        here = course.at(asked.get(strand, 0))
        rest = Calls(*(end - now for end, now in zip(course.calls, here, strict=True)))
        groups.setdefault(of(strand[2]), []).append((strand[1:], here, rest))
    for group, strands in groups.items():
        total = Calls(*(sum(numbers) for numbers in zip(*(here for _, here, _ in strands), strict=True)))
        weights = _weights(total, made.get(group, 0))
        for purpose, here, rest in strands:
            found.made[purpose] += _mean(here, weights)
            found.left[purpose] += _mean(rest, weights)
    return found


def _mean(calls: Calls, weights: Calls) -> float:
    return sum(number * weight for number, weight in zip(calls, weights, strict=True))


def _weights(total: Calls, made: int) -> Calls:
    """The weight of each assumption, `total` being the calls that it expects for what was asked so far."""
    least, same, most = total
    if made >= most or most == least:
        return Calls(most=1.0)
    trust = min(1.0, (most - least) / (EVIDENCE * most))
    if made >= same:
        share = (made - same) / (most - same)
        return Calls(same=trust * (1 - share), most=1 - trust * (1 - share))
    if made >= least:
        share = (made - least) / (same - least)
        return Calls(least=trust * (1 - share), same=trust * share, most=1 - trust)
    return Calls(least=trust * made / least, most=1 - trust)
