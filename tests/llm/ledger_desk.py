"""Workers of a ledger, for tests: time is a number that the test sets, and a claim without an answer waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from summhay_ray.llm import Budgets, Ledger, Limits, WorkerMessage
from summhay_ray.llm.ledger_messages import Claim, Grant, Settlement
from summhay_ray.store import LocalFiles, Location, LogIndex, LogWriter, MoneyRecord

HERE = Location("answers/w.jsonl", 0, 1)


class ModelQueue:
    """A ledger and its answers to the workers."""

    def __init__(
        self,
        root: Path,
        budget: int | None = None,
        limits: Mapping[str, Limits] | None = None,
        probing: bool = False,
        earlier_record: MoneyRecord | None = None,
        **budgets: Any,
    ) -> None:
        index = LogIndex(LocalFiles(root))
        index.refresh()
        self.books = Ledger("r", index, Budgets(budget, **budgets), limits or {}, earlier_record=earlier_record, probing=probing)
        self.grants: dict[str, dict[int, Grant]] = defaultdict(dict)
        self.recorded = earlier_record or MoneyRecord()
        """What is durable of its money."""
        self._tickets = 0

    def say(self, worker: str, now: float = 0.0, **message: Any) -> None:
        """Send one message, and return the answer."""
        self.books.take(worker, WorkerMessage(**message), now)
        self.record(now)
        self.hear(worker, now)

    def record(self, now: float = 0.0) -> None:
        """Make every pending money record durable."""
        while (record := self.books.account.record_due(now)) is not None:
            self.recorded = record
            self.books.note_durable(now)

    def bury(self, now: float) -> None:
        """Evict every dying worker, with its answers in the log."""
        self.books.tend(now)
        for worker in list(self.books.membership.dying):
            self.books.evict(worker, self.books.index.fetch(), now)
        self.record(now)
        for worker in list(self.books.touched):
            self.hear(worker, now)

    def hear(self, worker: str, now: float = 0.0) -> None:
        """The ledger's news for a worker."""
        news = self.books.collect(worker, now)
        self.grants[worker].update(news.grants)

    def claim(self, worker: str, *keys: str, now: float = 0.0, **fields: Any) -> list[int]:
        """Claim each key, and return the tickets."""
        first = self._tickets + 1
        self._tickets += len(keys)
        known = {"model": "m", "worst_micros": 0, **fields}
        self.say(worker, now, claims=tuple(Claim(key, ticket=first + n, **known) for n, key in enumerate(keys)))
        return list(range(first, self._tickets + 1))

    def states(self, worker: str, tickets: list[int]) -> list[str]:
        """The states of the claims; `waits` if there is no answer yet."""
        return [self.grants[worker][ticket].state if ticket in self.grants[worker] else "waits" for ticket in tickets]

    def claimed(self, worker: str, *keys: str, **fields: Any) -> list[str]:
        """Claim, and return the states at once."""
        return self.states(worker, self.claim(worker, *keys, **fields))

    def settle(self, worker: str, key: str, micros: int, now: float = 0.0, **fields: Any) -> None:
        """End a call of the worker."""
        self.say(worker, now, settlements=(Settlement(key, fields.pop("model", "m"), micros, **fields),))

    @property
    def money(self) -> tuple[int, int]:
        """(spent, reserved)."""
        return self.books.account.spent["", ""], self.books.account.reserved["", ""]


def log_answer(log: LogWriter, key: str, micros: int, run: str = "r", **fields: Any) -> Location:
    """An answer in the log."""
    tokens = {"input_tokens": 1, "cached_tokens": 0, "output_tokens": 1}
    record = {
        "kind": "answer",
        "run": run,
        "key": key,
        "model": "m",
        "stage": "",
        "usd_micros": micros,
        "text": "",
        "finish_reason": "stop",
        "attempts": 1,
        **tokens,
        **fields,
    }
    return log.append([record])[0]
