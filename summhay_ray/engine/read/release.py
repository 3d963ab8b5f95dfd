"""Releases the uncertain money of a run when a person confirms that it was not spent. No calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from summhay_ray.engine.state.history import History
from summhay_ray.engine.state.money import dollars_of, money_of
from summhay_ray.errors import UserError
from summhay_ray.outcome import MICROS
from summhay_ray.store import RUN, Money, MoneyRecord, RunStore, begin_session, living, open_sessions


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
    ours = {record.number: record for record in open_sessions(files) if record.run == run.run_id}
    for number in living(files, ours):
        raise UserError(f"run {run.run_id} is at work ({ours[number].where}); release its money when it has ended")
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
