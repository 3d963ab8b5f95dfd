"""The budget holds at every step, through kills, restarts and several drivers' logs; and a call that fits is granted."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ledger_desk import ModelQueue, log_answer

from summhay_ray.llm.ledger import Ledger
from summhay_ray.llm.model_queue import DEAD_AFTER_S
from summhay_ray.llm.model_settings import Limits
from summhay_ray.store import RUN, LocalFiles, LogWriter, MoneyRecord

pytestmark = pytest.mark.core

BUDGET = 5_000


def test_the_budget_by_hand(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, 100)
    assert desk.claimed("w", "a", worst_micros=60) == ["go"]
    # 40 are left: 50 may fit when a gives back its unused part; 101 never does.
    b = desk.claim("v", "b", worst_micros=50)
    assert desk.states("v", b) == ["waits"]
    assert desk.claimed("w", "c", worst_micros=40) == ["go"] and desk.claimed("w", "free") == ["go"]
    assert desk.claimed("w", "d", worst_micros=101) == ["budget"] and desk.books.over_budget
    desk.settle("w", "a", 45)
    desk.hear("v")
    assert desk.states("v", b) == ["waits"]
    desk.settle("w", "c", 0)
    desk.hear("v")
    assert desk.states("v", b) == ["go"]
    desk.settle("v", "b", 15)
    assert desk.money == (60, 0)
    assert desk.claimed("w", "e", worst_micros=41) == ["budget"] and desk.claimed("w", "e", worst_micros=40) == ["go"]


def test_who_waits_for_money_is_refused_when_it_was_used(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, 100)
    desk.claim("w", "a", worst_micros=60)
    waiting = desk.claim("w", "b", worst_micros=50)
    assert not desk.books.over_budget
    desk.settle("w", "a", 55)
    assert desk.states("w", waiting) == ["budget"] and desk.books.over_budget


def test_a_stage_and_a_model_have_budgets_of_their_own(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, 1000, stages={"judge": 100}, models={"dear": 50})

    def claim(key: str, stage: str, model: str, worst: int) -> str:
        return desk.claimed("w", key, stage=stage, model=model, worst_micros=worst)[0]

    assert claim("a", "judge", "cheap", 101) == "budget" and claim("b", "judge", "cheap", 100) == "go"
    assert claim("c", "judge", "cheap", 1) == "waits" and claim("d", "summarize", "cheap", 500) == "go"
    assert claim("e", "summarize", "dear", 51) == "budget" and claim("f", "summarize", "dear", 50) == "go"
    assert desk.money == (0, 650)
    desk.settle("w", "b", 100, model="cheap")
    assert claim("g", "judge", "cheap", 1) == "budget" and claim("h", "summarize", "cheap", 350) == "go"


def test_stage_and_model_budgets_hold_over_restarts(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), 1)
    log_answer(log, "a", 90, model="dear", stage="judge")
    uncertain = {RUN: 7, ("stage", "summarize"): 7, ("model", "dear"): 7}
    earlier_record = MoneyRecord(uncertain=uncertain)
    desk = ModelQueue(tmp_path, stages={"judge": 100}, models={"dear": 100}, earlier_record=earlier_record)
    assert desk.claimed("w", "b", model="dear", stage="summarize", worst_micros=4) == ["budget"]
    assert desk.claimed("w", "b", model="dear", stage="summarize", worst_micros=3) == ["go"]
    assert desk.claimed("w", "c", model="cheap", stage="judge", worst_micros=11) == ["budget"]


def test_a_kill_leaves_in_doubt_what_was_granted_and_is_in_no_answer(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), 1)
    desk = ModelQueue(tmp_path, 10_000)
    assert desk.claimed("w", *"abc", worst_micros=100) == ["go"] * 3
    desk.settle("w", "a", 40, location=log_answer(log, "a", 40))
    log_answer(log, "b", 60)
    # c is open, and a record allows 2 % of the budget in advance.
    for _ in range(3):
        desk = ModelQueue(tmp_path, 10_000, earlier_record=desk.recorded)
        assert desk.money == (100, 0) and 100 <= desk.books.account.uncertain["", ""] <= 100 + 200
    uncertain = desk.books.account.uncertain["", ""]
    # The answer is found.
    log_answer(log, "c", 70)
    desk = ModelQueue(tmp_path, 10_000, earlier_record=desk.books.account.last_record())
    assert desk.money == (170, 0) and desk.books.account.uncertain["", ""] == uncertain - 100


def test_an_answer_to_a_second_call_does_not_settle_the_first(tmp_path: Path) -> None:
    log = LogWriter(LocalFiles(tmp_path), 1)
    desk = ModelQueue(tmp_path, 10_000)
    desk.claim("w", "a", worst_micros=100)
    desk = ModelQueue(tmp_path, 10_000, earlier_record=desk.recorded)
    uncertain = desk.books.account.uncertain["", ""]
    assert desk.claimed("w", "a", worst_micros=100) == ["go"]
    desk.settle("w", "a", 40, location=log_answer(log, "a", 40))
    desk = ModelQueue(tmp_path, 10_000, earlier_record=desk.books.account.last_record())
    assert desk.money == (40, 0) and desk.books.account.uncertain["", ""] == uncertain


def test_calls_that_nobody_answered_are_all_that_a_long_run_leaves_in_doubt(tmp_path: Path) -> None:
    """Waves of calls whose worst case is ten times their price: the uncertain amount does not grow with the waves."""
    log = LogWriter(LocalFiles(tmp_path), 1)
    desk, now = ModelQueue(tmp_path, 1_000_000, {"m": Limits(concurrency=64)}), 0.0
    for wave in range(20):
        keys = [f"{wave}-{n}" for n in range(64)]
        assert desk.claimed("w", *keys, worst_micros=100, now=now) == ["go"] * 64
        now += 1.0
        if wave < 19:
            for key in keys:
                desk.settle("w", key, 10, now=now, location=log_answer(log, key, 10))
    for key in keys[:60]:
        log_answer(log, key, 10)
    money = ModelQueue(tmp_path, 1_000_000, earlier_record=desk.recorded).books.account
    # Four calls are open; 0.3 s at 64 calls per second were allowed in advance.
    assert money.spent["", ""] == 10 * (19 * 64 + 60) and 400 <= money.uncertain["", ""] <= 400 + 0.3 * 64 * 100 + 100


def test_a_budget_of_nothing_lets_free_models_work(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, 0)
    assert desk.claimed("w", "a", worst_micros=1) == ["budget"] and desk.claimed("w", "b", model="offline/x") == ["go"]


@dataclass
class Worker:
    name: str
    log: LogWriter
    calls: dict[str, int] = field(default_factory=dict)
    """key -> the worst case of what it has in flight."""
    waiting: dict[int, tuple[str, int]] = field(default_factory=dict)
    """ticket -> (key, worst) of what it has claimed."""


class World:
    """A run with workers that claim, send, settle, stall and die at random, and drivers that are killed and restarted.

    `truth` is the provider's bill: the real price of every call that was sent.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.files, self.random = LocalFiles(root), random.Random(seed)
        self.now, self.n_workers, self.n_starts = 0.0, 0, 0
        self.truth = 0
        self.workers: list[Worker] = []
        self.desk = self.restart()
        self.refused = 0

    @property
    def books(self) -> Ledger:
        return self.desk.books

    def restart(self) -> ModelQueue:
        """A driver is killed with all its workers, and another takes over the durable state."""
        self.workers, self.n_starts = [], self.n_starts + 1
        before = self.desk.recorded if self.n_starts > 1 else None
        self.desk = ModelQueue(self.files.root, BUDGET, earlier_record=before)
        return self.desk

    def step(self) -> None:
        self.now += self.random.random()
        for worker in self.workers:
            self.books.beat(worker.name, self.now)
        if len(self.workers) < 3:
            self.n_workers += 1
            name = f"w{self.n_workers}"
            self.workers.append(Worker(name, LogWriter(self.files, self.n_starts)))
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
            self.desk.bury(self.now)

    def claim(self, worker: Worker) -> None:
        key, worst = f"k{self.random.randrange(10_000)}", self.random.randrange(1, 400)
        spent, reserved = self.desk.money
        worker.waiting[self.desk.claim(worker.name, key, worst_micros=worst, now=self.now)[0]] = (key, worst)
        self.hear(worker, BUDGET - spent - reserved - self.books.account.uncertain["", ""])

    def hear(self, worker: Worker, free: int = 0) -> None:
        self.desk.hear(worker.name, self.now)
        for ticket, (key, worst) in list(worker.waiting.items()):
            (state,) = self.desk.states(worker.name, [ticket])
            if state == "waits":
                continue
            del worker.waiting[ticket]
            if state == "go":
                worker.calls[key] = worst
            elif state == "budget":
                self.refused += 1
                assert worst > free, "a call that fits was refused"

    def end(self, worker: Worker, key: str) -> None:
        worst = worker.calls.pop(key)
        real = self.random.randrange(worst + 1)
        kind = self.random.choice(["answer", "answer", "void", "ambiguous"])
        charged = {"answer": real, "void": 0, "ambiguous": worst}[kind]
        self.truth += 0 if kind == "void" else real
        location = log_answer(worker.log, key, real) if kind == "answer" else None
        if self.random.random() < 0.05:
            return self.die(worker)
        self.desk.settle(worker.name, key, charged, now=self.now, location=location)
        for one in self.workers:
            self.hear(one)
        return None

    def die(self, worker: Worker) -> None:
        """SIGKILL: calls in flight may be billed in full, and are never reported."""
        self.truth += sum(worker.calls.values())
        worker.log.close()
        self.workers.remove(worker)

    def check(self) -> None:
        in_flight = sum(worst for worker in self.workers for worst in worker.calls.values())
        (spent, reserved), uncertain = self.desk.money, self.books.account.uncertain["", ""]
        assert spent + reserved + uncertain <= BUDGET
        assert self.truth + in_flight <= spent + reserved + uncertain
        assert spent + reserved + uncertain <= max(self.desk.recorded.ceiling.get(RUN, 0), spent + uncertain)


@pytest.mark.parametrize("seed", range(4))
def test_at_no_step_is_more_spent_than_the_budget(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    for _ in range(400):
        world.step()
        world.check()
    assert world.refused > 0, "the budget was never reached: the simulation shows nothing"
    for worker in list(world.workers):
        world.die(worker)
    world.restart()
    world.check()
