"""Money of a run: what is spent, what is reserved, and what still fits the budgets. Part of the llm room.

All amounts are integer micro-dollars.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from summhay_ray.store import Purpose, Spent, Tally

Scope = tuple[str, str]
"""What a budget applies to: the run ("", ""), a stage ("stage", NAME) or a model ("model", NAME)."""

RUN: Scope = ("", "")


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that may be spent on the run (None: no bound), on each stage and on each model."""

    total: int | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, which decides whether its reported usage is credible; 1 if absent."""

    def bounds(self) -> dict[Scope, int]:
        """Scope -> its budget, for the scopes that have one."""
        return {
            **({} if self.total is None else {RUN: self.total}),
            **{("stage", name): micros for name, micros in self.stages.items()},
            **{("model", name): micros for name, micros in self.models.items()},
        }


def scopes(purpose: Purpose) -> Iterator[Scope]:
    """The scopes to which money for this purpose counts: the run, the stage and the model."""
    yield RUN
    yield "stage", purpose[0]
    yield "model", purpose[1]


def account(logged: Spent, living: Collection[str], in_flight: Iterable[tuple[str, Purpose, int]]) -> Spent:
    """What a run has spent, by writer and purpose, as a commit stores it: `logged`, plus the worst case of open calls.

    Open calls of `living` writers are those `in_flight` (writer, purpose, worst case). Open calls of other writers are those
    whose end is missing from the log.
    """
    open_now = {writer: Counter[Purpose]() for writer in living}
    for writer, purpose, micros in in_flight:
        open_now.setdefault(writer, Counter())[purpose] += micros
    spent: dict[str, dict[Purpose, Tally]] = {}
    for writer in sorted({*logged, *open_now}):
        tallies, mine = logged.get(writer, {}), open_now.get(writer)
        for purpose in {*tallies, *(mine or ())}:
            tally = tallies.get(purpose, Tally())
            open_micros = tally.open_micros if mine is None else mine[purpose]
            total = Tally(tally.settled_micros + open_micros, tally.answers, open_micros=open_micros)
            spent.setdefault(writer, {})[purpose] = total
    return spent


class BudgetAccount:
    """The money of one run, counted against its budgets.

    The spending of living writers is counted as they settle; that of all others is read from the log.
    """

    def __init__(self, budgets: Budgets) -> None:
        self._bounds = budgets.bounds()
        self._here: dict[str, Counter[Purpose]] = {}
        self._elsewhere: Counter[Purpose] = Counter()
        self._lost: Counter[Purpose] = Counter()
        self._spent: Counter[Scope] = Counter()
        self._reserved: Counter[Scope] = Counter()

    def spent(self, scope: Scope = RUN) -> int:
        """Money settled, and the worst case of calls whose end is unknown."""
        return self._spent[scope]

    def reserved(self, scope: Scope = RUN) -> int:
        """The worst case of the calls in flight."""
        return self._reserved[scope]

    @property
    def lost(self) -> int:
        """The part of `spent` that `lose` has charged."""
        return self._lost.total()

    @property
    def writers(self) -> Collection[str]:
        """The writers whose spending is counted as they settle."""
        return self._here.keys()

    def knows(self, writer: str) -> bool:
        """Whether the writer's spending is counted as it settles, not read from the log."""
        return writer in self._here

    def read(self, logged: Mapping[str, Mapping[Purpose, int]]) -> None:
        """Take the spending of all writers that are not counted here from the log (writer -> purpose -> micro-dollars)."""
        self._elsewhere = Counter()
        for writer, purposes in logged.items():
            if writer not in self._here:
                self._elsewhere.update(purposes)
        self._add_up()

    def adopt(self, writer: str, logged: Mapping[Purpose, int]) -> None:
        """Count the writer's spending here from now on, starting from what the log holds of it (`logged`)."""
        self._here[writer] = Counter(logged)
        self._elsewhere.subtract(logged)
        self._add_up()

    def disown(self, writer: str) -> None:
        """Stop counting a dead writer here. Call `read` next, which takes its spending from the log."""
        self._here.pop(writer, None)

    def lose(self, purpose: Purpose, micros: int) -> None:
        """Charge a call whose end is unknown and of which the log holds no record."""
        self._lost[purpose] += micros
        self._count(purpose, micros)

    def charge(self, writer: str, purpose: Purpose, micros: int) -> None:
        """Add money spent by a writer that is counted here."""
        self._here[writer][purpose] += micros
        self._count(purpose, micros)

    def reserve(self, purpose: Purpose, micros: int) -> None:
        """Reserve money for a call; a negative amount releases it."""
        for scope in scopes(purpose):
            self._reserved[scope] += micros

    def fits(self, purpose: Purpose, micros: int) -> Literal["yes", "wait", "no"]:
        """Whether the amount fits every budget. `wait`: not yet; calls in flight may release money. A free call always fits."""
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
