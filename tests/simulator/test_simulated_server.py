"""The simulated provider over HTTP: what it answers, bills and refuses."""

from __future__ import annotations

import hashlib
import http.client
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_provider import KEY, Simulated, fingerprint, in_thread, until

from summhay_ray.simulator import provider as room
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

FINGERPRINT = fingerprint(KEY)
LONG = "".join(f"Line {n} of a long beginning that many prompts have in common.\n" for n in range(120))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The provider's clock, which only the test moves (`now`, in seconds)."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(room, "time", SimpleNamespace(time=time.time, monotonic=lambda: clock.now))
    return clock


def test_an_answer_is_counted_and_billed() -> None:
    with in_thread(input_price=2.5, output_price=10.0) as provider:
        said = provider.chat("What of the toll?")
        assert said.text == "simulated: What of the toll?"
        tokens_in, tokens_out = count_tokens("What of the toll?"), count_tokens(said.text)
        usage = said.body["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (tokens_in, tokens_out)
        micros = math.ceil(2.5 * tokens_in + 10 * tokens_out)
        (call,) = provider.calls()
        stats, tally = provider.stats(), provider.tally()
    assert said.body["choices"][0]["finish_reason"] == "stop"
    assert call["prompt"] == hashlib.sha256(b"What of the toll?").hexdigest()
    named = ("n", "kind", "key", "model", "status", "fault", "micros", "answered", "served")
    assert [call[name] for name in named] == [0, "chat", FINGERPRINT, "simulated", 200, "", micros, True, True]
    assert stats["keys"][FINGERPRINT]["micros"] == stats["micros"] == tally["micros"] == micros
    assert (tally["served"], tally["answered"], tally["tokens_in"], tally["tokens_out"]) == (1, 1, tokens_in, tokens_out)
    assert KEY not in str(stats) + str(call)


def test_each_key_and_model_has_a_bill_of_its_own_and_repeats_are_counted() -> None:
    with in_thread(models={"dear": {"input_price": 1000.0, "output_price": 0.0}}, output_price=0.0) as provider:
        for key, model in [(KEY, "simulated"), (KEY, "dear"), ("sk-other", "dear"), ("sk-other", "dear"), ("", "dear")]:
            assert provider.chat("a toll", key, model=model).status == 200
        stats = provider.stats()
    other = fingerprint("sk-other")
    n = count_tokens("a toll")
    micros = {key: {model: tally["micros"] for model, tally in found["models"].items()} for key, found in stats["keys"].items()}
    assert micros == {
        FINGERPRINT: {"simulated": math.ceil(2.5 * n), "dear": 1000 * n},
        other: {"dear": 2000 * n},
        "none": {"dear": 1000 * n},
    }
    dear = stats["keys"][other]["models"]["dear"]
    assert (dear["served"], dear["prompts"], dear["repeated"], dear["repeated_answered"]) == (2, 1, 1, 1)
    assert (stats["served"], stats["repeated"]) == (5, 1)


def test_a_common_prefix_is_billed_at_the_cached_price() -> None:
    prices: dict[str, Any] = {"input_price": 4.0, "cached_price": 1.0, "output_price": 0.0}
    with in_thread(quick=False, answer=lambda model, prompt: "yes", cache_lifetime=300.0, **prices) as provider:
        first, second = provider.chat(LONG + "Was there a toll?"), provider.chat(LONG + "Or a crane?")
        stranger = provider.chat(LONG + "Or a crane?", key="sk-other")
        elsewhere = provider.chat(LONG + "Or a crane?", model="another")
        calls = provider.calls()
    n, shared = count_tokens(LONG + "Or a crane?"), count_tokens(LONG) // 128 * 128
    assert shared >= 1024
    cached = [said.body["usage"]["prompt_tokens_details"]["cached_tokens"] for said in (first, second, stranger, elsewhere)]
    assert cached == [0, shared, 0, 0]
    assert calls[1]["micros"] == 4 * (n - shared) + 1 * shared
    assert calls[2]["micros"] == calls[3]["micros"] == 4 * n


def test_the_cache_forgets_and_has_only_completed_prompts(clock: SimpleNamespace) -> None:
    both = threading.Barrier(2)

    def answer(model: str, prompt: str) -> str:
        # The first two are computed before either is complete, which takes its latency.
        if prompt[-1] in "ab":
            both.wait(60)
        return prompt

    with in_thread(quick=False, answer=answer, cache_lifetime=30.0, latency=1.5) as provider, ThreadPoolExecutor(2) as pool:
        together = list(pool.map(provider.chat, [LONG + "a", LONG + "b"]))
        clock.now += 29.0
        soon = provider.chat(LONG + "c")
        clock.now += 31.0
        late = provider.chat(LONG + "d")
    cached = [said.body["usage"]["prompt_tokens_details"]["cached_tokens"] for said in (*together, soon, late)]
    assert cached == [0, 0, count_tokens(LONG) // 128 * 128, 0]


def test_max_tokens_and_skews_are_respected() -> None:
    with in_thread(answer=lambda model, prompt: "word " * 50, token_skew=0.5) as provider:
        said = [provider.chat(f"prompt {n}", max_tokens=20, max_completion_tokens=30) for n in range(30)]
        calls = provider.calls()
    assert {one.body["choices"][0]["finish_reason"] for one in said} == {"length"}
    n = count_tokens("prompt 1")
    assert all(round(n * 0.5) <= call["tokens_in"] <= round(n * 1.5) for call in calls)
    assert len({call["tokens_in"] for call in calls}) > 1
    assert all(call["tokens_out"] <= 20 for call in calls)
    assert {one.body["usage"]["completion_tokens"] for one in said} == {call["tokens_out"] for call in calls}


REFUSED: list[tuple[dict[str, Any], dict[str, Any], int, str, str]] = [
    ({"unknown_models": ("simulated",)}, {}, 404, "model_not_found", "invalid_request_error"),
    ({"context_window": 20}, {"max_tokens": 20}, 400, "context_length_exceeded", "invalid_request_error"),
    ({"quota": 0.0}, {}, 429, "insufficient_quota", "insufficient_quota"),
    ({"input_tpm": 2}, {}, 429, "rate_limit_exceeded", "tokens"),
    ({"output_tpm": 2}, {}, 429, "rate_limit_exceeded", "tokens"),
    ({}, {"n": 0}, 400, "invalid_value", "invalid_request_error"),
    ({}, {"stream": True}, 400, "invalid_value", "invalid_request_error"),
]


@pytest.mark.parametrize(("settings", "fields", "status", "code", "kind"), REFUSED)
def test_refused_requests_are_not_billed(
    settings: dict[str, Any], fields: dict[str, Any], status: int, code: str, kind: str
) -> None:
    with in_thread(**settings) as provider:
        said = provider.chat("What of the toll?", **fields)
        stats = provider.stats()
    assert (said.status, said.code, said.body["error"]["type"]) == (status, code, kind)
    assert said.headers["Retry-After"] is None
    assert (stats["requests"], stats["served"], stats["micros"], stats["rate_limited"]) == (1, 0, 0, int(status == 429))


def test_keys_that_are_not_listed_are_refused_and_not_repeated() -> None:
    with in_thread(keys=["sk-listed"]) as provider:
        said = [provider.chat("a toll", key) for key in ("sk-listed", KEY, "")]
        calls = provider.calls()
    assert [one.status for one in said] == [200, 401, 401]
    assert said[1].code == "invalid_api_key" and KEY not in str(said[1].body)
    assert [call["status"] for call in calls] == [200, 401, 401]


def test_invalid_bodies_are_refused() -> None:
    with in_thread() as provider:
        for body in (b"{", b"[]", {"model": "m"}):
            assert provider.post("/chat/completions", body).status == 400
        assert provider.get("/v1/nowhere").status == 404
        assert provider.stats()["micros"] == 0


def test_a_key_stops_at_its_quota() -> None:
    with in_thread(answer=lambda model, prompt: "", input_price=1000.0, quota=0.004) as provider:
        n = count_tokens("a toll")
        said = [provider.chat("a toll").status for _ in range(6)]
        assert provider.chat("a toll", key="sk-other").status == 200
    served = math.ceil(0.004 / (n * 1000 / 1e6))
    assert said == [200] * served + [429] * (6 - served)
    assert 0 < served < 6


@pytest.mark.parametrize("limit", ["rpm", "input_tpm", "output_tpm"])
def test_a_limit_holds_and_its_retry_after_is_exact(limit: str, clock: SimpleNamespace) -> None:
    prompt, answer = "a toll", "one two three four"
    most: dict[str, Any] = {"rpm": 2, "input_tpm": 2 * count_tokens(prompt), "output_tpm": 2 * count_tokens(answer)}
    with in_thread(answer=lambda model, prompt: answer, **{limit: most[limit]}) as provider:
        said = [provider.chat(prompt)]
        clock.now += 12.5
        said += [provider.chat(prompt) for _ in range(2)]
        assert provider.chat(prompt, key="sk-other").status == provider.chat(prompt, model="another").status == 200
        clock.now += 47.499
        early = provider.chat(prompt)
        clock.now += 0.001
        late, more = provider.chat(prompt), provider.chat(prompt)
        refused = provider.tally()["refused"]
    assert [one.status for one in (*said, early, late, more)] == [200, 200, 429, 429, 200, 429]
    waits = [(one.headers["Retry-After"], one.headers["retry-after-ms"]) for one in (said[2], early, more)]
    assert (waits, refused) == ([("48", "47500"), ("1", "1"), ("13", "12500")], {limit: 3})


def test_too_many_requests_at_once_are_refused_without_a_time() -> None:
    go_on = threading.Event()

    def answer(model: str, prompt: str) -> str:
        assert go_on.wait(60)
        return prompt

    with in_thread(answer=answer, quick=False, concurrency=3) as provider, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(provider.chat, f"prompt {n}") for n in range(8)]
        assert until(lambda: provider.stats()["rate_limited"] == 5)
        go_on.set()
        said = [one.result() for one in asked]
        assert provider.chat("later").status == 200
        tally = provider.tally()
    assert sorted(one.status for one in said) == [200] * 3 + [429] * 5
    assert {one.headers["Retry-After"] for one in said} == {None}
    assert (tally["most_in_flight"], tally["in_flight"], tally["refused"]) == (3, 0, {"concurrency": 5})


def test_latencies_of_requests_overlap() -> None:
    with in_thread(latency=1.5) as provider, ThreadPoolExecutor(8) as pool:
        started = time.monotonic()
        list(pool.map(provider.chat, [f"prompt {n}" for n in range(8)]))
        assert 1.5 <= time.monotonic() - started < 8 * 1.5
    with in_thread(latency=60.0, models={"quick": {"latency": 0.0}}) as provider:
        started = time.monotonic()
        provider.chat("a toll", model="quick")
        assert time.monotonic() - started < 60.0


def test_a_slow_answer_delays_no_other_and_is_computed_once() -> None:
    asked: list[str] = []
    go_on = threading.Event()

    def answer(model: str, prompt: str) -> str:
        asked.append(prompt)
        if prompt == "slow":
            assert go_on.wait(60)
        return prompt

    with in_thread(answer=answer, quick=False) as provider, ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(provider.chat, "slow") for _ in range(2)]
        assert until(lambda: "slow" in asked)
        assert provider.chat("quick").text == "quick"
        assert provider.stats()["in_flight"] == 2
        go_on.set()
        assert [one.result().text for one in slow] == ["slow", "slow"]
        assert provider.chat("slow").text == "slow"
    assert sorted(asked) == ["quick", "slow"]


def test_a_client_that_disconnects_has_paid() -> None:
    thinking, go_on = threading.Event(), threading.Event()

    def answer(model: str, prompt: str) -> str:
        thinking.set()
        assert go_on.wait(60)
        return "an answer"

    def gone(provider: Simulated, prompt: str) -> None:
        connection = http.client.HTTPConnection(provider.root.removeprefix("http://"))
        body = f'{{"model": "simulated", "messages": [{{"role": "user", "content": "{prompt}"}}]}}'
        connection.request("POST", "/v1/chat/completions", body)
        assert thinking.wait(60)
        assert until(lambda: provider.stats()["in_flight"] == 1)
        connection.close()

    with in_thread(answer=answer, quick=False, latency=30.0) as provider:
        gone(provider, "while it is worked out")
        assert until(lambda: provider.stats()["in_flight"] == 0)
        go_on.set()
        assert until(lambda: provider.stats()["served"] == 1)
        gone(provider, "while it waits")
        assert until(lambda: provider.stats()["served"] == 2 and provider.stats()["in_flight"] == 0)
        calls = provider.calls()
    assert [(call["answered"], call["fault"], call["micros"] > 0) for call in calls] == [(False, "client_gone", True)] * 2


def test_the_books_can_be_closed() -> None:
    with in_thread(rpm=1) as provider:
        assert [provider.chat("a toll").status for _ in range(2)] == [200, 429]
        assert len(provider.calls()) == 2
        provider.reset()
        assert (provider.calls(), provider.stats()["micros"]) == ([], 0)
        assert provider.chat("a toll").status == 200


def test_embeddings_are_billed_and_similar_for_similar_texts() -> None:
    with in_thread(input_price=1.0, models={"simulated": {"input_price": 3.0}}) as provider:
        body = {"model": "embedder", "input": ["the toll was doubled", "the toll was halved"], "dimensions": 64}
        said = provider.post("/v1/embeddings", body)
        packed = provider.post("/embeddings", {**body, "encoding_format": "base64"})
        tally = provider.tally("embedder")
        models = [one["id"] for one in provider.get("/v1/models").body["data"]]
    one, other = (row["embedding"] for row in said.body["data"])
    assert len(one) == 64 and sum(x * y for x, y in zip(one, other, strict=True)) > 0.5
    assert isinstance(packed.body["data"][0]["embedding"], str)
    n = count_tokens("the toll was doubled\nthe toll was halved")
    assert said.body["usage"] == {"prompt_tokens": n, "total_tokens": n}
    assert (tally["micros"], tally["served"], tally["repeated"]) == (2 * n, 2, 1)
    assert models == ["simulated", "simulated-judge"]
