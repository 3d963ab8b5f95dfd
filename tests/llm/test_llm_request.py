"""A request's key depends on its content: every field changes it, and nothing else does."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.llm import Limits, Message, ModelSettings, Price, Request, assistant, system, user

pytestmark = pytest.mark.core

BASE = Request("openai/m", "a prompt", {"temperature": 0.5, "max_tokens": 10}, "hash", 0, "lookup")
OTHER: dict[str, Any] = {
    "model": "openai/m2",
    "messages": "a prompt ",
    "sampling": {"temperature": 0.5, "max_tokens": 11},
    "prompt_hash": "hash2",
    "sample": 1,
    "lookup": "",
    "n": 2,
    "logprobs": 0,
    "task": "rerank",
    "inputs": ("a text", "another"),
    "shared": 5,
}
EMBED = Request("openai/m", (), task="embed", inputs=("a text",))
SAMPLING = st.dictionaries(
    st.sampled_from(["temperature", "max_tokens", "seed", "stop", "extra_body"]), st.none() | st.text() | st.integers()
)
MESSAGES = st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), st.text()), min_size=1, max_size=3)
LOGPROBS = st.none() | st.integers(0, 20)
REQUESTS = st.builds(
    Request, st.text(), MESSAGES | st.text(), SAMPLING, st.text(), st.integers(0, 9), st.text(), st.integers(1, 3), LOGPROBS
)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Request) if field.init])
def test_each_field_in_turn_changes_the_key(field: str) -> None:
    base = EMBED if field in ("task", "inputs") else BASE
    # The part that a provider may cache does not affect the answer.
    assert (dataclasses.replace(base, **{field: OTHER[field]}).key != base.key) is (field != "shared")


@pytest.mark.parametrize(
    ("request_", "key"),
    [
        (BASE, "1877204c6c9af5bc09c64cdfe2f402dd8ca10bc7c25d9a5ac67881a2d3d2c5dc"),
        (
            Request("offline/support", "é\n\n[1]", {"extra_body": {"revision": "3"}}),
            "65a0531982ba3556bfcc4a006c5c670af0905b36e2a1a38f88843bc39a1dbc3c",
        ),
        (
            Request("openai/gpt-4o", "p", {"temperature": 0, "max_tokens": 1000}, "h", 2),
            "35c2ac95cb5582224c0e1f31fea5106756923b0a1bddfc350aaebf3175b3f473",
        ),
    ],
)
def test_answers_that_are_paid_for_keep_their_keys(request_: Request, key: str) -> None:
    assert request_.key == key
    assert dataclasses.replace(request_, messages=(user(request_.prompt),), n=1, logprobs=None).key == key


TALK = (system("Be brief."), user("Who?"), assistant("Ann."), user("Why?"))


@pytest.mark.parametrize(
    "messages",
    [
        TALK[1:],
        (user("Be brief."), *TALK[1:]),
        (*TALK[:2], system("Ann."), TALK[3]),
        (TALK[0], TALK[3], TALK[2], TALK[1]),
        (user(Request("m", TALK).prompt),),
    ],
)
def test_every_message_its_role_and_its_place_change_the_key(messages: Any) -> None:
    assert Request("m", messages).key != Request("m", TALK).key


def test_a_text_is_one_message_of_a_user() -> None:
    assert Request("m", "p").messages == (user("p"),) == (Message("user", "p"),)
    assert Request("m", "p") == Request("m", [user("p")]) and Request("m", [user("p")]).prompt == "p"
    assert Request("m", TALK).prompt == "system:\nBe brief.\n\nuser:\nWho?\n\nassistant:\nAnn.\n\nuser:\nWhy?"
    assert Request("m", [system("p")]).prompt == "system:\np"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Request("m", ()),
        lambda: Request("m", "p", n=0),
        lambda: Request("m", "p", logprobs=21),
        lambda: Request("m", [Message("tool", "p")]),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_request_is_none(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.5, "max_tokens": 10, "seed": 0},
        {"temperature": 0.5, "max_tokens": 10, "extra_body": {"a": {"b": [2, 1]}}},
        {"temperature": 0.5, "max_tokens": "10"},
        {"temperature": 0.50001, "max_tokens": 10},
    ],
)
def test_every_parameter_changes_the_key(sampling: dict[str, Any]) -> None:
    assert dataclasses.replace(BASE, sampling=sampling).key != BASE.key


def test_the_order_of_parameters_and_how_a_number_is_written_do_not() -> None:
    first = Request("m", "p", {"temperature": 0, "extra_body": {"a": 1, "b": [2, 3.0]}})
    assert first.key == Request("m", "p", {"extra_body": {"b": (2.0, 3), "a": 1.0}, "temperature": 0.0}).key
    assert first.key == Request("m", "p", {"extra_body": {"b": [2, 3], "a": 1}, "temperature": -0.0}).key


def test_settings_are_no_part_of_a_request() -> None:
    # Only a field of Request can change its key: settings share just the model's name with it.
    semantic = {field.name for field in dataclasses.fields(Request)}
    assert semantic & {field.name for field in dataclasses.fields(ModelSettings)} == {"model"}
    slow = ModelSettings("openai/m", Price(1, 2), 10, "http://a", "KEY", 1.0, Limits(rpm=1, concurrency=1))
    assert slow != ModelSettings("openai/m", Price(0, 0)) and BASE.key == dataclasses.replace(BASE).key


@given(REQUESTS, REQUESTS)
def test_equal_content_means_equal_key_and_other_content_another(one: Request, other: Request) -> None:
    copy = dataclasses.replace(one, sampling=dict(reversed(one.sampling.items())))
    assert copy.key == one.key
    assert (one.key == other.key) == (one == other)


@given(REQUESTS, st.sampled_from([1, 5000]))
def test_a_key_is_the_hash_of_canonical_json_and_a_body_is_what_is_asked(one: Request, times: int) -> None:
    long = dataclasses.replace(one, messages=tuple(Message(told.role, told.content * times) for told in one.messages))
    fields = {"sampling": one.sampling, "prompt_hash": one.prompt_hash, "sample": one.sample, "lookup": one.lookup}
    text = json.dumps({"model": one.model, **long.asked, **fields}, sort_keys=True, separators=(",", ":"))
    assert long.key == hashlib.sha256(text.encode()).hexdigest()
    assert json.loads(long.body('{"model": "wire"}')) == {"model": "wire", "messages": long.asked["messages"]}


@pytest.mark.parametrize("prompt", ["a\ud800", "\x00", "", "x" * 10_000_000])
def test_every_text_has_a_key_of_its_own(prompt: str) -> None:
    keys = {Request("m", text).key for text in (prompt, prompt + " ", prompt + "\x00")}
    assert len(keys) == 3 and all(len(key) == 64 for key in keys)


def test_fields_do_not_run_into_each_other() -> None:
    assert Request("m", "ab", {}, "c").key != Request("m", "a", {}, "bc").key
    assert Request("m", "a", {}, "b", 0, "c").key != Request("m", "a", {}, "c", 0, "b").key


def test_the_key_is_the_same_in_another_process() -> None:
    code = (
        "from summhay_ray.llm import Request;"
        "print(Request('openai/m', 'a prompt', {'max_tokens': 10, 'temperature': 0.5}, 'hash', 0, 'lookup').key)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"})
    assert other.stdout.strip() == BASE.key


def test_what_is_not_json_is_refused() -> None:
    for value in (float("nan"), float("inf"), {1, 2}, object()):
        with pytest.raises((ValueError, TypeError)):
            _ = Request("m", "p", {"temperature": value}).key
