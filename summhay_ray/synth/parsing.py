"""Room synth: parses an answer's text into the value that `base.Asker` promises for its task. For the room alone.

An answer is repaired, without another call, where its meaning is beyond doubt: thinking, prose or code fences around one JSON
object, trailing commas, single quotes, a missing brace at the end, ids as strings. Everything else is Malformed, with `error`
one of empty_answer, cut_answer, unfinished_thinking, no_json, broken_json, two_answers, wrong_type, wrong_number, empty_text,
too_long, too_short, unknown_id, not_text, invented_evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from summhay_ray.outcome import Malformed
from summhay_ray.synth.checking.words import quoted
from summhay_ray.synth.making.kinds import Input, Task
from summhay_ray.text import count_tokens, plain_words, whole_objects

MOST_TOKENS: Mapping[str, int] = {"name": 60, "subtopic": 150, "insight": 300, "query": 200}
"""Longest text of each field: planned costs rest on these limits (the paper's insights have about 35 tokens)."""
_MAX_EVIDENCE = 2000
"""Characters of evidence kept for one insight."""
_LEAST_SHARE = 0.4
"""Least share of the requested words that a text must have."""

_TEXTS: tuple[Task, ...] = ("document", "chapter", "edit_document")
"""Tasks whose answer is plain text; all others are answered with JSON."""
_FIELD: Mapping[Task, str] = {
    "subtopics": "subtopics",
    "overlapping_subtopics": "overlaps",
    "insights": "insights",
    "conflicting_insight": "insight",
    "duplicate_insights": "duplicates",
    "assign_subtopic": "subtopic",
    "query": "query",
    "query_leaks": "leaked",
    "chapter_check": "insight",
    "insights_present": "present",
}
"""The field of the answer's JSON object that holds the answer."""
_LISTED: Mapping[Task, str] = {
    "overlapping_subtopics": "subtopics",
    "duplicate_insights": "insights",
    "assign_subtopic": "subtopics",
    "query_leaks": "insights",
    "chapter_check": "insights",
    "insights_present": "insights",
}
"""The field of the input whose list the answer's ids refer to."""
_START = re.compile(r"\{\s*[\"'}\w]")
_FENCE = re.compile(r"\s*(```|~~~)[^\n]*\n(.*?)\n?\s*\1\s*", re.DOTALL)
_ANNOUNCES = r"sure|certainly|of course|okay|here(?: is| are|'s|’s)|below is|the (?:edited|mended)"
_OPENING = re.compile(rf"(?:{_ANNOUNCES})\b.{{0,160}}:", re.IGNORECASE)
_ID = re.compile(r"#?\s*([0-9]{1,6})")
_NO = re.compile(
    r"(?:no|0|false|absent|missing|partial(?:ly)?|not (?:present|found|stated|mentioned)|none|n/?a)\.?", re.IGNORECASE
)
_SHOWS = ("evidence", "quote", "quotes")
_WHETHER = (
    "present",
    "is_present",
    "found",
    "contained",
    "contains",
    "included",
    "stated",
    "status",
    "verdict",
    "answer",
    "label",
)
"""Fields in which a model that lists all insights says whether each is there."""
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIGN = re.compile(r'"(?:\\.|[^"\\])*"|[{}]', re.DOTALL)
_JSON_TEXT = re.compile(r'[\[{]\s*(?:\{\s*)?"[^"\n]*"\s*:')
_STRING = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_EMPTY_LINES = re.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+")
_TABS = re.compile(r"\t{2,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_REPAIR = 100_000


class _Unusable(Exception):
    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.malformed = Malformed(error, message)


class _Repeated(Exception):
    """One object has the same key twice, with different values."""


def read(task: Task, given: Input, text: str, finish_reason: str = "stop") -> Any:
    """The value that `base.Asker` names for the task, or Malformed. `given` is the input of the request.

    An answer that was cut at the token limit (`finish_reason` "length") is always Malformed.
    """
    try:
        answer = _final(text, finish_reason)
        if task in _TEXTS:
            return _long_enough(task, _document(answer), given)
        value = _object(answer, _FIELD[task])
        return _READERS[task](value, given)
    except _Unusable as unusable:
        return unusable.malformed


def _final(text: str, finish_reason: str) -> str:
    if finish_reason == "length":
        raise _Unusable("cut_answer", "the answer stops at the token limit; give the model a larger max_tokens")
    answer = text.rpartition("</think>")[2].strip()
    if "<think>" in answer:
        raise _Unusable("unfinished_thinking", "the answer ends within its thinking; give the model a larger max_tokens")
    if not answer:
        raise _Unusable("empty_answer", "the answer is empty")
    return answer


def _document(answer: str) -> str:
    """The text, without code fences around all of it and without a line that announces it.

    Runs of empty lines and of tabs are collapsed: a derailed model may write thousands, and each costs a token in later prompts.
    """
    text = _unfenced(answer)
    first, _, rest = text.partition("\n")
    if rest.strip() and _OPENING.fullmatch(first.strip().strip("*#").strip()):
        text = _unfenced(rest.strip())
    if (text[:1] in "{[" and _decoded(text) is not None) or (_JSON_TEXT.match(text) and not _goes_on(text)):
        raise _Unusable("not_text", "the answer is JSON; expected the document's text alone")
    if '"task":' in text and '"insight' in text:
        raise _Unusable("not_text", "the answer repeats the input; expected the document's text alone")
    return _whole(_TABS.sub("\t", _EMPTY_LINES.sub("\n\n", _CONTROLS.sub("", text))).strip(), "the text")


def _goes_on(text: str) -> bool:
    """Whether the text that follows the leading JSON is longer than it: a report may begin with a log line, say."""
    try:
        _, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError, _Repeated):
        return False
    return len(plain_words(text[end:])) > len(plain_words(text[:end]))


def _long_enough(task: Task, text: str, given: Input) -> str:
    """The text. Raises _Unusable for far fewer words than requested, which are most likely a refusal."""
    wanted = len(plain_words(given["document"])) if task == "edit_document" else given["words"]
    number = len(plain_words(text))
    if number < _LEAST_SHARE * wanted:
        raise _Unusable("too_short", f"the text has {number} words, but about {wanted} were requested: {text[:60]!r}")
    return text


def _unfenced(text: str) -> str:
    match = _FENCE.fullmatch(text)
    return match[2].strip() if match and match[1] not in match[2] else text


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _object(answer: str, name: str) -> dict[str, Any]:
    """The JSON object of the answer that has the field. Raises _Unusable where there is none, or two that differ."""
    try:
        objects, rest = whole_objects(answer, _START, _DECODER, lambda value: name in value)
        if not objects:
            objects = _repaired(rest, name)
    except _Repeated as error:
        raise _Unusable("two_answers", f"the answer's JSON has {str(error)!r} twice, with different values") from None
    if not objects:
        raise _Unusable("no_json", f'the answer has no JSON object with "{name}"')
    if any(other != objects[0] for other in objects[1:]):
        raise _Unusable("two_answers", f'the answer has several JSON objects with "{name}", and they differ')
    return objects[0]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields and fields[name] != value:
            raise _Repeated(name)
        fields[name] = value
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, strict=False)


def _repaired(text: str, name: str) -> list[dict[str, Any]]:
    """The repaired object that has the field, if the repair changes only punctuation; [] without such an object."""
    key = re.search(rf"[\"'“]?\b{name}\b[\"'”]?\s*:", text)
    begin = text.rfind("{", 0, key.start() + 1) if key else -1
    if begin < 0:
        return []
    end = _closing(text, begin)
    closed = end or max(text.rfind("}"), text.rfind("]")) + 1
    span = text[begin : closed if closed > begin else None].rstrip("`\n\r\t ")
    broken = _Unusable("broken_json", "the answer's JSON is broken, and its meaning is not clear")
    # Many servers do not report that an answer was cut, and what is missing from an open list is unknown.
    plain = _STRING.sub("", span)
    more = not end and closed > begin and any(sign in text[closed:] for sign in '"[{')
    cut = more or plain.count("[") > plain.count("]")
    if cut or len(span) > _LONGEST_REPAIR:
        raise broken
    from json_repair import repair_json

    try:
        value = repair_json(span, return_objects=True)
    except (ValueError, RecursionError):
        raise broken from None
    if not isinstance(value, dict) or name not in value or _letters(span) != _letters(json.dumps(value, ensure_ascii=False)):
        raise broken
    return [value]


def _closing(text: str, begin: int) -> int:
    """The position after the brace that closes the one at `begin`; 0 if it is not closed."""
    depth = 0
    for match in _SIGN.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return match.end()
    return 0


def _letters(text: str) -> str:
    """The letters and digits, which a repair must not change."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[0][2:], 16)) if match[0][1:2] == "u" and len(match[0]) == 6 else " ", text)
    return "".join(filter(str.isalnum, plain)).lower().replace("none", "null")


def _whole(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise _Unusable("wrong_type", f"{what} is {_shown(text)}; expected text")
    if not text.strip():
        raise _Unusable("empty_text", f"{what} is empty")
    if _SURROGATE.search(text):
        raise _Unusable("wrong_type", f"{what} has half a character (a lone surrogate)")
    return text


def _line(value: Mapping[str, Any], name: str) -> str:
    """The text of a field, on one line."""
    if name not in value:
        raise _Unusable("empty_text", f'an entry has no "{name}"')
    text = " ".join(_whole(value[name], f'"{name}"').split())
    if count_tokens(text) > MOST_TOKENS[name]:
        raise _Unusable("too_long", f'"{name}" has more than {MOST_TOKENS[name]} tokens: {text[:60]!r}...')
    return text


def _items(value: Mapping[str, Any], name: str) -> list[Any]:
    entries = value[name]
    if not isinstance(entries, list):
        raise _Unusable("wrong_type", f'"{name}" is {_shown(entries)}; expected a list')
    return entries


def _index(value: Any, most: int) -> int:
    """The index (from 0) of an id (3, 3.0, "3" or "#3"; from 1)."""
    if isinstance(value, str) and (match := _ID.fullmatch(value.strip())):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _Unusable("unknown_id", f"id {_shown(value)} is not in the input; expected 1 to {most}")
    return value - 1


def _named(list_name: str, text_name: str) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> tuple[tuple[str, str], ...]:
        entries = _items(value, list_name)
        if len(entries) != given["n"]:
            raise _Unusable("wrong_number", f'"{list_name}" has {len(entries)} entries; expected exactly {given["n"]}')
        if not all(isinstance(entry, dict) for entry in entries):
            raise _Unusable("wrong_type", f'an entry of "{list_name}" is not an object with "name" and "{text_name}"')
        return tuple((_line(entry, "name"), _line(entry, text_name)) for entry in entries)

    return reader


def _pairs_of(task: Task) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> tuple[tuple[int, int], ...]:
        most = len(given[_LISTED[task]])
        pairs: dict[tuple[int, int], None] = {}
        for entry in _items(value, _FIELD[task]):
            if not isinstance(entry, list) or len(entry) != 2:
                raise _Unusable("wrong_type", f'an entry of "{_FIELD[task]}" is {_shown(entry)}; expected two ids')
            first, second = sorted(_index(each, most) for each in entry)
            if first == second:
                raise _Unusable("unknown_id", f'"{_FIELD[task]}" pairs {first + 1} with itself')
            pairs[first, second] = None
        return tuple(sorted(pairs))

    return reader


def _choice(task: Task) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> int | None:
        chosen = value[_FIELD[task]]
        return None if chosen is None else _index(chosen, len(given[_LISTED[task]]))

    return reader


def _leaked(value: dict[str, Any], given: Input) -> tuple[int, ...]:
    return tuple(sorted({_index(each, len(given["insights"])) for each in _items(value, "leaked")}))


def _present(value: dict[str, Any], given: Input) -> dict[int, str]:
    evidence: dict[int, str] = {}
    without_evidence = 0
    for entry in _items(value, "present"):
        if not isinstance(entry, dict) or "id" not in entry:
            raise _Unusable(
                "wrong_type", f'an entry of "present" is {_shown(entry)}; expected an object with "id" and "evidence"'
            )
        index = _index(entry["id"], len(given["insights"]))
        # Some models list all insights and say of each whether it is there.
        if any(_says_no(entry[name]) for name in _WHETHER if name in entry):
            continue
        words = _evidence(entry)
        if words:
            evidence.setdefault(index, words[:_MAX_EVIDENCE])
        without_evidence += not words
    if without_evidence > len(evidence):
        raise _Unusable("empty_text", f'"evidence" is missing from {without_evidence} entries')
    invented = [words for words in evidence.values() if not quoted(words, given["document"])]
    if 2 * len(invented) > len(evidence) > 1:
        raise _Unusable("invented_evidence", f"most of the evidence is not in the document, such as {_shown(invented[0])}")
    return dict(sorted(evidence.items()))


def _evidence(entry: Mapping[str, Any]) -> str:
    """The evidence of an entry, with the parts of a list joined. Empty if it has none."""
    words = next((entry[name] for name in _SHOWS if entry.get(name)), None)
    parts = words if isinstance(words, list) else [] if words is None else [words]
    if not all(isinstance(part, str) for part in parts):
        raise _Unusable("wrong_type", f'"evidence" is {_shown(words)}; expected text')
    joined = " ... ".join(" ".join(part.split()) for part in parts if part.strip())
    return _whole(joined, '"evidence"') if joined else ""


def _says_no(value: Any) -> bool:
    return value in (False, 0) or (isinstance(value, str) and _NO.fullmatch(value.strip()) is not None)


def _shown(value: Any) -> str:
    return json.dumps(value, default=str)[:60]


_READERS: Mapping[Task, Callable[[dict[str, Any], Input], Any]] = {
    "subtopics": _named("subtopics", "subtopic"),
    "overlapping_subtopics": _pairs_of("overlapping_subtopics"),
    "insights": _named("insights", "insight"),
    "conflicting_insight": lambda value, given: (_line(value, "name"), _line(value, "insight")),
    "duplicate_insights": _pairs_of("duplicate_insights"),
    "assign_subtopic": _choice("assign_subtopic"),
    "query": lambda value, given: _line(value, "query"),
    "query_leaks": _leaked,
    "chapter_check": _choice("chapter_check"),
    "insights_present": _present,
}
