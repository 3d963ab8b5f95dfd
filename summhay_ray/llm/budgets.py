"""The money of a run: spent, reserved and uncertain amounts, whether a call fits the budgets, and which usage is not credible.

All amounts are integer micro-dollars. Money is durable only in the ledger's records. A call is granted (in `ledger.py`) only if
its worst case fits under the ceiling of the newest record. So if the process is killed, the unknown cost is below that ceiling.

Reported usage above the reservation is not credible, and the reservation is charged instead. The log records it, so that it
counts against the model in every worker and after every restart, until the model's `token_margin` is large enough to cover it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from summhay_ray.outcome import MICROS
from summhay_ray.store import RUN, Excess, Money, MoneyRecord, Purpose, Scope, scopes

AHEAD_CALLS = 4
"""A ceiling leaves room for at least this many further worst cases, so that calls need not wait for the next record."""
AHEAD_S = 0.3
"""It also leaves room for the amount that is spent within this time."""
PEAK_KEPT = 85
"""Calls end and begin in waves, so a ceiling leaves room for the recent peak of money in flight. With each record this peak falls
to this many per cent, unless more is in flight."""
MOST_AHEAD = 8
"""A ceiling leaves room for at most one eighth of the remaining budget."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The maximum to spend on the run (None: no bound), on each stage and on each model, in micro-dollars."""

    total: int | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, which determines whether its reported usage is credible; 1 if absent."""


class Account:
    """The money of one run, counted against its budgets and under durable ceilings."""

    def __init__(self, budgets: Budgets, session: int, money: Money) -> None:
        """`money`: the run's money when this session began."""
        self._bounds: dict[Scope, int] = {
            **({} if budgets.total is None else {RUN: budgets.total}),
            **{("stage", name): micros for name, micros in budgets.stages.items()},
            **{("model", name): micros for name, micros in budgets.models.items()},
        }
        """Scope -> its budget, for the scopes that have one."""
        self._session = session
        self.spent = Counter(money.spent)
        """Money charged for calls that have ended."""
        self.reserved: Counter[Scope] = Counter()
        """The worst case of the calls in flight."""
        self.uncertain = Counter(money.uncertain)
        """Maximum cost of calls whose outcome is unknown."""
        self._charged = Counter(money.charged)
        self.wanted: Counter[Scope] = Counter()
        """The worst cases of calls that wait only for a higher ceiling, added by `fits`. Clear it before a new pass over the
        waiting calls."""
        self._worst: Counter[Scope] = Counter()
        self._peak: Counter[Scope] = Counter()
        """The recent peak of money in flight."""
        self._ceiling: Counter[Scope] = self._commitment()
        self._writing: MoneyRecord | None = None
        self._rate: dict[Scope, float] = {}
        self._before: tuple[float, Counter[Scope]] | None = None

    def charge(self, purpose: Purpose, micros: int, *, answered: bool) -> None:
        """Add the price of an answer, or the charge for a call without an answer."""
        for scope in scopes(purpose):
            self.spent[scope] += micros
        if not answered:
            self._charged[purpose] += micros

    def doubt(self, purpose: Purpose, micros: int) -> None:
        """Add the worst case of a call whose outcome is unknown."""
        for scope in scopes(purpose):
            self.uncertain[scope] += micros

    def reserve(self, purpose: Purpose, micros: int) -> None:
        """Reserve money for a call; a negative amount releases it."""
        # A free call needs no reservation.
        for scope in scopes(purpose) if micros else ():
            self.reserved[scope] += micros
            self._worst[scope] = max(self._worst[scope], micros)

    def fits(self, purpose: Purpose, micros: int) -> Literal["yes", "wait", "no"]:
        """Whether the amount fits every budget and ceiling. `wait`: not yet, but calls in flight may release money, or the next
        record may raise the ceiling. A free call always fits."""
        if not micros:
            return "yes"
        short = False
        for scope in scopes(purpose):
            gone = self.spent[scope] + self.uncertain[scope]
            bound = self._bounds.get(scope)
            if bound is not None and micros > bound - gone:
                return "no"
            if bound is not None and micros > bound - gone - self.reserved[scope]:
                return "wait"
            ceiling = self._ceiling[scope]
            short |= gone + self.reserved[scope] + micros > (
                ceiling if self._writing is None else min(ceiling, self._writing.ceiling.get(scope, 0))
            )
        if not short:
            return "yes"
        if all((bound := self._bounds.get(scope)) is None or self._need(scope) + micros <= bound for scope in scopes(purpose)):
            for scope in scopes(purpose):
                self.wanted[scope] += micros
                self._worst[scope] = max(self._worst[scope], micros)
        return "wait"

    def _need(self, scope: Scope) -> int:
        return self.spent[scope] + self.uncertain[scope] + self.reserved[scope] + self.wanted[scope]

    def _commitment(self) -> Counter[Scope]:
        every = {*self.spent, *self.uncertain, *self.reserved}
        return Counter({scope: self.spent[scope] + self.uncertain[scope] + self.reserved[scope] for scope in every})

    def due(self, now: float) -> MoneyRecord | None:
        """The record that must be written now, if any: pass it to `written` once it is durable."""
        if self._writing is not None:
            return None
        ahead = {scope: self._ahead(scope, now) for scope in {*self.reserved, *self.wanted}}
        if not any(self.wanted[scope] or self._is_low(scope, ahead[scope]) for scope in ahead):
            return None
        if self._before is None or now - self._before[0] >= AHEAD_S:
            self._before = now, Counter(self.spent)
        ceiling = self._commitment()
        for scope, spare in ahead.items():
            open_now = self.reserved[scope] + self.wanted[scope]
            peak = self._peak[scope] = max(open_now, PEAK_KEPT * self._peak[scope] // 100)
            target, bound = self._need(scope) + peak - open_now + spare, self._bounds.get(scope)
            ceiling[scope] = target if bound is None else max(ceiling[scope], min(target, bound))
        self._writing = self._record(ceiling, ended=False)
        return self._writing

    def _is_low(self, scope: Scope, ahead: int) -> bool:
        """Whether less than half of the room that the ceiling should leave remains, and the ceiling may be raised."""
        bound = self._bounds.get(scope)
        at_bound = bound is not None and self._ceiling[scope] >= bound
        return bool(self.reserved[scope]) and not at_bound and 2 * (self._ceiling[scope] - self._need(scope)) < ahead

    def _ahead(self, scope: Scope, now: float) -> int:
        if self._before is not None and now > self._before[0]:
            self._rate[scope] = max(0.0, (self.spent[scope] - self._before[1][scope]) / max(AHEAD_S, now - self._before[0]))
        spare = max(AHEAD_CALLS * self._worst[scope], round(AHEAD_S * self._rate.get(scope, 0.0)))
        bound = self._bounds.get(scope)
        return spare if bound is None else max(0, min(spare, (bound - self._need(scope)) // MOST_AHEAD))

    def written(self, record: MoneyRecord) -> None:
        """Note that a record is durable."""
        self._ceiling, self._writing = Counter(record.ceiling), None

    def last_record(self) -> MoneyRecord:
        """The record of the session's end: calls still in flight are uncertain from now on."""
        self.uncertain += self.reserved
        self.reserved.clear()
        return self._record(self._commitment(), ended=True)

    def _record(self, ceiling: Mapping[Scope, int], *, ended: bool) -> MoneyRecord:
        amounts = dict(self.spent), dict(self._charged), dict(self.uncertain)
        return MoneyRecord(self._session, ended, *amounts, dict(ceiling))


MOST_EXCESSES = 3
"""This many answers above their reservations stop a model."""

FAR = 2.0
"""A single answer that reports more than this many times its reservation stops a model, too."""

USAGE_NOT_CREDIBLE = "usage_not_credible"
"""Class of the failures of a model that was stopped for such usage."""


@dataclass(frozen=True, slots=True)
class ExcessTotals:
    """The totals of one model's answers whose reported usage exceeds their reservations."""

    model: str
    answers: int
    claimed_tokens: int
    charged_tokens: int
    claimed_usd: float
    charged_usd: float
    token_margin: float
    """The smallest `token_margin` with which all of them would be credible."""
    stopped: bool
    """Whether the model is stopped: there are too many such answers, or one exceeds its reservation by too much."""

    def __str__(self) -> str:
        which = "1 answer claims" if self.answers == 1 else f"{self.answers} answers claim"
        claimed, charged = _amount(self.claimed_tokens, self.claimed_usd), _amount(self.charged_tokens, self.charged_usd)
        mend = (
            f"if that is its real count, write token_margin: {self.token_margin:.12g} beside the model, else use another provider"
        )
        return f"{which} {claimed}, more than was reserved: {charged} are charged; {mend}"


def excess_totals(excesses: Iterable[Excess], margins: Mapping[str, float]) -> list[ExcessTotals]:
    """The totals of each model, sorted by model. Answers that the model's `token_margin` (1 if absent) covers are left out."""
    by_model: dict[str, list[Excess]] = {}
    for excess in excesses:
        if excess.token_margin > margins.get(excess.model, 1.0):
            by_model.setdefault(excess.model, []).append(excess)
    totals = []
    for model, found in sorted(by_model.items()):
        largest = max(excess.token_margin for excess in found)
        totals.append(
            ExcessTotals(
                model=model,
                answers=len(found),
                claimed_tokens=sum(excess.claimed_tokens for excess in found),
                charged_tokens=sum(excess.charged_tokens for excess in found),
                claimed_usd=sum(excess.claimed_micros for excess in found) / MICROS,
                charged_usd=sum(excess.charged_micros for excess in found) / MICROS,
                token_margin=enough(largest),
                stopped=largest > FAR * margins.get(model, 1.0) or len(found) >= MOST_EXCESSES,
            )
        )
    return totals


def margins_of(settings: Mapping[str, Any]) -> dict[str, float]:
    """Model -> its `token_margin`, for the models that have one above 1."""
    return {model: entry.token_margin for model, entry in settings.items() if entry.token_margin > 1}


def enough(margin: float) -> float:
    """The `token_margin` to suggest: `margin` plus 1 %, rounded up to two decimals, since reservations are rounded."""
    return math.ceil(margin * 101) / 100


def _amount(tokens: int, usd: float) -> str:
    return f"{tokens:,} tokens" + (f" for {usd:.6f} dollars" if usd else "")
