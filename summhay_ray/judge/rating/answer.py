"""Part of the judge room: from an answer to the rating in it, or Malformed, which is never a rating and never 0.

An answer is the rating alone on its first line, with at most a label before it and the scale's end behind it: `4`, `**4**`,
`Rating: 4`, `4/5`; or JSON, `{"rating": 4}`. Half numbers, ranges, choices and numbers beyond the scale are Malformed, with
`error` one of empty_answer, cut_answer, no_rating, off_scale, two_ratings, no_mass.
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
    r"(?P<rating>\d+)"
    r"[*_` ]*(?:(?:/|out of|of)[*_` ]*(?P<high>\d+))?[.!]?",
    re.IGNORECASE,
)
_ALONE = re.compile(r"\d+")
LEAST_MASS = 0.5
"""Probability that a first token is on the scale from which on its log probabilities rate; below, most of what the model was
about to say is something else."""
HIGHEST = 9
"""The end of a scale that one token can rate; some models write numbers with two digits as two tokens."""


@dataclass(frozen=True, slots=True)
class ByLogprobs:
    """The expectation over an answer's first token."""

    value: float
    mass: float
    """Probability of all of the scale's numbers together, 0..1; the rest is tokens that are none."""
    chances: Mapping[int, float]
    """Rating -> its share of the mass."""


def read_rating(text: str, scale: Scale, finish_reason: str = "stop") -> float | Malformed:
    """The rating that an answer says, on the scale.

    It is a whole number, unless the answer is JSON with an `expected` beside its `rating`. An answer that the token limit cut is
    read where what is missing cannot change the number: behind a line break, or where no longer number is on the scale.
    """
    cut = finish_reason == "length"
    answer = final_text(text, "stop")
    if isinstance(answer, Malformed):
        return answer
    if answer.startswith("{"):
        return CUT if cut else _of_json(answer, scale)
    line, _, rest = answer.partition("\n")
    found = _LINE.fullmatch(line.strip(_MARKS))
    if found is None:
        return Malformed("no_rating", f"the answer is no whole number from {scale} alone on its first line: {line[:60]!r}")
    if found["high"] and int(found["high"]) != scale.high:
        return Malformed("off_scale", f"the answer rates out of {found['high']}; the scale is {scale}")
    rating = int(found["rating"])
    if cut and not rest and rating * 10 <= scale.high:
        return CUT
    if rating not in scale:
        return Malformed("off_scale", f"the answer is {rating}; the scale is {scale}")
    others = {int(number[0]) for one in rest.splitlines() if (number := _ALONE.fullmatch(one.strip(_MARKS + ".")))}
    if others - {rating}:
        return Malformed("two_ratings", "the answer has several ratings, and they differ")
    return float(rating)


def release_rating(text: str) -> float:
    """As the code of Extract-then-Evaluate reads an answer: digits at its beginning, else 0, whatever the scale."""
    found = re.match(r" ?(\d+)", text)
    return float(found[1]) if found else 0.0


def expected_rating(logprobs: str, scale: Scale) -> ByLogprobs | Malformed | None:
    """The expectation over the first token that is more than white space; None where there are no log probabilities.

    `logprobs`: those of the answer's tokens as OpenAI lists them, as JSON (`RawAnswer.logprobs`). Spellings of one number (`4`,
    ` 4`) count together. Malformed where the scale's numbers have less than `LEAST_MASS` together. Raises ValueError for a scale
    beyond `HIGHEST`.
    """
    check_logprobs(scale)
    tokens = _tokens(logprobs)
    first = next((token for token in tokens if str(token.get("token", "")).strip()), None)
    if first is None:
        return None
    chances = dict.fromkeys(range(scale.low, scale.high + 1), 0.0)
    for token, probability in _likeliest(first):
        spelt = token.strip()
        if spelt.isascii() and spelt.isdigit() and int(spelt) in chances:
            chances[int(spelt)] += probability
    mass = sum(chances.values())
    if mass < LEAST_MASS:
        told = f"whole numbers from {scale} have {mass:.2g} of the first token's probability; expected {LEAST_MASS:g} at least"
        return Malformed("no_mass", told)
    shares = {rating: chance / mass for rating, chance in chances.items()}
    return ByLogprobs(sum(rating * share for rating, share in shares.items()), min(mass, 1.0), shares)


def check_logprobs(scale: Scale) -> None:
    """Raises ValueError where a first token's log probabilities cannot rate on the scale."""
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
    found = json.loads(logprobs)
    return [token for token in found if isinstance(token, Mapping)] if isinstance(found, list) else []


def _likeliest(token: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(token, probability) of what stands at a place, each token once; the one that was chosen is among them."""
    listed = token.get("top_logprobs")
    seen: set[str] = set()
    for one in (*(listed if isinstance(listed, list) else ()), token):
        if isinstance(one, Mapping) and isinstance(one.get("token"), str) and one["token"] not in seen:
            seen.add(one["token"])
            logprob = one.get("logprob")
            if isinstance(logprob, int | float) and not isinstance(logprob, bool) and not math.isnan(logprob):
                yield one["token"], math.exp(min(float(logprob), 0.0))
