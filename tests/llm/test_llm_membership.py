"""Who works for a ledger: heard, silent, dying, evicted; seats that only one can have; writers that are evicted for ever."""

from __future__ import annotations

import pytest

from summhay_ray.llm.membership import DEAD_AFTER_S, LISTEN_S, LISTENS_A_SECOND, Membership

pytestmark = pytest.mark.core


def test_the_silent_are_dead_after_a_while_and_told_of_once() -> None:
    roster = Membership()
    roster.hear("a", 0.0)
    roster.hear("b", 5.0)
    assert roster.silent(DEAD_AFTER_S) == set() and roster.silent(DEAD_AFTER_S + 0.1) == {"a"}
    roster.dying |= {"a"}
    assert roster.silent(DEAD_AFTER_S + 0.1) == set() and roster.silent(DEAD_AFTER_S + 5.1) == {"b"}


def test_the_dismissed_are_silent_at_once_and_strangers_cannot_be_dismissed() -> None:
    roster = Membership()
    assert not roster.dismiss("a") and not roster.dismiss("")
    roster.hear("a", 3.0)
    assert roster.dismiss("a") and roster.silent(3.0) == {"a"}


def test_a_seat_has_one_worker() -> None:
    roster = Membership()
    assert roster.sit("a", "calling 0", 0.0) == ""
    assert roster.sit("a", "calling 0", 1.0) == ""
    assert roster.sit("b", "calling 1", 1.0) == ""
    assert roster.sit("c", "calling 0", 2.0) == "a" and set(roster.workers) == {"a", "b", "c"}


def test_the_buried_are_forgotten_but_for_their_writers_and_epoch() -> None:
    roster = Membership()
    roster.hear("a", 0.0)
    assert roster.writes("a", {"log-1"}) == {"log-1"} and roster.writes("a", {"log-2"}) == {"log-2"}
    assert roster.writers_of("a") == ["log-1", "log-2"] and roster.writers_of("b") == []
    roster.dying |= {"a"}
    assert roster.evict({"a"}) == {"log-1", "log-2"}
    assert (roster.dying, set(roster.workers), roster.writers_of("a"), roster.epoch("a")) == (set(), set(), [], 1)
    # It comes back, with its old log and a new one: the old one's records were counted when it was evicted.
    roster.hear("a", 20.0)
    assert roster.writes("a", {"log-1", "log-3"}) == {"log-3"} and roster.writers_of("a") == ["log-3"]
    assert roster.evict({"a"}) == {"log-3"} and roster.epoch("a") == 2 and roster.epoch("b") == 0


def test_many_workers_listen_longer() -> None:
    roster = Membership()
    for number in range(200):
        roster.hear(f"w{number}", 0.0)
    assert roster.listen_s == LISTEN_S == 200 / LISTENS_A_SECOND
    for number in range(1000):
        roster.hear(f"w{number}", 0.0)
    assert roster.listen_s == 1000 / LISTENS_A_SECOND == 2.5
