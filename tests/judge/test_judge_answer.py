"""A judge's answer -> verdicts, or the class of error. `tests/text/test_text_answers.py` has the forms of JSON and thinking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge import Verdict, usable_verdict
from summhay_ray.judge.prompt import read_verdict, read_verdicts
from summhay_ray.outcome import Malformed

pytestmark = pytest.mark.core

FULL_3 = Verdict("FULL_COVERAGE", "3")
LABELS = ("NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE")


def verdict(label: str) -> str:
    return json.dumps({"coverage": label, "bullet_id": "NA" if label == "NO_COVERAGE" else 3})


def error_of(outcome: Verdict | Malformed) -> str:
    assert isinstance(outcome, Malformed), outcome
    assert outcome.message and "\n" not in outcome.message
    return outcome.error


EXPLANATIONS = (
    "The summary is about something else entirely.",
    "Bullet 3 covers the insight completely; no other bullet does.",
    "Le résumé ne le dit pas.",
    "Le point 3 couvre toute l'idée.",
    "Das ist nur teilweise richtig: Punkt 2 deckt es vollständig ab.",
    "El resumen no menciona la huelga en absoluto.",
    "第二点涵盖了这一点。",
    "要約はこの点に触れていない。",
    "В сводке об этом ничего не сказано.",
    "الملخص لا يذكر ذلك.",
    "I am not able to decide this with certainty, sorry.",
    "Actually, at first I thought that it was fully covered; that was wrong.",
    "FULL_COVERAGE would need the figure, PARTIAL_COVERAGE a part of it, NO_COVERAGE neither.",
)
FORMS = (
    "{json} {why}",
    "{why}\n{json}",
    "```json\n{json}\n```\nExplanation: {why}",
    "<think>{why} {{}} {other}</think>{json}\n<reasoning>{why} {other}</reasoning>",
    'The form is {{"coverage": ..., "bullet_id": ...}}. {why} {json}\n{why}\n{json}',
)


@pytest.mark.parametrize("why", EXPLANATIONS)
def test_what_a_judge_explains_never_decides_whatever_its_label(why: str) -> None:
    for form in FORMS:
        for label, other in zip(LABELS, LABELS[1:] + LABELS[:1], strict=True):
            found = read_verdict(form.format(json=verdict(label), why=why, other=verdict(other)))
            assert isinstance(found, Verdict) and found.coverage == label, form


@pytest.mark.parametrize("label", LABELS)
def test_another_verdict_contradicts_whatever_the_label(label: str) -> None:
    for other in set(LABELS) - {label}:
        one, two = verdict(label), verdict(other)
        for text in (
            *[f"{one} {two}", f"{one} No, wait: {two}", f"{one}\n<b>{two}</b>", one.replace('"', "'") + two],
            *[f"[{one}, {two}]", f'{{"a": {one}, "b": {two}}}', f'{one[:-1]}, "more": [{{"deep": {two}}}]}}'],
            f'{one[:-1]}, "verdict": "{other}"}}',
        ):
            assert error_of(read_verdict(text)) == "two_verdicts"


@pytest.mark.parametrize("cut", ['{"coverage": "', '{"coverage": "NO_COV', "{'coverage': 'FULL_COVERAGE', 'bullet_id': 3"])
def test_a_verdict_that_is_cut_off_is_none(cut: str) -> None:
    assert error_of(read_verdict(cut)) == "broken_json"
    for label in LABELS:
        assert error_of(read_verdict(f"{verdict(label)} Wait: {cut}")) == "broken_json"
        for text in (cut, verdict(label), f"{verdict(label)} No, that is wrong: the"):
            assert error_of(read_verdict(text, "length")) == "cut_answer"
        for end in range(len(verdict(label))):
            assert isinstance(read_verdict(verdict(label)[:end]), Malformed)


NA = Verdict("NO_COVERAGE", '"NA"')


@pytest.mark.parametrize(
    ("words", "label"),
    [
        (("FULL", " full ", "Fully_covered", "full-coverage", "FULL\\\\_COVERAGE."), "FULL_COVERAGE"),
        (("PARTIAL", "partially_covered", "Partially covered"), "PARTIAL_COVERAGE"),
        (("NO", "no-coverage", "Not covered"), "NO_COVERAGE"),
        (("", "covered", "TOTALE", "FULL_COV", "not fully covered"), None),
    ],
)
def test_coverage_words(words: tuple[str, ...], label: str | None) -> None:
    for word in words:
        found = read_verdict(f'{{"Coverage": "{word}", "Bullet ID": "NA"}}')
        assert found == Verdict(label, '"NA"') if label else error_of(found) == "unknown_coverage"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"<think>{verdict(LABELS[0])}", "unfinished_thinking"),
        ("The insight has FULL_COVERAGE in bullet 3.", "no_json"),
        ('{"verdict": "FULL_COVERAGE", "bullet_id": 3}', "no_json"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 3 and 4}', "broken_json"),
        ('{"coverage": null, "bullet_id": 3}', "unknown_coverage"),
        ('{"coverage": ["FULL_COVERAGE"]}', "unknown_coverage"),
    ],
)
def test_unusable_answers(text: str, error: str) -> None:
    assert error_of(read_verdict(text)) == error


@pytest.mark.parametrize(
    ("label", "given_ids", "usable"),
    [
        ("FULL_COVERAGE", ("3", "3.0", '"3"', '" 3 "', '"Bullet #3"', '"bullet point 3"', '"3."', "[3]", '["3"]'), FULL_3),
        ("PARTIAL_COVERAGE", ("0", "-1", "6", "3.5", '"NA"', "null", "true", "[]", "[1, 2]", '"3 and 4"', '"insight 3"'), None),
        ("NO_COVERAGE", ('"NA"', '"none"', '"aucune"', '"无"', '"-"', '""', "null", "0", "-1", "[]", "false"), NA),
        ("NO_COVERAGE", ("3", "3.0", '"3 and 4"', "[[3]]"), None),
    ],
)
def test_a_covered_insight_names_a_bullet_and_no_other_does(label: str, given_ids: tuple[str, ...], usable: object) -> None:
    for given_id in given_ids:
        found = read_verdict(f'{{"coverage": "{label}", "bullet_id": {given_id}}}')
        checked = usable_verdict(found, 5) if isinstance(found, Verdict) else found
        assert checked == usable if usable else error_of(checked) == "unusable_bullet"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (Verdict("COVERED", "1"), "unknown_coverage"),
        (Verdict("FULL_COVERAGE", "1", 1.2), "unusable_value"),
        (Verdict("FULL_COVERAGE", "1", float("nan")), "unusable_value"),
        (Verdict("NO_COVERAGE", '"bullet 3"'), "unusable_bullet"),
    ],
)
def test_the_verdicts_of_a_users_own_judge_are_checked(given: Verdict, error: str) -> None:
    assert error_of(usable_verdict(given, 3)) == error


@pytest.mark.parametrize(
    ("fields", "value", "uncertainty"),
    [
        ('"value": 0.62, "uncertainty": 0.21', 0.62, 0.21),
        ('"value": 0, "uncertainty": 1', 0.0, 1.0),
        ('"value": 1.01, "uncertainty": -0.1', None, None),
        ('"value": "0.5", "uncertainty": true', None, None),
    ],
)
def test_values_and_uncertainties(fields: str, value: float | None, uncertainty: float | None) -> None:
    text = f'{{"coverage": "PARTIAL_COVERAGE", "bullet_id": 3, {fields}}}'
    assert read_verdict(text) == Verdict("PARTIAL_COVERAGE", "3", value, uncertainty)
    apart = '{"coverage": "FULL_COVERAGE", "bullet_id": 3, "value": 0.1}'
    assert read_verdict(apart) == FULL_3, "a value that contradicts its label is dropped"


PARTIAL_1, FULL_2 = Verdict("PARTIAL_COVERAGE", "1"), Verdict("FULL_COVERAGE", "2")
ONE = '{"insight_id": 1, "coverage": "FULL_COVERAGE", "bullet_id": 2}'
TWO = '{"insight_id": 2, "coverage": "PARTIAL_COVERAGE", "bullet_id": 1}'
THREE = '{"insight_id": 3, "coverage": "NO_COVERAGE", "bullet_id": "NA"}'
ALL = f'{{"judgments": [{ONE}, {TWO}, {THREE}]}}'


def short(read: list[Verdict | Malformed]) -> list[str]:
    """The error, or the first letter of the coverage, for each insight."""
    return [one.error if isinstance(one, Malformed) else one.coverage[0] for one in read]


@pytest.mark.parametrize(
    "text",
    [
        f"{ONE}\n{TWO}\n{THREE}",
        f'{{"judgments": [{THREE}, {TWO}, {ONE}, {TWO}]}}',
        ALL.replace('"insight_id": 1', '"insight_id": "1"').replace('"insight_id": 2', '"Insight ID": "insight 2"'),
        f"[{ONE}, {TWO}, {THREE}, {THREE.replace('3', '4')}]",
        f"{ALL} Correction: insight 3 is in the second bullet, so FULL_COVERAGE.",
    ],
)
def test_verdicts_on_several_insights(text: str) -> None:
    assert read_verdicts(text, 3) == [FULL_2, PARTIAL_1, NA]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"[{ONE}, {THREE}]", ["F", "missing_insight", "N"]),
        (f"[{ONE}, {TWO}, {THREE}, {TWO.replace('1}', '2}')}]", ["F", "two_verdicts", "N"]),
        (f"[{ONE}, {TWO.replace('PARTIAL_COVERAGE', 'CUBIERTO')}, {THREE}]", ["F", "unknown_coverage", "N"]),
        (f"[{ONE}, {TWO.replace('1}', '1 or 2}')}, {THREE}]", ["F", "missing_insight", "N"]),
        (f"[{ONE}, {TWO}, {THREE.replace('NA', '2')}]", ["F", "P", "unusable_bullet"]),
        (f'[{ONE}, {TWO}, {THREE[:-1]}, "more": [{THREE.replace("NO", "FULL")}]}}]', ["F", "P", "two_verdicts"]),
        (f"[{ONE}, {TWO}, {THREE[:-9]}", ["broken_json"] * 3),
        ('{"judgments": []}', ["no_json"] * 3),
        (ALL.replace("insight_id", "number"), ["unclear_insight"] * 3),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 2}', ["unclear_insight"] * 3),
        *[(ALL.replace('"insight_id": 1', f'"insight_id": {bad}'), ["unclear_insight"] * 3) for bad in ("0", "4", "true", "[1]")],
        (f'{{"coverage": "FULL_COVERAGE", "judgments": [{ONE}, {TWO}, {THREE}]}}', ["unclear_insight"] * 3),
        (ALL.replace('d": 1', 'd": 0').replace('d": 2', 'd": 1').replace('d": 3', 'd": 2'), ["unclear_insight"] * 3),
    ],
)
def test_no_insight_gets_the_verdict_of_another(text: str, read: list[str]) -> None:
    assert short(read_verdicts(text, 3)) == read
    assert short(read_verdicts(text, 3, "length")) == ["cut_answer"] * 3


def test_a_single_insight_needs_no_number() -> None:
    assert read_verdicts('{"coverage": "FULL_COVERAGE", "bullet_id": 2}', 1) == [FULL_2]
    assert short(read_verdicts(f'{{"judgments": [{TWO}]}}', 1)) == ["unclear_insight"]


no_fields: dict[str, st.SearchStrategy[Any]] = {}
entries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    no_fields,
    optional={
        "insight_id": st.one_of(st.integers(-1, 5), st.sampled_from(["1", "2", None, 1.0, "x"])),
        "coverage": st.sampled_from([*LABELS, "no", "?", None, 3]),
        "bullet_id": st.one_of(st.integers(-1, 9), st.sampled_from(["NA", None, [1], {}])),
    },
)


@given(st.lists(entries, max_size=6), st.integers(1, 4), st.integers(0, 400))
def test_no_verdict_is_invented(judgments: list[dict[str, Any]], n_insights: int, end: int) -> None:
    read = read_verdicts(json.dumps({"judgments": judgments})[: end or None], n_insights)
    assert len(read) == n_insights
    for number, one in enumerate(read, 1):
        if isinstance(one, Verdict):
            about = [judged for judged in judgments if str(judged.get("coverage")).upper()[:2] == one.coverage[:2]]
            assert any(str(judged.get("insight_id", 1)).partition(".")[0] == str(number) for judged in about)
