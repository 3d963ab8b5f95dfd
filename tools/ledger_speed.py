"""Measures the CPU time of the ledger's logic per call, without Ray and network, for many workers that send messages one at a
time.

    python tools/ledger_speed.py --workers 4 1000 --calls 20000

Every worker has calls waiting. A message settles the worker's ended calls and claims as many new ones, as a worker's client does.
A money record becomes durable some messages after it is due, as with object storage. For each number of workers and each case, it
prints a JSON line: microseconds of CPU per call, and bytecodes per call (`--steps`), which do not depend on the machine.

- `slots`: the model's concurrency is the limit, and the budget is far away.
- `money`: nearly every call must wait for a money record.
- `rate`: the limit of requests per minute is used up, so all calls wait for their time.
- `end`: the budget is nearly used up, so calls wait until those in flight release their reservations.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from summhay_ray.llm import Budgets, Ledger, Limits, WorkerMessage
from summhay_ray.llm.ledger_messages import Claim, Settlement
from summhay_ray.store import LocalFiles, Location, LogIndex, MoneyRecord

WORST = 1000
"""Micro-dollars reserved for a call."""
PAID = 500
"""Cost of a call, in micro-dollars."""
CONCURRENCY = 64
WAITING = 2
"""Number of calls that each worker has waiting."""
RECORD_AFTER = 8
"""Number of further messages after which a money record is durable."""
HERE = Location("answers/w.jsonl", 0, 1)
CASES = ("slots", "money", "rate", "end")


@dataclass
class Rehearsal:
    """A ledger and its workers. Time is simulated."""

    case: str
    workers: int
    calls: int
    """Number of calls to settle."""
    now: float = 0.0
    settled: int = 0
    _n_claims: int = 0

    def __post_init__(self) -> None:
        index = LogIndex(LocalFiles(Path(tempfile.gettempdir()) / "no-such-store"))
        budget = 1000 * WORST * self.calls if self.case != "end" else PAID * self.calls
        limits = Limits(concurrency=CONCURRENCY, rpm=6000 if self.case == "rate" else None)
        self.ledger = Ledger("r", index, Budgets(budget), {"m": limits})
        self._flying: deque[tuple[int, str]] = deque()
        """(worker, key) of the granted calls."""
        self._record: tuple[int, MoneyRecord] | None = None
        for worker in range(self.workers):
            self._say(worker, [], WAITING)

    def step(self) -> None:
        """Let the worker with the oldest call settle it and claim another one. If no call is in flight, let time pass."""
        self.now += 0.001 if self.case != "rate" else 0.005
        if not self._flying:
            self._say(self.settled % self.workers, [], 0)
            return
        worker, key = self._flying.popleft()
        # Let each worker send a heartbeat in time.
        self.ledger.beat(f"w{self.settled % self.workers}", self.now)
        self.settled += 1
        self._say(worker, [Settlement(key, "m", PAID, HERE, 10, 10)], 1)

    def _say(self, worker: int, settlements: list[Settlement], n_claims: int) -> None:
        worst = WORST if self.case != "money" else WORST + 40 * WORST * (self._n_claims % 50 == 0)
        first, self._n_claims = self._n_claims, self._n_claims + n_claims
        claims = [Claim(f"k{n}", "m", "judge", worst, 10, 10, ticket=n) for n in range(first, self._n_claims)]
        name, ledger = f"w{worker}", self.ledger
        ledger.take(name, WorkerMessage(claims, settlements), self.now)
        self._collect(worker)
        # The service wakes every worker that has news, and each of them listens.
        for other in list(ledger.touched):
            self._collect(int(other[1:]))
        if self._record is None and (record := ledger.account.record_due(self.now)) is not None:
            self._record = RECORD_AFTER, record
        elif self._record is not None:
            left, record = self._record
            self._record = left - 1, record
            if left == 1:
                self._record = None
                ledger.note_durable(self.now)

    def _collect(self, worker: int) -> None:
        for ticket, grant in self.ledger.collect(f"w{worker}", self.now).grants:
            if grant.state == "go":
                self._flying.append((worker, f"k{ticket}"))


def microseconds(case: str, workers: int, calls: int) -> float:
    """Return the CPU time per settled call."""
    rehearsal = Rehearsal(case, workers, calls)
    began = time.process_time()
    _run(rehearsal, calls)
    return 1e6 * (time.process_time() - began) / max(1, rehearsal.settled)


def bytecodes(case: str, workers: int, calls: int) -> float:
    """Return the Python bytecodes per settled call in the ledger's logic and in the package's modules below it."""
    rehearsal, n = Rehearsal(case, workers, 1_000_000), 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal n
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        n += event == "opcode"
        return count

    sys.settrace(count)
    try:
        _run(rehearsal, calls)
    finally:
        sys.settrace(None)
    return n / max(1, rehearsal.settled)


def _run(rehearsal: Rehearsal, calls: int) -> None:
    idle = 0
    while rehearsal.settled < calls and idle < 1000:
        before = rehearsal.settled
        rehearsal.step()
        idle = idle + 1 if rehearsal.settled == before else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 1000])
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--case", choices=CASES, action="append", help="all if left out")
    parser.add_argument("--steps", action="store_true", help="count bytecodes, too")
    asked = parser.parse_args()
    for case in asked.case or CASES:
        for workers in asked.workers:
            row: dict[str, Any] = {
                "case": case,
                "workers": workers,
                "us_a_call": round(microseconds(case, workers, asked.calls), 1),
            }
            if asked.steps:
                row["bytecodes_a_call"] = round(bytecodes(case, workers, min(asked.calls, 500)))
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
