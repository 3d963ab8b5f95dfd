"""Parsing one answer about several insights into a verdict for each. Private to the judge room.

The answer is `{"judgments": [{"insight_id": 1, "coverage": ..., "bullet_id": ...}, ...]}`; the repairs are those of `answer.py`.
An insight without an unambiguous verdict is Malformed, with `error` one of those of `answer.py`, or missing_insight,
unclear_insight. No insight gets a verdict that may belong to another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from summhay_ray.judge.answer import (
    BROKEN,
    NO_JSON,
    Object,
    final_text,
    repaired_object,
    unless_taken_back,
    verdict_objects,
    verdict_of,
)
from summhay_ray.judge.base import Verdict
from summhay_ray.outcome import Malformed

_QUOTE = r"""["'\u2018\u2019\u201c\u201d]"""
_INSIGHT_KEY = re.compile(rf"insight[\s_-]?id{_QUOTE}?\s*:\s*{_QUOTE}?\s*([0-9]{{1,9}})\b", re.IGNORECASE)
_DIGITS = re.compile(r"(?:insight\s*)?#?\s*([0-9]{1,9})\.?", re.IGNORECASE)
_MISSING = Malformed("missing_insight", "the answer does not mention the insight")
_UNCLEAR = Malformed(
    "unclear_insight", "the answer's insight_ids are not those of the prompt, so its verdicts cannot be assigned"
)

Read = Verdict | Malformed


def read_verdicts(text: str, n_insights: int, finish_reason: str = "stop") -> list[Read]:
    """The verdicts on insights 1..n_insights, in order.

    All are Malformed if the answer was cut at the token limit (the part before the cut may be a draft), if a verdict names no
    insight, or if one names an unknown insight while a known one is missing (a model that counts from 0 would assign every
    verdict to the wrong insight). Otherwise unknown insights are ignored. Text around the JSON that contradicts a label makes
    all verdicts with that label Malformed, since it does not say which insight it means.
    """
    answer = final_text(text, finish_reason)
    if isinstance(answer, Malformed):
        return [answer] * n_insights
    objects, spans = verdict_objects(answer)
    if not objects and not spans:
        return [NO_JSON] * n_insights
    said: dict[int | None, set[Read]] = {}
    for number, read in (*_whole(objects, n_insights), *_repaired(spans)):
        said.setdefault(number, set()).add(read)
    asked = set(range(1, n_insights + 1))
    if None in said:
        return [BROKEN if said[None] == {BROKEN} else _UNCLEAR] * n_insights
    if said.keys() - asked and asked - said.keys():
        return [_UNCLEAR] * n_insights
    return [unless_taken_back(_one(said.get(number, set())), answer) for number in sorted(asked)]


def _whole(objects: Iterable[Object], n_insights: int) -> Iterable[tuple[int | None, Read]]:
    for value in objects:
        ids = value.values("insightid")
        number = 1 if n_insights == 1 and not ids else _number(ids)
        yield number, verdict_of(value)


def _repaired(spans: Iterable[str]) -> Iterable[tuple[int | None, Read]]:
    for span in spans:
        # Repair makes an object of any text: its insight_id must be the one in the text.
        written = {int(number) for number in _INSIGHT_KEY.findall(span)}
        number = written.pop() if len(written) == 1 else None
        value = repaired_object(span)
        same = value is not None and number is not None and _number(value.values("insightid")) == number
        yield number, verdict_of(value) if value is not None and same else BROKEN


def _one(read: set[Read]) -> Read:
    if not read:
        return _MISSING
    if len(read) > 1:
        return Malformed("two_verdicts", "the answer judges the insight twice, with different verdicts")
    return next(iter(read))


def _number(ids: list[Any]) -> int | None:
    """The insight named by the values of `insight_id`: 3, 3.0, "3" and "insight 3" all name 3."""
    numbers = {_as_number(value) for value in ids}
    return numbers.pop() if len(numbers) == 1 else None


def _as_number(value: Any) -> int | None:
    if isinstance(value, str):
        match = _DIGITS.fullmatch(value.strip())
        return int(match[1]) if match else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
