"""Parsing a judge's answer into verdicts.

The format is Laban et al.'s, "Summary of a Haystack", appendix A.2; `text.answers` reads it. A verdict is a JSON object with a
coverage. Only another such object can contradict it; the text around it cannot. Malformed answers have an `error` of
`text.answers`, or two_verdicts, unknown_coverage, unusable_bullet, missing_insight, unclear_insight.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from summhay_ray.judge.base import Verdict
from summhay_ray.outcome import Malformed
from summhay_ray.records import COVERAGE_VALUE
from summhay_ray.text import UnusableAnswer, final_text, json_objects, whole_number

_LABEL = re.compile(r"(?:(?P<FULL>full|fully)|(?P<PARTIAL>partial|partially)|(?P<NO>no|not(?=covered)))(?:coverage|covered)?")
_MOST_APART = 0.5
"""A value that differs more than this from the value of its label is ignored."""

Read = Verdict | Malformed


def read_verdict(text: str, finish_reason: str = "stop") -> Read:
    """The verdict in an answer: coverage as one of records.Coverage, and the judge's bullet id as JSON.

    The bullet id ("null" if there is none) is not checked against the summary: scoring decides how an unusable one counts. An
    answer that was cut at the token limit (`finish_reason` "length") is always Malformed: the judge had not finished, and might
    have changed its mind.
    """
    try:
        return _one([_verdict_of(value) for value in _objects(text, finish_reason)])
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))


def read_verdicts(text: str, n_insights: int, finish_reason: str = "stop") -> list[Read]:
    """The verdicts of `{"judgments": [{"insight_id": 1, "coverage": ..., "bullet_id": ...}, ...]}` on insights 1..n_insights.

    All are Malformed if the answer is cut or broken, if a verdict names no insight, or if one names an unknown insight while a
    known one is missing (a model that counts from 0 would assign every verdict to the wrong insight). Otherwise unknown insights
    are ignored.
    """
    said: dict[int | None, list[Read]] = {}
    try:
        for value in _objects(text, finish_reason):
            number = 1 if n_insights == 1 and "insight_id" not in value else whole_number(value.get("insight_id"), "insight")
            said.setdefault(number, []).append(_verdict_of(value))
    except UnusableAnswer as error:
        return [Malformed(error.error, str(error))] * n_insights
    asked = set(range(1, n_insights + 1))
    if None in said or (said.keys() - asked and asked - said.keys()):
        message = "the answer's insight_ids are not those of the prompt, so its verdicts cannot be assigned"
        return [Malformed("unclear_insight", message)] * n_insights
    missing = Malformed("missing_insight", "the answer does not mention the insight")
    return [_one(said[number]) if number in said else missing for number in sorted(asked)]


def _objects(text: str, finish_reason: str) -> list[dict[str, Any]]:
    """The answer's objects with a coverage, nested ones included. Raises UnusableAnswer."""
    optional = ("bullet_id", "insight_id", "value", "uncertainty")
    found = json_objects(final_text(text, finish_reason), "coverage", optional=optional, nested=True)
    if not found:
        raise UnusableAnswer("no_json", 'the answer has no JSON object with a "coverage"')
    return found


def _one(read: Sequence[Read]) -> Read:
    if len({(one.coverage, one.bullet_id.strip('"')) if isinstance(one, Verdict) else one for one in read}) > 1:
        return Malformed("two_verdicts", "the answer has several verdicts, and they differ")
    return read[-1]


def _verdict_of(value: dict[str, Any]) -> Read:
    """The verdict in an object with a coverage. An uncertainty outside 0..1 is dropped."""
    word, bullet = value["coverage"], json.dumps(value.get("bullet_id"))
    match = _LABEL.fullmatch(re.sub(r"[\W_]+", "", word.lower())) if isinstance(word, str) else None
    if match is None:
        return _unknown(json.dumps(word))
    coverage = f"{match.lastgroup}_COVERAGE"
    if {text.strip() for text in value.values() if isinstance(text, str)} & (COVERAGE_VALUE.keys() - {coverage}):
        return Malformed("two_verdicts", "the answer's JSON object names two coverages")
    if coverage == "NO_COVERAGE" and (failure := _bullet_failure(bullet)):
        return failure
    return Verdict(coverage, bullet, expected_of(value.get("value"), coverage), fraction(value.get("uncertainty")))


def expected_of(value: Any, coverage: str) -> float | None:
    """The expected coverage in an optional field; None if it is not in 0..1, or contradicts the label."""
    expected = fraction(value)
    return None if expected is None or abs(expected - COVERAGE_VALUE[coverage]) > _MOST_APART else expected


def usable_verdict(verdict: Verdict, n_bullets: int) -> Verdict | Malformed:
    """The verdict, checked against a summary of `n_bullets` bullets. This is required before combining verdicts.

    For a covered insight, the verdict must name a bullet (1..n_bullets); for NO_COVERAGE, none (the bullet id becomes "NA").
    Anything else is Malformed ("unusable_bullet"). A user's own judge may also return an unknown label ("unknown_coverage") or a
    value outside 0..1 ("unusable_value").
    """
    if verdict.coverage not in COVERAGE_VALUE:
        return _unknown(json.dumps(verdict.coverage, default=str))
    if not 0 <= verdict.expected <= 1:
        return Malformed("unusable_value", f"the judge's value is {verdict.expected}; expected 0 to 1")
    if verdict.coverage == "NO_COVERAGE":
        return _bullet_failure(verdict.bullet_id) or replace(verdict, bullet_id='"NA"')
    bullet = usable_bullet(verdict.bullet_id, n_bullets)
    if bullet is None:
        message = f"{verdict.coverage} names bullet {verdict.bullet_id:.60}, but the summary has bullets 1..{n_bullets}"
        return Malformed("unusable_bullet", message)
    return replace(verdict, bullet_id=str(bullet))


def usable_bullet(bullet_id: str, n_bullets: int) -> int | None:
    """The bullet (1..n_bullets) that `bullet_id` (JSON) names, or None. 3, 3.0, "3", "bullet 3" and [3] all name bullet 3."""
    try:
        value = json.loads(bullet_id)
    except ValueError:
        return None
    number = whole_number(value[0] if isinstance(value, list) and len(value) == 1 else value, "bullet")
    return number if number is not None and 1 <= number <= n_bullets else None


def _bullet_failure(bullet_id: str) -> Malformed | None:
    """The failure if the bullet id (JSON) of a NO_COVERAGE contains a positive number, else None. Words count as no bullet."""
    if re.search(r"(?<![-\d.])0*[1-9]", re.sub(r"\\u[0-9a-f]{4}", "", bullet_id)):
        return Malformed("unusable_bullet", f'NO_COVERAGE names bullet {bullet_id:.60}; expected "NA"')
    return None


def _unknown(word: str) -> Malformed:
    return Malformed("unknown_coverage", f"coverage is {word:.60}; expected NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE")


def fraction(value: Any) -> float | None:
    """The number from 0 to 1 that a JSON value is, or None."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None
