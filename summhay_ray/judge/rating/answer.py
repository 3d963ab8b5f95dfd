"""The scale of a rating, and the parser of ratings in answers. An unreadable answer is Malformed, never 0.

`text.read_number` defines the forms of a plain answer. JSON may be `{"rating": 4}`, `{"score": 4}`, or another object with one
number. The `error` is one of `text.answers`, or no_rating, two_ratings, off_scale, no_mass.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.outcome import Malformed
from summhay_ray.text import UnusableAnswer, final_text, json_value, read_number

LEAST_MASS = 0.5
"""Minimum total probability of the scale's numbers at the first token, for a rating by log probabilities. With less, the model
was more likely to answer something else."""
LEAST_LOGPROB = -1e6
"""A lower log probability counts as probability 0."""
HIGHEST = 9
"""The highest number that log probabilities can rate, since some models write two digits as two tokens."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Whole numbers from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high:
            raise ValueError(f"the scale is {self.low} to {self.high}; expected whole numbers from 0 on, the lower first")

    def __contains__(self, rating: object) -> bool:
        return isinstance(rating, int | float) and self.low <= rating <= self.high

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class ByLogprobs:
    """The expected rating over the alternatives of an answer's first token."""

    value: float
    mass: float
    """Total probability of the scale's numbers, 0..1. The rest belongs to other tokens."""


def read_rating(text: str, scale: Scale, finish_reason: str = "stop") -> float | Malformed:
    """Read the rating in an answer; Malformed if it is not on the scale or cannot be read.

    It is a whole number. JSON may also have `expected` in addition to `rating`; then the rating is `expected`. An answer cut at
    the token limit (`finish_reason` "length") is read only if the missing text cannot change the number: after a line break, or
    if no longer number is on the scale.
    """
    cut, expected = finish_reason == "length", None
    try:
        answer = final_text(text)
        try:
            rating, high, tail = read_number(answer)
        except UnusableAnswer:
            if "{" not in answer:
                raise
            rating, expected = _of_json(final_text(text, finish_reason))
            high, tail = None, ""
        # The cut may have removed a decimal place, another digit or a range.
        if cut and "\n" not in answer and (not tail and rating * 10 <= scale.high or tail and not re.search(r"\w", tail)):
            final_text(text, finish_reason)
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))
    if rating not in scale or high not in (None, scale.high):
        return Malformed("off_scale", f"the answer is {rating}{f' of {high}' if high else ''}; the scale is {scale}")
    if expected is not None and (isinstance(expected, bool) or expected not in scale or abs(expected - rating) > 1):
        return Malformed("two_ratings", f"the answer's JSON says rating {rating} and expected {expected!r:.40}")
    return float(rating if expected is None else expected)


def expected_rating(logprobs: str, scale: Scale) -> ByLogprobs | Malformed | None:
    """Return the expected rating over the alternatives of the first non-blank token; None without log probabilities.

    `logprobs`: JSON list of the answer's tokens in OpenAI's format (`RawAnswer.logprobs`). Spellings of one number (`4`, ` 4`)
    are added up. Malformed if the total probability of the scale's numbers is below `LEAST_MASS`. Raises ValueError if the scale
    goes beyond `HIGHEST`.
    """
    check_logprobs(scale)
    tokens = json.loads(logprobs or "[]")
    listed = tokens if isinstance(tokens, list) else []
    first = next((one for one in listed if isinstance(one, Mapping) and str(one.get("token", "")).strip()), None)
    if first is None:
        return None
    chances = dict.fromkeys(range(scale.low, scale.high + 1), 0.0)
    likely, seen = first.get("top_logprobs"), set[str]()
    for entry in (*(likely if isinstance(likely, list) else ()), first):
        if not isinstance(entry, Mapping) or not isinstance(token := entry.get("token"), str) or token in seen:
            continue
        seen.add(token)
        spelt, logprob = token.strip(), entry.get("logprob")
        if not isinstance(logprob, int | float) or isinstance(logprob, bool) or logprob != logprob:
            continue
        if spelt.isascii() and spelt.isdecimal() and len(spelt) < 10 and int(spelt) in chances:
            # The bounds also exclude whole numbers that are too large for a float.
            chances[int(spelt)] += math.exp(min(max(logprob, LEAST_LOGPROB), 0.0))
    mass = sum(chances.values())
    if mass < LEAST_MASS:
        message = f"whole numbers from {scale} have {mass:.2g} of the first token's probability; expected {LEAST_MASS:g} at least"
        return Malformed("no_mass", message)
    return ByLogprobs(sum(rating * chance / mass for rating, chance in chances.items()), min(mass, 1.0))


def check_logprobs(scale: Scale) -> None:
    """Raise ValueError if the scale goes beyond `HIGHEST`, where ratings by log probabilities are impossible."""
    if scale.high > HIGHEST:
        raise ValueError(
            f"the scale is {scale}; logprobs rate by one token, up to {HIGHEST}: ask for samples, or rate up to {HIGHEST}"
        )


def _of_json(answer: str) -> tuple[int, Any]:
    """Return the whole number in JSON (`rating` or `score`, else its only number), and its `expected`. Raise UnusableAnswer."""
    value = json_value(answer)
    inner = [item for one in value.values() if isinstance(one, dict) for item in one.items()]
    named = {str(name).strip().lower(): one for name, one in (*inner, *value.items())}
    ratings = {_whole_number(named[name]) for name in ("rating", "score") if name in named}
    if not ratings:
        numbers = [_whole_number(one) for one in named.values() if not isinstance(one, str) or one.isdecimal()]
        ratings = set(numbers) - {None} if len(numbers) - numbers.count(None) == 1 else {None}
    if None in ratings:
        raise UnusableAnswer("no_rating", 'the answer\'s JSON has no whole number "rating"')
    if len(ratings) > 1:
        raise UnusableAnswer("two_ratings", "the answer has several ratings, and they differ")
    return ratings.pop() or 0, named.get("expected")


def _whole_number(value: Any) -> int | None:
    """Return the whole number in a JSON value, which may be a text: 4, 4.0, "4", "4/5"."""
    try:
        return read_number(str(value))[0]
    except UnusableAnswer:
        return None
