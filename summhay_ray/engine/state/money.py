"""A run's dollars, in the words of every command: spent, reserved, uncertain, left. No calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NotRequired

from typing_extensions import TypedDict

from summhay_ray.llm import Budgets, Ledger, LedgerService, Limits
from summhay_ray.outcome import MICROS
from summhay_ray.store import RUN, Amount, Count, LogIndex, Money, RunStore, Total, living, told_by


class Dollars(NamedTuple):
    """A run's money in micro-dollars. The sum counts against its budget."""

    spent: int
    """Charged for calls that have ended."""
    reserved: int
    """Maximum cost of the calls in flight and of the batches that are not booked yet."""
    uncertain: int
    """Maximum cost of calls whose outcome is unknown because a process was killed."""

    def usd(self, budget_usd: float | None) -> dict[str, float | None]:
        """`spent`, `reserved` and `uncertain` in dollars, the `budget`, and what is `left` of it. The last two are null without a
        budget."""
        left = None if budget_usd is None else max(0.0, budget_usd - sum(self) / MICROS)
        return {**{name: micros / MICROS for name, micros in self._asdict().items()}, "left": left, "budget": budget_usd}


class LeftRecord(TypedDict):
    """The remaining work as it was recorded: see `StatusResult.left`."""

    calls: Count | None
    usd: dict[str, Amount] | None
    cells: NotRequired[Count]
    max_calls: NotRequired[Count]
    seconds: NotRequired[Amount | None]


class _Money(TypedDict):
    """See `Dollars`; in micro-dollars."""

    spent: Total
    reserved: Total
    uncertain: Total


class ToldRecord(TypedDict):
    """The driver's report in its heartbeat."""

    left: LeftRecord
    money: _Money


def money_of(run: RunStore, index: LogIndex) -> Money:
    """The run's stored money."""
    return Money.of(run.money.newest(), run.run_id, index)


def dollars_of(run: RunStore, money: Money, alive: Mapping[int, bool] | None = None) -> Dollars:
    """The run's money: the last report of a running driver, else the stored money.

    `alive`: session -> whether its driver is alive, if that is known already.
    """
    session, files = money.session, run.store.files
    if session:
        going = alive.get(session, False) if alive is not None else bool(living(files, [session]))
        if going and (told := told_by(files, session, ToldRecord)) is not None:
            newest = Dollars(**told["money"])
            # The log may be ahead of the driver's report.
            return newest._replace(spent=max(newest.spent, money.spent[RUN]))
    return Dollars(money.spent[RUN], money.reserved[RUN], money.uncertain[RUN])


def ledger_of(run: RunStore, session: int, budgets: Budgets, limits: Mapping[str, Limits]) -> LedgerService:
    """The ledger of a session that takes the run's money over; reads the log. Raises Superseded, StoreError, OSError."""
    records = run.money
    # Take over before reading the log: calls that an earlier ledger still grants are under the ceiling of its last record.
    earlier_record = records.take_over(session)
    ledger = Ledger(run.run_id, run.store.log(), budgets, limits, session=session, earlier_record=earlier_record, probing=True)
    return LedgerService(ledger, records.append)
