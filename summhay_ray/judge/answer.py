"""Parsing a judge's answer into a verdict. Private to the judge room.

An answer is repaired without another call where its meaning is beyond doubt: code fences, prose around one JSON object, single
quotes, trailing commas, a missing closing brace, another spelling of a label. Everything else is Malformed, with `error` one of
empty_answer, cut_answer, unfinished_thinking, no_json, broken_json, two_verdicts, unknown_coverage, unusable_bullet. A failure
must never look like NO_COVERAGE, so that label is accepted only where nothing in the answer contradicts it.
Format after Laban et al., "Summary of a Haystack", appendix A.2; `together.py` reads answers about several insights.
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
from summhay_ray.text import whole_objects

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
_UNCLOSED = re.compile(r"\{[^{}]*")
_QUOTE = r"""["'\u2018\u2019\u201c\u201d]"""
_COVERAGE_KEY = re.compile(rf"(?:{_QUOTE}coverage{_QUOTE}|(?<=[{{,])\s*coverage)\s*:", re.IGNORECASE)
_BULLET_KEY = re.compile(rf"\bbullet[\s_-]?id{_QUOTE}?\s*:", re.IGNORECASE)
_NEXT_KEY = re.compile(rf",\s*{_QUOTE}?[^\W\d]\w*{_QUOTE}?\s*:")
_NUMBER = re.compile(r"[0-9]+")
_LONGEST_REPAIR = 20_000
_MOST_REPAIRS = 100
_DRAFT = r"(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis|draft)"
_DRAFT_START = re.compile(rf"<{_DRAFT}>", re.IGNORECASE)
_DRAFT_END = re.compile(rf"</{_DRAFT}>", re.IGNORECASE)
_MOST_APART = 0.5
"""A value further than this from that of its label is ignored."""

_ENDS = " ,}`\t\r\n"
_QUOTES = "\"'\u2018\u2019\u201c\u201d"
_WORDS = re.compile(r"(?:NO|PARTIAL|FULL)_COVERAGE")
_COVERED = re.compile(
    r"\b(?:fully|partially|partly|completely) covered\b|\b(?:full|partial) coverage\b"
    r"|\bcovered\b[^.!?\n]{0,20}\bbullet|\bbullet\b[^.!?\n]{0,20}\bcovers\b",
    re.IGNORECASE,
)
_COVERS = re.compile(r"\bcover(?:s|ed|ing)?\b", re.IGNORECASE)
_NOT = re.compile(
    r"(?:\bnot?|\bnone|\bnothing|\bnever|\bneither|\bnor|n.t|\bwithout)(?:[^\w,:.;!?\n]+\w+){0,4}[^\w,:.;!?\n]*$", re.IGNORECASE
)
_NOT_WITHIN = 80
_DENIES = re.compile(r"\b(?:not?|none|nothing|never|neither|nor|without)\b|n['\u2019]t\b", re.IGNORECASE)
_COURTEOUS = re.compile(r"\b(?:hope|let me know|thanks?|feel free|explanation|reason(?:ing)?|note)\b", re.IGNORECASE)
_CORRECTS = re.compile(
    r"\b(?:actually|wait|(?:in)?correct\w*|wrong\w*|right|true|false\w*|mistake\w*|mistaken|errors?|instead|update\w*|revis\w+"
    r"|reconsider\w*|reflection|(?:un)?sure|(?:un)?certain|bullet\s*(?:point\s*)?#?[0-9]+)\b",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:can\s?not|can['\u2019]?t|could(?: not|n['\u2019]t)|will not|won['\u2019]?t|(?:un|not )able to|refuse to|decline to)"
    r"\s+(?:\w+\s+)?"
    r"(?:answer|help|assist|comply|judge|assess|evaluate|decide|determine|provide|do|rate|continue|comment|say|tell|complete)\b"
    r"|\bsorry\b|\bapologi[sz]e\b",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"(?:\b(?:example|sample|placeholder|template|format (?:would|could))\b|\be\.g\.)[^.!?\n]{0,30}$", re.IGNORECASE
)
_TAG = re.compile(r"</?[^<>\s]*>")
_SENTENCE_END = re.compile(r"[.!?:;\n]")
_FAILURE_KEYS = {"refusal", "refused", "error", "declined"}
_NO_BULLET = {"", "na", "nan", "no", "none", "null", "nil", "false", "nobullet", "noselection", "notapplicable"}
_ANY_NUMBER = re.compile(r"(?<![-\d])0*[1-9]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")
_BULLET_WORD = re.compile(r"(?:bullet\s*(?:point\s*)?)?#?\s*([0-9]{1,9})\.?", re.IGNORECASE)
CUT = Malformed(
    "cut_answer", "the answer stops at the token limit before its JSON is complete; give the judge a larger max_tokens"
)
BROKEN = Malformed("broken_json", "the answer's JSON is broken, and its meaning is ambiguous")
NO_JSON = Malformed("no_json", 'the answer has no JSON object with a "coverage"')

Pairs = list[tuple[str, Any]]


class Object:
    """A JSON object as (key, value) pairs, so that repeated keys are kept."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self._named = [(_SEPARATOR.sub("", name.lower()), value) for name, value in pairs]

    def values(self, key: str) -> list[Any]:
        """All values of a key. Case, blanks and underscores are ignored: `bulletid` matches Bullet ID and bullet_id."""
        return [value for name, value in self._named if name == key]


_DECODER = json.JSONDecoder(object_pairs_hook=Object, strict=False)
_ENCODER = json.JSONEncoder(allow_nan=False, default=lambda inner: dict(inner.pairs))


def read_verdict(text: str, finish_reason: str = "stop") -> Verdict | Malformed:
    """The verdict in an answer: coverage as one of records.Coverage, the bullet id as JSON, as the judge gave it.

    The bullet id ("null" where there is none) is not checked against the summary: scoring decides what an unusable one is
    worth. An answer that was cut at the token limit (`finish_reason` "length") is always Malformed: the judge had not
    finished, and might have changed its mind.
    """
    answer = final_text(text, finish_reason)
    if isinstance(answer, Malformed):
        return answer
    objects, spans = verdict_objects(answer)
    repaired = [repaired_object(span) for span in spans]
    if None in repaired:
        return BROKEN
    verdicts = {verdict_of(value) for value in (*objects, *repaired) if value is not None}
    if not verdicts:
        return NO_JSON
    if len(verdicts) > 1:
        return Malformed("two_verdicts", "the answer has several JSON objects with a coverage, and they differ")
    verdict = verdicts.pop()
    return unless_taken_back(verdict, answer)


def unless_taken_back(verdict: Verdict | Malformed, answer: str) -> Verdict | Malformed:
    """The verdict, or Malformed where the text around the answer's JSON contradicts it.

    Text before the JSON is the judge's reasoning; after it, no other label may be named. NO_COVERAGE is held to more: no
    refusal around it, no sign that it is an example, and after it nothing but denials ("not fully covered") and courtesies,
    in English. Any other text there may well be a correction, in whatever language.
    """
    if isinstance(verdict, Malformed):
        return verdict
    tail = answer.rpartition("}")[2]
    if any(word != verdict.coverage for word in _WORDS.findall(tail)):
        return Malformed("two_verdicts", f"the answer says {verdict.coverage}, then names another coverage")
    if verdict.coverage != "NO_COVERAGE":
        return verdict
    before = answer.partition("{")[0]
    behind = _TAG.sub(" ", tail.partition("{")[0]) if "}" in answer else ""
    doubted = _REFUSES.search(before) or _EXAMPLE.search(before) or _affirms(_COVERED, tail)
    if doubted or not all(map(_agrees, _SENTENCE_END.split(behind))):
        return Malformed("two_verdicts", "the answer says NO_COVERAGE next to text that may contradict it")
    return verdict


def _agrees(sentence: str) -> bool:
    """Whether a sentence after NO_COVERAGE is consistent with it."""
    if not any(map(str.isalpha, sentence)):
        return True
    if _speaks_against(sentence) or _CORRECTS.search(sentence) or _affirms(_COVERS, sentence):
        return False
    return bool(_DENIES.search(sentence) or _COURTEOUS.search(sentence))


def _speaks_against(text: str) -> bool:
    """Whether a text names a coverage other than NO_COVERAGE, or refuses to judge."""
    other = any(word != "NO_COVERAGE" for word in _WORDS.findall(text))
    return other or bool(_REFUSES.search(text)) or _affirms(_COVERED, text)


def _affirms(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _NOT.search(text, max(0, match.start() - _NOT_WITHIN), match.start()) for match in pattern.finditer(text))


def usable_verdict(verdict: Verdict, n_bullets: int) -> Verdict | Malformed:
    """The verdict checked against a summary of `n_bullets` bullets, as must be done before verdicts are combined.

    A covered insight must name a bullet (1..n_bullets), and NO_COVERAGE must name none (its bullet id becomes "NA"); anything
    else is Malformed ("unusable_bullet"). A user's own judge may also return an unknown label ("unknown_coverage") or a value
    outside 0..1 ("unusable_value").
    """
    if verdict.coverage not in COVERAGE_VALUE:
        return _unknown(json.dumps(verdict.coverage, default=str))
    if not 0 <= verdict.expected <= 1:
        return Malformed("unusable_value", f"the judge's value is {verdict.expected}; expected 0 to 1")
    if verdict.coverage == "NO_COVERAGE":
        return replace(verdict, bullet_id='"NA"') if _names_none(verdict.bullet_id) else _covered_after_all(verdict.bullet_id)
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


def final_text(text: str, finish_reason: str) -> str | Malformed:
    """The answer without its thinking part; Malformed where it is empty or was cut at the token limit."""
    if finish_reason == "length":
        return CUT
    answer = _DRAFT_END.split(text)[-1].strip()
    if _DRAFT_START.search(answer):
        # A draft is not a verdict.
        return Malformed("unfinished_thinking", "the answer ends within its thinking; give the judge a larger max_tokens")
    return answer or Malformed("empty_answer", "the answer is empty")


def verdict_of(value: Object) -> Verdict | Malformed:
    """The verdict in a JSON object that has a coverage.

    A value or an uncertainty outside 0..1 is dropped, and so is a value that contradicts the label. NO_COVERAGE is accepted
    only if the object names no bullet, and holds no refusal or text that contradicts it.
    """
    coverages = {_plain(word) for word in value.values("coverage")}
    bullets = {_plain(bullet) for bullet in value.values("bulletid")}
    if len(coverages) > 1 or len(bullets) > 1:
        return Malformed("two_verdicts", "the answer's JSON object has coverage or bullet_id twice, with different values")
    word = coverages.pop()
    coverage = _COVERAGE.get(_SEPARATOR.sub("", json.loads(word).lower())) if word.startswith('"') else None
    if coverage is None:
        return _unknown(word)
    said = {text.strip() for _, text in value.pairs if isinstance(text, str)}
    if said & (COVERAGE_VALUE.keys() - {coverage}):
        return Malformed("two_verdicts", "the answer's JSON object names two coverages")
    bullet = bullets.pop() if bullets else "null"
    if coverage == "NO_COVERAGE":
        if not _names_none(bullet):
            return _covered_after_all(bullet)
        if any(value.values(key) not in ([], [None], [False], [""]) for key in _FAILURE_KEYS) or any(map(_speaks_against, said)):
            return Malformed("two_verdicts", "the answer's JSON object says NO_COVERAGE and contradicts it")
    return Verdict(coverage, bullet, expected_of(value.values("value"), coverage), _fraction(value.values("uncertainty")))


def expected_of(values: Sequence[Any], coverage: str) -> float | None:
    """The expected coverage in an optional field; None where it is not in 0..1, or contradicts the label."""
    expected = _fraction(values)
    return None if expected is None or abs(expected - COVERAGE_VALUE[coverage]) > _MOST_APART else expected


def _names_none(bullet_id: str) -> bool:
    """Whether a bullet id (JSON) means that there is no bullet: "NA", null, 0, []."""
    return _letters(bullet_id) in _NO_BULLET and not _ANY_NUMBER.search(bullet_id)


def _covered_after_all(bullet_id: str) -> Malformed:
    return Malformed("unusable_bullet", f'NO_COVERAGE names bullet {bullet_id:.60}; expected "NA"')


def _unknown(word: str) -> Malformed:
    return Malformed("unknown_coverage", f"coverage is {word:.60}; expected NO_COVERAGE, PARTIAL_COVERAGE or FULL_COVERAGE")


def _fraction(values: Sequence[Any]) -> float | None:
    """The number (0..1) in an optional field; None where there is none, or several."""
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        return None
    return float(values[0]) if 0 <= values[0] <= 1 else None


def _plain(value: Any) -> str:
    """A decoded value as JSON text; a number that JSON cannot express (1e999) becomes a string."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return json.dumps(str(value))


def verdict_objects(answer: str) -> tuple[list[Object], list[str]]:
    """The valid JSON objects of an answer that have a coverage, and the spans that look like broken ones."""
    objects, rest = _whole_objects(answer)
    return objects, _broken_objects(rest)


def _whole_objects(text: str) -> tuple[list[Object], str]:
    """The valid JSON objects of `text` that have a coverage, nested ones included, and the text without them."""
    objects, rest = whole_objects(text, _OBJECT_START, _DECODER, lambda value: value.values("coverage"))
    return [nested for value in objects for nested in _judging(value)], rest


def _judging(value: Object) -> list[Object]:
    """The object itself and the objects nested in it, if they have a coverage."""
    objects: list[Object] = []
    left: list[Any] = [value]
    while left:
        node = left.pop()
        if isinstance(node, Object):
            objects += [node] if node.values("coverage") else []
            left += [inner for _, inner in node.pairs]
        elif isinstance(node, list):
            left += node
    return objects


def _broken_objects(text: str) -> list[str]:
    """The spans that look like a verdict in broken JSON: braces, closed or not, that hold a coverage key.

    Only these are repaired, since the repair library makes an object of any text.
    """
    spans = [match[0] for match in _FLAT_OBJECT.finditer(text)]
    spans += [match[0].rstrip("`\n\r\t ") for match in _UNCLOSED.finditer(_FLAT_OBJECT.sub("null", text))]
    broken = dict.fromkeys(span for span in spans if _COVERAGE_KEY.search(span))
    # So many spans are not an answer, and would take long to repair; the whole text as one span fails at once.
    return list(broken) if len(broken) <= _MOST_REPAIRS else [text]


def repaired_object(span: str) -> Object | None:
    """`span` repaired to an object; None where a key is repeated, or where repair dropped a word or a number."""
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
    value = Object(list(pairs.items()))
    bullet = _NEXT_KEY.split(_BULLET_KEY.split(span)[1])[0] if keys else ""
    read = "".join(_plain(bullet_id) for bullet_id in value.values("bulletid"))
    same = _says_whole(span, value.values("coverage")) and _NUMBER.findall(bullet) == _NUMBER.findall(read)
    return value if same and _signs(_ESCAPE.sub("", span)) == _signs(_said(pairs)) else None


def _says_whole(span: str, coverages: Sequence[Any]) -> bool:
    """Whether repair kept the whole coverage value: neither cut inside its quotes nor taken out of a sentence."""
    if len(coverages) != 1 or not isinstance(coverages[0], str):
        return bool(coverages)
    written = _BULLET_KEY.split(_NEXT_KEY.split(_COVERAGE_KEY.split(span)[1])[0])[0].strip(_ENDS)
    closed = written[:1] not in _QUOTES or len(written) > 1 and written[-1] in _QUOTES
    return closed and _letters(written) == _letters(coverages[0])


def _said(value: Any) -> str:
    """All keys and values of the repaired object, in order, as one text."""
    if isinstance(value, dict):
        return " ".join(f"{key} {_said(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " ".join(map(_said, value))
    return value if isinstance(value, str) else _plain(value)


def _signs(text: str) -> str:
    """The ASCII letters and digits of a text in lower case, with Python's None as JSON's null."""
    return "".join(sign for sign in text.lower() if sign.isascii() and sign.isalnum()).replace("none", "null")


def _letters(text: str) -> str:
    return "".join(filter(str.isalpha, text)).lower()
