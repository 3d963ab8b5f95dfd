"""Usage above the reservation: the reservation is charged, it is counted across workers and restarts, and both figures are
reported."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_provider import FakeProvider, Reply
from gateway_room import PRICE, Room
from hypothesis import given
from hypothesis import strategies as st
from ledger_desk import HERE, ModelQueue, log_answer

from summhay_ray.llm import ModelSettings
from summhay_ray.llm import request as llm_reply
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.read_reply import answer_of
from summhay_ray.outcome import Answer, Failed
from summhay_ray.store import Excess, LocalFiles, LogWriter

pytestmark = pytest.mark.core

Make = Callable[..., Room]
# "a prompt" has 2 tokens: ceil(2 x 1.5) + 16 of them are reserved, and 20 of the answer.
WORST = 19 * 2 + 20 * 10


def excess(times: float, model: str = "m", worst: int = 100) -> Excess:
    """A reported usage of `times` times the reservation."""
    return Excess(model, round(1000 * times), 1000, round(worst * times), worst, times)


def desk_of(root: Path, *margins: float, budget: int | None = None) -> ModelQueue:
    return ModelQueue(root, budget, margins=dict.fromkeys(("m",), *margins))


def logged(root: Path, *times: float, run: str = "r") -> None:
    """Log answers whose reported usage is `times` times their reservation."""
    log = LogWriter(LocalFiles(root), 1)
    for number, one in enumerate(times):
        claim = {"claimed_tokens": round(1000 * one), "claimed_micros": round(100 * one), "claimed_margin": one}
        log_answer(log, f"{run}-old-{number}", 100, run, input_tokens=900, output_tokens=100, **claim)
    log.close()


def lie(desk: ModelQueue, worker: str, key: str, times: float) -> None:
    assert desk.claimed(worker, key, worst_micros=100) == ["go"]
    desk.settle(worker, key, 100, location=HERE, excess=excess(times))


def test_the_third_claim_above_its_reservation_stops_the_model_whichever_worker_asked(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    lie(desk, "w", "a", 1.1)
    lie(desk, "v", "b", 2.0)
    waiting = desk.claim("v", "c", "d", worst_micros=100)
    assert desk.states("v", waiting) == ["go", "go"]
    desk.settle("v", "c", 100, location=HERE, excess=excess(1.5))
    assert desk.claimed("w", "e", worst_micros=100) == ["stopped"]
    reason = desk.books.snapshot(0.0)["stopped"]["m"]
    assert reason["error"] == "usage_not_credible"
    assert reason["reason"] == (
        "3 answers claim 4,600 tokens for 0.000460 dollars, more than was reserved: 3,000 tokens for 0.000300 dollars are "
        "charged; if that is its real count, write token_margin: 2.02 beside the model, else use another provider"
    )
    # Calls in flight are settled as usual, other models continue, and stored answers are not requested.
    desk.settle("v", "d", 7, location=HERE)
    assert desk.money == (307, 0)
    assert desk.claimed("w", "x", model="honest", worst_micros=100) == ["go"]
    assert desk.claimed("w", "a") == ["answered"]


def test_a_claim_above_twice_the_reservation_stops_the_model_at_once(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    lie(desk, "w", "a", 2.01)
    assert desk.claimed("w", "b", worst_micros=100) == ["stopped"]
    (claims,) = desk.books.snapshot(0.0)["claims"]
    assert (claims["answers"], claims["claimed_tokens"], claims["charged_tokens"], claims["stopped"]) == (1, 2010, 1000, True)


def test_an_answer_that_is_reported_twice_counts_once(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    for _ in range(3):
        desk.settle("w", "a", 100, location=HERE, excess=excess(1.5))
    assert desk.claimed("w", "b", worst_micros=100) == ["go"]


def test_the_log_knows_it_after_a_restart(tmp_path: Path) -> None:
    logged(tmp_path, 1.5, 1.2)
    logged(tmp_path, 9.0, run="another")
    desk = ModelQueue(tmp_path)
    lie(desk, "w", "a", 1.1)
    assert desk.claimed("w", "b", worst_micros=100) == ["stopped"]


def test_a_model_that_was_stopped_stays_so_until_its_margin_reserves_as_much(tmp_path: Path) -> None:
    logged(tmp_path, 1.5, 1.2, 5.0)
    assert desk_of(tmp_path, 1.0).claimed("w", "a", worst_micros=100) == ["stopped"]
    # 5 is more than twice 2.4; with 2.5 it is one answer above the reservation.
    assert desk_of(tmp_path, 2.4).claimed("w", "a", worst_micros=100) == ["stopped"]
    assert desk_of(tmp_path, 2.5).claimed("w", "a", worst_micros=100) == ["go"]
    covered = desk_of(tmp_path, 5.0)
    assert covered.claimed("w", "a", worst_micros=100) == ["go"] and covered.books.snapshot(0.0)["claims"] == []


def test_a_dead_worker_that_reported_nothing_is_known_by_its_log(tmp_path: Path) -> None:
    desk = ModelQueue(tmp_path)
    desk.books.hello("w", "calling 0", 0.0)
    desk.claim("w", "z", worst_micros=100)
    logged(tmp_path, 2.5)
    desk.books.hello("v", "calling 0", 2.0)
    desk.bury(2.0)
    assert desk.claimed("v", "b", worst_micros=100, now=2.0) == ["stopped"]


USAGE = st.tuples(st.integers(0, 10**8), st.integers(0, 10**8)) | st.tuples(st.integers(0, 60), st.integers(0, 60)) | st.none()


@given(st.lists(st.tuples(USAGE, st.integers(1, 40)), max_size=30), st.integers(0, 3000), st.sampled_from([1.0, 1.3, 4.0]))
def test_whatever_is_claimed_no_more_is_charged_than_was_reserved_and_no_more_than_the_budget(
    calls: list[tuple[tuple[int, int] | None, int]], budget: int, margin: float
) -> None:
    settings = ModelSettings("openai/fake", PRICE, token_margin=margin)
    with tempfile.TemporaryDirectory() as folder:
        desk, reserved = desk_of(Path(folder), margin, budget=budget), 0
        for number, (usage, prompt_tokens) in enumerate(calls):
            key, worst = f"k{number}", settings.worst_micros(prompt_tokens, 20)
            (state,) = desk.claimed("w", key, worst_micros=worst)
            assert state != "go" or worst <= budget - desk.money[0]
            if state != "go":
                continue
            reserved += worst
            said = llm_reply.Reply("an answer", "stop", usage and llm_reply.Usage(*usage))
            answer = answer_of(said, settings, Claim("", "", "", worst, prompt_tokens, 20))
            found = Excess.of({"model": "m", **answer})
            assert (found is not None) == ("claimed_margin" in answer)
            desk.settle("w", key, answer["usd_micros"], location=HERE, excess=found)
            spent, open_micros = desk.money
            assert spent <= min(reserved, budget) and open_micros == 0


def test_over_http_a_liar_is_charged_what_was_reserved_and_its_answers_count(make_room: Make, provider: FakeProvider) -> None:
    claim = {"prompt_tokens": 10**7, "completion_tokens": 10**7}
    provider.default = Reply(usage=claim)
    room = make_room(budget_micros=10 * WORST)
    outcome, raw = room.one()
    assert isinstance(outcome, Answer) and raw is not None and outcome.usd_micros == WORST
    assert (raw.claimed_tokens, raw.claimed_micros) == (2 * 10**7, 12 * 10**7)
    assert (raw.input_tokens, raw.output_tokens, raw.usd_micros) == (19, 20, WORST)
    assert room.money == (WORST, 0) == (room.records()[0]["usd_micros"], 0)
    later = room.one("another")[0]
    assert isinstance(later, Failed) and (later.error, later.retryable) == ("usage_not_credible", True)
    assert "write token_margin: " in later.message and len(provider.requests) == 1
    # The model stays stopped in a later start, and its answers stay; another run of the store asks it again.
    again = room.again()
    assert again.one("another")[0] == later and again.one()[1] == raw
    assert len(provider.requests) == 1
    assert isinstance(room.again(run_id="other").one("another")[0], Answer)
