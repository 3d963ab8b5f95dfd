"""Properties of our own reading of answers: order, repetition, Unicode and the form of a list change nothing."""

from __future__ import annotations

import unicodedata
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.benchmarks.ethic import cases, lenient_metrics

pytestmark = pytest.mark.core

WORDS = ["Anna", "Boris", "Zoë", "Straße", "İpek", "Ω", "李", "O'Neil", "D’Arcy", "15", "1200"]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, unique=True)
STYLES = (
    *[("{}", between) for between in (", ", "; ", "\n", ",", "、", " and ", ", and ")],
    *[("- {}", "\n- "), ("1. {}", "\n2. "), ("[{}]", ", "), ('Answer: "{}".', '", "'), ("Here they are:\n{}", ";")],
    *[("```\n{}\n```", ", "), ('["{}"]', '", "'), ("Sure, here they are:\n\n- {}\n\nLet me know if you need more!", "\n- ")],
    ('```json\n{{"n": 3, "names": ["{}"]}}\n```\nThese are the names of the text.', '",\n "'),
    ('[{{"name": "{}", "where": "in the text"}}]', '", "where": "in the text"}, {"name": "'),
    ("| Name | Where |\n|---|:--|\n| {} | in the text |", " | in the text |\n| "),
    ("{}\n\nThese are all that are named, as far as I can see.", ", "),
    ("{}. These are all the names in the text.", ", "),
)


@given(NAMES, st.randoms(use_true_random=False), st.sampled_from(STYLES), st.sampled_from(["NFC", "NFD", "NFKC"]))
def test_a_right_list_is_right_in_any_form(names: list[str], draws: Random, style: tuple[str, str], form: str) -> None:
    said = [*names, *names[:1]]
    draws.shuffle(said)
    text = style[0].format(style[1].join(one.upper() if len(one) > 3 else one for one in said))
    assert lenient_metrics.recalling(unicodedata.normalize(form, text), [*names, names[0]]).f1 == 1.0


def ordered(said: str, gold: str) -> float:
    return lenient_metrics.order_score(lenient_metrics.order(said), lenient_metrics.numbers_of(gold))


def attributed(said: str, gold: list[str]) -> float:
    return lenient_metrics.overlap(lenient_metrics.core_ids(said), lenient_metrics.gold_ids(gold)).f1


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
        ("Here:\n\n| # | Name |\n|--|--|\n| 1 | Anna |\n| 2 | Boris |", ["Anna", "Boris"], 1.0),
        ("Sons and Daughters, Anna and Boris", ["Sons and Daughters", "Anna", "Boris"], 1.0),
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
    # Our subsequence is as long as that of the scripts: no token is repeated here.
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
    ("- Core IDs: {}\n- Supplementary IDs: [999999999]", ", "),
    ("**Core IDs**: {}\n\n**Supplementary IDs**: 999999999", "\n"),
    ("## core ids:\n- {}\n## supplementary ids:\n[999999999]", "\n- "),
    ("- Related Segments: {}\n- Supporting Segments:", ", "),
    ("{}", "\n"),
    ("```\n- Core IDs: {}\n- Supplementary IDs: [999999999]\n```\n\nThe 7 others are about something else.", ", "),
    ("- Supplementary IDs: 999999999\n- Core IDs: {}\n\nI found that 3 of these are reviews.", ", "),
    ('{{"core_ids": ["{}"], "supplementary_ids": [999999999]}}', '", "'),
    ('```json\n{{"Core IDs": ["{}"],\n "Supplementary IDs": ["999999999"]}}\n```', '",\n  "'),
    ("| Category | IDs |\n|---|---|\n| **Core IDs** | {} |\n| Supplementary IDs | [999999999] |", ", "),
    ("| ID | Category |\n|---|---|\n| 999999999 | Supplementary |\n| {} | Core |", " | Core |\n| "),
)


@given(IDS, st.sampled_from(FORMS), st.sampled_from(["[{}]", "[Segment {}]"]))
def test_the_core_ids_are_found_in_any_form(ids: list[str], form: tuple[str, str], written: str) -> None:
    assert attributed(form[0].format(form[1].join(map(written.format, ids))), [f"[{one}]" for one in reversed(ids)]) == 1.0


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


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["|", "-", "---", "\n", "{", "}", "[", "]", '"a"', ":", "```", " and ", "1", "A b c d."])).map(
        "".join
    )
)
def test_any_answer_is_read(answer: str) -> None:
    for read in (lenient_metrics.items, lenient_metrics.order, lenient_metrics.core_ids):
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
        ('{"Core IDs": [], "Supplementary IDs": [3]}', ["None"], 1.0),
        ('{"core_ids": [1, 2], "supplementary_ids": [3]}', ["1", "2"], 1.0),
        ('[{"core": 1, "supporting": 3}, {"core": 2, "supporting": 4}]', ["1", "2"], 1.0),
    ],
)
def test_no_core_id_is_an_answer_and_no_answer_is_none(answer: str, gold: list[str], f1: float) -> None:
    assert attributed(answer, gold) == f1


def test_a_section_without_a_summary_is_not_rated() -> None:
    source = "before\n<Section 1>\nA\n\n<Section 2>\nB\n\n<Section 10>\nC"
    rated = lenient_metrics.rated_pairs("", source, "Books", "**Section 1:** a\n\n**Section 10:**\n\nSection 3: d", "")
    assert rated == [lenient_metrics.RatedPair("1", "ours", "A", "a")]
