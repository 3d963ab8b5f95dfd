"""The simulated provider's faults over HTTP: what the client gets, and what it is billed."""

from __future__ import annotations

import http.client
import math
from typing import Any

import pytest
from simulated_provider import in_thread, until

from summhay_ray.simulator.chat import REFUSAL
from summhay_ray.text import count_tokens

pytestmark = pytest.mark.core

WORDS = "one two three four five six"


def answer(model: str, prompt: str) -> str:
    return WORDS


def choice(**fault: Any) -> tuple[Any, int]:
    """The choice of an answer with a fault, and its bill."""
    with in_thread(answer=answer, input_price=0.0, output_price=1.0, **fault) as provider:
        said = provider.chat("a toll")
        assert said.status == 200
        tally = provider.tally()
        assert tally["faults"] == dict.fromkeys(fault, 1)
        return said.body["choices"][0], tally["micros"]


def test_refused_filtered_and_cut_answers_are_billed_by_their_tokens() -> None:
    refused, micros = choice(refusals=1.0)
    assert refused["message"] == {"role": "assistant", "content": None, "refusal": REFUSAL}
    assert (refused["finish_reason"], micros) == ("stop", count_tokens(REFUSAL))
    filtered, micros = choice(filtered=1.0)
    assert (filtered["message"]["content"], filtered["finish_reason"], micros) == ("", "content_filter", 0)
    cut, micros = choice(cut=1.0)
    assert (cut["message"]["content"], cut["finish_reason"], micros) == ("one two three", "length", 3)


def test_errors_are_not_billed_and_a_retry_can_succeed() -> None:
    with in_thread(answer=answer, errors=0.5) as provider:
        said = [provider.chat("a toll") for _ in range(30)]
        stats, tally, calls = provider.stats(), provider.tally(), provider.calls()
    failed = [one for one in said if one.status != 200]
    assert {one.status for one in said} == {200, 500, 502, 503}
    assert {(one.body["error"]["type"], one.headers.get("Retry-After", "")) for one in failed} == {("server_error", "")}
    assert (tally["served"], tally["faults"], tally["accepted"]) == (30 - len(failed), {"errors": len(failed)}, 30)
    assert [call["attempt"] for call in calls] == list(range(30))
    assert sum(call["micros"] for call in calls if call["status"] == 200) == stats["micros"]
    assert all(call["micros"] == 0 and call["fault"] == "errors" for call in calls if call["status"] != 200)


def test_the_same_seed_has_the_same_faults() -> None:
    def statuses(seed: int) -> list[int]:
        with in_thread(answer=answer, errors=0.5, seed=seed) as provider:
            return [provider.chat(f"prompt {n % 4}").status for n in range(12)]

    assert statuses(1) == statuses(1) != statuses(2)


def test_a_drop_is_billed_and_has_no_answer() -> None:
    with in_thread(answer=answer, drops=1.0) as provider:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            provider.chat("a toll")
        (call,) = provider.calls()
        tally = provider.tally()
    assert (call["status"], call["fault"], call["answered"], call["served"]) == (0, "drops", False, True)
    assert (tally["served"], tally["answered"], tally["faults"]) == (1, 0, {"drops": 1})
    assert tally["micros"] == math.ceil(2.5 * count_tokens("a toll") + 10 * count_tokens(WORDS))


def test_a_hang_is_billed_and_ends_when_the_client_disconnects() -> None:
    with in_thread(answer=answer, hangs=1.0) as provider:
        with pytest.raises(TimeoutError):
            provider.chat("a toll", timeout_s=2.0)
        assert until(lambda: provider.stats()["in_flight"] == 0)
        (call,) = provider.calls()
        assert provider.stats()["micros"] == call["micros"] > 0
    assert (call["status"], call["fault"], call["answered"]) == (0, "hangs", False)
    assert call["done"] - call["time"] >= 0.5


def test_broken_json_is_billed() -> None:
    with in_thread(answer=answer, broken=1.0) as provider:
        said = provider.chat("a toll")
        bill = provider.tally()["micros"]
        assert provider.chat("a toll").status == said.status == 200
        tally, calls = provider.tally(), provider.calls()
    # A retry is billed again; the first call had no answer.
    assert tally["micros"] == 2 * bill > 0
    assert (tally["repeated"], tally["repeated_answered"], tally["answered"]) == (1, 0, 0)
    assert [call["answered"] for call in calls] == [False, False]
    assert isinstance(said.body, str) and said.body.startswith('{"id"')


def test_usage_may_be_missing_or_wrong_but_the_bill_is_correct() -> None:
    with in_thread(answer=answer, no_usage=0.5, wrong_usage=0.5) as provider:
        said = [provider.chat(f"prompt {n}") for n in range(40)]
        tally, calls = provider.tally(), provider.calls()
    told = {usage and usage["prompt_tokens"] for usage in (one.body.get("usage") for one in said)}
    assert told == {None, 0, 10**9, -1}
    assert sum(tally["faults"].values()) == 40
    micros = [math.ceil(2.5 * count_tokens(f"prompt {n}") + 10 * count_tokens(WORDS)) for n in range(40)]
    assert [call["micros"] for call in calls] == micros
    assert tally["micros"] == sum(micros)


def test_embeddings_have_the_faults_of_chats_but_no_refusals() -> None:
    body = {"model": "simulated", "input": "a toll"}
    with in_thread(refusals=1.0) as provider:
        assert provider.post("/v1/embeddings", body).status == 200
        assert provider.tally()["faults"] == {}
    with in_thread(errors=1.0) as provider:
        assert provider.post("/v1/embeddings", body).status >= 500
        assert provider.stats()["micros"] == 0
