"""Errors over real HTTP: the number of attempts, the charge, and the secrets that stay hidden."""

from __future__ import annotations

import asyncio
import html
import json
import re
import socket
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from fake_provider import OUTPUT_TOKENS, PROMPT_TOKENS, FakeProvider, Reply, completion
from gateway_room import KEY, KEY_ENV, Room, request
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.llm import Limits, gateway
from summhay_ray.llm import model_queue as pacing
from summhay_ray.llm.bodies import ProviderError
from summhay_ray.llm.keys import HIDDEN, NoKey, Secrets, key_in, known_secrets
from summhay_ray.llm.retry import decide
from summhay_ray.outcome import Answer, Failed, Refusal

pytestmark = pytest.mark.core

REAL = PROMPT_TOKENS * 2 + OUTPUT_TOKENS * 10
WORST = (3 + 16) * 2 + 20 * 10
Make = Callable[..., Room]


@pytest.fixture(params=["direct", "litellm"])
def transport(request: pytest.FixtureRequest) -> str:
    way: str = request.param
    return way


@pytest.mark.parametrize("status", [500, 502, 503, 529, 409])
def test_a_transient_error_is_tried_again_and_one_answer_is_paid(room: Room, provider: FakeProvider, status: int) -> None:
    provider.replies.append(Reply(status=status))
    outcome, raw = room.one()
    assert isinstance(outcome, Answer) and outcome.attempts == 2 and raw is not None and raw.attempts == 2
    assert len(provider.requests) == 2 and len(room.records()) == 1
    assert room.money == (REAL, 0) and room.ledger.counts == {"made": 1}


def test_each_attempt_of_ours_is_one_request(room: Room, provider: FakeProvider) -> None:
    provider.default = Reply(status=500)
    outcome, raw = room.one()
    assert isinstance(outcome, Failed) and (outcome.error, outcome.attempts, outcome.retryable) == ("server_error", 6, True)
    assert len(provider.requests) == 6 and raw is None and room.records() == []
    assert room.money == (0, 0) and room.ledger.counts["failed"] == 1
    provider.default = Reply()
    assert isinstance(room.again().one()[0], Answer)


@pytest.mark.parametrize(("status", "error"), [(400, "bad_request"), (413, "request_too_large"), (422, "bad_request")])
def test_a_request_that_never_succeeds_is_sent_once(room: Room, provider: FakeProvider, status: int, error: str) -> None:
    provider.replies.append(Reply(status=status))
    outcome, _ = room.one()
    assert isinstance(outcome, Failed) and (outcome.error, outcome.attempts) == (error, 1)
    # A later run may try again: the user may have repaired the endpoint, and nothing was paid.
    assert outcome.retryable
    assert len(provider.requests) == 1 and isinstance(room.one("other")[0], Answer)


def test_retry_after_is_waited_for_by_all_calls_of_the_model(make_room: Make, provider: FakeProvider) -> None:
    # Three calls have grants, two seconds apart, when the first is answered with 429.
    room = make_room(limits=Limits(rpm=30))
    provider.replies.append(Reply(status=429, headers={"Retry-After": "3"}))
    outcomes = [outcome for outcome, _ in room.ask(*(f"p{n}" for n in range(3)))]
    assert all(isinstance(outcome, Answer) for outcome in outcomes) and len(provider.requests) == 4
    first, *later = provider.times
    assert min(later) - first >= 3.0


def test_a_rate_limit_without_a_header_backs_off_and_does_not_use_up_other_attempts(
    room: Room, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "LONGEST_PAUSE_WITHOUT_TIME_S", 0.02)
    monkeypatch.setattr(gateway, "LONGEST_BACKOFF_S", 0.02)
    provider.replies.extend([Reply(status=429)] * 8 + [Reply(status=500)] * 2 + [Reply(status=429)])
    outcome, _ = room.one()
    assert isinstance(outcome, Answer) and outcome.attempts == 12 == len(provider.requests)


def test_a_bad_key_stops_the_model_and_no_further_call_is_made(room: Room, provider: FakeProvider) -> None:
    provider.default = Reply(status=401)
    outcome, _ = room.one()
    assert isinstance(outcome, Failed) and outcome.error == "authentication" and outcome.retryable
    provider.default = Reply()
    later = [outcome for outcome, _ in room.ask("b", "c", "a prompt")]
    assert [(one.error, one.attempts, one.retryable) for one in later if isinstance(one, Failed)] == [
        ("authentication", 0, True)
    ] * 3
    assert len(provider.requests) == 1 and room.money[0] == 0
    assert isinstance(room.again().one()[0], Answer)


def test_calls_on_their_way_stop_with_the_model(make_room: Make, provider: FakeProvider) -> None:
    # The next call would be sent after ten seconds: it is stopped before.
    room = make_room(limits=Limits(rpm=6))
    provider.default = Reply(status=403)
    outcomes = [outcome for outcome, _ in room.ask(*(f"p{n}" for n in range(6)))]
    assert sorted(outcome.error for outcome in outcomes if isinstance(outcome, Failed)) == ["permission_denied"] * 6
    assert len(provider.requests) == 1 and room.in_flight == 0


def test_a_call_that_waits_to_be_tried_again_stops_with_the_model(room: Room, provider: FakeProvider) -> None:
    provider.replies.append(Reply(status=503, headers={"Retry-After": "0.3"}))

    async def scene() -> Any:
        asking = asyncio.ensure_future(room.gateway.complete(request()))
        while not provider.requests:
            await asyncio.sleep(0.005)
        room.ledger._stop("openai/fake", ("authentication", "bad key"))
        return await asking

    outcome, _ = room.run(scene())
    assert isinstance(outcome, Failed) and (outcome.error, outcome.message) == ("authentication", "bad key")
    assert len(provider.requests) == 1 and room.money == (0, 0)


@pytest.mark.parametrize("reply", [Reply(delay_s=60.0), Reply(trickle_s=60.0)])
def test_a_hang_ends_at_the_timeout_is_asked_again_once_and_charged(
    make_room: Make, provider: FakeProvider, reply: Reply
) -> None:
    room = make_room(timeout_s=1.0)
    provider.default = reply
    started = time.monotonic()
    outcome, _ = room.one()
    assert 2.0 <= time.monotonic() - started < 60.0
    assert isinstance(outcome, Failed) and (outcome.error, outcome.retryable) == ("timeout", True)
    # If a busy machine has not sent an attempt in time, the attempt counts, but costs nothing.
    assert outcome.attempts >= len(provider.requests) == 2 and outcome.usd_micros == 2 * WORST
    assert room.money == (2 * WORST, 0)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(drop=True),
        Reply(body="<html>bad gateway</html>"),
        Reply(body={}),
        Reply(body="[1]"),
        Reply(body={"choices": [{"index": 0, "message": None}]}),
    ],
)
def test_what_was_sent_and_lost_is_charged_and_asked_again_once(room: Room, provider: FakeProvider, reply: Reply) -> None:
    provider.replies.append(reply)
    outcome, _ = room.one()
    assert isinstance(outcome, Answer) and len(provider.requests) == 2
    assert room.money == (WORST + REAL, 0)
    provider.replies.extend([reply] * 2)
    outcome, _ = room.one("b prompt")
    assert isinstance(outcome, Failed) and outcome.usd_micros == 2 * WORST and len(provider.requests) == 4


def test_a_failure_includes_the_charge_of_an_earlier_round(make_room: Make, provider: FakeProvider) -> None:
    room = make_room(budget_micros=WORST)
    provider.replies.append(Reply(drop=True))
    outcome, _ = room.one()
    # The lost call used up the budget, and the next round did not fit.
    assert isinstance(outcome, Failed) and (outcome.error, outcome.attempts, outcome.usd_micros) == ("budget", 1, WORST)
    assert len(provider.requests) == 1 and room.money[0] == WORST


def test_what_never_left_is_not_charged(make_room: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        room = make_room(api_base=f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        outcome, _ = room.one()
    assert isinstance(outcome, Failed) and (outcome.error, outcome.attempts, outcome.retryable) == ("connection", 6, True)
    assert outcome.usd_micros == 0 and room.money == (0, 0)


def test_a_filtered_prompt_is_a_refusal(room: Room, provider: FakeProvider) -> None:
    error = {
        "message": "The response was filtered due to the prompt triggering content management policy.",
        "code": "content_filter",
    }
    provider.replies.append(Reply(status=400, error=error))
    outcome, raw = room.one()
    assert isinstance(outcome, Refusal) and outcome.error == "content_filter" and raw is None and len(provider.requests) == 1


def test_a_prompt_that_cannot_be_sent_fails_alone(room: Room, provider: FakeProvider) -> None:
    broken, fine = (outcome for outcome, _ in room.ask("half \ud83d", "whole"))
    assert isinstance(broken, Failed) and (broken.error, broken.attempts) == ("bad_request", 1) and isinstance(fine, Answer)


@pytest.mark.parametrize(("status", "named"), [(400, True), (500, True), (401, False)])
def test_the_key_is_nowhere(
    make_room: Make, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch, status: int, named: bool
) -> None:
    monkeypatch.setattr(gateway, "BACKOFF_S", 0.001)
    if not named:
        # litellm reads a provider's key from the environment.
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
    room = make_room(api_key_env=KEY_ENV if named else None)
    provider.default = Reply(status=status, echo_key=True)
    outcome, _ = room.one()
    assert isinstance(outcome, Failed) and "bad credentials" in outcome.message and "***" in outcome.message
    later, _ = room.one("b")
    provider.default = Reply(f"your key is {KEY}, is it not?")
    answered, raw = room.again().one("c")
    assert raw is not None and raw.text == "your key is ***, is it not?"
    everything = [room.on_disk().decode(), *(repr(one) for one in (outcome, later, answered, room.ledger.snapshot(0.0)))]
    assert not [text for text in everything if KEY in text]


def test_messages_are_one_short_line_without_what_looks_like_a_key() -> None:
    error = ValueError(
        "a\n  b\tsk-abcdefghijklmnop https://me:secret@host/x 'Authorization: Bearer abcdefgh.ijk' end " + "x" * 600
    )
    text = Secrets().one_line(error)
    assert text.startswith("a b *** https://***@host/x 'Authorization: Bearer ***' end xxx") and len(text) == 500
    assert Secrets().one_line(TimeoutError()) == "TimeoutError"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((word, Failed) for word in ("network_error", "insufficient_system_resource", "OTHER")),
        *((word, Refusal) for word in ("sensitive", "PROHIBITED_CONTENT", "refusal")),
        *((word, Answer) for word in ("MAX_TOKENS", "something_new")),
    ],
)
def test_the_end_of_an_answer_decides_its_outcome(make_room: Make, provider: FakeProvider, word: str, kind: type) -> None:
    provider.default = Reply(finish_reason=word)
    room = make_room()
    outcome, raw = room.one()
    worth = type(outcome)
    assert worth is kind and outcome.usd_micros == room.money[0] == REAL * outcome.attempts
    if raw is None:
        assert (outcome.error, outcome.attempts) == ("server_error", 2) and word in outcome.message
    else:
        assert len(provider.requests) == 1 and raw.finish_reason == {"MAX_TOKENS": "length"}.get(word, raw.finish_reason)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ({"code": 502, "message": "upstream disconnected"}, "unavailable"),
        ({"code": "x", "message": "no"}, "server_error"),
        ("gone", "server_error"),
    ],
)
def test_an_answer_with_an_error_of_its_own_is_paid_and_tried_again(
    make_room: Make, provider: FakeProvider, error: Any, told: str, transport: str
) -> None:
    body = completion("fake", Reply(finish_reason="error" if transport == "litellm" else "stop"))
    body["choices"][0]["error"] = error
    provider.replies.append(Reply(body=body))
    room = make_room()
    outcome, _ = room.one()
    assert isinstance(outcome, Answer) and outcome.attempts == 2 and room.money[0] == 2 * REAL
    provider.default = Reply(body=body)
    outcome, _ = room.one("b")
    assert isinstance(outcome, Failed) and outcome.error == (told if transport == "direct" else outcome.error)


WINDOWS = {
    "vllm": "The decoder prompt (length 5005) is longer than the maximum model length of 4096.",
    "vllm with max_tokens": "'max_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your",
    "sglang": "The input (5005 tokens) is longer than the model's context length (4096 tokens).",
    "sglang requested": "Requested token count exceeds the model's maximum context length of 131072 tokens.",
    "llama.cpp": "request (5005 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "llama.cpp without room": "Context size has been exceeded.",
    "tgi": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5005 `inputs` tokens",
    "tgi input": "Input validation error: `inputs` must have less than 1024 tokens. Given: 4000",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "groq": "Please reduce the length of the messages or completion.",
    "mistral": "Prompt contains 300000 tokens, too large for model with 131072 maximum context length",
    "ollama": "prompt too long; exceeded max context length by 4096 tokens",
    "ollama embeddings": "the input length exceeds the context length",
    "deepseek": "This model's maximum context length is 131072 tokens. However, you requested 133034 tokens",
    "lm studio": "The number of tokens to keep from the initial prompt is greater than the context length",
    "gemini": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "bedrock": "Input is too long for requested model.",
    "kimi": "Your request exceeded model token limit: 262144 (requested: 300000)",
    "copilot": "prompt token count of 145000 exceeds the limit of 128000",
    "dashscope": "Range of input length should be [1, 129024]",
    "cerebras": "Please reduce. Current length is 9000 while limit is 8192",
}


@pytest.mark.parametrize("status", [400, 500])
def test_a_prompt_that_does_not_fit_is_a_row_in_every_servers_words(
    make_room: Make, provider: FakeProvider, status: int, transport: str
) -> None:
    room = make_room()
    bodies: list[dict[str, Any]] = [{"message": words, "type": "BadRequestError", "code": status} for words in WINDOWS.values()]
    bodies.append({"message": "too much", "type": "exceed_context_size_error", "n_ctx": 256})
    # Every transport reads them alike at every status: first all of them, then some.
    for error in bodies[:: 1 if (transport, status) == ("direct", 400) else 5]:
        provider.default = Reply(status=status, error=error)
        outcome, _ = room.one(str(error))
        assert isinstance(outcome, Failed) and (outcome.error, outcome.attempts) == ("context_window", 1), error


@pytest.mark.parametrize(
    "words",
    [
        "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
        "`max_new_tokens` must be <= 4096. Given: 9000",
        "Unsupported value: temperature exceeds 2",
    ],
)
def test_another_bad_request_is_no_window(words: str) -> None:
    assert decide(ProviderError(400, json.dumps({"error": {"message": words}}))).error == "bad_request"


@given(st.text(min_size=8), st.text(), st.lists(st.integers(0, 60)))
@example("a\"\\b/\u00e9\U0001f600&'", "", [3, 5])
@example("-----\nab\r\n cd", "", [])
def test_a_secret_is_hidden_in_any_spelling_and_however_it_is_cut(secret: str, around: str, cuts: list[int]) -> None:
    secret = secret.strip()
    if len(secret) < 8 or secret in HIDDEN + around or not secret.isprintable():
        return
    secrets = Secrets([secret])
    coded = json.dumps(secret)
    spellings = [secret, coded, json.dumps(secret, ensure_ascii=False), json.dumps(coded), html.escape(secret)]
    spellings += [quote(secret, safe=""), quote_plus(secret), re.sub("%..", lambda code: code[0].lower(), quote(secret))]
    for spelling in spellings:
        assert spelling not in secrets.hide(f"{around}\n{spelling}\n{around}")
        assert secrets.are_in(spelling)
    edges = sorted({0, len(secret), *(cut for cut in cuts if cut < len(secret))})
    pieces = [secret[first:last] for first, last in pairwise(edges)]
    forms: list[list[Any]] = [pieces, [{"token": piece, "bytes": [*piece.encode()]} for piece in pieces]]
    for entries in [*forms, [{"text": piece} for piece in pieces]]:
        assert {HIDDEN} == {*(one if isinstance(one, str) else one[next(iter(one))] for one in secrets.hide(entries))}
        assert "bytes" not in str(secrets.hide(entries))


@pytest.mark.parametrize("key", ["abcdefgh-1234\nexport OTHER=1", "abcdefgh-1234\x00", "abcdefgh-\u00e9"])
def test_a_key_that_no_header_can_hold_stops_the_model_and_is_not_shown(key: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(key, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(NoKey) as found:
        patch.setenv("ODD_KEY_FILE", str(file))
        key_in("ODD_KEY")
    assert "ODD_KEY" in str(found.value) and "abcdefgh" not in str(found.value)


def test_a_line_break_after_a_key_is_no_part_of_it_and_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODD_KEY", "abcdefgh-1234\r\n")
    assert key_in("ODD_KEY") == "abcdefgh-1234"
    assert known_secrets(["ODD_KEY"]).one_line(ValueError("no such key: abcdefgh-1234.")) == "no such key: ***."
