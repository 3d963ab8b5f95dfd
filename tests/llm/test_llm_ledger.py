"""The ledger: one worker a key, models given up, the dead buried, limits kept. Time is a number that the tests choose."""

from __future__ import annotations

import bisect
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray.llm import Claim, Grant, Ledger, Limits, Settlement
from summhay_ray.llm.ledger import DEAD_AFTER_S, REFRESH_S, Pacer
from summhay_ray.store import LocalFiles, Location, LogIndex, LogWriter

pytestmark = pytest.mark.core

HERE = Location("log/w.jsonl", 0, 1)


def ledger(root: Path, budget: int | None = None, limits: Mapping[str, Limits] | None = None) -> Ledger:
    return Ledger("r", LogIndex(LocalFiles(root)), budget, limits or {})


def states(grants: Sequence[Grant]) -> list[str]:
    return [grant.state for grant in grants]


def claimed(books: Ledger, worker: str, *keys: str, now: float = 0.0, worst: int = 0, model: str = "m") -> list[str]:
    return states(books.claim(worker, [Claim(key, model, worst) for key in keys], now))


def test_one_key_is_sent_once(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    assert claimed(books, "w", "a", "b", "a") == ["go", "go", "busy"]
    assert claimed(books, "v", "a", "c") == ["busy", "go"]
    books.settle("w", [Settlement("a", "m", 5, HERE)], 1.0)
    grants = books.claim("v", [Claim("a", "m"), Claim("b", "m")], 1.0)
    assert states(grants) == ["answered", "busy"] and grants[0].location == HERE
    assert books.counts == {"made": 1, "reused": 1} and books.spent_micros == 5


def test_a_call_without_an_answer_may_be_sent_again(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    assert claimed(books, "w", "a") == ["go"]
    books.settle("w", [Settlement("a", "m", 3)], 0.0)
    assert claimed(books, "v", "a") == ["go"] and books.spent_micros == 3 and books.counts["failed"] == 1


def test_a_given_up_model_gets_no_call_and_others_go_on(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    assert claimed(books, "w", "a", "held") == ["go", "go"]
    books.settle("w", [Settlement("a", "m", 0, stop="authentication: bad key")], 0.0)
    grants = books.claim("w", [Claim("b", "m"), Claim("held", "m", held=True), Claim("c", "other")], 0.0)
    assert states(grants) == ["stopped", "stopped", "go"] and grants[0].reason == "authentication: bad key"
    assert books.snapshot()["stopped"] == {"m": "authentication: bad key"} and books.snapshot()["in_flight"] == 1


def test_what_another_run_answered_is_seen_within_a_second(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    assert claimed(books, "w", "x") == ["go"]
    log = LogWriter(LocalFiles(tmp_path), "other")
    log.append([{"kind": "answer", "call": "1", "run": "another", "key": "a", "usd_micros": 9}])
    assert claimed(books, "w", "a", now=REFRESH_S) == ["answered"]
    assert books.spent_micros == 0


def log_call(log: LogWriter, key: str, worst: int, end: Mapping[str, object] | None = None, run: str = "r") -> None:
    call = {"call": f"call-{key}", "run": run, "key": key}
    log.append([{"kind": "intent", **call, "usd_micros": worst}, *([{**call, **end}] if end else [])])


def test_the_dead_are_charged_as_the_log_tells_and_their_keys_are_free(tmp_path: Path) -> None:
    books, log = ledger(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), "dead")
    assert claimed(books, "dead", "answered", "sent", "waiting", "voided", worst=100) == ["go"] * 4
    assert claimed(books, "alive", "mine", worst=100) == ["go"]
    log_call(LogWriter(LocalFiles(tmp_path), "alive"), "mine", 100)
    log_call(log, "answered", 100, {"kind": "answer", "usd_micros": 30})
    log_call(log, "sent", 100)
    log_call(log, "voided", 100, {"kind": "void", "usd_micros": 0})
    now = DEAD_AFTER_S
    assert claimed(books, "alive", "sent", now=now) == ["busy"]
    now += 0.1
    grants = books.claim("alive", [Claim(key, "m") for key in ("answered", "sent", "waiting", "voided", "mine")], now)
    assert states(grants) == ["answered", "go", "go", "go", "busy"]
    # answered: its real price; sent: the worst, for ever; waiting: nobody tells, so the worst; voided: nothing.
    assert books.spent_micros == 30 + 100 + 100 + 0
    assert books.reserved_micros == 100


def test_burying_charges_nobody_twice(tmp_path: Path) -> None:
    books = ledger(tmp_path, budget=1000)
    dead, alive = LogWriter(LocalFiles(tmp_path), "dead"), LogWriter(LocalFiles(tmp_path), "alive")
    for worker, log in (("dead", dead), ("alive", alive)):
        assert claimed(books, worker, f"{worker}-1", f"{worker}-2", worst=100) == ["go", "go"]
        log_call(log, f"{worker}-1", 100, {"kind": "answer", "usd_micros": 40})
        log_call(log, f"{worker}-2", 100)
        books.settle(worker, [Settlement(f"{worker}-1", "m", 40, HERE)], 0.0)
    assert (books.spent_micros, books.reserved_micros) == (80, 200)
    books.beat("alive", 20.0)
    claimed(books, "alive", now=20.0)
    # alive's open intent is both in the log and in flight: it counts once.
    assert (books.spent_micros, books.reserved_micros) == (80 + 100, 100)
    alive.append([{"kind": "answer", "call": "call-alive-2", "run": "r", "key": "alive-2", "usd_micros": 60}])
    claimed(books, "alive", now=22.0)
    books.settle("alive", [Settlement("alive-2", "m", 60, HERE)], 22.0)
    assert (books.spent_micros, books.reserved_micros) == (80 + 100 + 60, 0)


def test_who_comes_back_from_the_dead_takes_nothing_from_the_living(tmp_path: Path) -> None:
    books, log = ledger(tmp_path, budget=250), LogWriter(LocalFiles(tmp_path), "slow")
    assert claimed(books, "slow", "a", worst=100) == ["go"]
    log_call(log, "a", 100)
    assert claimed(books, "quick", "a", worst=100, now=16.0) == ["go"]
    assert (books.spent_micros, books.reserved_micros) == (100, 100)
    log.append([{"kind": "void", "call": "call-a", "run": "r", "key": "a", "usd_micros": 90}])
    books.settle("slow", [Settlement("a", "m", 90)], 17.0)
    # quick's call is still in flight, and slow's is charged once.
    assert (books.spent_micros, books.reserved_micros) == (90, 100)
    assert claimed(books, "slow", "a", now=17.0) == ["busy"]
    assert states(books.claim("slow", [Claim("a", "m", 100, held=True)], 17.0)) == ["busy"]


def test_what_another_driver_of_the_run_spends_is_seen_within_a_second(tmp_path: Path) -> None:
    one, two = ledger(tmp_path, budget=100), ledger(tmp_path, budget=100)
    assert claimed(one, "w1", "a", worst=60) == ["go"]
    log_call(LogWriter(LocalFiles(tmp_path), "w1"), "a", 60)
    assert claimed(two, "w2", "b", worst=60, now=1.0) == ["budget"]


def test_a_worker_that_is_heard_of_is_not_dead(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    claimed(books, "w", "a")
    for now in range(1, 60):
        books.beat("w", float(now))
        assert claimed(books, "v", "a", now=float(now)) == ["busy"]


def densest(times: Sequence[float], amounts: Sequence[float]) -> float:
    """The most that any window [t, t + 60) holds."""
    order = sorted(range(len(times)), key=times.__getitem__)
    starts, sums = [times[i] for i in order], [0.0]
    for i in order:
        sums.append(sums[-1] + amounts[i])
    return max(sums[bisect.bisect_left(starts, start + 60.0 - 1e-6)] - sums[i] for i, start in enumerate(starts))


@pytest.mark.parametrize("rpm", [60, 7, 500, 0.5])
def test_no_minute_holds_more_requests_than_the_limit(tmp_path: Path, rpm: float) -> None:
    books, now, moments = ledger(tmp_path, limits={"m": Limits(rpm=rpm)}), 0.0, random.Random(1)
    times = []
    for number in range(700):
        now += moments.expovariate(rpm / 30)
        (grant,) = books.claim("w", [Claim(f"k{number}", "m")], now)
        times.append(now + grant.wait_s)
        if number % 5 == 0:
            times.append(now + books.again("m", Claim(f"k{number}", "m"), now))
    assert densest(times, [1.0] * len(times)) <= max(rpm, 1)
    # And the limit is used: the asking is twice as fast as the sending may be.
    assert len(times) / (times[-1] - times[0]) * 60 > rpm * 0.9


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 900), st.integers(1, 90)), min_size=1, max_size=60))
def test_no_minute_holds_more_tokens_than_the_limits(calls: list[tuple[float, int, int]]) -> None:
    pacer, now, times = Pacer(Limits(input_tpm=1000, output_tpm=100)), 0.0, []
    for gap, tokens_in, tokens_out in calls:
        now += gap
        times.append(now + pacer.reserve(now, {"requests": 1, "input": tokens_in, "output": tokens_out}))
    assert times == sorted(times)
    longest_in, longest_out = max(call[1] for call in calls), max(call[2] for call in calls)
    # A call's tokens are spread after its start: a window holds the limit, and what its last call has still to spread.
    assert densest(times, [call[1] for call in calls]) <= 1000 + longest_in
    assert densest(times, [call[2] for call in calls]) <= 100 + longest_out


def test_one_throttled_model_does_not_slow_another(tmp_path: Path) -> None:
    books = ledger(tmp_path, limits={"slow": Limits(rpm=1), "quick": Limits()})
    waits = {
        model: [books.claim("w", [Claim(f"{model}-{n}", model)], 0.0)[0].wait_s for n in range(3)] for model in ("slow", "quick")
    }
    assert waits == {"slow": [0.0, 60.0, 120.0], "quick": [0.0, 0.0, 0.0]}


def test_a_pause_holds_for_all_calls_of_the_model_those_on_their_way_included(tmp_path: Path) -> None:
    books = ledger(tmp_path, limits={"m": Limits(rpm=60)})
    first, second = Claim("a", "m"), Claim("b", "m")
    assert [grant.wait_s for grant in books.claim("w", [first, second, Claim("c", "other")], 0.0)] == [0.0, 1.0, 0.0]
    assert books.again("m", first, 0.5, pause_s=30.0) == pytest.approx(30.0)
    held = Claim("b", "m", held=True)
    (grant,) = books.claim("w", [held], 1.0)
    assert grant.state == "go" and 1.0 + grant.wait_s == pytest.approx(31.5)
    (grant,) = books.claim("w", [held], 31.5)
    assert (grant.state, grant.wait_s) == ("go", 0.0)
    (grant,) = books.claim("w", [Claim("d", "m")], 2.0)
    assert 2.0 + grant.wait_s == pytest.approx(32.5)
    assert books.claim("w", [Claim("e", "other")], 2.0)[0].wait_s == 0.0
    assert books.counts["retries"] == 1


def test_a_held_call_that_was_answered_meanwhile_is_not_sent(tmp_path: Path) -> None:
    books = ledger(tmp_path, budget=100)
    assert claimed(books, "w", "a", worst=50) == ["go"]
    LogWriter(LocalFiles(tmp_path), "other").append([{"kind": "answer", "call": "1", "run": "x", "key": "a", "usd_micros": 1}])
    assert states(books.claim("w", [Claim("a", "m", 50, held=True)], 5.0)) == ["answered"]
    assert (books.reserved_micros, books.snapshot()["in_flight"]) == (0, 0)


def test_counters_add_up(tmp_path: Path) -> None:
    books = ledger(tmp_path)
    books.count({"cells_done": 2})
    books.count({"cells_done": 3, "failures": 1})
    snapshot = books.snapshot()
    assert (snapshot["cells_done"], snapshot["failures"], snapshot["in_flight"]) == (5, 1, 0)
    assert (snapshot["spent_micros"], snapshot["over_budget"], snapshot["stopped"]) == (0, False, {})


def test_a_worker_and_its_log_writer_may_have_two_names(tmp_path: Path) -> None:
    books, log = ledger(tmp_path, budget=1000), LogWriter(LocalFiles(tmp_path), "log-of-w")
    assert (
        states(books.claim("w", [Claim("a", "m", 100, writer="log-of-w"), Claim("b", "m", 100, writer="log-of-w")], 0.0))
        == ["go"] * 2
    )
    log_call(log, "a", 100, {"kind": "answer", "usd_micros": 40})
    log_call(log, "b", 100)
    books.settle("w", [Settlement("a", "m", 40, HERE)], 0.5)
    claimed(books, "v", now=2.0)
    assert (books.spent_micros, books.reserved_micros) == (40, 100)
    claimed(books, "v", now=20.0)
    assert (books.spent_micros, books.reserved_micros) == (40 + 100, 0)
