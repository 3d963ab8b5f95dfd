"""The money records of a run: the maximum that its ledger may have spent, durable before a call is sent.

`runs/RUN/money/00000001.json`, ... form a chain: {"run", "session", "ended", "spent", "charged", "uncertain", "calls",
"ceiling"}, in micro-dollars: `calls` by key, `charged` by stage and model, the others by scope. `calls` lists the calls whose
outcome is open. Between a record and the next one, a ledger grants further calls whose worst cases together fit under the
`ceiling`. The first record of a session repeats the one before. This takes over the chain: an earlier session can append no
further record.
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
"""The subject of an amount: the run ("", ""), a stage ("stage", NAME) or a model ("model", NAME)."""

RUN: Scope = ("", "")
Amounts = Mapping[Scope, int]
"""Scope -> micro-dollars."""
OpenCalls = Mapping[str, tuple[Purpose, int]]
"""Key of a call whose outcome is open -> its purpose, and its worst case in micro-dollars."""

_MEND = (
    "put it back from a copy; or delete it, and the run goes on from the record before it: what was spent since, and is in no "
    "answer, is then not counted"
)


def scopes(purpose: Purpose) -> tuple[Scope, Scope, Scope]:
    """The scopes that money for this purpose counts towards: the run, the stage and the model."""
    return RUN, ("stage", purpose[0]), ("model", purpose[1])


def total_of(calls: OpenCalls) -> Counter[Scope]:
    """Scope -> the sum of the worst cases of these calls."""
    total: Counter[Scope] = Counter()
    for purpose, micros in calls.values():
        for scope in scopes(purpose):
            total[scope] += micros
    return total


@dataclass(frozen=True)
class MoneyRecord:
    """The durable state of a run's money; see the module."""

    session: int = 0
    ended: bool = True
    """True if the session had ended: nothing was sent after this record."""
    spent: Amounts = field(default_factory=dict)
    charged: Mapping[Purpose, int] = field(default_factory=dict)
    """The part of `spent` that was charged for calls without an answer, by purpose."""
    uncertain: Amounts = field(default_factory=dict)
    """Maximum cost of calls whose outcome will never be known."""
    calls: OpenCalls = field(default_factory=dict)
    """The calls whose outcome is open: those in flight, and those that earlier sessions left. An answer in the log closes one."""
    ceiling: Amounts = field(default_factory=dict)
    """Upper bound of the run's whole money before the next record: spent, uncertain, `calls`, and calls granted after it."""


@dataclass(frozen=True)
class Money:
    """A run's money by scope, in micro-dollars, from its newest record and the answers in the log."""

    spent: Counter[Scope]
    """The price of the run's answers, plus the charges for calls without an answer."""
    charged: Counter[Purpose]
    """The charges for calls without an answer, by purpose."""
    uncertain: Counter[Scope]
    """Maximum cost of calls whose outcome is unknown, including `calls` other than batches."""
    calls: OpenCalls = field(default_factory=dict)
    """The calls of earlier sessions that have no answer of this run yet."""
    missing: int = 0
    """The amount recorded as spent that the log does not account for."""
    session: int = 0
    """The session without a final record, because its driver is running or was killed; 0 if there is none."""
    reserved: Counter[Scope] = field(default_factory=Counter)
    """Maximum cost of the batches that are not booked yet: their outcome will be known."""

    @classmethod
    def of(cls, record: MoneyRecord | None, run: str, index: LogIndex) -> Money:
        """The money of a run that has no running driver. `index`: the store's log, which has been read. Raises StoreError or
        OSError, since it reads the answers of the calls that the record left open."""
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
            # The uncertain money has two bounds: the worst cases of the open calls plus what could be granted after the record;
            # and the ceiling minus the money spent.
            granted = Counter(record.ceiling) - Counter(record.spent) - Counter(record.uncertain) - total_of(record.calls)
            uncertain = (uncertain + granted) & (Counter(record.ceiling) - spent) | unanswered
        reserved = total_of({key: call for key, call in calls.items() if is_batch(key)})
        session = 0 if record.ended else record.session
        return cls(spent, charged, uncertain - reserved, calls, spent[RUN] - logged[RUN], session, reserved)


_AMOUNTS: tuple[Literal["spent"], Literal["charged"], Literal["uncertain"], Literal["ceiling"]]
_AMOUNTS = ("spent", "charged", "uncertain", "ceiling")


class _Body(TypedDict):
    """A record as JSON. `run`, `calls`: earlier versions left them out."""

    run: NotRequired[Name]
    session: Total
    ended: bool
    spent: list[tuple[str, str, Total]]
    charged: list[tuple[str, str, Total]]
    uncertain: list[tuple[str, str, Total]]
    calls: NotRequired[list[tuple[str, str, str, Total]]]
    ceiling: list[tuple[str, str, Total]]


class MoneyRecords:
    """The money records of one run, written by its current driver."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.chain = Chain(files, f"runs/{run_id}/money", _Body, _MEND)
        self._run_id = run_id
        self._number = 0

    def newest(self) -> MoneyRecord | None:
        """The newest record; None if there is none. Raises DamagedRecord."""
        newest = self.chain.newest()
        return None if newest is None else self._record(*newest)

    def take_over(self, session: int) -> MoneyRecord:
        """Begin a session's records: repeat the newest one, so that no earlier session can append. Returns it.

        Raises Superseded if a later session has begun, DamagedRecord.
        """
        while True:
            newest = self.chain.newest()
            record = MoneyRecord() if newest is None else self._record(*newest)
            if record.session > session:
                raise Superseded("another driver took the run over; this one stops, nothing is lost")
            self._number = 0 if newest is None else newest[0]
            # Another driver may have written the next record meanwhile: repeat that one.
            with contextlib.suppress(Superseded):
                self.append(dataclasses.replace(record, session=session))
                return record

    def append(self, record: MoneyRecord) -> None:
        """Write the next record. Raises Superseded if another session has begun, StoreError or OSError."""
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
