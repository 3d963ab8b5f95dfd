"""The ledger over a log far away: the dead keep their keys until their disks were looked at, and nothing is charged twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from far_desk import FarDesk, die, far_store, take_seat
from far_files import FarFiles
from ledger_desk import log_call

from summhay_ray.llm import Budgets, Claim, Ledger, LedgerService, WorkerMessage
from summhay_ray.llm.membership import DEAD_AFTER_S
from summhay_ray.store import Evicted, LogIndex, StoreUnavailable, seal, sweep
from summhay_ray.store.spool import AHEAD

pytestmark = pytest.mark.core

DEAD = DEAD_AFTER_S + 0.1
KEYS = ("answered", "sent", "waiting", "voided")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarFiles:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    return far_store(tmp_path / "store", "r")


def test_the_keys_of_the_dying_are_held_until_their_disk_was_looked_at(files: FarFiles) -> None:
    desk, log = FarDesk(files, 1000), take_seat(files, 0)
    assert desk.claimed("dead", *KEYS, worst_micros=100, writer=log.writer) == ["go"] * 4
    log_call(log, "answered", 100, {"kind": "answer", "usd_micros": 30})
    log_call(log, "sent", 100)
    log_call(log, "voided", 100, {"kind": "void", "usd_micros": 0})
    die(log)
    early = desk.claim("alive", *KEYS, worst_micros=100, now=DEAD)
    assert desk.books.membership.dying == {"dead"}
    # What its segments in the store tell is part of what is reserved: read meanwhile, it is not charged beside it.
    assert desk.books.due
    desk.reread()
    desk.say("alive", DEAD + 5)
    assert desk.states("alive", early) == ["waits"] * 4 and desk.money == (0, 400)
    assert sweep(files, 0.0) == [log.writer]
    desk.recovered("dead", DEAD + 6)
    desk.hear("alive", DEAD + 6)
    assert desk.states("alive", early) == ["answered", "go", "go", "go"]
    # answered: its real price; sent: the worst, for ever; waiting: no intent, so it was never sent; voided: nothing.
    assert desk.money == (30 + 100, 3 * 100)
    location = desk.grants["alive"][early[0]].location
    assert location is not None and location.name.startswith(f"log/{log.writer}/")
    assert desk.books.membership.dying == set() and desk.books.collect("dead", DEAD + 6).epoch == 1


def test_after_a_seal_the_allowance_stays_charged_and_nothing_beside_it(files: FarFiles) -> None:
    desk, log = FarDesk(files, 10_000), take_seat(files, 0)
    assert desk.claimed("dead", "a", "b", worst_micros=100, writer=log.writer) == ["go"] * 2
    # The first intent goes to the store with an allowance; the answer and the second call stay on the disk that is lost.
    (location,) = log.append([{"kind": "intent", "call": "1", "run": "r", "key": "a", "model": "m", "usd_micros": 100}])
    (location,) = log.append([{"kind": "answer", "call": "1", "run": "r", "key": "a", "model": "m", "usd_micros": 30}])
    desk.settle("dead", "a", 30, location=location)
    log_call(log, "b", 100)
    assert desk.money == (30, 100) and desk.claimed("alive", "a") == ["answered"]
    die(log, disk_too=True)
    waiting = desk.claim("alive", "b", worst_micros=100, now=DEAD)
    assert sweep(files, 0.0) == []
    seal(files, log.writer)
    desk.recovered("dead", DEAD)
    desk.hear("alive", DEAD)
    assert desk.states("alive", waiting) == ["go"] and desk.money == (100 + AHEAD * 100, 100)
    # Its answer is lost with the disk: it must be asked for again.
    assert desk.claimed("alive", "a", worst_micros=100, now=DEAD) == ["go"]
    desk.reread()
    assert desk.money == (100 + AHEAD * 100, 200) and desk.books.index.spent("r") == 100 + AHEAD * 100


def test_two_that_die_are_buried_one_by_one(files: FarFiles) -> None:
    desk, logs = FarDesk(files), [take_seat(files, 0), take_seat(files, 1)]
    for number, log in enumerate(logs):
        assert desk.claimed(f"dead-{number}", f"k{number}", worst_micros=100, writer=log.writer) == ["go"]
        log_call(log, f"k{number}", 100)
        die(log)
    waiting = desk.claim("alive", "k0", "k1", worst_micros=100, now=DEAD)
    assert desk.books.membership.dying == {"dead-0", "dead-1"}
    sweep(files, 0.0)
    desk.recovered("dead-1", DEAD)
    desk.hear("alive", DEAD)
    assert desk.states("alive", waiting) == ["waits", "go"] and desk.books.membership.dying == {"dead-0"}
    assert desk.money == (100, 200)
    desk.recovered("dead-0", DEAD)
    desk.hear("alive", DEAD)
    assert desk.states("alive", waiting) == ["go", "go"] and desk.money == (200, 200)


def test_who_leaves_needs_no_waiting_and_who_sits_again_buries_it(files: FarFiles) -> None:
    desk, log = FarDesk(files), take_seat(files, 0)
    desk.books.sit("first", "calling 0", 0.0)
    assert desk.claimed("first", "a", worst_micros=100, writer=log.writer) == ["go"]
    waiting = desk.claim("second", "a", worst_micros=100, now=1.0)
    desk.books.leave("nobody", 1.0)
    assert desk.books.membership.dying == set()
    desk.books.leave("first", 1.0)
    assert desk.books.membership.dying == {"first"} and desk.states("second", waiting) == ["waits"]
    log.close()
    desk.recovered("first", 1.5)
    desk.hear("second", 1.5)
    assert desk.states("second", waiting) == ["go"] and desk.money == (0, 100)
    # The seat is taken by the one that Ray starts instead: nobody is left to evict.
    desk.books.sit("third", "calling 0", 2.0)
    desk.books.sit("third", "calling 0", 2.1)
    assert desk.books.membership.dying == set()
    desk.books.sit("fourth", "calling 0", 3.0)
    assert desk.books.membership.dying == {"third"}


def test_when_it_stops_nothing_that_costs_money_is_granted_any_more(files: FarFiles) -> None:
    desk = FarDesk(files)
    assert desk.claimed("w", "a", worst_micros=5) == ["go"] and not desk.books.snapshot(0.0)["stopping"]
    desk.books.stop()
    assert desk.books.touched == {"w"}
    waiting = desk.claim("w", "b", worst_micros=5, now=0.1)
    assert desk.states("w", waiting) == ["waits"] and desk.claimed("w", "free", model="offline/x", now=0.1) == ["go"]
    desk.settle("w", "a", 3, now=0.2)
    desk.say("w", 60.0)
    assert desk.states("w", waiting) == ["waits"] and desk.money == (3, 0)
    assert desk.books.collect("w", 60.0).halted and desk.books.snapshot(60.0)["stopping"]


def test_who_comes_back_after_its_seal_is_told_and_charges_nothing(files: FarFiles) -> None:
    desk, log = FarDesk(files, 100_000), take_seat(files, 0)
    assert desk.claimed("slow", "a", worst_micros=100, writer=log.writer) == ["go"]
    log_call(log, "a", 100)
    desk.say("quick", DEAD)
    seal(files, log.writer)
    desk.recovered("slow", DEAD)
    assert desk.claimed("quick", "a", worst_micros=100, now=DEAD) == ["go"]
    money = desk.money
    assert money == (100 + AHEAD * 100, 100)
    desk.settle("slow", "a", 90, now=DEAD + 1)
    desk.reread()
    assert desk.money == money and desk.books.collect("slow", DEAD + 1).epoch == 1
    with pytest.raises(Evicted):
        log.append([{"kind": "intent", "call": "2", "run": "r", "key": "b", "model": "m", "usd_micros": 10_000}])


def test_an_answer_of_one_that_was_sealed_is_no_answer(files: FarFiles) -> None:
    desk, log = FarDesk(files), take_seat(files, 0)
    assert desk.claimed("slow", "a", worst_micros=100, writer=log.writer) == ["go"]
    log_call(log, "a", 100)
    desk.say("quick", DEAD)
    seal(files, log.writer)
    desk.recovered("slow", DEAD)
    # It wakes up, and writes to its own disk what the provider said.
    (location,) = log.append([{"kind": "answer", "call": "call-a", "run": "r", "key": "a", "model": "m", "usd_micros": 9}])
    desk.settle("slow", "a", 9, now=DEAD + 1, location=location)
    die(log)
    assert desk.claimed("quick", "a", worst_micros=100, now=DEAD + 1) == ["go"]


def play(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_recovery_that_fails_is_tried_again_and_the_key_is_held_meanwhile(files: FarFiles) -> None:
    log = take_seat(files, 0)
    asked: list[str] = []
    away = asyncio.Event()

    async def recover(writer: str) -> None:
        asked.append(writer)
        if len(asked) <= 2:
            raise StoreUnavailable("nobody answers") if len(asked) == 1 else OSError("no disk")
        await away.wait()
        await asyncio.to_thread(sweep, files, 0.0)

    async def scene() -> None:
        service = LedgerService(Ledger("r", LogIndex(files), Budgets(1000)), recover, again_s=0.01)
        claim = Claim("a", "m", worst_micros=100, writer=log.writer, ticket=1)
        assert (await service.exchange("dead", WorkerMessage((claim,)))).grants[0][1].state == "go"
        await asyncio.to_thread(log_call, log, "a", 100, {"kind": "answer", "usd_micros": 30})
        await asyncio.to_thread(die, log)
        assert (await service.exchange("alive", WorkerMessage((claim,)))).grants == ()
        service.leave("dead")
        while len(asked) < 3:
            await asyncio.sleep(0.005)
        assert (await service.exchange("alive", WorkerMessage())).grants == () and service.ledger.membership.dying == {"dead"}
        away.set()
        while not (news := await service.listen("alive")).grants:
            pass
        assert news.grants[0][1].state == "answered" and asked == [log.writer] * 3
        assert service.snapshot()["spent_micros"] == 30 and service.snapshot()["reserved_micros"] == 0

    play(scene)


def test_a_store_that_cannot_be_read_now_is_read_later(files: FarFiles) -> None:
    log = take_seat(files, 0)
    log.append([{"kind": "answer", "call": "1", "run": "other", "key": "a", "usd_micros": 9}])
    down = True

    def before(operation: str, name: str) -> None:
        if down and operation == "read":
            raise StoreUnavailable("nobody answers")

    async def scene() -> None:
        nonlocal down
        service = LedgerService(Ledger("r", LogIndex(files)))
        await asyncio.to_thread(log.flush)
        files.before = before
        service.ledger.due = True
        service.stop()
        await asyncio.sleep(0.05)
        assert not service.ledger.index.answers
        down = False
        service.ledger.due = True
        service.stop()
        while not service.ledger.index.answers:
            await asyncio.sleep(0.005)

    play(scene)
    die(log)
