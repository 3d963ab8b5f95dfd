"""Controls a stored run from outside: asks its driver to stop, and releases its uncertain money. No Ray, no calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.engine.read.status import driver_of, left_by_driver
from summhay_ray.engine.state.history import History
from summhay_ray.engine.state.money import dollars_of, money_of
from summhay_ray.errors import UserError
from summhay_ray.outcome import MICROS
from summhay_ray.store import (
    HEARD_S,
    RUN,
    WATCH_S,
    Money,
    MoneyRecord,
    RunStore,
    Store,
    ask_to_stop,
    begin_session,
    has_ended,
    living,
    open_sessions,
)

POLL_EVERY_S = 0.25
STOPS_WITHIN_S = 60.0
"""A driver notices a stop request within 2 s, and may then wait 20 s for the calls in flight."""


def stop(run: RunStore, wait_s: float = STOPS_WITHIN_S) -> str:
    """Ask the run's driver to stop, wait until it has (with its calls in flight answered), and return it: `on HOST, pid N`.

    Raises UserError if the run is not running, if its driver dies meanwhile, or if it has not stopped within `wait_s` seconds.
    """
    start = History(run).start
    driver, _ = driver_of(run, start)
    if not driver or start is None:
        raise UserError(f"run {run.run_id} is not running; nothing to stop")
    files, session, until = run.store.files, start["session"], time.monotonic() + wait_s
    ask_to_stop(files, session)
    while not has_ended(files, session):
        if not living(files, [session], WATCH_S) and not has_ended(files, session):
            raise UserError(f"run {run.run_id}: its driver ({driver}) gives no sign of life; run again to go on, nothing is lost")
        if time.monotonic() > until:
            raise UserError(
                f"run {run.run_id}: its driver ({driver}) was asked to stop, and has not in {wait_s:.0f} s; look again"
            )
        time.sleep(POLL_EVERY_S)
    return driver


def left_of_going(store: Store, run_id: str) -> dict[str, Any] | None:
    """The remaining work in the driver's report of a running run; None if it is not running or there is no report yet."""
    run = RunStore(store, run_id)
    start = History(run).start
    return left_by_driver(run, start) if driver_of(run, start)[0] else None


def running_drivers(run: RunStore, patience_s: float = HEARD_S) -> list[str]:
    """The run's drivers that are alive, each as `on HOST, pid N`. `patience_s`: how long to wait for a sign of life of one on
    another machine."""
    files = run.store.files
    ours = {record.number: record for record in open_sessions(files) if record.run == run.run_id}
    return [ours[number].where for number in sorted(living(files, ours, patience_s))]


@dataclass(frozen=True)
class ReleaseResult:
    """The released dollars, and the run's money afterwards."""

    run: str
    released: float
    """Dollars that were uncertain and can be spent now; 0 if there were none."""
    usd: Mapping[str, float | None]
    """Like `StatusResult.usd`."""

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay release`."""
        return asdict(self)


def release(run: RunStore) -> ReleaseResult:
    """Release the run's uncertain money. Raises UserError while a driver of the run is running, StoreError, OSError."""
    files = run.store.files
    for driver in running_drivers(run):
        raise UserError(f"run {run.run_id} is at work ({driver}); release its money when it has ended")
    # A driver that begins meanwhile waits for the end of this session.
    session = begin_session(files, run.run_id, paying=False)
    try:
        records, index = run.money, run.log()
        money = Money.of(records.take_over(session.number), run.run_id, index)
        if any(money.uncertain.values()):
            records.append(MoneyRecord(session.number, True, money.spent, money.charged, ceiling=money.spent))
    finally:
        session.end("done")
    usd = dollars_of(run, money_of(run, index), alive={}).usd(History(run).budget_usd)
    return ReleaseResult(run.run_id, money.uncertain[RUN] / MICROS, usd)
