"""What our own reading of answers must hold for any answer: order, repetition, Unicode and the form of a list change nothing."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.benchmarks.ethic import cases, lenient_metrics

pytestmark = pytest.mark.core

WORDS = ["Anna", "Boris", "Zoë", "Straße", "İpek", "Ω", "李", "O'Neil", "D’Arcy", "15", "1200"]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, unique=True)
STYLES = (", ".join, "; ".join, "\n".join, ",".join, "、".join, lambda items: "\n".join(f"- {one}" for one in items))
STYLES += (lambda items: "\n".join(f"{n}. {one}" for n, one in enumerate(items, 1)), lambda items: f"[{', '.join(items)}]")
STYLES += (
    lambda items: "Answer: " + ", ".join(f'"{one}"' for one in items) + ".",
    lambda items: "Here they are:\n" + ";".join(items),
)
STYLES += (
    lambda items: "```\n" + ", ".join(items) + "\n```",
    lambda items: " and ".join([", ".join(items[:-1]), items[-1]] if items[1:] else items),
    lambda items: ", and ".join([", ".join(items[:-1]), items[-1]] if items[1:] else items) + ".",
    lambda items: json.dumps(items),
    lambda items: (
        "```json\n" + json.dumps({"n": len(items), "names": items}, indent=1) + "\n```\nThese are the names of the text."
    ),
    lambda items: json.dumps([{"name": one, "where": "in the text"} for one in items], ensure_ascii=False),
    lambda items: "| Name | Where |\n|---|:--|\n" + "\n".join(f"| {one} | in the text |" for one in items),
    lambda items: (
        "Here:\n\n| # | Name |\n|-|-|\n".replace("|-|-|", "|--|--|")
        + "\n".join(f"| {n} | {one} |" for n, one in enumerate(items, 1))
    ),
    lambda items: ", ".join(items) + "\n\nThese are all that are named, as far as I can see.",
    lambda items: ", ".join(items) + ". These are all the names in the text.",
    lambda items: "Sure, here they are:\n\n- " + "\n- ".join(items) + "\n\nLet me know if you need more!",
)


@given(NAMES, st.randoms(use_true_random=False), st.sampled_from(STYLES), st.sampled_from(["NFC", "NFD", "NFKC"]))
def test_a_right_list_is_right_in_any_form(names: list[str], draws: object, style: object, form: str) -> None:
    said = [*names, *names[:1]]
    draws.shuffle(said)  # type: ignore[attr-defined]
    text = unicodedata.normalize(form, style([one.upper() if len(one) > 3 else one for one in said]))  # type: ignore[operator]
    assert lenient_metrics.recalling(text, [*names, names[0]]).f1 == 1.0


@given(NAMES, NAMES)
def test_precision_and_recall_change_places(mine: list[str], other: list[str]) -> None:
    there, back = lenient_metrics.recalling(", ".join(mine), other), lenient_metrics.recalling(", ".join(other), mine)
    assert (there.precision, there.recall) == (back.recall, back.precision)


def ordered(said: str, gold: str) -> float:
    return lenient_metrics.order_score(lenient_metrics.order(said), lenient_metrics.numbers_of(gold))


def attributed(said: str, gold: list[str]) -> float:
    return lenient_metrics.overlap(lenient_metrics.attributed(said), lenient_metrics.gold_ids(gold)).f1


@pytest.mark.parametrize(
    ("answer", "gold", "f1"),
    [
        ("None", ["None"], 1.0),
        ("none.", [], 1.0),
        ("", ["None"], 0.0),
        ("", ["Anna"], 0.0),
        ("None, Anna", ["Anna", "None"], 2 / 3),
        ("1,200; 15", ["1200", "15"], 1.0),
        ("1200; 15", ["1,200", "15"], 1.0),
        ("1, 200, 15", ["1", "200", "15"], 1.0),
        ("4.5", ["45"], 0.0),
        ("[15], [1200]", ["15", "1200"], 1.0),
        ('{"names": ["Anna", "Boris",]}', ["Anna", "Boris"], 1.0),
    ],
)
def test_lists_of_one_and_of_none(answer: str, gold: list[str], f1: float) -> None:
    assert lenient_metrics.recalling(answer, gold).f1 == pytest.approx(f1)


@given(st.permutations(range(1, 9)), st.permutations(range(1, 9)), st.integers(1, 4))
def test_repeating_an_order_gains_nothing(gold: list[int], said: list[int], times: int) -> None:
    answer, text = ", ".join(f"[{one}]" for one in gold), ", ".join(f"[{one}]" for one in said)
    once = ordered(text, answer)
    assert once == ordered(", ".join([text] * times), answer)
    assert ordered(answer, answer) == 1.0
    # Our subsequence is as long as that of the scripts: no token stands twice here.
    assert once == cases.evaluate("organizing", {"prediction": text, "answer": answer})["score"]


def test_what_is_foreign_costs_and_line_numbers_do_not() -> None:
    answer = "[4], [1], [3], [2]"
    assert ordered("1. [4]\n2. [1]\n3. [3]\n4. [2]", answer) == 1.0
    assert ordered("[04], [１], [3], [2]\n\nBecause 2 follows 3.", answer) == 1.0
    assert ordered(answer + ", [5], [6], [7], [8]", answer) == 0.5
    with pytest.raises(ValueError, match="the gold order is empty"):
        ordered("[1]", "")


@pytest.mark.parametrize(("n", "expected"), [(1, 1.0), (2, 0.75), (3, 2 / 3), (10, 0.43), (28, 0.29), (75, 0.19)])
def test_the_chance_level_is_that_of_a_random_order(n: int, expected: float) -> None:
    assert lenient_metrics.chance(n) == pytest.approx(expected, abs=0.012)


IDS = st.lists(st.integers(1, 10**8).map(str), min_size=1, max_size=6, unique=True)
FORMS = (
    "- Core IDs: {}\n- Supplementary IDs: [999999999]",
    "**Core IDs**: {}\n\n**Supplementary IDs**: 999999999",
    "## core ids:\n{}\n## supplementary ids:\n[999999999]",
    "- Related Segments: {}\n- Supporting Segments:",
    "{}",
    "```\n- Core IDs: {}\n- Supplementary IDs: [999999999]\n```\n\nThe 7 others are about something else.",
    "- Supplementary IDs: 999999999\n- Core IDs: {}\n\nI found that 3 of these are reviews.",
)


@given(IDS, st.sampled_from(FORMS), st.sampled_from([", ", "\n", "\n- "]), st.booleans())
def test_the_core_ids_are_found_in_any_form(ids: list[str], form: str, between: str, segments: bool) -> None:
    text = form.format(between.join(f"[{'Segment ' if segments else ''}{one}]" for one in ids))
    assert attributed(text, [f"[{one}]" for one in reversed(ids)]) == 1.0


@given(IDS, st.integers(0, 3))
def test_the_core_ids_are_found_in_json_and_tables(ids: list[str], form: int) -> None:
    row = ", ".join(f"[{one}]" for one in ids)
    text = (
        json.dumps({"core_ids": list(map(int, ids)), "supplementary_ids": [999999999]}),
        "```json\n" + json.dumps({"Core IDs": ids, "Supplementary IDs": ["999999999"]}, indent=2) + "\n```",
        f"| Category | IDs |\n|---|---|\n| **Core IDs** | {row} |\n| Supplementary IDs | [999999999] |",
        "| ID | Category |\n|---|---|\n| 999999999 | Supplementary |\n" + "\n".join(f"| {one} | Core |" for one in ids),
    )[form]
    assert attributed(text, ids) == 1.0
    assert attributed('{"Core IDs": [], "Supplementary IDs": [3]}', ["None"]) == 1.0


@given(
    st.permutations(range(1, 9)),
    st.sampled_from(["{}", "```\n{}\n```", '{{"order": [{}]}}', "{}\n\nI went by the 12 dates in the text."]),
)
def test_an_order_is_found_in_any_form(order: list[int], form: str) -> None:
    said, answer = form.format(", ".join(map(str, order))), ", ".join(f"[{one}]" for one in order)
    assert ordered(said, answer) == 1.0
    table = "| Place | Option |\n|---|---|\n" + "\n".join(f"| {place} | {one} |" for place, one in enumerate(order, 1))
    assert ordered(table, answer) == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "```\n<Section 1>\nOne.\n\n<Section 2>\nTwo.\n```",
        '{"Section 1": "One.", "<Section 2>": "Two."}',
        '```json\n[{"section": 1, "summary": "One."}, {"section": 2, "summary": "Two."}]\n```',
        "| Section | Summary |\n|---|---|\n| 1 | One. |\n| <Section 2> | Two. |",
        "<Section 1>\nOne.\n\n<Section 2>\nTwo.\n\nLet me know if you need more.",
    ],
)
def test_summaries_are_found_in_any_form(answer: str) -> None:
    assert lenient_metrics.summaries(answer) == {1: "One.", 2: "Two."}


def test_an_and_within_a_label_does_not_split_it() -> None:
    assert lenient_metrics.recalling("Sons and Daughters, Anna and Boris", ["Sons and Daughters", "Anna", "Boris"]).f1 == 1.0


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["|", "-", "---", "\n", "{", "}", "[", "]", '"a"', ":", "```", " and ", "1", "A b c d."])).map(
        "".join
    )
)
def test_any_answer_is_read(answer: str) -> None:
    for read in (lenient_metrics.items, lenient_metrics.order, lenient_metrics.attributed):
        assert all(read(answer))  # type: ignore[operator]
    lenient_metrics.summaries(answer)


@pytest.mark.parametrize(
    ("answer", "gold", "f1"),
    [
        ("- Core IDs:\n- Supplementary IDs: [1], [2]", ["None"], 1.0),
        ("- Core IDs: None\n- Supplementary IDs: [1]", ["None"], 1.0),
        ("- Core IDs:\n- Supplementary IDs: [1]", ["[1]"], 0.0),
        ("None of them.", ["None"], 1.0),
        ("I cannot say.", ["None"], 0.0),
        ("", ["None"], 0.0),
        ("Supplementary IDs: [1]", ["[1]"], 0.0),
    ],
)
def test_no_core_id_is_an_answer_and_no_answer_is_none(answer: str, gold: list[str], f1: float) -> None:
    assert attributed(answer, gold) == f1


def test_a_section_without_a_summary_is_not_rated() -> None:
    source = "before\n<Section 1>\nA\n\n<Section 2>\nB\n\n<Section 10>\nC"
    rated = lenient_metrics.rated_pairs("", source, "Books", "**Section 1:** a\n\n**Section 10:**\n\nSection 3: d", "")
    assert rated == [lenient_metrics.RatedPair("1", "ours", "A", "a")]
