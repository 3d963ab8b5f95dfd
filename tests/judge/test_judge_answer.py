"""A judge's answer text -> a verdict, or the class of error; each row of the tables is one answer that a model could give."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge import Verdict, read_verdict, usable_bullet, usable_verdict
from summhay_ray.outcome import Malformed

pytestmark = pytest.mark.core

FULL_3 = Verdict("FULL_COVERAGE", "3")


def checked(text: str, n_bullets: int) -> Verdict | Malformed:
    verdict = read_verdict(text)
    return verdict if isinstance(verdict, Malformed) else usable_verdict(verdict, n_bullets)


def error_of(outcome: Verdict | Malformed) -> str:
    assert isinstance(outcome, Malformed), outcome
    assert outcome.message and "\n" not in outcome.message
    return outcome.error


@pytest.mark.parametrize(
    "text",
    [
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3}',
        '  \n{"coverage": "FULL_COVERAGE", "bullet_id": 3}\n\n',
        '{"bullet_id": 3, "coverage": "FULL_COVERAGE"}',
        '```json\n{"coverage": "FULL_COVERAGE", "bullet_id": 3}\n```',
        '```\n{"coverage": "FULL_COVERAGE", "bullet_id": 3\n```',
        'Bullet 3 says it all. {"coverage": "FULL_COVERAGE", "bullet_id": 3} I hope that this helps.',
        'The set {1, 2} is not it: {"coverage": "FULL_COVERAGE", "bullet_id": 3}',
        '<think>maybe {"coverage": "NO_COVERAGE", "bullet_id": "NA"}?</think>{"coverage": "FULL_COVERAGE", "bullet_id": 3}',
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3, "why": "it says {x} and \\"y\\""}',
        '{"answer": {"coverage": "FULL_COVERAGE", "bullet_id": 3}}',
        '[{"coverage": "FULL_COVERAGE", "bullet_id": 3}]',
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3}\n{"coverage": "FULL_COVERAGE", "bullet_id": 3}',
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3, "coverage": "FULL_COVERAGE"}',
        "{'coverage': 'FULL_COVERAGE', 'bullet_id': 3}",
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3,}',
        '{"coverage": "FULL_COVERAGE" "bullet_id": 3}',
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3',
        "{coverage: FULL_COVERAGE, bullet_id: 3}",
        "{“coverage”: “FULL_COVERAGE”, “bullet_id”: 3}",
        '{"Coverage": "FULL_COVERAGE", "Bullet ID": 3}',
        '{"coverage": "FULL_COVERAGE", "bulletId": 3}',
        '{"coverage": "full coverage", "bullet_id": 3}',
        '{"coverage": "Fully_covered", "bullet_id": 3}',
        '{"coverage": "fully-covered", "bullet_id": 3}',
        '{"coverage": " FULL ", "bullet_id": 3}',
    ],
)
def test_one_meaning_in_many_forms(text: str) -> None:
    assert read_verdict(text) == FULL_3


@pytest.mark.parametrize(
    ("word", "coverage"),
    [
        ("PARTIAL_COVERAGE", "PARTIAL_COVERAGE"),
        ("PARTIAL", "PARTIAL_COVERAGE"),
        ("partially_covered", "PARTIAL_COVERAGE"),
        ("Partially covered", "PARTIAL_COVERAGE"),
        ("NO_COVERAGE", "NO_COVERAGE"),
        ("no-coverage", "NO_COVERAGE"),
        ("not_covered", "NO_COVERAGE"),
        ("Not covered", "NO_COVERAGE"),
    ],
)
def test_coverage_words(word: str, coverage: str) -> None:
    bullet = "NA" if coverage == "NO_COVERAGE" else 1
    assert read_verdict(json.dumps({"coverage": word, "bullet_id": bullet})) == Verdict(coverage, json.dumps(bullet))


@pytest.mark.parametrize("word", ["", "covered", "VOLLSTÄNDIG", "not fully covered", "FULL_COVERAGE|NO_COVERAGE", "FULL_COV"])
def test_a_coverage_word_that_is_none_of_ours_is_never_guessed(word: str) -> None:
    assert error_of(read_verdict(json.dumps({"coverage": word, "bullet_id": 1}))) == "unknown_coverage"


@pytest.mark.parametrize("value", ["null", "true", "1", '["FULL_COVERAGE"]', '{"level": "FULL_COVERAGE"}', "1e999"])
def test_a_coverage_that_is_no_word_is_unknown(value: str) -> None:
    assert error_of(read_verdict(f'{{"coverage": {value}, "bullet_id": 1}}')) == "unknown_coverage"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "empty_answer"),
        (" \n\t", "empty_answer"),
        ("<think>hm</think>", "empty_answer"),
        ("The insight has FULL_COVERAGE in bullet 3.", "no_json"),
        ("coverage: FULL_COVERAGE, bullet_id: 3", "no_json"),
        ("I am sorry, but I cannot help with that.", "no_json"),
        ("{}", "no_json"),
        ("[]", "no_json"),
        ('"FULL_COVERAGE"', "no_json"),
        ('{"bullet_id": 3}', "no_json"),
        ('{"verdict": "FULL_COVERAGE", "bullet_id": 3}', "no_json"),
        ("{the coverage: FULL_COVERAGE}", "no_json"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3 and 4}', "broken_json"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3, "bullet_id": 4,}', "broken_json"),
        ("{'coverage': 'FULL_COVERAGE', 'coverage': 'NO_COVERAGE'}", "broken_json"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3, "coverage": "NO_COVERAGE"}', "two_verdicts"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3}{"coverage": "FULL_COVERAGE", "bullet_id": 4}', "two_verdicts"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3} or {\'coverage\': \'NO_COVERAGE\'}', "two_verdicts"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3} {"coverage": "?", "bullet_id": 3}', "two_verdicts"),
        ('{"coverage": "FULL_COV', "broken_json"),
        ('{"coverage": "NO', "broken_json"),
        ('{"coverage": No, it is fully covered, "bullet_id": 2}', "broken_json"),
        ('{"coverage": "NO_COVERAGE" // could be FULL_COVERAGE\n, "bullet_id": 2}', "broken_json"),
        ('<think> maybe {"coverage": "NO_COVERAGE", "bullet_id": "NA"} hmm, wait', "unfinished_thinking"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA"} Final answer: FULL_COVERAGE, bullet 3', "two_verdicts"),
        ('I would say {"coverage": "NO_COVERAGE", "bullet_id": "NA"}, but bullet 3 has it fully covered.', "two_verdicts"),
        ('{"coverage": "no", "bullet_id": 2, "verdict": "FULL_COVERAGE"}', "two_verdicts"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3 {"coverage": "NO_COVERAGE", "bullet_id": "NA"', "two_verdicts"),
        (
            '{"coverage": "FULL_COVERAGE"\n{"coverage": "PARTIAL_COVERAGE"\n{"coverage": "FULL_COVERAGE", "bullet_id": 3}',
            "two_verdicts",
        ),
        ('{"couverture": "totale", "puce": 3}', "no_json"),
        ("El punto 3 cubre toda la idea.", "no_json"),
        ('{"coverage": "TOTALE", "bullet_id": 3}', "unknown_coverage"),
        ('{"coverage": NaN, "bullet_id": 3}', "unknown_coverage"),
        ('{"judgments": []}', "no_json"),
        ("[3]", "no_json"),
    ],
)
def test_unusable_answers(text: str, error: str) -> None:
    assert error_of(read_verdict(text)) == error
    assert error_of(checked(text, 5)) == error


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Let me look at the bullets one by one.",
        '{"coverage": "FULL_COVERAGE", "bullet_id": 1',
        '{"coverage": "PARTIAL',
        '{"coverage": "FULL_COVERAGE", "bullet_id": 3} Wait: {"coverage": "NO_COV',
        "{'coverage': 'FULL_COVERAGE', 'bullet_id': 3}",
    ],
)
def test_a_cut_answer_is_never_repaired(text: str) -> None:
    assert error_of(read_verdict(text, "length")) == "cut_answer"


def test_a_cut_answer_is_malformed_although_its_json_is_whole() -> None:
    cut = read_verdict('{"coverage": "FULL_COVERAGE", "bullet_id": 3} No, that is wrong: the', "length")
    assert error_of(cut) == "cut_answer"


@pytest.mark.parametrize(
    ("given_id", "kept"),
    [("3", "3"), ('"3"', '"3"'), ("3.0", "3.0"), ('"NA"', '"NA"'), ("null", "null"), ("[1, 2]", "[1, 2]"), ("99", "99")],
)
def test_the_bullet_id_is_kept_as_the_judge_gave_it(given_id: str, kept: str) -> None:
    assert read_verdict(f'{{"coverage": "FULL_COVERAGE", "bullet_id": {given_id}}}') == Verdict("FULL_COVERAGE", kept)


def test_a_missing_bullet_id_is_null() -> None:
    assert read_verdict('{"coverage": "NO_COVERAGE"}') == Verdict("NO_COVERAGE", "null")


@pytest.mark.parametrize(
    "given_id", ["3", "3.0", '"3"', '" 3 "', '"bullet 3"', '"Bullet #3"', '"bullet point 3"', '"#3"', '"3."', "[3]", '["3"]']
)
def test_spellings_of_bullet_3(given_id: str) -> None:
    assert usable_bullet(given_id, 5) == 3
    assert checked(f'{{"coverage": "FULL_COVERAGE", "bullet_id": {given_id}}}', 5) == FULL_3


@pytest.mark.parametrize(
    "given_id", ["0", "-1", "6", "3.5", '"NA"', '""', "null", "true", "[]", "[1, 2]", "[[3]]", '"3 and 4"', "{}", "1e999"]
)
def test_a_covered_insight_without_a_usable_bullet_is_malformed(given_id: str) -> None:
    text = f'{{"coverage": "PARTIAL_COVERAGE", "bullet_id": {given_id}}}'
    assert error_of(checked(text, 5)) == "unusable_bullet"
    assert isinstance(read_verdict(text), Verdict)


@pytest.mark.parametrize("given_id", ['"NA"', '"N/A"', '"none"', '"No bullet"', '"-"', '""', "null", "0", "-1", "[]", "{}"])
def test_no_coverage_stands_where_no_bullet_is_named(given_id: str) -> None:
    assert checked(f'{{"coverage": "NO_COVERAGE", "bullet_id": {given_id}}}', 5) == Verdict("NO_COVERAGE", '"NA"')


@pytest.mark.parametrize(
    "given_id", ["3", "99", '"3"', "3.0", '"bullet 3"', "[1, 2]", "[[3]]", '"3 and 4"', "true", '"the second"']
)
def test_no_coverage_by_a_bullet_is_malformed(given_id: str) -> None:
    assert error_of(read_verdict(f'{{"coverage": "NO_COVERAGE", "bullet_id": {given_id}}}')) == "unusable_bullet"
    assert error_of(usable_verdict(Verdict("NO_COVERAGE", given_id), 5)) == "unusable_bullet"


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict("COVERED", "1"), "unknown_coverage"),
        (Verdict("", "1"), "unknown_coverage"),
        (Verdict("FULL_COVERAGE", "1", 1.2), "unusable_value"),
        (Verdict("FULL_COVERAGE", "1", float("nan")), "unusable_value"),
        (Verdict("FULL_COVERAGE", "bullet 1"), "unusable_bullet"),
    ],
)
def test_what_a_persons_own_judge_may_say_is_checked_too(verdict: Verdict, error: str) -> None:
    assert error_of(usable_verdict(verdict, 3)) == error


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 20_000,
        "".join(f'{{"coverage": "NO", "bullet_id": {n} ' for n in range(3_000)),
        "{" * 100_000,
        '{"coverage": ' * 8_000,
        "{coverage: " + "[" * 20_000,
        '{"coverage": ' + "9" * 5_000 + "}",
        '{"coverage": "NO", "why": "' + "not fully covered " * 3_000 + 'but. Fully covered"}',
        '{"coverage": "NO"}' + " not" * 50_000 + " covers" * 20_000,
        '{"coverage": "NO", "a": ' + "[" * 900 + '{"coverage": "FULL"}' + "]" * 900 + "}",
    ],
    ids=["nested", "unclosed", "braces", "nested coverage", "brackets", "long number", "reason", "prose", "deep"],
)
def test_hostile_answers_are_malformed_and_quick(text: str) -> None:
    assert isinstance(read_verdict(text), Malformed)


@pytest.mark.parametrize(
    ("fields", "value", "uncertainty"),
    [
        ('"value": 0.62, "uncertainty": 0.21', 0.62, 0.21),
        ('"value": 0, "uncertainty": 1', 0.0, 1.0),
        ('"value": 1.01, "uncertainty": -0.1', None, None),
        ('"value": NaN, "uncertainty": Infinity', None, None),
        ('"value": "0.5", "uncertainty": true', None, None),
        ('"value": null, "uncertainty": [0.2]', None, None),
        ('"value": 0.2, "value": 0.9', None, None),
        ('"value": 1e999', None, None),
    ],
)
def test_a_value_that_is_no_fraction_is_not_there(fields: str, value: float | None, uncertainty: float | None) -> None:
    text = f'{{"coverage": "PARTIAL_COVERAGE", "bullet_id": 3, {fields}}}'
    assert read_verdict(text) == Verdict("PARTIAL_COVERAGE", "3", value, uncertainty)
    assert checked(text, 5) == Verdict("PARTIAL_COVERAGE", "3", value, uncertainty)


words = st.sampled_from(
    [
        '"coverage"',
        '"bullet_id"',
        '"value"',
        "FULL_COVERAGE",
        '"FULL_COVERAGE"',
        '"PARTIAL"',
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "3",
        '"',
        "\n",
    ]
)


@given(st.lists(words, max_size=25).map("".join), st.sampled_from(["stop", "length", "content_filter", ""]))
def test_no_coverage_is_never_read_where_it_does_not_stand(text: str, finish_reason: str) -> None:
    verdict = read_verdict(text, finish_reason)
    assert isinstance(verdict, Malformed) or verdict.coverage != "NO_COVERAGE"


@given(st.text())
def test_prose_without_a_brace_is_never_a_verdict(text: str) -> None:
    assert isinstance(read_verdict(text.replace("{", "(")), Malformed)


@given(st.sampled_from(["NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE"]), st.integers(1, 40), st.integers(0, 60))
def test_a_prefix_of_an_answer_says_what_the_answer_says_or_nothing(coverage: str, bullet: int, cut: int) -> None:
    named = "NA" if coverage == "NO_COVERAGE" else bullet
    text = json.dumps({"coverage": coverage, "bullet_id": named})
    assert error_of(read_verdict(text[:cut], "length")) == "cut_answer"
    if cut >= len(text):
        assert read_verdict(text[:cut]) == Verdict(coverage, json.dumps(named))


def test_prose_that_agrees_with_the_verdict_is_passed_over() -> None:
    before = 'At first sight FULL_COVERAGE, but the figure is missing: {"coverage": "PARTIAL_COVERAGE", "bullet_id": 2}'
    assert read_verdict(before) == Verdict("PARTIAL_COVERAGE", "2")
    behind = '{"coverage": "NO_COVERAGE", "bullet_id": "NA"} It is not even partially covered by any bullet.'
    assert read_verdict(behind) == Verdict("NO_COVERAGE", '"NA"')


def test_a_value_that_contradicts_its_label_is_none() -> None:
    assert read_verdict('{"coverage": "FULL_COVERAGE", "bullet_id": 2, "value": 0.1}') == Verdict("FULL_COVERAGE", "2")
    assert read_verdict('{"coverage": "FULL_COVERAGE", "bullet_id": 2, "value": 0.8}') == Verdict("FULL_COVERAGE", "2", 0.8)


NO = '{"coverage": "NO_COVERAGE", "bullet_id": "NA"}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"analysis": [{"coverage": "FULL_COVERAGE", "bullet_id": 2}], "coverage": "NO_COVERAGE"}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE", "else": {"deep": [{"coverage": "FULL_COVERAGE", "bullet_id": 2}]}}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA", "why": "PARTIAL_COVERAGE by one bullet"}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA", "why": "It is fully covered."}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA", "why": "I cannot judge this."}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA", "refusal": "I cannot"}', "two_verdicts"),
        ('{"error": "content_filter", "coverage": "NO_COVERAGE"}', "two_verdicts"),
        ('{"coverage": "NO_COVERAGE",\n"bullet_id": "NA",\n// actually FULL_COVERAGE\n}', "broken_json"),
        ('{"coverage": "NO_COVERAGE", "bullet_id": "NA"\nActually it is the second bullet', "broken_json"),
        (f"I cannot answer. The format would be {NO}.", "two_verdicts"),
        (f"Example: {NO}", "two_verdicts"),
        (f"{NO} I am unable to judge this any further.", "two_verdicts"),
        (f"<thinking>{NO}", "unfinished_thinking"),
        (f"<Scratchpad>{NO}", "unfinished_thinking"),
        (f"<reasoning>{NO}</reasoning> I am not able to decide.", "no_json"),
        (f"<thinking>{NO}</thinking>", "empty_answer"),
        (f"{NO} is wrong; bullet 2 covers the insight completely.", "two_verdicts"),
        (f"{NO}\nCorrection: covered by bullet 2.", "two_verdicts"),
        (f"{NO} That is not right.", "two_verdicts"),
        (f"{NO} No, the second bullet does cover it.", "two_verdicts"),
        (f"{NO} The second bullet has it.", "two_verdicts"),
        (f"{NO} Das ist falsch: Punkt 2 deckt es vollständig ab.", "two_verdicts"),
        (f"{NO} 第二点涵盖了这一点。", "two_verdicts"),
    ],
)
def test_no_coverage_that_something_speaks_against_is_malformed(text: str, error: str) -> None:
    assert error_of(read_verdict(text)) == error


@pytest.mark.parametrize(
    "text",
    [
        f"Here is my answer in the requested format:\n{NO}",
        f"I cannot find it in any bullet: {NO}",
        f"<answer>{NO}</answer>",
        f"{NO}\n```<|im_end|>",
        f"{NO}\n\nExplanation: none of the bullets mentions it. The summary doesn't cover it either.",
        f"{NO} I hope that this helps!",
        NO.replace("}", ', "why": "Bullet 3 is about ice, not about tickets."}'),
        "{'coverage': 'NO_COVERAGE', 'bullet_id': 'NA', 'why': 'it doesn\\'t say \"x\"', 'sure': True}",
        f"<thinking>FULL_COVERAGE?</thinking>{NO}",
    ],
)
def test_no_coverage_that_nothing_speaks_against_stands(text: str) -> None:
    assert read_verdict(text) == Verdict("NO_COVERAGE", '"NA"')
