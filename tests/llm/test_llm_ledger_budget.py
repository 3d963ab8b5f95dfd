"""The budget holds at every step, through kills, restarts and several drivers' logs; and a call that fits is granted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from summhay_ray.llm import Claim, Ledger, Settlement
from summhay_ray.llm.ledger import DEAD_AFTER_S
from summhay_ray.store import LocalFiles, LogIndex, LogWriter

pytestmark = pytest.mark.core

BUDGET = 5_000


def test_the_budget_by_hand(tmp_path: Path) -> None:
    books = Ledger("r", LogIndex(LocalFiles(tmp_path)), 100)

    def claim(key: str, worst: int) -> str:
        return books.claim("w", [Claim(key, "m", worst)], 0.0)[0].state

    assert claim("a", 60) == "go"
    # 40 are left: 50 may fit when a gives back what it does not use; 101 never does.
    assert claim("b", 50) == "busy" and claim("c", 40) == "go" and claim("free", 0) == "go"
    assert claim("d", 101) == "budget" and books.over_budget
    books.settle("w", [Settlement("a", "m", 45)], 0.0)
    assert claim("b", 50) == "busy" and claim("b", 15) == "go"
    books.settle("w", [Settlement("c", "m", 0), Settlement("b", "m", 15)], 0.0)
    assert books.spent_micros == 60 and claim("e", 41) == "budget" and claim("e", 40) == "go"


def test_without_a_budget_everything_is_granted_and_counted(tmp_path: Path) -> None:
    books = Ledger("r", LogIndex(LocalFiles(tmp_path)))
    assert books.claim("w", [Claim("a", "m", 10**12)], 0.0)[0].state == "go"
    assert books.reserved_micros == 10**12


def test_a_budget_of_nothing_lets_free_models_work(tmp_path: Path) -> None:
    books = Ledger("r", LogIndex(LocalFiles(tmp_path)), 0)
    assert [grant.state for grant in books.claim("w", [Claim("a", "m", 1), Claim("b", "offline/x", 0)], 0.0)] == ["budget", "go"]


@dataclass
class Worker:
    name: str
    log: LogWriter
    calls: dict[str, tuple[str, int]] = field(default_factory=dict)
    """key -> (call, worst) of what it has in flight."""


class World:
    """A run with workers that claim, send, settle, stall and die at random, and drivers that are killed and start again.

    `truth` is what the provider bills: the real price of every call that was sent.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.files, self.random = LocalFiles(root), random.Random(seed)
        self.now, self.n_calls, self.n_workers = 0.0, 0, 0
        self.truth = 0
        self.workers: list[Worker] = []
        self.books = self.restart()
        self.refused = 0

    def restart(self) -> Ledger:
        self.workers = []
        self.books = Ledger("r", LogIndex(self.files), BUDGET)
        return self.books

    def step(self) -> None:
        self.now += self.random.random()
        for worker in self.workers:
            self.books.beat(worker.name, self.now)
        if len(self.workers) < 3:
            self.n_workers += 1
            name = f"w{self.n_workers}"
            self.workers.append(Worker(name, LogWriter(self.files, name)))
        worker = self.random.choice(self.workers)
        action = self.random.choices(["claim", "end", "die", "driver", "wait"], [60, 60, 2, 1, 1])[0]
        if action == "claim":
            self.claim(worker)
        elif action == "end" and worker.calls:
            self.end(worker, self.random.choice(sorted(worker.calls)))
        elif action == "die":
            self.die(worker)
        elif action == "driver":
            for one in list(self.workers):
                self.die(one)
            self.restart()
        elif action == "wait":
            self.now += DEAD_AFTER_S + 1
            for one in self.workers:
                self.books.beat(one.name, self.now)

    def claim(self, worker: Worker) -> None:
        key, worst = f"k{self.random.randrange(10_000)}", self.random.randrange(1, 400)
        free = BUDGET - self.books.spent_micros - self.books.reserved_micros
        state = self.books.claim(worker.name, [Claim(key, "m", worst)], self.now)[0].state
        if state == "go":
            self.n_calls += 1
            call = {"call": f"c{self.n_calls}", "run": "r", "key": key}
            worker.log.append([{"kind": "intent", **call, "usd_micros": worst}])
            worker.calls[key] = (f"c{self.n_calls}", worst)
        elif state == "budget":
            self.refused += 1
            assert worst > free, "a call that fits was refused"

    def end(self, worker: Worker, key: str) -> None:
        name, worst = worker.calls.pop(key)
        real = self.random.randrange(worst + 1)
        kind = self.random.choice(["answer", "answer", "void", "ambiguous"])
        charged = {"answer": real, "void": 0, "ambiguous": worst}[kind]
        self.truth += 0 if kind == "void" else real
        record = {"kind": "answer" if kind == "answer" else "void", "call": name, "run": "r", "key": key, "usd_micros": charged}
        location = worker.log.append([record])[0]
        if self.random.random() < 0.05:
            return self.die(worker)
        self.books.settle(worker.name, [Settlement(key, "m", charged, location if kind == "answer" else None)], self.now)
        return None

    def die(self, worker: Worker) -> None:
        """SIGKILL: what was in flight may be billed in full, and nobody ever hears of it."""
        self.truth += sum(worst for _, worst in worker.calls.values())
        worker.log.close()
        self.workers.remove(worker)

    def check(self) -> None:
        in_flight = sum(worst for worker in self.workers for _, worst in worker.calls.values())
        assert self.books.spent_micros + self.books.reserved_micros <= BUDGET
        assert self.truth + in_flight <= self.books.spent_micros + self.books.reserved_micros
        assert self.books.reserved_micros == sum(flight.worst_micros for flight in self.books._flights.values())


@pytest.mark.parametrize("seed", range(12))
def test_at_no_step_is_more_spent_than_the_budget(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(250):
        world.step()
        world.check()
    assert world.refused > 0, "the budget was never reached: the simulation shows nothing"
    index = LogIndex(world.files)
    index.refresh()
    assert world.truth <= index.spent("r") <= BUDGET


def test_what_a_restarted_driver_knows_is_what_the_log_says(tmp_path: Path) -> None:
    world = World(tmp_path, 99)
    for _ in range(150):
        world.step()
    for worker in list(world.workers):
        world.die(worker)
    index = LogIndex(world.files)
    index.refresh()
    assert world.restart().spent_micros == index.spent("r") and world.books.reserved_micros == 0
