"""Part of the judge room: read the rating from an answer. An unreadable answer is Malformed, never 0.

An answer begins with the rating: `4`, `4.0`, `**4**`, `4/5`, `Rating: 4`, `Quality (1-5): 4`, `1. 4`, `4 - mostly consistent`,
`7 Extremely Faithful`. A code fence or a line such as `My rating:` may stand before it, and remarks behind it. JSON is read too:
`{"rating": 4}`, `{"score": 4}`, or another object with one number. Fractions, ranges, alternatives and numbers off the scale are
Malformed; `error` is one of empty_answer, cut_answer, no_rating, off_scale, two_ratings, no_mass.
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
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t]*$", re.MULTILINE)
_LEAD_IN = re.compile(r"\A[^\d\n{]{0,100}:[*_ \t]*\n\s*")
"""A line without a number that ends with a colon."""
_FIRST = re.compile(r"1[.)][ \t]+(?=\S*\d|[^\W\d_])")
"""The number of a list's first entry."""
_OF_LIST = re.compile(r"\d{1,2}[.)][ \t]+(?=\d)")
_LINE = re.compile(
    # A label of at most five words, perhaps with the scale behind it.
    r"(?:[-•] )?(?:[^\W\d_][^\W\d_ -]*(?:[ -][^\W\d_]+){0,4}[*_` ]*(?:\([^()]{1,20}\)[*_` ]*)?"
    r"(?:[:=]|\bis\b|(?<=\s)[-–—](?=\s))[*_` ]*)?"
    r"(?P<rating>\d{1,9})(?:\.0+)?"
    r"(?P<tail>[*_` \])]*(?:(?:/|out of|of)[*_` ]*(?P<high>\d{1,9})(?:\.0+)?[*_` \])]*)?"
    # What the rating means: behind a sign, or the scale's own words.
    r"(?:[.!]?|(?:[ ]?[-–—:;,=(]+|[ ]?->)[*_` \"']*(?P<remark>[^\W\d_].*)"
    r"|[.,]?[*_` (\"']+(?P<words>[^\W\d_][\w’'-]*(?:[ ][^\W\d_][\w’'-]*){0,4})[.!)\"'*_`]*))",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"\A(?:or|to|and|rather|perhaps|maybe|no)\b\W*\d|\b(?:or|rather|perhaps|maybe|no)\W+\d+\W*\Z", re.IGNORECASE
)
"""A remark that takes the rating back: `or 5`, `no, 3`."""
_SCALE_WORDS = re.compile(r"(?:in)?consistent|(?:un)?faithful|(?:ir)?relevant|points?|stars?", re.IGNORECASE)
_ALONE = re.compile(r"\d{1,9}")
_KEYS = ("rating", "score")
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
    answer = _LEAD_IN.sub("", _FENCE.sub("", answer).strip())
    if answer.startswith("{"):
        return CUT if cut else _of_json(answer, scale)
    line, _, rest = answer.partition("\n")
    match = _rating_in(line)
    if match is None:
        return Malformed("no_rating", f"the answer does not begin with a whole number from {scale}: {line[:60]!r}")
    if match["high"] and int(match["high"]) != scale.high:
        return Malformed("off_scale", f"the answer rates out of {match['high']}; the scale is {scale}")
    rating = int(match["rating"])
    tail = match["tail"].strip(_MARKS)
    # A decimal, another digit or a range may have followed.
    if cut and not rest and (not tail and rating * 10 <= scale.high or tail and not re.search(r"\w", tail)):
        return CUT
    if rating not in scale:
        return Malformed("off_scale", f"the answer is {rating}; the scale is {scale}")
    if _others(rest) - {rating}:
        return Malformed("two_ratings", "the answer has several ratings, and they differ")
    return float(rating)


def _rating_in(line: str) -> re.Match[str] | None:
    """The parts of a line that rates: `rating`, `high` (the scale's end, if it is named) and `tail` (what follows the rating)."""
    stripped = line.strip(_MARKS)
    match = _LINE.fullmatch(stripped) or _LINE.fullmatch(_FIRST.sub("", stripped, count=1))
    if match is None or _OTHERWISE.search(match["remark"] or ""):
        return None
    words = (match["words"] or "").split()
    # "4 statements agree" counts something else.
    names = all(word[0].isupper() for word in words) or _SCALE_WORDS.fullmatch(words[-1])
    return match if names else None


def _others(rest: str) -> set[int]:
    """The numbers that stand alone on a line, perhaps behind the number of a list's entry."""
    lines = (_OF_LIST.sub("", line.strip(_MARKS + "."), count=1) for line in rest.splitlines())
    return {int(line) for line in lines if _ALONE.fullmatch(line)}


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
        value, _ = json.JSONDecoder().raw_decode(answer)
    except (ValueError, RecursionError):
        return Malformed("no_rating", 'the answer begins as JSON and is none; expected {"rating": 4}')
    named = {str(name).strip().lower(): number for name, number in value.items()}
    given = [named[name] for name in _KEYS if name in named]
    if not given:
        plain = [
            int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value for value in named.values()
        ]
        numbers = [value for value in plain if not isinstance(value, str) and _whole(value) is not None]
        given = numbers if len(numbers) == 1 else []
    rating = _whole(given[0]) if given else None
    if rating is None:
        return Malformed("no_rating", 'the answer\'s JSON has no whole number "rating"')
    if any(_whole(number) != rating for number in given):
        return Malformed("two_ratings", "the answer has several ratings, and they differ")
    if rating not in scale:
        return Malformed("off_scale", f"the answer is {rating}; the scale is {scale}")
    expected = named.get("expected", rating)
    if isinstance(expected, bool) or expected not in scale or abs(expected - rating) > 1:
        return Malformed("two_ratings", f"the answer's JSON says rating {rating} and expected {expected!r:.40}")
    return float(expected)


def _whole(value: Any) -> int | None:
    """The whole number that a JSON value is or, as text, says: 4, 4.0, "4", "4/5"."""
    if isinstance(value, str):
        match = _rating_in(value)
        return None if match is None else int(match["rating"])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value != int(value):
        return None
    return int(value)


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
