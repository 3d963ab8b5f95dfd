"""The money records of a run. They bound what its ledger may have spent, and are durable before a call is sent.

`runs/RUN/money/00000001.json`, ... form a chain of records: {"run", "session", "ended", "spent", "charged", "uncertain", "calls",
"ceiling"}. Amounts are in micro-dollars: `calls` by key, `charged` by stage and model, the others by scope. `calls` lists the
calls whose outcome is open. Until the next record, a ledger may grant further calls as long as all worst cases fit under the
`ceiling`. The first record of a session repeats the record before it. This takes over the chain, so that an earlier session can
append no further record.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from summhay_ray.store.answers import Purpose
from summhay_ray.store.batches import is_batch
from summhay_ray.store.files import Files
from summhay_ray.store.log import LogIndex
from summhay_ray.store.names import Superseded
from summhay_ray.store.records import Chain, Name, Total

Scope = tuple[str, str]
"""What an amount belongs to: the run ("", ""), a stage ("stage", NAME) or a model ("model", NAME)."""

RUN: Scope = ("", "")
Amounts = Mapping[Scope, int]
"""Scope -> micro-dollars."""
OpenCalls = Mapping[str, tuple[Purpose, int]]
"""Key of a call whose outcome is open -> its purpose, and its worst case in micro-dollars."""

_MEND = (
    "put it back from a copy; or delete it, and the run continues from the record before it: money that was spent since then "
    "without an answer is then not counted"
)


def scopes(purpose: Purpose) -> tuple[Scope, Scope, Scope]:
    """Return the scopes to which money for this purpose counts: the run, the stage and the model."""
    return RUN, ("stage", purpose[0]), ("model", purpose[1])


def total_of(calls: OpenCalls) -> Counter[Scope]:
    """Return scope -> the sum of the worst cases of these calls."""
    total: Counter[Scope] = Counter()
    for purpose, micros in calls.values():
        for scope in scopes(purpose):
            total[scope] += micros
    return total


@dataclass(frozen=True)
class MoneyRecord:
    """The durable state of a run's money. The module describes the fields."""

    session: int = 0
    ended: bool = True
    """True if the session had ended, so that no call was sent after this record."""
    spent: Amounts = field(default_factory=dict)
    charged: Mapping[Purpose, int] = field(default_factory=dict)
    """The part of `spent` that was charged for calls without an answer, by purpose."""
    uncertain: Amounts = field(default_factory=dict)
    """Maximum cost of calls whose outcome will never be known."""
    calls: OpenCalls = field(default_factory=dict)
    """The calls whose outcome is open: calls in flight, and open calls of earlier sessions. A call's answer in the log closes
    it."""
    ceiling: Amounts = field(default_factory=dict)
    """Upper bound of all money of the run until the next record: spent, uncertain, `calls`, and calls that are granted later."""


@dataclass(frozen=True)
class Money:
    """A run's money by scope, in micro-dollars, computed from the newest record and the answers in the log."""

    spent: Counter[Scope]
    """The price of the run's answers, plus the charges for calls without an answer."""
    charged: Counter[Purpose]
    """The charges for calls without an answer, by purpose."""
    uncertain: Counter[Scope]
    """Maximum cost of calls whose outcome is unknown, including `calls` other than batches."""
    calls: OpenCalls = field(default_factory=dict)
    """The calls of earlier sessions that have no answer of this run yet."""
    missing: int = 0
    """The part of the recorded spending that the log does not contain."""
    session: int = 0
    """The session if it has no final record, because its driver is running or was killed; else 0."""
    reserved: Counter[Scope] = field(default_factory=Counter)
    """Maximum cost of the batches that are not charged yet. Their outcome will be known later."""

    @classmethod
    def of(cls, record: MoneyRecord | None, run: str, index: LogIndex) -> Money:
        """Compute the money of a run without a running driver. `index`: the store's log, which was already read. Reads the
        answers of open calls, so this raises StoreError or OSError."""
        record = record or MoneyRecord()
        charged = Counter(record.charged)
        logged: Counter[Scope] = Counter()
        priced = ((purpose, total.usd_micros) for purpose, total in index.totals(run).items())
        for purpose, micros in (*charged.items(), *priced):
            for scope in scopes(purpose):
                logged[scope] += micros
        spent = logged | Counter(record.spent)
        answered = index.answered(run, record.calls)
        calls = {key: call for key, call in record.calls.items() if key not in answered}
        unanswered = total_of(calls)
        uncertain = Counter(record.uncertain) + unanswered
        if not record.ended:
            # The uncertain money has two upper bounds. One is the worst cases of the open calls plus the calls that could be
            # granted after the record. The other is the ceiling minus the spent money.
            granted = Counter(record.ceiling) - Counter(record.spent) - Counter(record.uncertain) - total_of(record.calls)
            uncertain = (uncertain + granted) & (Counter(record.ceiling) - spent) | unanswered
        reserved = total_of({key: call for key, call in calls.items() if is_batch(key)})
        session = 0 if record.ended else record.session
        return cls(spent, charged, uncertain - reserved, calls, spent[RUN] - logged[RUN], session, reserved)


_AMOUNTS: tuple[Literal["spent"], Literal["charged"], Literal["uncertain"], Literal["ceiling"]]
_AMOUNTS = ("spent", "charged", "uncertain", "ceiling")


class _Body(TypedDict):
    """A record as JSON. Earlier versions left out `run` and `calls`."""

    run: NotRequired[Name]
    session: Total
    ended: bool
    spent: list[tuple[str, str, Total]]
    charged: list[tuple[str, str, Total]]
    uncertain: list[tuple[str, str, Total]]
    calls: NotRequired[list[tuple[str, str, str, Total]]]
    ceiling: list[tuple[str, str, Total]]


class MoneyRecords:
    """The money records of one run. Its current driver writes them."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.chain = Chain(files, f"runs/{run_id}/money", _Body, _MEND)
        self._run_id = run_id
        self._number = 0

    def newest(self) -> MoneyRecord | None:
        """Return the newest record; None if there is none. Raises DamagedRecord."""
        newest = self.chain.newest()
        return None if newest is None else self._record(*newest)

    def take_over(self, session: int) -> MoneyRecord:
        """Begin a session's records by repeating the newest record, so that no earlier session can append. Returns that record.

        Raises DamagedRecord, or Superseded if a later session has begun.
        """
        while True:
            newest = self.chain.newest()
            record = MoneyRecord() if newest is None else self._record(*newest)
            if record.session > session:
                raise Superseded("another driver took the run over; this one stops, nothing is lost")
            self._number = 0 if newest is None else newest[0]
            # If another driver has written the next record in the meantime, repeat that record instead.
            with contextlib.suppress(Superseded):
                self.append(dataclasses.replace(record, session=session))
                return record

    def append(self, record: MoneyRecord) -> None:
        """Write the next record. Raises StoreError, OSError, or Superseded if another session has begun."""
        amounts: dict[str, Any] = {
            name: [[*name, micros] for name, micros in sorted(getattr(record, name).items()) if micros] for name in _AMOUNTS
        }
        calls = [[key, *purpose, micros] for key, (purpose, micros) in sorted(record.calls.items())]
        body = {"run": self._run_id, "session": record.session, "ended": record.ended, **amounts, "calls": calls}
        if not self.chain.append(self._number + 1, body):
            raise Superseded("another driver took the run over; this one stops, nothing is lost")
        self._number += 1

    def _record(self, number: int, body: _Body) -> MoneyRecord:
        if body.get("run", self._run_id) != self._run_id:
            raise self.chain.damaged(number)
        spent, charged, uncertain, ceiling = ({(kind, of): micros for kind, of, micros in body[name]} for name in _AMOUNTS)
        calls = {key: ((stage, model), micros) for key, stage, model, micros in body.get("calls", ())}
        return MoneyRecord(body["session"], body["ended"], spent, charged, uncertain, calls, ceiling)
