"""A model's first call is its probe: other calls wait for it. If it reaches nobody, no other call is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_desk import HERE, ModelQueue

from summhay_ray.llm import Limits
from summhay_ray.llm.model_queue import DEAD_AFTER_S

pytestmark = pytest.mark.core

NOBODY = ("connection", "nobody answers")


def desk_of(folder: Path) -> ModelQueue:
    return ModelQueue(folder, limits={"m": Limits(), "n": Limits()}, probing=True)


def test_the_first_call_goes_alone_and_the_others_when_it_is_answered(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    mine, others = desk.claim("w", "a", "b"), desk.claim("v", "c")
    assert desk.states("w", mine) == ["go", "waits"] and desk.states("v", others) == ["waits"]
    assert desk.claimed("v", "d", model="n") == ["go"], "another model has a probe of its own"
    assert desk.claimed("v", "e", model="local") == ["go"] == desk.claimed("v", "f", model="local"), "what runs here needs none"
    desk.settle("w", "a", 5, location=HERE)
    desk.hear("v")
    assert desk.states("w", mine) == ["go", "go"] and desk.states("v", others) == ["go"]


@pytest.mark.parametrize("ended", [{}, {"unreached": None, "sent": True}])
def test_a_provider_that_answers_with_an_error_is_heard(tmp_path: Path, ended: dict[str, object]) -> None:
    desk = desk_of(tmp_path)
    tickets = desk.claim("w", "a", "b", "c")
    desk.settle("w", "a", 0, **ended)
    assert desk.states("w", tickets) == ["go", "go", "go"]


def test_where_the_probe_reaches_nobody_the_model_is_given_up(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    tickets = desk.claim("w", "a", "b", "c")
    desk.settle("w", "a", 0, unreached=NOBODY)
    assert desk.states("w", tickets) == ["go", "stopped", "stopped"]
    assert desk.books.snapshot(0.0)["stopped"] == {"m": {"error": "connection", "reason": "nobody answers"}}


def test_a_model_that_was_heard_is_not_given_up_for_a_call_that_reaches_nobody(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    desk.claim("w", "a")
    desk.settle("w", "a", 5, location=HERE)
    assert desk.claimed("w", "b", "c") == ["go", "go"]
    desk.settle("w", "b", 0, unreached=NOBODY)
    assert not desk.books.snapshot(0.0)["stopped"] and desk.claimed("w", "d") == ["go"]


def test_a_probe_that_was_not_sent_or_died_with_its_worker_is_the_next_ones(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    tickets = desk.claim("w", "a", "b")
    desk.settle("w", "a", 0, sent=False)
    assert desk.states("w", tickets) == ["go", "go"]
    waiting = desk.claim("v", "c", "d")
    assert desk.states("v", waiting) == ["waits", "waits"]
    desk.books.beat("v", DEAD_AFTER_S + 1)
    desk.bury(DEAD_AFTER_S + 1.5)
    assert desk.states("v", waiting) == ["go", "waits"]


def test_the_time_for_which_a_model_refuses_is_reported(tmp_path: Path) -> None:
    desk = desk_of(tmp_path)
    desk.claim("w", "a")
    desk.settle("w", "a", 0, now=10.0, limited=True, again=True)
    assert desk.books.snapshot(40.0)["models"]["m"]["refused_s"] == 30.0
    desk.settle("w", "a", 5, now=50.0, location=HERE)
    assert desk.books.snapshot(60.0)["models"]["m"]["refused_s"] == 0.0
