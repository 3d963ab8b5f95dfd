"""The ledger: one worker per key, stopped models, evicted workers, and silent drivers. Time is a number."""

from __future__ import annotations

from pathlib import Path

import ledger_speed
import pytest
from ledger_desk import HERE, ModelQueue, log_answer

from summhay_ray.llm import Limits, WorkerMessage
from summhay_ray.llm.ledger import DRIVER_SILENT_S
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_queue import DEAD_AFTER_S, SILENT_S
from summhay_ray.store import LocalFiles, LogWriter

pytestmark = pytest.mark.core


def test_one_key_is_sent_once_and_who_waits_for_it_gets_the_answer(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    mine = desk.claim("w", "a", "b", "a")
    assert desk.states("w", mine) == ["go", "go", "waits"]
    others = desk.claim("v", "a", "c")
    assert desk.states("v", others) == ["waits", "go"]
    desk.settle("w", "a", 5, now=1.0, location=HERE)
    assert "v" in desk.books.touched
    desk.hear("v", 1.0)
    assert desk.states("v", others) == ["answered", "go"] and desk.grants["v"][others[0]].location == HERE
    assert desk.states("w", mine) == ["go", "go", "answered"]
    assert desk.claimed("v", "a", now=1.0) == ["answered"]
    assert desk.books.counts == {"made": 1, "reused": 3} and desk.money == (5, 0)


def test_a_call_without_an_answer_is_the_next_ones_to_send(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    assert desk.claimed("w", "a") == ["go"]
    waiting = desk.claim("v", "a", "a")
    desk.settle("w", "a", 3)
    desk.hear("v")
    assert sorted(desk.states("v", waiting)) == ["go", "waits"] and desk.money == (3, 0) and desk.books.counts["failed"] == 1


def test_a_given_up_model_gets_no_call_and_others_go_on(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(rpm=1)})
    assert desk.claimed("w", "a") == ["go"]
    parked = desk.claim("w", "parked")
    held = desk.claim("v", "held")
    assert desk.states("w", parked) == ["waits"]
    desk.settle("w", "a", 0, stop=("authentication", "bad key"))
    desk.hear("v")
    assert desk.states("w", parked) == ["stopped"] == desk.states("v", held)
    grant = desk.grants["w"][parked[0]]
    assert (grant.error, grant.reason) == ("authentication", "bad key")
    assert desk.claimed("w", "b") == ["stopped"] and desk.claimed("w", "c", model="other") == ["go"]
    snapshot = desk.books.snapshot(0.0)
    assert snapshot["stopped"] == {"m": {"error": "authentication", "reason": "bad key"}} and snapshot["in_flight"] == 1


def test_a_worker_that_is_heard_of_is_not_dead(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    desk.claim("w", "a")
    waiting = desk.claim("v", "a")
    for now in range(1, 60):
        desk.books.beat("w", float(now))
        desk.say("v", float(now))
        assert desk.states("v", waiting) == ["waits"]


def test_nothing_is_paid_for_a_driver_that_is_silent(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    desk.books.snapshot(0.0)
    silent = DRIVER_SILENT_S + 0.1
    assert desk.claimed("w", "a", worst_micros=1, now=0.5) == ["go"]
    waiting = desk.claim("w", "b", worst_micros=1, now=silent)
    assert desk.states("w", waiting) == ["waits"] and desk.books.collect("w", silent).halted
    assert desk.claimed("w", "free", model="offline/x", now=silent) == ["go"]
    desk.books.snapshot(silent + 1)
    desk.say("w", silent + 1)
    assert desk.states("w", waiting) == ["go"] and not desk.books.collect("w", silent + 1).halted


def test_the_live_view_shows_each_model(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(rpm=6000, concurrency=8)})
    desk.claim("w", "a", "b")
    desk.settle("w", "a", 5, now=1.0, location=HERE, input_tokens=70, output_tokens=7)
    desk.settle("w", "b", 0, now=2.0, limited=True, pause_s=3.0, again=True)
    seen = desk.books.snapshot(3.0)
    assert (seen["limited"], seen["retries"], seen["made"], seen["in_flight"]) == (1, 1, 1, 0)
    shown = {"in_flight": 0, "queued": 0, "cap": 4, "paused_s": 2.0, "refused_s": 1.0}
    counted = {"calls": 1, "requests": 2, "input_tokens": 70, "output_tokens": 7, "limited": 1, "retries": 1, "fallbacks": 0}
    assert seen["models"] == {"m": {**shown, **counted}}


def test_of_the_dead_what_is_in_the_log_is_charged_and_the_rest_is_uncertain(tmp_path: Path) -> None:
    desk, log = ModelQueue(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), 1)
    assert desk.claimed("dead", "answered", "sent", worst_micros=100) == ["go"] * 2
    assert desk.claimed("alive", "mine", worst_micros=100) == ["go"]
    log_answer(log, "answered", 30)
    early = desk.claim("alive", "sent", now=DEAD_AFTER_S, worst_micros=100)
    assert desk.states("alive", early) == ["waits"]
    desk.bury(now := DEAD_AFTER_S + 1)
    assert desk.claimed("alive", "answered", "mine", now=now) == ["answered", "waits"]
    assert desk.states("alive", early) == ["go"]
    assert desk.money == (30, 200) and desk.books.account.uncertain["", ""] == 100
    # It comes back: its call belongs to another worker, it is informed, and its settlement is not charged.
    assert desk.books.collect("dead", now + 1).evicted
    desk.settle("dead", "sent", 90, now=now + 1)
    assert desk.money == (30, 200)


def test_who_takes_the_place_of_another_buries_it_at_once(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, budget=1000, limits={"m": Limits(concurrency=4)})
    desk.books.hello("before", "calling 0", 0.0)
    assert desk.claimed("before", "a", worst_micros=100) == ["go"]
    assert desk.claimed("other", *"bcde", worst_micros=100) == ["go", "go", "go", "waits"]
    desk.books.hello("after", "calling 0", 0.5)
    desk.books.hello("after", "calling 0", 0.6)
    desk.bury(0.6)
    assert desk.claimed("after", "a", worst_micros=100, now=0.7) == ["waits"], "the slot went to who had waited"
    assert desk.money == (0, 400) and desk.books.account.uncertain["", ""] == 100
    assert desk.books.collect("before", 0.8).evicted and not desk.books.collect("other", 0.8).evicted


def test_the_slots_of_a_silent_worker_serve_others_and_what_it_has_not_collected_is_taken_back(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, budget=10_000, limits={"m": Limits(concurrency=4)})
    assert desk.claimed("frozen", *"abcd", worst_micros=100) == ["go"] * 4
    later = desk.claim("alive", *"efghij", worst_micros=100)
    assert desk.states("alive", later) == ["waits"] * 6
    # Another call is granted to it, but the grant never arrives.
    desk.books.take("frozen", WorkerMessage(claims=[Claim("k", "m", worst_micros=100, ticket=99)], ended=["a"]), 1.0)
    desk.record(1.0)
    now = SILENT_S + 2.1
    desk.books.beat("alive", now)
    desk.say("alive", now)
    assert desk.states("alive", later).count("go") == 4
    # It continues: the calls on the wire count again, so that no further call is sent.
    desk.books.beat("frozen", now + 1)
    desk.settle("alive", "e", 10, now=now + 1)
    assert desk.states("alive", later).count("go") == 4


def test_a_slot_is_free_when_the_reply_is_there_and_few_calls_are_not_durable(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(concurrency=2)})
    tickets = desk.claim("w", *"abcdefgh")
    assert desk.states("w", tickets).count("go") == 2
    desk.say("w", ended=("a", "b"))
    assert desk.states("w", tickets).count("go") == 4
    # Four calls are not settled: twice the cap. No other may be sent until an answer is durable.
    desk.say("w", ended=("c", "d"))
    assert desk.states("w", tickets).count("go") == 4
    desk.settle("w", "a", 1, location=HERE)
    assert desk.states("w", tickets).count("go") == 5


def test_workers_take_turns_and_an_idle_one_holds_nothing(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(concurrency=4)})
    idle, busy = desk.claim("idle", "i"), desk.claim("busy", *(f"b{n}" for n in range(9)))
    more = desk.claim("late", *(f"l{n}" for n in range(9)))
    assert (desk.states("idle", idle), desk.states("busy", busy).count("go")) == (["go"], 3)
    desk.settle("idle", "i", 1, location=HERE)
    for n in range(3):
        desk.settle("busy", f"b{n}", 1, location=HERE)
    for worker in ("busy", "late"):
        desk.hear(worker)
    assert desk.states("late", more).count("go") == 2 and desk.states("busy", busy).count("go") == 3 + 2


def test_an_answer_that_was_read_for_another_dead_worker_is_charged(tmp_path: Path) -> None:
    desk, log = ModelQueue(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), 1)
    for worker, key in (("first", "a"), ("second", "b")):
        desk.books.hello(worker, worker, 0.0)
        assert desk.claimed(worker, key, worst_micros=100) == ["go"]
    log_answer(log, "b", 30)
    log_answer(log, "a", 1, run="another run")
    for worker in ("first", "second"):
        desk.books.hello(f"{worker} again", worker, 0.5)
        desk.bury(0.5)
    assert desk.money == (30, 0) and desk.books.account.uncertain["", ""] == 100


@pytest.mark.parametrize("case", ledger_speed.CASES)
def test_a_call_is_as_much_work_with_1000_workers_as_with_4(case: str) -> None:
    few, many = (ledger_speed.bytecodes(case, workers, 200) for workers in (4, 1000))
    assert many < 1.5 * few
