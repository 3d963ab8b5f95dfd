"""Money of a run: what is spent, what is reserved, and what still fits. Part of the llm room. Integer micro-dollars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from summhay_ray.store import Purpose, Spent, Tally

Scope = tuple[str, str]
"""("", "") the run, ("stage", NAME), ("model", NAME)."""

RUN: Scope = ("", "")


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that may be spent, in micro-dollars: on the run (None: no bound), on a stage, on a model."""

    total: int | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> the `token_margin` that its claims of usage are held against; 1 where none is given."""

    def bounds(self) -> dict[Scope, int]:
        """Scope -> its budget, for those that have one."""
        return {
            **({} if self.total is None else {RUN: self.total}),
            **{("stage", name): micros for name, micros in self.stages.items()},
            **{("model", name): micros for name, micros in self.models.items()},
        }


def scopes(purpose: Purpose) -> Iterator[Scope]:
    """The scopes that money for this purpose counts in."""
    yield RUN
    yield "stage", purpose[0]
    yield "model", purpose[1]


def account(told: Spent, living: Collection[str], in_flight: Iterable[tuple[str, Purpose, int]]) -> Spent:
    """What a run has spent, by writer and purpose, as a commit keeps it. `told`: as the log tells it, and what is settled.

    Of the `living` the calls `in_flight` are open (writer, purpose, worst case); of others those whose end the log does not tell.
    """
    open_now = {writer: Counter[Purpose]() for writer in living}
    for writer, purpose, micros in in_flight:
        open_now.setdefault(writer, Counter())[purpose] += micros
    found: dict[str, dict[Purpose, Tally]] = {}
    for writer in sorted({*told, *open_now}):
        tallies, mine = told.get(writer, {}), open_now.get(writer)
        for purpose in {*tallies, *(mine or ())}:
            tally = tallies.get(purpose, Tally())
            open_micros = tally.open_micros if mine is None else mine[purpose]
            kept = Tally(tally.settled_micros + open_micros, tally.answers, open_micros=open_micros)
            found.setdefault(writer, {})[purpose] = kept
    return found


class BudgetAccount:
    """What living writers spent is counted as they settle it; what all others spent, as the log tells it."""

    def __init__(self, budgets: Budgets) -> None:
        self._bounds = budgets.bounds()
        self._here: dict[str, Counter[Purpose]] = {}
        self._elsewhere: Counter[Purpose] = Counter()
        self._lost: Counter[Purpose] = Counter()
        self._spent: Counter[Scope] = Counter()
        self._reserved: Counter[Scope] = Counter()

    def spent(self, scope: Scope = RUN) -> int:
        """Settled, and charged to calls whose end nobody knows."""
        return self._spent[scope]

    def reserved(self, scope: Scope = RUN) -> int:
        """The worst case of the calls in flight."""
        return self._reserved[scope]

    @property
    def writers(self) -> Collection[str]:
        """Those whose spending is counted as it settles."""
        return self._here.keys()

    def knows(self, writer: str) -> bool:
        """Whether the writer's spending is counted as it settles."""
        return writer in self._here

    def read(self, told: Mapping[str, Mapping[Purpose, int]]) -> None:
        """Count what the log tells (writer -> purpose -> micros) of all writers that are not counted here."""
        self._elsewhere = Counter()
        for writer, purposes in told.items():
            if writer not in self._here:
                self._elsewhere.update(purposes)
        self._add_up()

    def adopt(self, writer: str, told: Mapping[Purpose, int]) -> None:
        """Count a writer here from now on; the log tells of it what it has spent so far."""
        self._here[writer] = Counter(told)
        self._elsewhere.subtract(told)
        self._add_up()

    def disown(self, writer: str) -> None:
        """The writer is dead: the log tells what it spent. To be followed by `read`."""
        self._here.pop(writer, None)

    def lose(self, purpose: Purpose, micros: int) -> None:
        """Charge a call whose end nobody knows and of which the log tells nothing."""
        self._lost[purpose] += micros
        self._count(purpose, micros)

    def charge(self, writer: str, purpose: Purpose, micros: int) -> None:
        """Money that a writer counted here has spent."""
        self._here[writer][purpose] += micros
        self._count(purpose, micros)

    def reserve(self, purpose: Purpose, micros: int) -> None:
        """Set money aside for a call; negative gives it back."""
        for scope in scopes(purpose):
            self._reserved[scope] += micros

    def fits(self, purpose: Purpose, micros: int) -> Literal["yes", "wait", "no"]:
        """`wait`: not now, but calls in flight may give back what they do not use. Free calls always fit."""
        answer: Literal["yes", "wait", "no"] = "yes"
        if not micros or not self._bounds:
            return answer
        for scope in scopes(purpose):
            bound = self._bounds.get(scope)
            if bound is None:
                continue
            free = bound - self._spent[scope]
            if micros > free:
                return "no"
            if micros > free - self._reserved[scope]:
                answer = "wait"
        return answer

    def _count(self, purpose: Purpose, micros: int) -> None:
        for scope in scopes(purpose):
            self._spent[scope] += micros

    def _add_up(self) -> None:
        self._spent = Counter()
        for amounts in (self._elsewhere, self._lost, *self._here.values()):
            for purpose, micros in amounts.items():
                self._count(purpose, micros)
