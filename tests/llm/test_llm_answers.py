"""A provider's reply: its charge and its stored record, whatever it contains or lacks."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from summhay_ray.llm import RawAnswer, Secrets
from summhay_ray.llm.budgets import suggested_margin
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.prices import FREE, Price
from summhay_ray.llm.read_reply import answer_of, read_answer, reply_of, usage_of, written
from summhay_ray.llm.request import MOST_TOKENS, Reply, Usage
from summhay_ray.outcome import Answer, Refusal
from summhay_ray.store.answers import decode

pytestmark = pytest.mark.core

GPT = ModelSettings("openai/gpt-4o", Price(2, 10, 1, 2.5))
THINKER = ModelSettings("openai/o1", Price(2, 10), reasoning=True)
TEXT = "one two three four five six seven eight"  # Eight tokens.
IN, OUT, MOST = 100, 8, 50
ASKED = Claim("", "", "", GPT.worst_micros(IN, MOST), IN, MOST)
# 100 x 1.15 + 16 = 131 prompt tokens, written to the cache at 2.5; 8 x 1.15 + 16 = 25.2, so 26 answer tokens.
OWN = math.ceil(131 * 2.5 + 26 * 10)
LONGEST = math.ceil(131 * 2.5 + MOST * 10)


def charged(
    usage: Usage | None, settings: ModelSettings = GPT, text: str = TEXT, end: str = "stop", **raw: Any
) -> dict[str, Any]:
    asked = Claim("", "", "", settings.worst_micros(IN, MOST), IN, MOST)
    return answer_of(Reply(text, end, usage, raw or None), settings, asked)


def recorded(reply: Reply, *secrets: str) -> dict[str, Any]:
    """The record of a reply, as its line in the log contains it."""
    known = {"kind": "answer", "key": "k", "run": "r", "stage": "s", "model": "m", "attempts": 1}
    record, line = written(known, reply, GPT, ASKED, Secrets(secrets))
    # Optional fields with the value zero are left out.
    assert {"saved_micros": 0, **(decode(line) or {})} == json.loads(json.dumps(record))
    return record


def test_usage_is_what_is_charged() -> None:
    answer = charged(Usage(110, 9, 40, 20, 3))
    assert answer == {
        "text": TEXT,
        "finish_reason": "stop",
        "input_tokens": 110,
        "cached_tokens": 40,
        "cache_write_tokens": 20,
        "reasoning_tokens": 3,
        "output_tokens": 9,
        "usd_micros": 50 * 2 + 40 * 1 + 20 * 2.5 + 9 * 10,
        "saved_micros": 110 * 2 - (50 * 2 + 40 * 1 + 20 * 2.5),
    }


def test_without_usage_our_own_counts_are_charged_with_a_margin() -> None:
    answer = charged(None)
    assert (answer["usd_micros"], answer["saved_micros"]) == (OWN, 0)
    assert (answer["input_tokens"], answer["output_tokens"], answer["cached_tokens"]) == (IN, OUT, 0)
    # The reserved worst case is the longest answer: much more than the actual answer.
    assert OWN < ASKED.worst_micros == LONGEST


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        (Reply(TEXT, "length", None), GPT),
        (Reply("", "content_filter", None), GPT),
        (Reply("", "no_choices", None), GPT),
        (Reply(TEXT, "stop", None), THINKER),
        (Reply(TEXT, "stop", None, {"choices": [{"message": {}}, {"message": {}}]}), GPT),
        (Reply(TEXT, "stop", None, {"choices": [{"message": {"tool_calls": [{"function": {"arguments": "x" * 999}}]}}]}), GPT),
    ],
    ids=["cut", "filtered", "nothing", "reasons", "several", "tools"],
)
def test_an_answer_that_was_not_fully_read_counts_as_the_longest(reply: Reply, settings: ModelSettings) -> None:
    asked = Claim("", "", "", settings.worst_micros(IN, MOST), IN, MOST)
    assert answer_of(reply, settings, asked)["usd_micros"] == asked.worst_micros


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_that_are_shown_are_charged(name: str) -> None:
    message = {"content": TEXT, name: TEXT, "role": "assistant"}
    answer = charged(None, choices=[{"message": message}])
    assert answer["usd_micros"] == math.ceil(131 * 2.5 + math.ceil(2 * OUT * 1.15 + 16) * 10)
    assert answer["text"] == TEXT and answer["raw"]["choices"][0]["message"] == message


@pytest.mark.parametrize("usage", [Usage(0, 0), Usage(100, 0), Usage(49, 9), Usage(100, 3)])
def test_usage_that_cannot_be_true_is_charged_by_our_own_counts(usage: Usage) -> None:
    answer = charged(usage)
    assert answer["usd_micros"] == OWN
    assert (answer["input_tokens"], answer["cached_tokens"], answer["reasoning_tokens"]) == (IN, 0, 0)
    json.dumps(answer, allow_nan=False)


def test_the_greater_of_a_doubtful_count_and_ours_is_charged() -> None:
    # A text cannot have 0 output tokens; the prompt's count may be true, and it exceeds ours.
    answer = charged(Usage(140, 0))
    assert answer["usd_micros"] == math.ceil(140 * 2.5 + 26 * 10) and answer["input_tokens"] == 140
    assert charged(Usage(10, 40))["usd_micros"] == math.ceil(131 * 2.5 + 40 * 10)


@pytest.mark.parametrize("usage", [Usage(10**7, 10**7), Usage(MOST_TOKENS, 9), Usage(10**7, 0)])
def test_usage_above_what_was_reserved_is_charged_the_reservation(usage: Usage) -> None:
    answer = charged(usage)
    # 131 tokens of the prompt and 50 of the answer were reserved.
    assert answer["usd_micros"] == LONGEST and answer["saved_micros"] == 0
    assert answer["input_tokens"] == 131 and answer["output_tokens"] == min(usage.output_tokens, MOST)
    tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
    assert (answer["claimed_tokens"], answer["claimed_micros"]) == (tokens_in + tokens_out, tokens_in * 2 + tokens_out * 10)
    assert answer["claimed_margin"] == answer["claimed_micros"] / LONGEST


def test_a_free_model_that_claims_too_much_is_marked_too() -> None:
    free = ModelSettings("openai/gpt-4o", FREE)
    assert "claimed_margin" not in charged(Usage(131, MOST), free)
    answer = charged(Usage(131, MOST + 1), free)
    assert (answer["usd_micros"], answer["claimed_micros"], answer["claimed_tokens"]) == (0, 0, 182)
    assert answer["claimed_margin"] == 182 / 181 and answer["output_tokens"] == MOST


@given(
    st.integers(0, MOST_TOKENS),
    st.integers(0, MOST_TOKENS),
    st.floats(1, 50),
    st.sampled_from([GPT, THINKER, ModelSettings("x/y", FREE)]),
)
def test_no_claim_is_charged_above_the_reservation_and_its_margin_reserves_as_much(
    tokens_in: int, tokens_out: int, margin: float, settings: ModelSettings
) -> None:
    usage = Usage(tokens_in, tokens_out)
    written = replace(settings, token_margin=margin)
    reserved = written.worst_micros(IN, MOST)
    answer = charged(usage, written)
    assert answer["usd_micros"] <= reserved and reserved >= settings.worst_micros(IN, MOST)
    if "claimed_margin" not in answer:
        return
    assert answer["usd_micros"] == reserved and answer["claimed_margin"] > margin
    # The margin that the message suggests is enough.
    assert "claimed_margin" not in charged(usage, replace(settings, token_margin=suggested_margin(answer["claimed_margin"])))


def test_a_model_in_the_worker_costs_nothing_and_its_tokens_are_counted() -> None:
    local = ModelSettings("offline/lead", FREE)
    answer = charged(None, local)
    assert (answer["usd_micros"], answer["input_tokens"], answer["output_tokens"]) == (0, IN, OUT)
    assert "raw" not in answer
    assert charged(Usage(7, 9), local)["input_tokens"] == 7
    rehearsed = ModelSettings("offline/lead", Price(2, 10))
    assert charged(None, rehearsed)["usd_micros"] == IN * 2 + OUT * 10


COUNTS = st.none() | st.integers(-10, 400) | st.integers() | st.booleans() | st.floats() | st.text(max_size=3)
ENDS = st.sampled_from(["stop", "length", "content_filter", ""])


@given(st.text(max_size=60), ENDS, st.sampled_from([GPT, THINKER, ModelSettings("x/y", Price(3, 1, 4))]), st.integers(0, 500))
def test_a_call_without_usage_never_costs_more_than_was_reserved(
    text: str, end: str, settings: ModelSettings, prompt: int
) -> None:
    asked = Claim("", "", "", settings.worst_micros(prompt, MOST), prompt, MOST)
    answer = answer_of(Reply(text, end, None), settings, asked)
    assert 0 < answer["usd_micros"] <= asked.worst_micros


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, ENDS)
def test_whatever_usage_says_the_record_is_whole_and_the_charge_no_less_than_half(
    tokens_in: Any, tokens_out: Any, cached: Any, written: Any, reasoned: Any, end: str
) -> None:
    told = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "cache_creation_input_tokens": written}
    details = {"prompt_tokens_details": {"cached_tokens": cached}, "completion_tokens_details": {"reasoning_tokens": reasoned}}
    answer = charged(usage_of({**told, **details}), end=end)
    json.dumps(answer, allow_nan=False)
    for name in ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens", "usd_micros"):
        assert type(answer[name]) is int and answer[name] >= 0
    # At least half of our count is charged: 50 tokens, all cached, and 4 of the answer.
    assert answer["usd_micros"] >= 50 * 1 + 4 * 10


def test_secrets_are_hidden_and_what_no_log_can_hold_is_mended() -> None:
    secret = 'sk-"quoted"-0123456789abcdef'
    body = {"a": [f"key {secret} here", math.inf, 1.5, "\ud800", "é😀"], "b": {"c": secret}}
    reply = Reply(f"said {secret}\ud800", f"stop{secret}", Usage(100, 50), body)
    answer = recorded(reply, secret)
    assert answer["text"] == "said ***\ufffd" and answer["finish_reason"] == "stop***"
    assert answer["raw"] == {"a": ["key *** here", None, 1.5, "\ufffd", "é😀"], "b": {"c": "***"}}
    # JSON within JSON has another spelling.
    alone = recorded(Reply("said", "stop", Usage(100, 50), {}, logprobs=[{"token": secret}]), secret)
    assert json.loads(alone["logprobs"]) == [{"token": "***"}]


def test_a_body_that_is_no_json_is_kept_as_far_as_it_is() -> None:
    assert recorded(Reply(TEXT, "stop", None, {"a": {1, 2}, "b": math.nan}))["raw"] == {"a": "{1, 2}", "b": None}
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert recorded(Reply(TEXT, "stop", None, {"deep": deep}))["raw"] is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(10, 5, 4)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(10, 5)),
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, Usage(10, 5, 4)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3},
            Usage(10, 5, 4, 3),
        ),
        # These counts of read and written tokens exceed the prompt's count.
        (
            {"prompt_tokens": 3, "completion_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3},
            Usage(10, 5, 4, 3),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}},
            Usage(10, 5, 0, 0, 3),
        ),
        # xAI's count of the answer omits reasoning: the total shows it, and so does an answer shorter than its reasoning.
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(10, 8, 0, 0, 3),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}},
            Usage(10, 14, 0, 0, 9),
        ),
        ({"prompt_tokens": 10}, None),
        ({"completion_tokens": 10}, None),
        ({"prompt_tokens": True, "completion_tokens": 1}, None),
        ({"prompt_tokens": -1, "completion_tokens": 1}, None),
        ({"prompt_tokens": 10, "completion_tokens": MOST_TOKENS + 1}, Usage(10, MOST_TOKENS)),
        (None, None),
    ],
)
def test_usage_as_providers_write_it(usage: Any, expected: Usage | None) -> None:
    assert usage_of(usage) == expected


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
NAMES = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
    "cached_tokens",
]
NAMES += ["reasoning_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "prompt_cache_hit_tokens"]


@given(st.dictionaries(st.sampled_from(NAMES), JUNK | st.integers(0, 50) | st.dictionaries(st.sampled_from(NAMES), JUNK)) | JUNK)
@example({"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10**400}})
def test_no_usage_whatever_it_is_raises(usage: Any) -> None:
    found = usage_of(usage)
    if found is not None:
        assert 0 <= found.cached_tokens + found.cache_write_tokens <= found.input_tokens
        assert 0 <= found.reasoning_tokens <= found.output_tokens


def body_of(message: Any, end: Any = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": end}], **more}


@pytest.mark.parametrize(
    ("message", "end", "expected"),
    [
        ({"content": "hi"}, "stop", ("hi", "stop")),
        ({"content": None}, None, ("", "")),
        ({"content": "hi", "refusal": None}, "length", ("hi", "length")),
        ({"content": "hi"}, "max_tokens", ("hi", "length")),
        ({"content": "hi"}, 7, ("hi", "")),
        ({"content": [{"type": "text", "text": "a"}, {"type": "x"}, "b", {"text": 3}]}, "stop", ("ab", "stop")),
        ({"content": None, "refusal": "I will not"}, "stop", ("I will not", "refusal")),
        ({"content": "", "provider_specific_fields": {"refusal": "no"}}, "stop", ("no", "refusal")),
        ({"content": "hi", "refusal": "no"}, "stop", ("hi", "stop")),
        ({"content": "", "reasoning_content": "thoughts"}, "stop", ("", "stop")),
    ],
)
def test_the_fields_of_a_completion_are_read(message: Any, end: Any, expected: tuple[str, str]) -> None:
    body = body_of(message, end, usage={"prompt_tokens": 3, "completion_tokens": 2})
    reply = reply_of(body)
    assert (reply.text, reply.finish_reason) == expected
    assert reply.usage == Usage(3, 2) and reply.raw is body


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {}, {"error": {"message": "no"}}, {"choices": None}, {"choices": [None]}, {"choices": [{}]}]
    + [body_of(None), body_of("text"), body_of({"content": 3}), body_of({"content": {"text": "x"}})],
)
def test_a_reply_that_is_no_completion_is_reported(body: Any) -> None:
    with pytest.raises(ValueError, match="no chat completion"):
        reply_of(body)


@given(
    JUNK
    | st.fixed_dictionaries({"choices": JUNK})
    | st.builds(body_of, JUNK)
    | st.builds(lambda c: body_of({"content": c}), JUNK)
)
def test_a_body_is_a_reply_or_a_value_error(body: Any) -> None:
    try:
        reply = reply_of(body)
    except ValueError:
        return
    assert isinstance(reply.text, str) and isinstance(reply.finish_reason, str)


OLD = {"key": "k", "model": "m", "text": "hi", "finish_reason": "stop", "attempts": 2, "usd_micros": 5, "raw": {}}
OLD |= {"input_tokens": 9, "cached_tokens": 1, "output_tokens": 3}


def several(*choices: dict[str, Any]) -> Any:
    """A body with these choices: content, end, refusal."""
    made = []
    for one in choices:
        message = {"content": one.get("content"), "refusal": one.get("refusal")}
        made.append({"message": message, "finish_reason": one.get("end", "stop")})
    return {"choices": made}


@pytest.mark.parametrize(
    ("choices", "texts", "end"),
    [
        ([{"content": "a"}, {"content": "b", "end": "length"}], ("a", "b"), "stop"),
        ([{"content": ""}, {"content": "b", "end": "length"}], ("", "b"), "length"),
        # A refused or filtered choice among several has no text.
        ([{"content": "a"}, {"refusal": "I will not"}], ("a", ""), "stop"),
        ([{"refusal": "I will not"}, {"content": "b"}], ("", "b"), "stop"),
        ([{"content": "half", "end": "content_filter"}, {"content": "b"}], ("", "b"), "stop"),
        ([{"refusal": "I will not"}, {"refusal": "Nor I"}], ("I will not", ""), "refusal"),
        ([{"content": "a"}, {"content": 5}], ("a", ""), "stop"),
    ],
)
def test_several_choices_are_several_texts(choices: list[dict[str, Any]], texts: tuple[str, ...], end: str) -> None:
    reply = reply_of(several(*choices))
    assert (reply.texts, reply.finish_reason) == (texts, end)
    record = json.loads(json.dumps({**OLD, **answer_of(reply, GPT, ASKED)}))
    outcome, raw = read_answer(record)
    assert (raw.texts, raw.finish_reason) == (texts, end)
    assert isinstance(outcome, Refusal if end == "refusal" else Answer)


def test_records_of_earlier_versions_are_read() -> None:
    raw = RawAnswer("k", "m", "hi", "stop", 9, 1, 3, 5, 2, 0, 0)
    assert read_answer(OLD) == (Answer(raw, "k", 2, 5), raw)
    newer = {**OLD, "cache_write_tokens": 4, "reasoning_tokens": 2, "saved_micros": 1, "stage": "judge"}
    assert read_answer(newer)[1] == RawAnswer("k", "m", "hi", "stop", 9, 1, 3, 5, 2, 4, 2)
