"""The simulated provider's requests and answers, without a server."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.simulator.bodies import Refused, choice_of, read_body, read_chat, read_embeddings
from summhay_ray.simulator.chat import ABSURD_TOKENS, REFUSAL, finish, reported_usage, scaled_prefix, with_logprobs
from summhay_ray.simulator.prefixes import Encoder
from summhay_ray.simulator.vectors import embed, packed

pytestmark = pytest.mark.core

USER = {"role": "user", "content": "What of the toll?"}
TEN_WORDS = "one two three four five six seven eight nine ten"


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], **fields}


def test_the_prompt_is_the_user_s_text_and_text_is_that_of_all_messages() -> None:
    system = {"role": "system", "content": "Be brief."}
    ask = read_chat(chat(messages=[system, USER], max_tokens=30, max_completion_tokens=20))
    assert (ask.prompt, ask.text, ask.max_tokens) == ("What of the toll?", "system:\nBe brief.\n\nuser:\nWhat of the toll?", 20)
    parts = {"role": "user", "content": [{"type": "text", "text": "What of "}, {"type": "text", "text": "the toll?"}]}
    alone = read_chat(chat(messages=[parts], stream=False, n=1))
    assert (alone.prompt, alone.text, alone.max_tokens) == ("What of the toll?", "What of the toll?", None)
    # Another system message is another request.
    assert alone.sha != ask.sha == read_chat(chat(messages=[system, USER])).sha


def test_the_numbers_of_answers_and_log_probabilities_are_read() -> None:
    def asked(**fields: Any) -> tuple[int, int | None]:
        ask = read_chat(chat(**fields))
        return ask.n, ask.logprobs

    assert asked() == asked(n=None, logprobs=None, top_logprobs=None) == asked(logprobs=False) == (1, None)
    assert asked(n=3, logprobs=True) == (3, 0) and asked(logprobs=True, top_logprobs=20) == (1, 20)


def test_each_token_has_its_log_probability_and_the_likeliest() -> None:
    text = "A toll of 3 €."
    choice = with_logprobs(choice_of(text, "stop"), 3)
    content = choice["logprobs"]["content"]
    assert b"".join(bytes(one["bytes"]) for one in content) == text.encode() and len(content) == Encoder().count(text)
    for one in content:
        top = one["top_logprobs"]
        assert len(top) == 3 and top[0] == {name: one[name] for name in ("token", "logprob", "bytes")}
        assert [entry["logprob"] for entry in top] == sorted((entry["logprob"] for entry in top), reverse=True)
        assert len({entry["token"] for entry in top}) == 3 and math.fsum(math.exp(entry["logprob"]) for entry in top) <= 1
    assert with_logprobs(choice_of(text, "stop"), 3) == choice
    assert with_logprobs(choice_of(text, "stop"), 0)["logprobs"]["content"][0]["top_logprobs"] == []
    assert len(with_logprobs(choice_of(" the", "stop"), 20)["logprobs"]["content"][0]["top_logprobs"]) == 20
    assert with_logprobs(choice_of(None, "stop", "no"), 3)["logprobs"] is None


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"model": None}, "model", "you must provide a model parameter, a string"),
        ({"messages": []}, "messages", "messages is a list of at least one message"),
        ({"messages": ["hello"]}, "messages", "each message is an object with role and content"),
        ({"messages": [{"role": "user"}]}, "messages", "a message's content is a string or a list of text parts"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "a message's content is"),
        ({"stream": True}, "stream", "the simulated provider does not stream; leave stream out or send false"),
        ({"n": 0}, "n", "n is a whole number from 1 to 128"),
        ({"n": 129}, "n", "n is a whole number from 1 to 128"),
        ({"logprobs": 3}, "logprobs", "logprobs is true or false"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "top_logprobs is a whole number from 0 to 20"),
        ({"top_logprobs": 2}, "top_logprobs", "top_logprobs is a whole number from 0 to 20, beside logprobs: true"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens is a whole number from 1"),
        ({"max_tokens": True}, "max_tokens", "max_tokens is a whole number from 1"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens", "max_completion_tokens is a whole number from 1"),
    ],
)
def test_an_invalid_request_is_refused(fields: dict[str, Any], param: str, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_chat(chat(**fields))
    error = json.loads(refusal.value.reply().body)["error"]
    assert (refusal.value.status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"].startswith(said)


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b'"text"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_an_object_is_refused(raw: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        read_body(raw)
    assert refusal.value.status == 400


def test_inputs_of_embeddings_are_texts_or_tokens() -> None:
    def inputs(given: Any) -> tuple[tuple[str, ...], int | None]:
        ask = read_embeddings({"model": "e", "input": given})
        return ask.inputs, ask.n_given_tokens

    assert inputs("a toll") == (("a toll",), None)
    assert inputs(["a", "b"]) == (("a", "b"), None)
    assert inputs([5, 7, 9]) == (("5 7 9",), 3)
    assert inputs([[5, 7], [9]]) == (("5 7", "9"), 3)
    wrong: Any
    for wrong in (None, [], 5, ["a", 5], [[5], "a"], [[]], [True]):
        with pytest.raises(Refused):
            inputs(wrong)
    for fields in ({"dimensions": 0}, {"dimensions": 9000}, {"dimensions": True}, {"encoding_format": "int8"}):
        with pytest.raises(Refused):
            read_embeddings({"model": "e", "input": "a", **fields})


def finished(text: str, fault: str = "", max_tokens: int | None = None, factor: float = 1.0) -> tuple[Any, str, Any, int]:
    done = finish(text, fault, max_tokens, factor, Encoder())
    message = done.choice["message"]
    return message["content"], done.choice["finish_reason"], message["refusal"], done.tokens_out


def test_answers_are_finished_by_fault_and_limit() -> None:
    assert finished(TEN_WORDS) == (TEN_WORDS, "stop", None, 10)
    assert finished(TEN_WORDS, max_tokens=10) == (TEN_WORDS, "stop", None, 10)
    assert finished(TEN_WORDS, max_tokens=3) == ("one two three", "length", None, 3)
    assert finished(TEN_WORDS, "cut") == ("one two three four five", "length", None, 5)
    assert finished(TEN_WORDS, "cut", max_tokens=2) == ("one two", "length", None, 2)
    assert finished(TEN_WORDS, "filtered") == ("", "content_filter", None, 0)
    content, reason, refusal, n_tokens = finished(TEN_WORDS, "refusals")
    assert (content, reason, refusal) == (None, "stop", REFUSAL)
    assert n_tokens == Encoder().count(REFUSAL)
    # With a factor of 2, max_tokens 7 leaves room for 3 of our tokens, which are billed as 6.
    assert finished(TEN_WORDS, max_tokens=7, factor=2.0) == ("one two three", "length", None, 6)
    assert finished(TEN_WORDS, factor=0.94) == (TEN_WORDS, "stop", None, 9)


@given(st.integers(1, 15), st.floats(0.5, 1.5), st.sampled_from(["", "cut", "refusals", "filtered"]))
def test_no_answer_has_more_tokens_than_max_tokens(max_tokens: int, factor: float, fault: str) -> None:
    assert 0 <= finished(TEN_WORDS, fault, max_tokens, factor)[3] <= max_tokens


def test_reported_usage_depends_on_the_fault() -> None:
    true = reported_usage("", 0.5, 100, 40, 7)
    assert true == {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert reported_usage("no_usage", 0.5, 100, 40, 7) is None
    wrong = [reported_usage("wrong_usage", variant, 100, 40, 7) for variant in (0.0, 0.4, 0.99)]
    assert [usage and usage["prompt_tokens"] for usage in wrong] == [0, ABSURD_TOKENS, -1]


def test_a_cached_prefix_is_counted_in_the_provider_s_steps() -> None:
    assert [scaled_prefix(1152, factor) for factor in (1.0, 1.1, 0.9, 0.88)] == [1152, 1152, 1024, 0]


def test_vectors_have_length_one_and_like_texts_are_alike() -> None:
    toll, same, crane = (embed(text, 256) for text in ("The toll was doubled.", "the TOLL was doubled", "A crane broke!"))
    assert sum(x * x for x in toll) == pytest.approx(1)
    assert toll == same
    likeness = [sum(x * y for x, y in zip(toll, other, strict=True)) for other in (embed("The toll was halved", 256), crane)]
    # Three of four words in common: 3 / (2 * 2).
    assert likeness == pytest.approx([0.75, 0.0], abs=0.01)
    for text in ("", "...", "a b c d e f"):
        assert sum(x * x for x in embed(text, 1)) == pytest.approx(1)
    assert struct.unpack("<2f", base64.b64decode(packed([0.5, -1.0]))) == (0.5, -1.0)
    assert all(math.isfinite(x) for x in embed("\ud800", 8))
