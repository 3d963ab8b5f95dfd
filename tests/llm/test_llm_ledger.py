"""The ledger: one worker a key, models given up, the dead evicted, drivers that fall silent. Time is a number."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_desk import HERE, ModelQueue, log_call

from summhay_ray.llm import Claim, Limits
from summhay_ray.llm.ledger import DRIVER_SILENT_S, REFRESH_S
from summhay_ray.llm.membership import DEAD_AFTER_S
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


def test_what_another_run_answered_is_seen_within_a_second(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    assert desk.claimed("w", "x") == ["go"]
    log = LogWriter(LocalFiles(tmp_path), "other")
    log.append([{"kind": "answer", "call": "1", "run": "another", "key": "a", "usd_micros": 9}])
    desk.books.tend(REFRESH_S)
    assert desk.claimed("w", "a", now=REFRESH_S) == ["answered"]
    assert desk.money == (0, 0)


def test_the_dead_are_charged_as_the_log_tells_and_their_keys_are_free(tmp_path: Path) -> None:
    desk, log = ModelQueue(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), "dead")
    assert desk.claimed("dead", "answered", "sent", "waiting", "voided", worst_micros=100) == ["go"] * 4
    assert desk.claimed("alive", "mine", worst_micros=100) == ["go"]
    log_call(LogWriter(LocalFiles(tmp_path), "alive"), "mine", 100)
    log_call(log, "answered", 100, {"kind": "answer", "usd_micros": 30})
    log_call(log, "sent", 100)
    log_call(log, "voided", 100, {"kind": "void", "usd_micros": 0})
    early = desk.claim("alive", "sent", now=DEAD_AFTER_S)
    assert desk.states("alive", early) == ["waits"]
    now = DEAD_AFTER_S + 0.1
    assert desk.claimed("alive", "answered", "sent", "waiting", "voided", "mine", now=now) == [
        "answered",
        "waits",  # the claim that has waited for it has it now
        "go",
        "go",
        "waits",
    ]
    assert desk.states("alive", early) == ["go"]
    # answered: its real price; sent: the worst, for ever; waiting: nobody tells, so the worst; voided: nothing.
    assert desk.money == (30 + 100 + 100 + 0, 100)


def test_the_dead_are_buried_although_the_living_have_nothing_to_say(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    assert desk.claimed("dead", "a") == ["go"]
    waiting = desk.claim("alive", "a", now=10.0)
    desk.books.tend(DEAD_AFTER_S + 1)
    assert "alive" in desk.books.touched
    desk.hear("alive", DEAD_AFTER_S + 1)
    assert desk.states("alive", waiting) == ["go"]


def test_who_takes_the_seat_of_another_buries_it_at_once(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, budget=1000, limits={"m": Limits(concurrency=4)})
    desk.books.sit("before", "calling 0", 0.0)
    assert desk.claimed("before", "a", worst_micros=100) == ["go"]
    assert desk.claimed("other", *"bcd", worst_micros=100) == ["go"] * 3
    desk.books.sit("after", "calling 0", 0.5)
    desk.books.sit("after", "calling 0", 0.6)
    assert desk.claimed("after", "a", worst_micros=100, now=0.7) == ["go"]
    # Nobody tells what became of the call of the dead: it stays charged, and its slot is lent again.
    assert desk.money == (100, 400) and desk.slots["after"] == {"m": 1}
    assert desk.books.collect("before", 0.8).epoch == 1 and desk.books.collect("other", 0.8).epoch == 0


def test_burying_charges_nobody_twice(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, budget=1000)
    dead, alive = LogWriter(LocalFiles(tmp_path), "dead"), LogWriter(LocalFiles(tmp_path), "alive")
    for worker, log in (("dead", dead), ("alive", alive)):
        assert desk.claimed(worker, f"{worker}-1", f"{worker}-2", worst_micros=100) == ["go", "go"]
        log_call(log, f"{worker}-1", 100, {"kind": "answer", "usd_micros": 40})
        log_call(log, f"{worker}-2", 100)
        desk.settle(worker, f"{worker}-1", 40, location=HERE)
    assert desk.money == (80, 200)
    now = DEAD_AFTER_S + 5
    desk.books.beat("alive", now)
    desk.say("alive", now)
    # alive's open intent is both in the log and in flight: it counts once.
    assert desk.money == (80 + 100, 100)
    alive.append([{"kind": "answer", "call": "call-alive-2", "run": "r", "key": "alive-2", "usd_micros": 60}])
    desk.say("alive", now + 2)
    desk.settle("alive", "alive-2", 60, now=now + 2, location=HERE)
    assert desk.money == (80 + 100 + 60, 0)


def test_who_comes_back_from_the_dead_takes_nothing_from_the_living_and_is_told(tmp_path: Path) -> None:
    desk, log = ModelQueue(tmp_path, budget=250), LogWriter(LocalFiles(tmp_path), "slow")
    now = DEAD_AFTER_S + 1
    tickets = desk.claim("slow", "a", worst_micros=100)
    log_call(log, "a", 100)
    assert desk.books.collect("slow", 0.0).epoch == 0
    assert desk.claimed("quick", "a", worst_micros=100, now=now) == ["go"]
    assert desk.money == (100, 100)
    assert desk.books.collect("slow", now + 0.5).epoch == 1
    log.append([{"kind": "void", "call": "call-a", "run": "r", "key": "a", "usd_micros": 90}])
    desk.settle("slow", "a", 90, now=now + 1)
    # quick's call is still in flight, and slow's is charged once.
    assert desk.money == (90, 100)
    assert desk.claimed("slow", "a", now=now + 1) == ["waits"]
    held = Claim("a", "m", worst_micros=100, ticket=tickets[0], again="late")
    desk.say("slow", now + 1, claims=(held,))
    assert desk.grants["slow"][tickets[0]].state == "lost"


def test_what_another_driver_of_the_run_spends_is_seen_within_a_second(tmp_path: Path) -> None:
    one, two = ModelQueue(tmp_path, budget=100), ModelQueue(tmp_path, budget=100)
    assert one.claimed("w1", "a", worst_micros=60) == ["go"]
    log_call(LogWriter(LocalFiles(tmp_path), "w1"), "a", 60)
    assert two.claimed("w2", "b", worst_micros=60, now=1.0) == ["budget"]


def test_a_worker_that_is_heard_of_is_not_dead(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    desk.claim("w", "a")
    waiting = desk.claim("v", "a")
    for now in range(1, 60):
        desk.books.beat("w", float(now))
        desk.say("v", float(now))
        assert desk.states("v", waiting) == ["waits"]


def test_a_worker_and_its_log_writer_may_have_two_names(tmp_path: Path) -> None:
    desk, log = ModelQueue(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), "log-of-w")
    assert desk.claimed("w", "a", "b", worst_micros=100, writer="log-of-w") == ["go"] * 2
    log_call(log, "a", 100, {"kind": "answer", "usd_micros": 40})
    log_call(log, "b", 100)
    desk.settle("w", "a", 40, now=0.5, location=HERE)
    desk.say("v", 2.0)
    assert desk.money == (40, 100)
    desk.say("v", DEAD_AFTER_S + 5)
    assert desk.money == (40 + 100, 0)


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


def test_without_a_driver_that_asks_nobody_is_silent(tmp_path: Path) -> None:
    assert ModelQueue(tmp_path).claimed("w", "a", worst_micros=1, now=1000.0) == ["go"]


def test_counters_add_up(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    desk.books.count({"cells_done": 2})
    desk.books.count({"cells_done": 3, "failures": 1})
    snapshot = desk.books.snapshot(0.0)
    assert (snapshot["cells_done"], snapshot["failures"], snapshot["in_flight"]) == (5, 1, 0)
    assert (snapshot["spent_micros"], snapshot["over_budget"], snapshot["stopped"]) == (0, False, {})


def test_the_live_view_tells_of_each_model(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path, limits={"m": Limits(rpm=6000, concurrency=8)})
    desk.claim("w", "a", "b")
    desk.settle("w", "a", 5, now=1.0, location=HERE, input_tokens=70, output_tokens=7)
    desk.say("w", 2.0, limited=("m",), pauses=(("m", 3.0),))
    seen = desk.books.snapshot(3.0)
    assert (seen["limited"], seen["retries"], seen["made"], seen["in_flight"]) == (1, 0, 1, 1)
    shown = {"calls": 1, "in_flight": 1, "cap": 4, "limited": 1, "retries": 0, "paused_s": 2.0, "refused_s": 1.0}
    minute = {"requests_per_min": 2, "input_per_min": 70, "output_per_min": 7}
    assert seen["models"] == {"m": {**shown, **minute}}
    assert desk.books.snapshot(100.0)["models"]["m"]["requests_per_min"] == 0
