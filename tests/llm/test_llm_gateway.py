"""One call over real HTTP: logged before it is used, sent once, paid once, never beyond a limit."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_provider import OUTPUT_TOKENS, PROMPT_TOKENS, FakeProvider, Reply
from gateway_room import KEY, KEY_ENV, Room, request

from summhay_ray.llm import Limits, Price
from summhay_ray.llm import ledger_service as service
from summhay_ray.llm.ledger_messages import Settlement
from summhay_ray.outcome import Answer, Failed, Malformed, Refusal
from summhay_ray.store import RUN, LocalFiles, Location, LogWriter, MoneyRecord
from summhay_ray.store.money import MoneyRecords

pytestmark = pytest.mark.core

REAL = PROMPT_TOKENS * 2 + OUTPUT_TOKENS * 10
WORST = (3 + 16) * 2 + 20 * 10
Make = Callable[..., Room]


def logged(room: Room, run: str = "run") -> int:
    """The cost of the run's answers in the log."""
    return sum(tally.usd_micros for tally in room.index().totals(run).values())


def test_an_answer_carries_text_tokens_price_and_key(room: Room, provider: FakeProvider) -> None:
    provider.default = Reply("first line\nüber 👩\u200d👧 \u202e", finish_reason="length")
    outcome, raw = room.one()
    assert isinstance(outcome, Answer) and outcome.value is raw and raw is not None
    assert (raw.text, raw.finish_reason, raw.key) == ("first line\nüber 👩\u200d👧 \u202e", "length", request().key)
    assert (raw.input_tokens, raw.output_tokens, raw.cached_tokens) == (PROMPT_TOKENS, OUTPUT_TOKENS, 0)
    assert raw.usd_micros == outcome.usd_micros == REAL and raw.attempts == 1
    (sent,) = provider.requests
    assert sent == {"model": "fake", "messages": [{"role": "user", "content": "a prompt"}], "max_tokens": 20, "temperature": 0}


def test_a_ceiling_is_durable_before_the_call_and_the_answer_before_anybody_else(room: Room, provider: FakeProvider) -> None:
    on_disk: list[list[dict[str, Any]]] = []

    def settle(settlement: Settlement) -> None:
        on_disk.append(room.records())

    async def ask() -> None:
        provider.held = True
        asking = asyncio.ensure_future(room.gateway.complete(request()))
        while not provider.in_flight:
            await asyncio.sleep(0.005)
        newest = MoneyRecords(LocalFiles(room.root), "run").newest()
        assert newest is not None and newest.ceiling[RUN] >= WORST and not newest.ended
        provider.held = False
        await asking

    room.gateway._client.settle = settle  # type: ignore[method-assign]
    room.run(ask())
    ((answer,),) = on_disk
    assert answer["usd_micros"] == REAL
    assert answer["raw"]["choices"][0]["message"]["content"] == answer["text"] == "an answer"
    assert room.money == (0, WORST), "the ledger has not heard of it"


def test_the_second_ask_makes_no_call_in_the_same_gateway_in_a_new_one_and_in_another_run(
    room: Room, provider: FakeProvider
) -> None:
    first = room.one()
    later = [room.one(), room.again().one(), room.again(run_id="another").one()]
    assert later == [first] * 3 and len(provider.requests) == 1
    assert logged(room) == REAL and logged(room, "another") == 0


def test_a_new_process_makes_no_call(room: Room, provider: FakeProvider) -> None:
    room.one()
    code = """
import asyncio, sys
from pathlib import Path
from gateway_room import Room, settings_of
room = Room(Path(sys.argv[1]), [settings_of(sys.argv[2])], asyncio.new_event_loop())
outcome, raw = room.one()
assert "litellm" not in sys.modules
print(raw.text, room.ledger.counts["reused"])
"""
    other = subprocess.run(
        [sys.executable, "-c", code, str(room.root), provider.base],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), KEY_ENV: KEY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.split() == ["an", "answer", "1"] and provider.prompts == {"a prompt": 1}


def test_many_asks_of_few_keys_make_one_call_each(room: Room, provider: FakeProvider) -> None:
    provider.default = Reply(delay_s=0.05)
    second, _ = room.worker()

    async def ask() -> list[Any]:
        asks = [one.complete(request(f"p{n % 5}")) for n in range(50) for one in (room.gateway, second)]
        return list(await asyncio.gather(*asks))

    outcomes = room.run(ask())
    assert len(outcomes) == 100 and all(isinstance(outcome, Answer) for outcome, _ in outcomes)
    assert provider.prompts == {f"p{n}": 1 for n in range(5)}
    assert room.ledger.counts == {"made": 5, "reused": 95}
    assert room.money == (5 * REAL, 0) and logged(room) == 5 * REAL


def test_concurrency_is_a_limit_of_the_model(make_room: Make, provider: FakeProvider) -> None:
    provider.held = True
    room = make_room(limits=Limits(concurrency=3))

    async def scene() -> None:
        asks = [asyncio.ensure_future(room.gateway.complete(request(f"p{n}"))) for n in range(12)]
        while provider.in_flight < 3:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        provider.held = False
        await asyncio.gather(*asks)

    room.run(scene())
    assert provider.most_in_flight == 3 and len(provider.requests) == 12


def test_a_prompt_that_does_not_fit_fails_and_names_both_lengths(make_room: Make, provider: FakeProvider) -> None:
    room = make_room(context_window=30)
    prompt = "word " * 11
    assert isinstance(room.one("word " * 9)[0], Answer)
    outcome, raw = room.one(prompt)
    assert isinstance(outcome, Failed) and raw is None and outcome.retryable
    assert outcome.error == "context_window" and outcome.message.startswith("the prompt's 12 tokens and 20 for the answer")
    assert "window of 30 tokens" in outcome.message
    assert len(provider.requests) == 1 and len(room.records()) == 1


def test_a_call_that_does_not_fit_the_budget_is_not_made(make_room: Make, provider: FakeProvider) -> None:
    # "a prompt" has 2 tokens: at most ceil(2 x 1.5) + 16 of them are paid, and 20 of the answer.
    provider.default = Reply(usage={"prompt_tokens": 4, "completion_tokens": 10, "total_tokens": 14})
    room = make_room(budget_micros=WORST - 1)
    outcome, raw = room.one()
    assert isinstance(outcome, Failed) and outcome.error == "budget" and outcome.retryable and raw is None
    assert provider.requests == [] and room.ledger.over_budget and room.records() == []
    richer = room.again(budget_micros=WORST)
    assert isinstance(richer.one()[0], Answer) and richer.money[0] == 4 * 2 + 10 * 10


def test_with_many_callers_the_budget_is_used_and_never_exceeded(make_room: Make, provider: FakeProvider) -> None:
    provider.default = Reply(delay_s=0.01, usage={"prompt_tokens": 4, "completion_tokens": 10, "total_tokens": 14})
    real = 4 * 2 + 10 * 10
    room = make_room(budget_micros=1000)
    outcomes = [outcome for outcome, _ in room.ask(*(f"{n} it" for n in range(10, 40)))]
    answered = sum(isinstance(outcome, Answer) for outcome in outcomes)
    assert {type(outcome) for outcome in outcomes} == {Answer, Failed}
    assert logged(room) == answered * real <= 1000 and answered * real + WORST > 1000
    assert len(provider.requests) == answered


def test_a_free_model_needs_no_ceiling_and_spends_nothing(make_room: Make, provider: FakeProvider) -> None:
    room = make_room(budget_micros=0, price=Price(0, 0))
    assert isinstance(room.one()[0], Answer)
    assert len(room.records()) == 1 and room.money == (0, 0) and MoneyRecords(LocalFiles(room.root), "run").newest() is None


@pytest.mark.parametrize(
    ("reply", "kind", "error"),
    [
        (Reply("", finish_reason="content_filter"), Refusal, "content_filter"),
        (Reply("half of", finish_reason="content_filter"), Refusal, "content_filter"),
        (Reply(""), Malformed, "empty_answer"),
        (Reply(" \n\t"), Malformed, "empty_answer"),
        (Reply(None), Malformed, "empty_answer"),
    ],
)
def test_a_paid_reply_that_is_no_answer_is_kept_too(
    room: Room, provider: FakeProvider, reply: Reply, kind: type, error: str
) -> None:
    provider.default = reply
    first = room.one()
    assert isinstance(first[0], kind) and first[0].error == error and first[0].usd_micros == REAL
    assert first[1] is not None and first[1].text == (reply.text or "")
    assert room.again().one() == first and len(provider.requests) == 1


def test_a_caller_that_goes_away_leaves_a_paid_answer_for_the_next(room: Room, provider: FakeProvider) -> None:
    provider.held = True

    async def scene() -> None:
        asking = asyncio.ensure_future(room.gateway.complete(request()))
        while not provider.in_flight:
            await asyncio.sleep(0.005)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        provider.held = False
        outcome, _ = await room.gateway.complete(request())
        assert isinstance(outcome, Answer)

    room.run(scene())
    assert len(provider.requests) == 1 and room.in_flight == 0


def test_a_caller_that_goes_away_before_its_turn_sends_nothing(make_room: Make, provider: FakeProvider) -> None:
    room = make_room(limits=Limits(rpm=30))

    async def scene() -> None:
        asks = [asyncio.ensure_future(room.gateway.complete(request(f"p{n}"))) for n in range(3)]
        while not provider.requests:
            await asyncio.sleep(0.005)
        asks[1].cancel()
        await asyncio.gather(*asks, return_exceptions=True)

    room.run(scene())
    assert provider.prompts == {"p0": 1, "p2": 1}
    assert (room.money, room.in_flight) == ((2 * REAL, 0), 0)


class FullDisk:
    """A log writer whose disk is full at the first append."""

    def __init__(self, log: LogWriter) -> None:
        self.log, self.full = log, True

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        if self.full:
            self.full = False
            raise OSError(28, "No space left on device")
        return self.log.append(records)


def test_a_full_disk_is_an_error_and_blocks_nobody(room: Room, provider: FakeProvider) -> None:
    room.gateway._log = FullDisk(room.log)  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        room.one()
    assert len(provider.requests) == 1 and room.in_flight == 0
    # A paid answer that is not durable is uncertain; the question may be asked again.
    assert room.money == (0, 0) and room.ledger.account.uncertain["", ""] == WORST
    assert isinstance(room.one()[0], Answer) and room.money == (REAL, 0)


def test_while_no_ceiling_can_be_written_nothing_is_sent_and_then_it_goes_on(
    room: Room, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AGAIN_S", 0.01)
    write, failures = room.service.record, [OSError(28, "No space left on device")] * 3

    def record(money: MoneyRecord) -> None:
        if failures:
            assert not provider.requests
            raise failures.pop()
        write(money)

    room.service.record = record
    assert isinstance(room.one()[0], Answer) and not failures and room.money == (REAL, 0)


def test_a_session_ends_though_no_ceiling_can_be_written(room: Room, provider: FakeProvider) -> None:
    tried: list[MoneyRecord] = []

    def record(money: MoneyRecord) -> None:
        tried.append(money)
        raise OSError(28, "No space left on device")

    async def scene() -> None:
        room.service.record = record
        asking = asyncio.ensure_future(room.gateway.complete(request()))
        while not tried:
            await asyncio.sleep(0.005)
        with pytest.raises(OSError, match="No space left"):
            await room.service.end()
        asking.cancel()

    room.run(scene())
    assert tried[-1].ended and provider.requests == []


def test_a_drain_keeps_what_is_in_flight_and_gives_back_what_is_not_sent(room: Room, provider: FakeProvider) -> None:
    provider.replies.extend([Reply(delay_s=0.3), Reply(status=503, headers={"Retry-After": "30"})])

    async def scene() -> list[bool]:
        asks = []
        for n in range(2):
            asks.append(asyncio.ensure_future(room.gateway.complete(request(f"p{n}"))))
            while len(provider.requests) <= n:
                await asyncio.sleep(0.005)
        # The second call waits for its retry, and the third for the end of the pause.
        while not room.gateway._client._paused:
            await asyncio.sleep(0.005)
        asks.append(asyncio.ensure_future(room.gateway.complete(request("p2"))))
        await asyncio.sleep(0.05)
        await room.gateway.drain(20.0)
        done = [ask.done() for ask in asks]
        for ask in asks[1:]:
            ask.cancel()
        return done

    assert room.run(scene()) == [True, False, False]
    assert len(provider.requests) == 2 and len(room.records()) == 1
    assert (room.money, room.in_flight, room.ledger.account.uncertain["", ""]) == ((REAL, 0), 0, 0)
