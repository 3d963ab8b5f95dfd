"""One answer about several insights -> a verdict for each, or why there is none: no insight gets another's verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge import Verdict
from summhay_ray.judge.answer import read_verdicts
from summhay_ray.outcome import Malformed

pytestmark = pytest.mark.core

FULL_2, PARTIAL_1, NONE = Verdict("FULL_COVERAGE", "2"), Verdict("PARTIAL_COVERAGE", "1"), Verdict("NO_COVERAGE", '"NA"')
ONE = '{"insight_id": 1, "coverage": "FULL_COVERAGE", "bullet_id": 2}'
TWO = '{"insight_id": 2, "coverage": "PARTIAL_COVERAGE", "bullet_id": 1}'
THREE = '{"insight_id": 3, "coverage": "NO_COVERAGE", "bullet_id": "NA"}'
ALL = f'{{"judgments": [{ONE}, {TWO}, {THREE}]}}'


def short(read: list[Verdict | Malformed]) -> list[str]:
    """Error, or first letter of the coverage: what stands for an insight."""
    return [one.error if isinstance(one, Malformed) else one.coverage[0] for one in read]


@pytest.mark.parametrize(
    "text",
    [
        ALL,
        f"```json\n{ALL}\n```",
        f"<think>{{}} {ONE.replace('FULL', 'NO')}</think>{ALL}",
        f"Here you are: {ALL} I hope that this helps.",
        f"[{ONE}, {TWO}, {THREE}]",
        f"{ONE}\n{TWO}\n{THREE}",
        f'{{"judgments": [{THREE}, {ONE}, {TWO}]}}',
        f'{{"judgments": [{ONE}, {TWO}, {TWO}, {THREE}]}}',
        f'{{"judgments": [{ONE}, {TWO}, {THREE}',
        ALL.replace('"insight_id": 1', '"insight_id": "1"').replace('"insight_id": 2', '"Insight ID": "insight 2"'),
        ALL.replace('"insight_id": 3', '"insight_id": 3.0'),
        ALL.replace('"', "'"),
        ALL.replace('"bullet_id": 1}', '"bullet_id": 1,}'),
        ALL.replace("FULL_COVERAGE", "full coverage"),
        f'{{"judgments": [{ONE}, {TWO}, {THREE}, {{"insight_id": 4, "coverage": "FULL_COVERAGE", "bullet_id": 1}}]}}',
    ],
)
def test_one_meaning_in_many_forms(text: str) -> None:
    assert read_verdicts(text, 3) == [FULL_2, PARTIAL_1, NONE]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"[{ONE}, {THREE}]", ["F", "missing_insight", "N"]),
        (f"[{ONE}, {TWO}, {THREE}, {TWO.replace('1}', '2}')}]", ["F", "two_verdicts", "N"]),
        (f"[{ONE}, {TWO}, {THREE}, {TWO.replace('PARTIAL', 'NO')}]", ["F", "two_verdicts", "N"]),
        (f"[{ONE}, {TWO.replace('PARTIAL_COVERAGE', 'COVERED')}, {THREE}]", ["F", "unknown_coverage", "N"]),
        (f"[{ONE}, {TWO.replace('PARTIAL_COVERAGE', 'CUBIERTO')}, {THREE}]", ["F", "unknown_coverage", "N"]),
        (f"[{ONE}, {TWO.replace('1}', '1 or 2}')}, {THREE}]", ["F", "broken_json", "N"]),
        (f"[{ONE}, {TWO}, {THREE.replace('NA', '2')}]", ["F", "P", "unusable_bullet"]),
        (f"{ALL} Actually insight 3 is FULL_COVERAGE.", ["F", "two_verdicts", "two_verdicts"]),
        (f"{ALL} Correction: insight 3 is in the second bullet.", ["F", "P", "two_verdicts"]),
        (f"I cannot judge all of them. {ALL}", ["F", "P", "two_verdicts"]),
        (f'[{ONE}, {TWO}, {THREE[:-1]}, "more": [{THREE.replace("NO", "FULL")}]}}]', ["F", "P", "two_verdicts"]),
        (f"[{ONE}, {TWO.replace('1}', '1, bullet_id: 2}')}, {THREE}]", ["F", "broken_json", "N"]),
    ],
)
def test_an_insight_without_a_clear_verdict_is_malformed_alone(text: str, read: list[str]) -> None:
    assert short(read_verdicts(text, 3)) == read


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "empty_answer"),
        ("<think>hm</think> ", "empty_answer"),
        ("I cannot judge that.", "no_json"),
        ("La primera idea está cubierta por el punto 2; las demás, no.", "no_json"),
        ('{"jugements": [{"id": 1, "couverture": "totale"}]}', "no_json"),
        ('{"judgments": []}', "no_json"),
        ("[]", "no_json"),
        ("[1, 2, 3]", "no_json"),
        ('{"judgments": {}}', "no_json"),
        (ALL.replace("insight_id", "number"), "unclear_insight"),
        (f"[{ONE}, {TWO}, {{'coverage': 'NO_COVERAGE'}}]", "broken_json"),
        ('{"judgments": {"1": {"coverage": "FULL_COVERAGE"}, "2": {"coverage": "NO_COVERAGE"}}}', "unclear_insight"),
        ('{"coverage": "FULL_COVERAGE", "bullet_id": 2}', "unclear_insight"),
        (ALL.replace('"insight_id": 3', '"insight_id": 0'), "unclear_insight"),
        (ALL.replace('"insight_id": 1', '"insight_id": 4'), "unclear_insight"),
        (ALL.replace('"insight_id": 1', '"insight_id": true'), "unclear_insight"),
        (ALL.replace('"insight_id": 1', '"insight_id": NaN'), "unclear_insight"),
        (ALL.replace('"insight_id": 1', '"insight_id": [1]'), "unclear_insight"),
        (ALL.replace('"insight_id": 1', '"insight_id": 1, "insight_id": 2'), "unclear_insight"),
        (f'{{"coverage": "FULL_COVERAGE", "judgments": [{ONE}, {TWO}, {THREE}]}}', "unclear_insight"),
    ],
)
def test_an_answer_that_does_not_say_whose_its_verdicts_are_judges_nothing(text: str, error: str) -> None:
    assert short(read_verdicts(text, 3)) == [error] * 3


def test_numbers_from_zero_never_give_an_insight_its_neighbours_verdict() -> None:
    shifted = ALL.replace('"insight_id": 1', '"insight_id": 0').replace('"insight_id": 2', '"insight_id": 1')
    assert short(read_verdicts(shifted.replace('"insight_id": 3', '"insight_id": 2'), 3)) == ["unclear_insight"] * 3


@pytest.mark.parametrize("end", [10, 70, 150, len(ALL)])
def test_of_a_cut_answer_nothing_is_taken(end: int) -> None:
    assert short(read_verdicts(ALL[:end], 3, "length")) == ["cut_answer"] * 3


def test_a_single_insight_needs_no_number() -> None:
    assert read_verdicts('{"coverage": "FULL_COVERAGE", "bullet_id": 2}', 1) == [FULL_2]
    assert read_verdicts(f'{{"judgments": [{ONE}]}}', 1) == [FULL_2]
    assert short(read_verdicts(f'{{"judgments": [{TWO}]}}', 1)) == ["unclear_insight"]


def test_values_come_with_their_verdicts() -> None:
    text = ALL.replace('"bullet_id": 2}', '"bullet_id": 2, "value": 0.8, "uncertainty": 0.25}')
    assert read_verdicts(text, 3) == [Verdict("FULL_COVERAGE", "2", 0.8, 0.25), PARTIAL_1, NONE]


@pytest.mark.parametrize("text", ['{"judgments": [' * 20_000, ONE[:-1] * 2_000 + TWO, '[{"insight_id": ' * 5_000, "{" * 50_000])
def test_hostile_answers_are_quick(text: str) -> None:
    assert "N" not in short(read_verdicts(text, 3))


no_fields: dict[str, st.SearchStrategy[Any]] = {}
entries: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    no_fields,
    optional={
        "insight_id": st.one_of(st.integers(-1, 5), st.sampled_from(["1", "2", None, 1.0, "x"])),
        "coverage": st.sampled_from(["NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE", "no", "?", None, 3]),
        "bullet_id": st.one_of(st.integers(-1, 9), st.sampled_from(["NA", None, [1], {}])),
        "value": st.one_of(st.floats(), st.none(), st.text(max_size=3)),
    },
)


@given(st.lists(entries, max_size=6), st.integers(1, 4), st.integers(0, 400))
def test_no_coverage_is_never_invented(judgments: list[dict[str, Any]], n_insights: int, end: int) -> None:
    text = json.dumps({"judgments": judgments})[: end or None]
    read = read_verdicts(text, n_insights)
    assert len(read) == n_insights
    for number, one in enumerate(read, 1):
        if isinstance(one, Verdict) and one.coverage == "NO_COVERAGE":
            # It stands in the text, about this very insight or about the only one asked.
            about = [judged for judged in judgments if judged.get("coverage") in ("NO_COVERAGE", "no")]
            assert any(str(judged.get("insight_id", 1)).partition(".")[0] == str(number) for judged in about)


@given(st.text(), st.integers(1, 4), st.sampled_from(["stop", "length", "content_filter", ""]))
def test_prose_never_judges(text: str, n_insights: int, finish_reason: str) -> None:
    assert all(isinstance(one, Malformed) for one in read_verdicts(text.replace("{", "("), n_insights, finish_reason))
