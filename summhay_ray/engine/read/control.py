"""Controls a run from another process: stops its driver, cancels its batches, and releases its uncertain money."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray import store as storage
from summhay_ray.engine.read.status import driver_of, left_by_driver
from summhay_ray.engine.registry import workload_of
from summhay_ray.engine.run.batch_queue import BatchQueue
from summhay_ray.engine.run.execution import Work, beating
from summhay_ray.engine.state.history import History, StartRecord, dollars_of, ledger_of, money_of
from summhay_ray.errors import UserError
from summhay_ray.llm import Budgets, margins_of
from summhay_ray.loops import run_loop
from summhay_ray.outcome import MICROS

POLL_EVERY_S = 0.25
STOPS_WITHIN_S = 60.0
"""Default time to wait for a driver to stop. It notices the request within 2 s, and may then wait 20 s for its calls in
flight."""


def stop(run: storage.RunStore, wait_s: float = STOPS_WITHIN_S, *, cancel_batches: bool = False) -> str:
    """Ask the run's driver to stop, and wait until it has stopped. Returns the driver: `on HOST, pid N`.

    `cancel_batches`: afterwards cancel the run's batches. This also works without a driver; the returned text is then empty.
    Raises UserError if the run is not running, or if its driver dies or does not stop within `wait_s` seconds.
    """
    driver, start = "", History(run).start
    if not cancel_batches or driver_of(run, start)[0]:
        driver = _stop(run, start, wait_s)
    if cancel_batches:
        if run.batches.all(only_open=True):
            _cancel_batches(run)
        elif not driver:
            raise UserError(f"run {run.run_id} is not running and has no open batches; nothing to stop")
    return driver


def _cancel_batches(run: storage.RunStore) -> None:
    """Cancel the run's batches, wait until they have ended, and store and charge their answers."""
    workload = workload_of(run)
    settings = workload.models.settings()
    limits = {name: model.limits for name, model in settings.items() if not model.local}
    session = storage.begin_session(run.store.files, run.run_id, paying=True)

    async def cancel() -> None:
        service = ledger_of(run, session.number, Budgets(margins=margins_of(settings)), limits)
        batches = BatchQueue.inline(Work(workload, run, {}), session.number, service)
        try:
            await batches.resume(cancel=True)
            await batches.wait()
        finally:
            await batches.close()
            await service.end()

    with beating(session) as heartbeat:
        run_loop(cancel)
        heartbeat.how = "done"


def _stop(run: storage.RunStore, start: StartRecord | None, wait_s: float) -> str:
    driver, _ = driver_of(run, start)
    if not driver or start is None:
        raise UserError(f"run {run.run_id} is not running; nothing to stop")
    files, session, until = run.store.files, start["session"], time.monotonic() + wait_s
    storage.ask_to_stop(files, session)
    while not storage.has_ended(files, session):
        if not storage.live_sessions(files, [session], storage.WATCH_S) and not storage.has_ended(files, session):
            raise UserError(f"run {run.run_id}: its driver ({driver}) gives no sign of life; run again to go on, nothing is lost")
        if time.monotonic() > until:
            raise UserError(
                f"run {run.run_id}: its driver ({driver}) was asked to stop, and has not in {wait_s:.0f} s; look again"
            )
        time.sleep(POLL_EVERY_S)
    return driver


def reported_work_left(store: storage.Store, run_id: str) -> dict[str, Any] | None:
    """Return the remaining work that the driver of a running run reports; None if the run is not running or has no report yet."""
    run = storage.RunStore(store, run_id)
    start = History(run).start
    return left_by_driver(run, start) if driver_of(run, start)[0] else None


@dataclass(frozen=True)
class ReleaseResult:
    """The released dollars, and the run's money afterwards."""

    run: str
    released: float
    """Dollars that were uncertain and are now available again; 0 if there were none."""
    usd: Mapping[str, float | None]
    """See `StatusResult.usd`."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay release`."""
        return asdict(self)


def release(run: storage.RunStore) -> ReleaseResult:
    """Release the run's uncertain money. Raises StoreError, OSError, or UserError while the run is running."""
    files = run.store.files
    for driver in storage.running_drivers(files, run.run_id):
        raise UserError(f"run {run.run_id} is running ({driver}); release its money when it has ended")
    # A driver that starts during this session waits for its end.
    session = storage.begin_session(files, run.run_id, paying=False)
    try:
        records, index = run.money, run.log()
        money = storage.Money.of(records.take_over(session.number), run.run_id, index)
        if any(money.uncertain.values()):
            # Keep the reservations of batches, since their outcome will be known later.
            batches = {key: call for key, call in money.calls.items() if storage.is_batch(key)}
            ceiling = money.spent + money.reserved
            records.append(storage.MoneyRecord(session.number, True, money.spent, money.charged, calls=batches, ceiling=ceiling))
    finally:
        session.end("done")
    usd = dollars_of(run, money_of(run, index), alive={}).usd(History(run).budget_usd)
    return ReleaseResult(run.run_id, money.uncertain[storage.RUN] / MICROS, usd)
