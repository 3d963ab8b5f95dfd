"""The money of a run: its spent, reserved and uncertain amounts, its budgets, and usage that is not credible.

Amounts are integer micro-dollars. The ledger writes them to records, which survive a kill. A record lists the calls in flight,
and the waiting calls that may be granted as soon as the record is durable. It also has an allowance: an amount for further calls
that it does not list. The ledger grants a call only if the newest record lists the call, or if the call fits into the allowance.
So after a kill, the uncertain money is at most the worst cases of the listed calls without an answer, plus the allowance.

If reported usage exceeds the reservation, it is not credible, and the reservation is charged instead. The log records the usage.
So it counts against the model in every worker and after every restart, until the model's `token_margin` is large enough to cover
it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.outcome import MICROS
from summhay_ray.store import RUN, Excess, Money, MoneyRecord, Purpose, Scope, is_batch, scopes, total_of

AHEAD_CALLS = 4
"""A record allows at least this many further calls with the largest worst case, so that calls need not wait for the next
record."""
AHEAD_S = 0.3
"""A record also allows the amount that is usually granted within this time."""
MOST_AHEAD = 50
"""A record allows at most this fraction (1/50) of a budget."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The budgets of the run (None: no budget), of stages and of models, in micro-dollars."""

    total: int | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, which determines whether reported usage is credible. A missing margin is 1."""


class Account:
    """The money of one run. It is limited by budgets, and granted within durable allowances."""

    def __init__(self, budgets: Budgets, session: int, money: Money) -> None:
        """`money`: the run's money at the beginning of this session."""
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
        """The sum of the worst cases of the calls in flight."""
        self.uncertain = money.uncertain + money.reserved
        """Maximum cost of calls whose outcome is unknown."""
        self._charged = Counter(money.charged)
        self._calls: dict[str, tuple[Purpose, int]] = {}
        """Key -> purpose and worst case of each call in flight."""
        self._earlier = dict(money.calls)
        """The calls of earlier sessions that are included in `uncertain`. A later session may find their answers in the log."""
        self._wanted: dict[str, tuple[Purpose, int]] = {}
        """The calls that `want` has added, and that wait for the next record."""
        self._listed: dict[str, tuple[Purpose, int]] = {}
        """The calls that the newest durable record lists and that are not granted yet."""
        self._promised: dict[str, tuple[Purpose, int]] = {}
        """The calls that wait for a record or are listed in one. The money that they need is kept free for them."""
        self._promised_sum: Counter[Scope] = Counter()
        self._n_promised: Counter[str] = Counter()
        """Model -> the number of its calls in `_promised`."""
        self._granted: Counter[Scope] = Counter()
        """The sum of the worst cases of all calls that this session has granted."""
        self._granted_to: Counter[Scope] = Counter()
        """The maximum of `_granted` that the newest durable record allows."""
        self._writing: tuple[Counter[Scope], dict[str, tuple[Purpose, int]]] | None = None
        """The record that is being written: its maximum of `_granted`, and the waiting calls that it lists."""
        self._largest: Counter[Scope] = Counter()
        self._rate: dict[Scope, float] = {}
        self._before: tuple[float, Counter[Scope]] | None = None

    def charge(self, purpose: Purpose, micros: int, *, answered: bool) -> None:
        """Add the price of an answer, or the charge for a call without an answer."""
        for scope in scopes(purpose):
            self.spent[scope] += micros
        if not answered:
            self._charged[purpose] += micros

    def add_uncertain(self, purpose: Purpose, micros: int) -> None:
        """Add the worst case of a call whose outcome is unknown."""
        for scope in scopes(purpose):
            self.uncertain[scope] += micros

    def lose(self, key: str) -> None:
        """Count the worst case of a call as uncertain, since its worker is gone. The call's answer may still appear in the
        log."""
        if (call := self._calls.get(key)) is not None:
            self._earlier[key] = call
            self.add_uncertain(*call)

    def reserve(self, key: str, purpose: Purpose, micros: int) -> None:
        """Reserve money for a call with the worst case `micros`."""
        # From now on, an answer with this key may come from this call. So it no longer shows the cost of an earlier call.
        self._earlier.pop(key, None)
        listed = key in self._listed
        if key in self._promised:
            self.withdraw(key)
        # A free call needs no reservation.
        if micros:
            self._calls[key] = purpose, micros
            for scope in scopes(purpose):
                self.reserved[scope] += micros
                self._granted[scope] += micros
                self._granted_to[scope] += micros if listed else 0
                # Leave out batches, since allowances are computed from the sizes and the rate of single calls.
                if not is_batch(key):
                    self._largest[scope] = max(self._largest[scope], micros)
                elif self._before is not None:
                    self._before[1][scope] += micros

    def resume_batches(self, batches: Mapping[str, tuple[Purpose, int]]) -> None:
        """Reserve the money of submitted batches. The amounts that earlier sessions recorded for batches are then no longer
        uncertain."""
        for key in [key for key in self._earlier if is_batch(key)]:
            purpose, micros = self._earlier.pop(key)
            for scope in scopes(purpose):
                self.uncertain[scope] -= micros
        for key, (purpose, micros) in batches.items():
            self.reserve(key, purpose, micros)
            for scope in scopes(purpose):
                # The newest record already includes the money of these batches.
                self._granted_to[scope] += micros

    def release(self, key: str) -> None:
        """Release the money that was reserved for a call."""
        purpose, micros = self._calls.pop(key, (("", ""), 0))
        for scope in scopes(purpose) if micros else ():
            self.reserved[scope] -= micros

    def fits(self, key: str, purpose: Purpose, micros: int) -> Literal["yes", "wait", "record", "no"]:
        """Return whether the call's worst case fits every budget and the newest record. `wait`: it may fit when calls in flight
        have released money. `record`: it fits only after the next record; see `want`. A free call always fits."""
        if not micros:
            return "yes"
        now, ever = self.room(purpose)
        if key in self._promised:
            if now >= 0:
                now = micros
            else:
                self.withdraw(key)
                now, ever = self.room(purpose)
        if micros > now:
            return "no" if micros > ever else "wait"
        if key in self._listed and self._writing is None:
            return "yes"
        for scope in scopes(purpose):
            allowed = self._granted_to[scope] if self._writing is None else min(self._granted_to[scope], self._writing[0][scope])
            if self._granted[scope] + micros > allowed:
                return "record"
        return "yes"

    def room(self, purpose: Purpose) -> tuple[float, float]:
        """Return the largest worst case that fits all budgets now, and the largest that would fit if all calls in flight cost
        nothing."""
        now = ever = math.inf
        for scope in scopes(purpose) if self._bounds else ():
            if (left := self._budget_left(scope)) is not None:
                now, ever = min(now, left - self._promised_sum[scope]), min(ever, left + self.reserved[scope])
        return now, ever

    def _budget_left(self, scope: Scope) -> int | None:
        """Return the rest of the scope's budget; None if it has no budget."""
        bound = self._bounds.get(scope)
        return None if bound is None else bound - self.spent[scope] - self.uncertain[scope] - self.reserved[scope]

    def want(self, calls: Iterable[Claim]) -> None:
        """List these calls in the next record, up to the first one that does not fit the budgets."""
        for call in calls:
            key, purpose, micros = call.key, call.purpose, call.worst_micros
            if key not in self._promised:
                if micros > self.room(purpose)[0]:
                    return
                self._promised[key] = purpose, micros
                self._n_promised[purpose[1]] += 1
                for scope in scopes(purpose):
                    self._promised_sum[scope] += micros
            if self._writing is None or key not in self._writing[1]:
                self._wanted[key] = purpose, micros

    def is_promised(self, key: str) -> bool:
        """Return whether this call waits for a record or is listed in one."""
        return key in self._promised

    def n_promised(self, model: str) -> int:
        """Return the number of the model's calls that wait for a record, or are listed in one and not granted yet."""
        return self._n_promised[model]

    def withdraw(self, key: str) -> None:
        """Remove a call that no longer waits for a record."""
        if (call := self._promised.pop(key, None)) is not None:
            purpose, micros = call
            self._n_promised[purpose[1]] -= 1
            for scope in scopes(purpose):
                self._promised_sum[scope] -= micros
            self._wanted.pop(key, None)
            self._listed.pop(key, None)
            if self._writing is not None:
                self._writing[1].pop(key, None)

    def record_due(self, now: float) -> MoneyRecord | None:
        """Return the record that must be written now, if any. Call `note_durable` when it is durable."""
        if self._writing is not None:
            return None
        wanted = total_of(self._wanted)
        ahead = Counter({scope: self._ahead(scope, wanted[scope], now) for scope in {*self.reserved, *wanted}})
        low = (self.reserved[scope] and 2 * (self._granted_to[scope] - self._granted[scope]) < ahead[scope] for scope in ahead)
        if not any(low) and not wanted:
            return None
        if self._before is None or now - self._before[0] >= AHEAD_S:
            self._before = now, Counter(self._granted)
        record = self._record(self.reserved + wanted + ahead, ended=False)
        self._writing, self._wanted = (self._granted + ahead, self._wanted), {}
        return record

    def _ahead(self, scope: Scope, wanted: int, now: float) -> int:
        if self._before is not None and now > self._before[0]:
            self._rate[scope] = (self._granted[scope] - self._before[1][scope]) / max(AHEAD_S, now - self._before[0])
        spare = max(AHEAD_CALLS * self._largest[scope], round(AHEAD_S * self._rate.get(scope, 0.0)))
        left = self._budget_left(scope)
        return spare if left is None else max(0, min(spare, self._bounds[scope] // MOST_AHEAD, left - wanted))

    def note_durable(self) -> None:
        """Mark the record that `record_due` returned as durable."""
        if self._writing is None:
            return
        before = self._listed
        (self._granted_to, self._listed), self._writing = self._writing, None
        for key in before.keys() - self._listed.keys() - self._wanted.keys():
            self.withdraw(key)

    def last_record(self) -> MoneyRecord:
        """Return the record of the session's end. Calls that are still in flight become uncertain."""
        self._earlier |= self._calls
        self.uncertain += self.reserved
        self.reserved.clear()
        self._calls.clear()
        self._wanted.clear()
        return self._record(Counter(), ended=True)

    def _record(self, further: Counter[Scope], *, ended: bool) -> MoneyRecord:
        """Return a record of the current state. `further`: the money that may be spent in addition before the next record."""
        amounts = dict(self.spent), dict(self._charged), self.uncertain - total_of(self._earlier)
        calls = {**self._earlier, **self._calls, **self._wanted}
        return MoneyRecord(self._session, ended, *amounts, calls, self.spent + self.uncertain + further)


MOST_EXCESSES = 3
"""A model is stopped after this many answers whose usage exceeds the reservation."""

FAR = 2.0
"""A model is also stopped after one answer whose usage exceeds the reservation by more than this factor."""

USAGE_NOT_CREDIBLE = "usage_not_credible"
"""Class of the failures of a model that was stopped because of its usage."""


@dataclass(frozen=True, slots=True)
class ExcessTotals:
    """The totals over a model's answers whose reported usage exceeds the reservation."""

    model: str
    answers: int
    claimed_tokens: int
    charged_tokens: int
    claimed_usd: float
    charged_usd: float
    token_margin: float
    """The smallest `token_margin` with which all of these answers would be credible."""
    stopped: bool
    """Whether the model is stopped, because there are too many of these answers or one exceeds its reservation by too much."""

    def __str__(self) -> str:
        which = "1 answer claims" if self.answers == 1 else f"{self.answers} answers claim"
        claimed, charged = _amount(self.claimed_tokens, self.claimed_usd), _amount(self.charged_tokens, self.charged_usd)
        mend = (
            f"if that is its real count, write token_margin: {self.token_margin:.12g} beside the model, else use another provider"
        )
        return f"{which} {claimed}, more than was reserved: {charged} are charged; {mend}"


def excess_totals(excesses: Iterable[Excess], margins: Mapping[str, float]) -> list[ExcessTotals]:
    """Return the totals of each model, sorted by model. Leaves out answers that the model's `token_margin` (1 if missing)
    covers."""
    by_model: dict[str, list[Excess]] = {}
    for excess in excesses:
        if excess.token_margin > margins.get(excess.model, 1.0):
            by_model.setdefault(excess.model, []).append(excess)
    totals = []
    for model, own in sorted(by_model.items()):
        largest = max(excess.token_margin for excess in own)
        totals.append(
            ExcessTotals(
                model=model,
                answers=len(own),
                claimed_tokens=sum(excess.claimed_tokens for excess in own),
                charged_tokens=sum(excess.charged_tokens for excess in own),
                claimed_usd=sum(excess.claimed_micros for excess in own) / MICROS,
                charged_usd=sum(excess.charged_micros for excess in own) / MICROS,
                token_margin=suggested_margin(largest),
                stopped=largest > FAR * margins.get(model, 1.0) or len(own) >= MOST_EXCESSES,
            )
        )
    return totals


def margins_of(settings: Mapping[str, Any]) -> dict[str, float]:
    """Return model -> its `token_margin`, for the models that have a margin above 1."""
    return {model: entry.token_margin for model, entry in settings.items() if entry.token_margin > 1}


def suggested_margin(margin: float) -> float:
    """Return the `token_margin` to suggest: `margin` plus 1 %, rounded up to two decimals, since reservations are rounded."""
    return math.ceil(margin * 101) / 100


def _amount(tokens: int, usd: float) -> str:
    return f"{tokens:,} tokens" + (f" for {usd:.6f} dollars" if usd else "")
