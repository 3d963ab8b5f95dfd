"""Part of the judge room: read the rating from an answer. An unreadable answer is Malformed, never 0.

The first line of an answer holds the rating alone, optionally after a label and before the end of the scale: `4`, `**4**`,
`Rating: 4`, `4/5`. JSON is read too: `{"rating": 4}`. Fractions, ranges, alternatives and numbers off the scale are Malformed;
`error` is one of empty_answer, cut_answer, no_rating, off_scale, two_ratings, no_mass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.judge.answer import CUT, final_text
from summhay_ray.judge.rating.base import Scale
from summhay_ray.outcome import Malformed

_MARKS = "*_`#>\"'()[] \t"
_LINE = re.compile(
    r"(?:[-•] )?(?:[^\W\d_][^\W\d_ -]*(?:[ -][^\W\d_]+){0,4}[*_` ]*(?:[:=]|\bis\b)[*_` ]*)?"  # a label of at most five words
    r"(?P<rating>\d{1,4000})"  # Python reads no longer number
    r"[*_` ]*(?:(?:/|out of|of)[*_` ]*(?P<high>\d{1,4000}))?[.!]?",
    re.IGNORECASE,
)
_ALONE = re.compile(r"\d{1,4000}")
LEAST_MASS = 0.5
"""The least probability of the scale's numbers together, at the first token, for log probabilities to count as a rating. Below it
the model was more likely to say something else."""
LEAST_LOGPROB = -1e6
"""The probability of anything below is 0."""
HIGHEST = 9
"""The highest number of a scale that log probabilities can rate: some models write two digits as two tokens."""


@dataclass(frozen=True, slots=True)
class ByLogprobs:
    """The expected rating over the alternatives of an answer's first token."""

    value: float
    mass: float
    """Total probability of the scale's numbers, 0..1; the rest belongs to other tokens."""
    chances: Mapping[int, float]
    """Rating -> its share of `mass`; the shares sum to 1."""


def read_rating(text: str, scale: Scale, finish_reason: str = "stop") -> float | Malformed:
    """The rating in an answer, on the scale, or Malformed.

    A whole number, unless the answer is JSON with `expected` beside `rating`; then it is `expected`. An answer cut by the token
    limit (`finish_reason` is "length") is read only if the missing text cannot change the number: after a line break, or if no
    longer number is on the scale.
    """
    cut = finish_reason == "length"
    answer = final_text(text, "stop")
    if isinstance(answer, Malformed):
        return answer
    if answer.startswith("{"):
        return CUT if cut else _of_json(answer, scale)
    line, _, rest = answer.partition("\n")
    match = _LINE.fullmatch(line.strip(_MARKS))
    if match is None:
        return Malformed("no_rating", f"the answer is no whole number from {scale} alone on its first line: {line[:60]!r}")
    if match["high"] and int(match["high"]) != scale.high:
        return Malformed("off_scale", f"the answer rates out of {match['high']}; the scale is {scale}")
    rating = int(match["rating"])
    if cut and not rest and rating * 10 <= scale.high:
        return CUT
    if rating not in scale:
        return Malformed("off_scale", f"the answer is {rating}; the scale is {scale}")
    others = {int(number[0]) for other_line in rest.splitlines() if (number := _ALONE.fullmatch(other_line.strip(_MARKS + ".")))}
    if others - {rating}:
        return Malformed("two_ratings", "the answer has several ratings, and they differ")
    return float(rating)


def release_rating(text: str) -> float:
    """The rating as the code of Extract-then-Evaluate reads it: the leading digits, else 0, whatever the scale."""
    match = re.match(r" ?(\d+)", text)
    return float(match[1]) if match else 0.0


def expected_rating(logprobs: str, scale: Scale) -> ByLogprobs | Malformed | None:
    """The expected rating over the alternatives of the first token that is not white space; None without log probabilities.

    `logprobs`: JSON list of the answer's tokens in OpenAI's format (`RawAnswer.logprobs`). Spellings of one number (`4`, ` 4`)
    are added up. Malformed if the scale's numbers together have less than `LEAST_MASS`. Raises ValueError if the scale goes
    beyond `HIGHEST`.
    """
    check_logprobs(scale)
    tokens = _tokens(logprobs)
    first = next((token for token in tokens if str(token.get("token", "")).strip()), None)
    if first is None:
        return None
    chances = dict.fromkeys(range(scale.low, scale.high + 1), 0.0)
    for token, probability in _alternatives(first):
        spelt = token.strip()
        if spelt.isascii() and _ALONE.fullmatch(spelt) and int(spelt) in chances:
            chances[int(spelt)] += probability
    mass = sum(chances.values())
    if mass < LEAST_MASS:
        message = f"whole numbers from {scale} have {mass:.2g} of the first token's probability; expected {LEAST_MASS:g} at least"
        return Malformed("no_mass", message)
    shares = {rating: chance / mass for rating, chance in chances.items()}
    return ByLogprobs(sum(rating * share for rating, share in shares.items()), min(mass, 1.0), shares)


def check_logprobs(scale: Scale) -> None:
    """Raise ValueError if the scale goes beyond `HIGHEST`, so that log probabilities cannot rate on it."""
    if scale.high > HIGHEST:
        raise ValueError(
            f"the scale is {scale}; logprobs rate by one token, up to {HIGHEST}: ask for samples, or rate up to {HIGHEST}"
        )


def _of_json(answer: str, scale: Scale) -> float | Malformed:
    try:
        value = json.loads(answer)
    except ValueError:
        return Malformed("no_rating", 'the answer begins as JSON and is none; expected {"rating": 4}')
    rating = value.get("rating")
    if isinstance(rating, bool) or not isinstance(rating, int):
        return Malformed("no_rating", 'the answer\'s JSON has no whole number "rating"')
    if rating not in scale:
        return Malformed("off_scale", f"the answer is {rating}; the scale is {scale}")
    expected = value.get("expected", rating)
    if isinstance(expected, bool) or expected not in scale or abs(expected - rating) > 1:
        return Malformed("two_ratings", f"the answer's JSON says rating {rating} and expected {expected!r:.40}")
    return float(expected)


def _tokens(logprobs: str) -> list[Mapping[str, Any]]:
    if not logprobs:
        return []
    tokens = json.loads(logprobs)
    return [token for token in tokens if isinstance(token, Mapping)] if isinstance(tokens, list) else []


def _alternatives(token: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(token, probability) of the alternatives at one position and of the token that was chosen, each once."""
    listed = token.get("top_logprobs")
    seen: set[str] = set()
    for entry in (*(listed if isinstance(listed, list) else ()), token):
        if isinstance(entry, Mapping) and isinstance(entry.get("token"), str) and entry["token"] not in seen:
            seen.add(entry["token"])
            logprob = entry.get("logprob")
            if isinstance(logprob, int | float) and not isinstance(logprob, bool) and logprob == logprob:
                # The bounds also keep out whole numbers that no float holds.
                yield entry["token"], math.exp(min(max(logprob, LEAST_LOGPROB), 0.0))
