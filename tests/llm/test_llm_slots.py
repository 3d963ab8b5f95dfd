"""Calls at once among workers: whatever they hold and wait for, nobody waits for ever. Time is a number."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_desk import HERE

from summhay_ray.llm import Budgets, Claim, Ledger, Limits, Settlement, WorkerMessage
from summhay_ray.llm.slots import SlotGate
from summhay_ray.store import LocalFiles, LogIndex

pytestmark = pytest.mark.core

COST = 5


class Worker:
    """Sends what is granted as slots allow; every call is answered at the next step, for half of its worst case."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.ledger, self.name = ledger, name
        self.gates: defaultdict[str, SlotGate] = defaultdict(SlotGate)
        self.granted: list[Claim] = []
        self.open: dict[int, Claim] = {}
        self.ended = 0
        self.returned: dict[str, int] = {}

    def claim(self, now: float, model: str, n: int) -> None:
        first = len(self.open)
        claims = [Claim(f"{self.name}{first + i}", model, worst_micros=2 * COST, ticket=first + i) for i in range(n)]
        self.open.update({claim.ticket: claim for claim in claims})
        self.say(now, claims=tuple(claims))

    def say(self, now: float, **message: object) -> None:
        self.ledger.take(self.name, WorkerMessage(returned=self.returned, **message), now)  # type: ignore[arg-type]
        self.returned = {}
        self.hear(now)

    def hear(self, now: float) -> None:
        news = self.ledger.collect(self.name, now)
        for model, n in news.slots.items():
            self.gates[model].lend(n)
        for model, n in news.keep.items():
            self.give_back(model, self.gates[model].keep(n))
        for ticket, grant in news.grants:
            if grant.state == "go":
                self.granted.append(self.open[ticket])
            else:
                self.ended += 1

    def give_back(self, model: str, n: int) -> None:
        self.returned[model] = self.returned.get(model, 0) + n

    def step(self, now: float) -> None:
        sent = []
        for claim in self.granted:
            gate = self.gates[claim.model]
            if gate.used < gate.lent:
                gate.used += 1
                sent.append(claim)
        for claim in sent:
            self.granted.remove(claim)
            self.give_back(claim.model, self.gates[claim.model].release())
            self.ended += 1
        self.say(now, settlements=tuple(Settlement(claim.key, claim.model, COST, HERE) for claim in sent))


def ledger_of(folder: Path, budget: int | None = None, **limits: int) -> Ledger:
    known = {model: Limits(concurrency=n) for model, n in limits.items()}
    return Ledger("r", LogIndex(LocalFiles(folder)), Budgets(budget), known)


def all_end(workers: list[Worker], now: float = 0.0) -> bool:
    """Whether every claim is ended after so many steps as there are claims, and some for the slots to travel."""
    for _ in range(sum(len(worker.open) for worker in workers) + 20):
        now += 0.1
        for worker in workers:
            worker.step(now)
    return all(worker.ended == len(worker.open) for worker in workers)


@pytest.mark.parametrize("concurrency", [1, 64])
def test_who_is_done_gives_its_slots_to_who_has_a_grant_and_no_slot(concurrency: int, tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, m=concurrency)
    one, other = Worker(ledger, "a"), Worker(ledger, "b")
    one.claim(0.0, "m", 64)
    assert all_end([one, other])
    # One has all slots and nothing to send; the other's calls are granted at once, so that nobody queues.
    other.claim(9.0, "m", 3)
    assert all_end([one, other], 9.0)


@pytest.mark.parametrize(("concurrency", "budget"), [(1, 102), (2, 200), (3, 300)])
def test_who_waits_for_money_gives_its_slot_to_who_has_it(concurrency: int, budget: int, tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, budget, m=concurrency)
    workers = [Worker(ledger, name) for name in "abcd"]
    for worker in workers:
        worker.claim(0.0, "m", 40)
    assert all_end(workers)
    # 160 calls of 5 do not fit: all is spent but what is less than a worst case.
    assert budget - 2 * COST < ledger.account.spent() <= budget and ledger.account.reserved() == 0


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(10, 400))
def test_whatever_is_asked_every_claim_ends(chance: random.Random, m: int, n: int, budget: int | None) -> None:
    ledger = ledger_of(Path("/nonexistent"), budget, m=m, n=n)
    workers = [Worker(ledger, name) for name in "abcd"[: chance.randint(1, 4)]]
    for step in range(20):
        worker, now = chance.choice(workers), step / 10
        if chance.random() < 0.7:
            worker.claim(now, chance.choice("mn"), chance.choice([1, 2, 5, 30]))
        if chance.random() < 0.2:
            worker.say(now, limited=(chance.choice("mn"),))
        chance.choice(workers).step(now)
    assert all_end(workers, 10.0)
    assert budget is None or ledger.account.spent() <= budget
