"""The reader of models' answers: what counts as thinking, which errors in JSON are repaired, and that nothing is invented."""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.text import UnusableAnswer, final_text, json_value, read_label, read_number, remove_thinking

pytestmark = pytest.mark.core

ANSWER = '- The storm closed the harbour. [1]\n- "Costs" rose {by 4}. [2]'
THOUGHT = 'I could cite [7].\nMaybe {"verdict": "not"}?'
TAGS = [
    *[(f"<{name}>", f"</{name}>") for name in ("think", "thinking", "Thought", "reasoning", "reflection", "seed:think")],
    *[("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"), ("<|begin_of_thought|>", "<|end_of_thought|>")],
    *[('<think mode="x">', "</think>"), ("<|START_THINKING|>", "<|END_THINKING|>"), ("<antThinking>", "</antThinking>")],
    *[("< think >", "< /think >"), ("<|thought_start|>", "<|thought_end|>"), ("<internal_monologue>", "</internal_monologue>")],
    *[("[THOUGHT]", "[/THOUGHT]"), ("＜think＞", "＜/think＞"), ("&lt;think&gt;", "&lt;/think&gt;"), ("<思考>", "</思考>")],
]
CHANNELS = [
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final <|constrain|>json<|message|>"),
    ("analysis", "assistantfinal"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("Here is my thought process:", "Here is my response:"),
    ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    ("Thinking...\n", "...done thinking."),
    *[("[think]", "[/think]"), ("[Thinking]\n", "\n[/Thinking]"), ("```thinking\n", "\n```\n"), ("~~~reasoning\n", "\n~~~\n")],
    *[("<!-- ", " -->"), ("<details>\n<summary>Thought for 3 s</summary>\n", "\n</details>")],
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|channel|>commentary<|message|>", "<|end|><|start|>assistant<|message|>"),
]
HEADINGS = [
    *[("**Thinking:** ", "\n\n**Answer:**\n"), ("## Thought process\n", "\n## Final Answer\n"), ("*Thinking...*\n", "\n---\n")],
    *[("Reasoning: ", "\n\nFinal answer:\n"), ("**Pensée :** ", "\n**Réponse :** "), ("**思考：**", "\n**回答：**")],
    ("> Thinking: ", "\n\n"),
]


def error_of(text: str) -> str:
    with pytest.raises(UnusableAnswer) as caught:
        remove_thinking(text)
    return caught.value.error


@pytest.mark.parametrize(("begin", "end"), [*TAGS, *CHANNELS])
def test_thinking_before_an_answer_is_removed_and_fails_if_it_does_not_end(begin: str, end: str) -> None:
    for text in (f"{begin}{THOUGHT}{end}{ANSWER}", f"\n{begin}\n{THOUGHT}\n{end}\n\n{ANSWER}<|im_end|>"):
        assert remove_thinking(text) == ANSWER
    assert error_of(begin + THOUGHT) == "unfinished_thinking"
    assert remove_thinking(f"{begin}{THOUGHT}{end}") == ""


@pytest.mark.parametrize(("begin", "end"), HEADINGS)
def test_thinking_under_a_heading_ends_at_the_answers(begin: str, end: str) -> None:
    assert remove_thinking(begin + THOUGHT.replace("\n", " ") + end + ANSWER) == ANSWER
    assert json_value(remove_thinking("**Thinking:** Bullet 3?\n" + '{"a": 1}')) == {"a": 1}
    assert error_of("**Thinking:** Bullet 3?") == "unfinished_thinking"


@pytest.mark.parametrize(("begin", "end"), TAGS)
def test_thinking_after_an_answer_or_without_its_beginning_is_removed(begin: str, end: str) -> None:
    block = f"{begin}{THOUGHT}{end}"
    for text in (f"{ANSWER}\n{block}", f"{ANSWER}{block}", block + block + ANSWER, f"{block}{ANSWER}\n{block}"):
        assert remove_thinking(text) == ANSWER
    for text in (
        f"{THOUGHT}{end}{ANSWER}",
        f"{THOUGHT}\n{end}\n{ANSWER}",
        f"<answer>\n{ANSWER}\n</answer>",
        f"{begin}{end}{ANSWER}",
    ):
        assert remove_thinking(text) == ANSWER
    assert error_of(f"{ANSWER}\n{begin}Wait") == "unfinished_thinking"
    assert remove_thinking(f"{begin}I end with `{end}`, then answer.{end}{ANSWER}") == ANSWER
    assert remove_thinking(f"<reasoning2>{begin}{THOUGHT}{end}").startswith("<reasoning2>")


@pytest.mark.parametrize(
    "text",
    [
        "- The forum says that <think> tags leak. [1]\n- Prices rose. [2]",
        "- Use `<think>` and `</think>`. [1]\n- Prices rose. [2]",
        "- The parser splits at </think> and drops the rest. [1]\n- Prices rose.",
        "- Models write <think>hm</think> first. [1]\n- The closing tag is </think>. [1]",
        "The template:\n```\n<think>\nhm\n</think>\n```\nAnd so on.",
        '{"insight": "The tag </think> ends thought.", "evidence": "<think>hm</think> said the log", "tag": "<think>"}',
        "1. <think> is a tag.\n2. [reasoning] matters. [1]\n3. He said (<thinking>) twice.",
        "analysis: the tram opened.",
        "Analysis of the tram: it opened.",
        "The format has <|channel|>final<|message|> tokens.",
        "[Analysis] of the tram. [1]\n[reasoning] matters.\n(draft) Maybe {thought}.\nThey went a --> b.",
        "Thinking big, the mayor spoke.\n- Reasoning: it opened.\n```html\n<!-- a -->\n```\nA comment is <!-- a -->.",
    ],
)
def test_a_tag_that_the_answer_quotes_is_text(text: str) -> None:
    assert remove_thinking(text) == text


@given(st.text(), st.sampled_from(TAGS))
def test_an_answer_survives_any_thinking(thought: str, tags: tuple[str, str]) -> None:
    begin, end = tags
    assert remove_thinking(f"{begin}{thought.replace('<', '(')}\n{end}\n{ANSWER}") == ANSWER


def test_cut_and_empty_answers() -> None:
    for text, finish, error in (
        (ANSWER, "length", "cut_answer"),
        (" \n", "stop", "empty_answer"),
        ("x</think>", "stop", "empty_answer"),
    ):
        with pytest.raises(UnusableAnswer) as caught:
            final_text(text, finish)
        assert caught.value.error == error


VALUE = {"a": 'it\'s "x" {1}, [2]', "b": [1, -2.5, None, True], "c": {"d": ""}}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(VALUE, indent=1),
        f"The form is {{'a': ..., 'b': [...]}}, {{so}} here:\n```json\n{json.dumps(VALUE)}\n```\nI hope {{that}} helps.",
        f"{json.dumps(VALUE)}\n{VALUE!r}",
        f"[{json.dumps(VALUE)}]",
        f'{{"answer": {json.dumps(VALUE)}}}',
        repr(VALUE),
        json.dumps(VALUE)[:-1] + ",}",
        json.dumps(VALUE).replace("true]", "true,]").replace("1,", "1, // one, of {many}\n").replace('"c"', '/* " */ "c"'),
        json.dumps(VALUE).replace('\\"', '"').replace('"a"', "a").replace("null", "None"),
        json.dumps(VALUE).replace('"b"', "“b”").replace('"c"', "‘c’"),
        json.dumps(VALUE).replace('], "c"', ']\n"C"'),
        json.dumps(VALUE).replace('"b"', "„b“").replace('"c"', "«c»"),
        json.dumps(VALUE).replace('"b":', "「b」：").replace('"c":', "`c`："),
        json.dumps({"text": json.dumps(VALUE)}),
        f"\\boxed{{{VALUE!r}}}",
        json.dumps(VALUE).replace('"b"', '"B_"').replace('"c"', '" C"'),
    ],
)
def test_an_object_is_read_through_what_models_do_to_it(text: str) -> None:
    assert json_value(remove_thinking(text), "a", "b", "c") == VALUE


@pytest.mark.parametrize(
    "text", ["[[1, 2], [3]]", "Here:\n```\n[[1,2],[3,],]\n```", '{"groups": [[1, 2], [3]]}', "[[1, 2], [3]] {x}"]
)
def test_a_list_is_read(text: str) -> None:
    assert json_value(text, kind=list) == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("error", "texts"),
    [
        ("no_json", ("", '{"b": 1}', "a: 1")),
        ("two_answers", ('{"a": 1} or {"a": 2}',)),
        ("broken_json", ('{"a": 1, "a": 2}', '{"a": 1, "A": 1}', '{"a": NaN}', '{"a": 1e999}', '{"a": 1 or 2}', '{"a": x, y}')),
        ("broken_json", ('{"a": "x', '{"a": "x"', '{"a": 1', '{"a": 1} No: {"a": 2', '{"a": 1, "b": c d: e', '{"a":' * 2000)),
        ("broken_json", (f'{{"a": {"9" * 5000}}}',)),
    ],
)
def test_what_is_not_clear_is_not_read(error: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(UnusableAnswer) as caught:
            json_value(text, "a")
        assert caught.value.error == error and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[[1, 2], [3", "[1] or [2]", "[[1, 2]", '[{"a": 1}, {"a"'])
def test_a_list_that_is_cut_off_is_none(text: str) -> None:
    with pytest.raises(UnusableAnswer):
        json_value(text, kind=list)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab'\"\\ ,:{}[]#/\n", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab '", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["x", "y y"]), VALUES, min_size=1), st.integers(0, 80), st.sampled_from([json.dumps, repr])
)
def test_an_object_is_read_whole_or_not_at_all(value: dict[str, Any], cut: int, written: Any) -> None:
    name, text = next(iter(value)), written(value)
    try:
        assert json_value(text, name) == value
    except UnusableAnswer:
        assert written is repr
    try:
        read = json_value(text[: min(cut, len(text) - 1)], name)
    except UnusableAnswer:
        return
    # Whole objects with this name may be within one that is cut off.
    assert name in read and json.dumps(read)[1:-1] in json.dumps(value)


@pytest.mark.parametrize(
    ("label", "texts"),
    [
        ("supported", ("supported", "**Supported.** It says so.", "<verdict>supported</verdict>")),
        ("not", ("Verdict: `not`\nIt is not supported.", "Not\nnot")),
        ("not supported", ("Verdict：NOT_SUPPORTED", "It is clear.\n\nNot supported")),
        ("partly", ("- Verdict: partly - a part",)),
        (None, ("It is not supported.", "supported or partly", "supported\npartly", "", "notable")),
    ],
)
def test_a_label_begins_a_line(label: str | None, texts: tuple[str, ...]) -> None:
    for text in texts:
        try:
            assert read_label(text, {"supported", "partly", "not", "not supported"}) == label
        except UnusableAnswer:
            assert label is None


BEFORE = st.sampled_from(
    ["", " ", "\n", "**", "(", "- ", "1. ", "Rating: ", "The rating is ", "**Faithfulness:** ", "- Overall faithfulness: "]
    + ["Rating (1-7): ", "1. Consistency: ", "```\n", "~~~\n**", "My rating:\n", "My rating:\n\n"]
)
MEANING = st.sampled_from(["Extremely Faithful", "mostly faithful", "Faithful", "not faithful"])
AFTER = st.sampled_from(
    ["", ".", "**", ")", "/7", ".0/7", " out of 7", ".0", "\n```", "\n~~~\nFine.", "\n\nIt says; 3 of 5 agree.", " stars"]
    + [" - {}", ": {}", " ({})", " {}", ". {}", " \u2014 {}.", " - The summary says 40 boats, not 14."]
)


@given(st.integers(1, 7), BEFORE, AFTER, MEANING)
def test_a_number_is_read_in_any_form(number: int, before: str, after: str, meaning: str) -> None:
    assert read_number(f"{before}{number}{after.format(meaning)}")[:2] in ((number, None), (number, 7))


@pytest.mark.parametrize(
    ("error", "texts"),
    [
        ("no_rating", ("", "four", "N/A", "-4", "4.5", "4.05", "1-5", "4 or 5", "4 - or 5", "4 - no, 3", "4 - 5", "9" * 5000)),
        ("no_rating", ("Of 5 statements 4 agree", "4 statements agree", "I cannot rate this.", "1. The summary says so")),
        ("two_ratings", ("4\n3", "1. 4\n2. 5")),
    ],
)
def test_what_is_no_number_or_several_is_none(error: str, texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(UnusableAnswer) as caught:
            read_number(text)
        assert caught.value.error == error


@given(st.lists(st.sampled_from(["4", "5", " ", ".", "-", "or", "\n", "1. ", "```", "Good", "so", "/"]), max_size=8))
def test_a_number_that_is_read_is_in_the_answer(parts: list[str]) -> None:
    answer = "".join(parts)
    with contextlib.suppress(UnusableAnswer):
        assert str(read_number(answer)[0]) in re.findall(r"\d+", answer)


@pytest.mark.soak
def test_hostile_answers_are_quick() -> None:
    started = time.process_time()
    for text in (
        "{'a': \"" * 5_000,
        "{a: " * 5_000,
        "<think>" * 30_000,
        "</think> a" * 20_000,
        "`<think>`" * 20_000,
        *(f"x{one * 20_000}x" for one in ("\n", "<|end|>", "[think]", "<!--", "```think\n", "<|channel|>analysis")),
        "Thinking: " + "\n" * 50_000,
        '{"a": "' + '"x' * 50_000,
        *("4 " + "A" * 100_000 + "!?", "4 " + "A " * 50_000, "a-" * 50_000 + "4", "4 - " + "no " * 30_000, "1. " * 30_000),
    ):
        for read in (
            remove_thinking,
            read_number,
            lambda text: json_value(text, "a"),
            lambda text: json_value(text.replace("{", "["), kind=list),
        ):
            with contextlib.suppress(UnusableAnswer):
                read(text)
    assert time.process_time() - started < 5
