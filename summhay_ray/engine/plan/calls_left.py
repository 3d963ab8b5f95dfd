"""How many calls a run has left, by its plan and by what it asked so far. Part of the engine room; no I/O.

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
NOISE, NOISE_SHARE = 4, 0.1
"""So many calls, and this share of them, may be counted late or have failed."""

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

    def scattered(self, asked: float) -> Calls:
        """The same if these questions were drawn from all at random."""
        share = min(1.0, asked / self.asked) if self.asked else 0.0
        return Calls(*(n * (1 - (1 - share) ** (self.asked / n)) if n else 0.0 for n in self.calls))


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
    groups: dict[str, list[tuple[Purpose, Calls, Calls, Calls]]] = {}
    for strand, course in courses.items():
        now = asked.get(strand, 0)
        here = course.at(now)
        groups.setdefault(of(strand[2]), []).append((strand[1:], here, course.scattered(now), _minus(course.calls, here)))
    for group, strands in groups.items():
        here, scattered, rest = (Calls(*map(sum, zip(*calls, strict=True))) for calls in list(zip(*strands, strict=True))[1:])
        n = made.get(group, 0)
        weights = _weights(here, scattered, n)
        # Of what comes later in the order, some was asked already.
        early = max(0.0, 1 - (n - here.same) / rest.same) if n > here.same and rest.same else 1.0
        for purpose, of_here, _, of_rest in strands:
            found.made[purpose] += _mean(of_here, weights)
            found.left[purpose] += _mean(of_rest, weights._replace(same=weights.same * early))
    return found


def _minus(calls: Calls, others: Calls) -> Calls:
    return Calls(*(a - b for a, b in zip(calls, others, strict=True)))


def _mean(calls: Calls, weights: Calls) -> float:
    return sum(number * weight for number, weight in zip(calls, weights, strict=True))


def _weights(here: Calls, scattered: Calls, made: float) -> Calls:
    """The weight of each assumption, by the calls that it expects for what was asked so far: in the order of the items, or not.

    As long as they hardly differ, `same` is taken: what is counted may be some calls behind, or some calls may have failed.
    """
    spread, noise = here.most - here.least, NOISE + NOISE_SHARE * here.most
    trust = (spread / (spread + noise)) ** 2
    made = min(here.same, made + noise) if made < here.same else made
    least = min(max(here.least, scattered.least), here.same)
    if made >= here.same:
        beyond, room = made - max(here.same, scattered.same), here.most - max(here.same, scattered.same)
        share = min(1.0, max(0.0, beyond / room)) if room > 0 else 0.0
        found = Calls(same=1 - share, most=share)
    elif made >= least:
        share = (made - least) / (here.same - least)
        found = Calls(least=1 - share, same=share)
    else:
        found = Calls(least=min(1.0, made / here.least))
    return Calls(trust * found.least, trust * found.same + 1 - trust, trust * found.most)
