"""Part of the judge room, for the room alone: from a judge's answer text to a verdict, or to why it holds none.

An answer is repaired without another call where its meaning is beyond doubt: code fences, prose around one JSON object, single
quotes, trailing commas, a missing closing brace, a coverage word in another spelling. Everything else is Malformed, with
`error` one of empty_answer, cut_answer, no_json, broken_json, two_verdicts, unknown_coverage, unusable_bullet.
Format after Laban et al., "Summary of a Haystack", appendix A.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

from summhay_ray.judge.base import Verdict
from summhay_ray.outcome import Malformed

_COVERAGE = {
    "full": "FULL_COVERAGE",
    "fully": "FULL_COVERAGE",
    "fullcoverage": "FULL_COVERAGE",
    "fullycovered": "FULL_COVERAGE",
    "partial": "PARTIAL_COVERAGE",
    "partially": "PARTIAL_COVERAGE",
    "partialcoverage": "PARTIAL_COVERAGE",
    "partiallycovered": "PARTIAL_COVERAGE",
    "no": "NO_COVERAGE",
    "nocoverage": "NO_COVERAGE",
    "notcovered": "NO_COVERAGE",
}
_SEPARATOR = re.compile(r"[\s_\-]+")
_OBJECT_START = re.compile(r'\{\s*"')
_FLAT_OBJECT = re.compile(r"\{[^{}]*\}")
_QUOTE = r"""["'\u2018\u2019\u201c\u201d]"""
_COVERAGE_KEY = re.compile(rf"(?:{_QUOTE}coverage{_QUOTE}|(?<=[{{,])\s*coverage)\s*:", re.IGNORECASE)
_BULLET_KEY = re.compile(rf"\bbullet[\s_-]?id{_QUOTE}?\s*:", re.IGNORECASE)
_NEXT_KEY = re.compile(rf",\s*{_QUOTE}?[^\W\d]\w*{_QUOTE}?\s*:")
_NUMBER = re.compile(r"[0-9]+")
_LONGEST_REPAIR = 20_000
_BULLET_WORD = re.compile(r"(?:bullet\s*(?:point\s*)?)?#?\s*([0-9]{1,9})\.?", re.IGNORECASE)
_CUT = Malformed("cut_answer", "the answer stops at the token limit before its JSON is whole; give the judge a larger max_tokens")

Pairs = list[tuple[str, Any]]


class _Object:
    """A JSON object with its keys as they came, repeated ones included."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def values(self, key: str) -> list[Any]:
        return [value for name, value in self.pairs if _SEPARATOR.sub("", name.lower()) == key]


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, strict=False)


def read_verdict(text: str, finish_reason: str = "stop") -> Verdict | Malformed:
    """The verdict in an answer: the coverage in records.Coverage's words, the bullet id as the judge gave it, as JSON.

    The bullet id is not held against the summary ("null" where the answer has none): what an unusable one is worth is for
    scoring to decide. An answer that the token limit cut (`finish_reason` "length") is Malformed, whatever
    it holds: the judge had not finished, and might have changed its mind.
    """
    answer = text.rpartition("</think>")[2].strip()
    if finish_reason == "length":
        return _CUT
    if not answer:
        return Malformed("empty_answer", "the answer is empty")
    found, rest = _whole_objects(answer)
    repaired = [_repaired(span) for span in _broken_objects(rest)]
    if None in repaired:
        return Malformed("broken_json", "the answer's JSON is broken so that its meaning is open")
    verdicts = {_verdict(value) for value in (*found, *repaired) if value is not None}
    if not verdicts:
        return Malformed("no_json", 'the answer has no JSON object with a "coverage"')
    if len(verdicts) > 1:
        return Malformed("two_verdicts", "the answer has several JSON objects with a coverage, and they differ")
    return verdicts.pop()


def parse_verdict(text: str, n_bullets: int, finish_reason: str = "stop") -> Verdict | Malformed:
    """As `read_verdict`, and the bullet held against a summary of `n_bullets` bullets.

    A covered insight comes with the number of its bullet (1..n_bullets) and is Malformed ("unusable_bullet") without one;
    NO_COVERAGE stands whatever bullet comes with it, and comes back with "NA".
    """
    verdict = read_verdict(text, finish_reason)
    if isinstance(verdict, Malformed):
        return verdict
    if verdict.coverage == "NO_COVERAGE":
        return Verdict("NO_COVERAGE", '"NA"')
    bullet = usable_bullet(verdict.bullet_id, n_bullets)
    if bullet is None:
        message = f"{verdict.coverage} names bullet {verdict.bullet_id:.60}, but the summary has bullets 1..{n_bullets}"
        return Malformed("unusable_bullet", message)
    return Verdict(verdict.coverage, str(bullet))


def usable_bullet(bullet_id: str, n_bullets: int) -> int | None:
    """The bullet (1..n_bullets) that a verdict's `bullet_id` (JSON) names, or None: 3, 3.0, "3", "bullet 3" and [3] name 3."""
    value = json.loads(bullet_id)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        match = _BULLET_WORD.fullmatch(value.strip())
        value = int(match[1]) if match else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= n_bullets:
        return None
    return value


def _verdict(value: _Object) -> Verdict | Malformed:
    coverages = {_plain(word) for word in value.values("coverage")}
    bullets = {_plain(bullet) for bullet in value.values("bulletid")}
    if len(coverages) > 1 or len(bullets) > 1:
        return Malformed("two_verdicts", "the answer's JSON object says coverage or bullet_id twice, and differently")
    word = coverages.pop()
    coverage = _COVERAGE.get(_SEPARATOR.sub("", json.loads(word).lower())) if word.startswith('"') else None
    if coverage is None:
        return Malformed("unknown_coverage", f"coverage is {word:.60}; expected NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE")
    return Verdict(coverage, bullets.pop() if bullets else "null")


def _plain(value: Any) -> str:
    """JSON text of what the decoder gave; a number that JSON has no text for (1e999) becomes a string."""
    try:
        return json.dumps(value, allow_nan=False, default=lambda inner: dict(inner.pairs))
    except ValueError:
        return json.dumps(str(value))


def _whole_objects(text: str) -> tuple[list[_Object], str]:
    """The strictly valid JSON objects of `text` that have a coverage, nested ones included, and the text without them."""
    found: list[_Object] = []
    rest: list[str] = []
    kept = 0
    start = _OBJECT_START.search(text)
    while start:
        after = start.start() + 1
        try:
            value, end = _DECODER.raw_decode(text, start.start())
        except ValueError:
            pass
        except RecursionError:
            break
        else:
            if value.values("coverage"):
                found.append(value)
                rest.append(text[kept : start.start()])
                kept = after = end
        start = _OBJECT_START.search(text, after)
    return found, "".join((*rest, text[kept:]))


def _broken_objects(text: str) -> list[str]:
    """What looks like a verdict in broken JSON: braces with a coverage key in them, the last ones open or not.

    The repair library makes something of any text, so that it is shown nothing else.
    """
    spans = [match[0] for match in _FLAT_OBJECT.finditer(text)]
    last = text.rfind("{")
    if "}" not in text[last:] and last >= 0:
        spans.append(text[last:].rstrip("`\n\r\t "))
    return [span for span in spans if _COVERAGE_KEY.search(span)]


def _repaired(span: str) -> _Object | None:
    """The object that repair makes of `span`, or None where it says a thing twice or repair left out a bullet's number."""
    from json_repair import repair_json

    keys = _BULLET_KEY.findall(span)
    if len(_COVERAGE_KEY.findall(span)) > 1 or len(keys) > 1 or len(span) > _LONGEST_REPAIR:
        return None
    try:
        pairs = repair_json(span, return_objects=True)
    except (ValueError, RecursionError):
        return None
    if not isinstance(pairs, dict):
        return None
    value = _Object(list(pairs.items()))
    bullet = _NEXT_KEY.split(_BULLET_KEY.split(span)[1])[0] if keys else ""
    read = "".join(_plain(found) for found in value.values("bulletid"))
    return value if value.values("coverage") and _NUMBER.findall(bullet) == _NUMBER.findall(read) else None
