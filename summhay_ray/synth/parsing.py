"""Room synth: parses an answer's text into the value that `base.Asker` promises for its task. For the room alone.

`text.answers` reads the JSON; ids may be strings. Malformed answers have an `error` of `text.answers`, or wrong_type,
wrong_number, empty_text, too_long, too_short, unknown_id, not_text, invented_evidence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from summhay_ray.outcome import Malformed
from summhay_ray.synth.checking.words import quoted
from summhay_ray.synth.making.kinds import Input, Task
from summhay_ray.text import UnusableAnswer, count_tokens, final_text, json_value, plain_words

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
_SUBTOPICS: tuple[Task, ...] = ("overlapping_subtopics", "assign_subtopic")
"""Tasks whose ids refer to the input's subtopics; in the others they refer to its insights."""
_FENCE = re.compile(r"\s*(```|~~~)[^\n]*\n(.*?)\n?\s*\1\s*", re.DOTALL)
_ANNOUNCES = r"sure|certainly|of course|okay|here(?: is| are|'s|’s)|below is|the (?:edited|mended)"
_OPENING = re.compile(rf"(?:{_ANNOUNCES})\b.{{0,160}}:", re.IGNORECASE)
_ID = re.compile(r"#?\s*([0-9]{1,6})")
_NO = re.compile(
    r"(?:no|0|false|absent|missing|partial(?:ly)?|not (?:present|found|stated|mentioned)|none|n/?a)\.?", re.IGNORECASE
)
_SHOWS = ("evidence", "quote", "quotes")
_WHETHER = frozenset(("present", "is_present", "found", "contained", "contains", "included", "stated"))
_WHETHER |= {"status", "verdict", "answer", "label"}
"""Fields in which a model that lists all insights says whether each is there."""
_JSON_TEXT = re.compile(r'[\[{]\s*(?:\{\s*)?"[^"\n]*"\s*:')
_EMPTY_LINES = re.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+")
_TABS = re.compile(r"\t{2,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def read(task: Task, given: Input, text: str, finish_reason: str = "stop") -> Any:
    """The value that `base.Asker` names for the task, or Malformed. `given` is the input of the request.

    An answer that was cut at the token limit (`finish_reason` "length") is always Malformed.
    """
    try:
        answer = final_text(text, finish_reason)
        if task in _TEXTS:
            return _long_enough(task, _document(answer), given)
        return _READERS[task](json_value(answer, _FIELD[task]), given)
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))


def _document(answer: str) -> str:
    """The text, without code fences around all of it and without a line that announces it.

    Runs of empty lines and of tabs are collapsed: a derailed model may write thousands, and each costs a token in later prompts.
    """
    text = _unfenced(answer)
    first, _, rest = text.partition("\n")
    if rest.strip() and _OPENING.fullmatch(first.strip().strip("*#").strip()):
        text = _unfenced(rest.strip())
    if text[:1] in "{[" and _is_json(text):
        raise UnusableAnswer("not_text", "the answer is JSON; expected the document's text alone")
    if '"task":' in text and '"insight' in text:
        raise UnusableAnswer("not_text", "the answer repeats the input; expected the document's text alone")
    return _whole(_TABS.sub("\t", _EMPTY_LINES.sub("\n\n", _CONTROLS.sub("", text))).strip(), "the text")


def _is_json(text: str) -> bool:
    """Whether a text is JSON, or more JSON than what follows: a report may begin with a log line, say."""
    named = _JSON_TEXT.match(text) is not None
    try:
        end = json.JSONDecoder(strict=False).raw_decode(text)[1]
    except (ValueError, RecursionError):
        return named
    rest = plain_words(text[end:])
    return not text[end:].strip() or (named and len(rest) <= len(plain_words(text[:end])))


def _long_enough(task: Task, text: str, given: Input) -> str:
    """The text. Raises UnusableAnswer for far fewer words than requested, which are most likely a refusal."""
    wanted = len(plain_words(given["document"])) if task == "edit_document" else given["words"]
    number = len(plain_words(text))
    if number < _LEAST_SHARE * wanted:
        raise UnusableAnswer("too_short", f"the text has {number} words, but about {wanted} were requested: {text[:60]!r}")
    return text


def _unfenced(text: str) -> str:
    match = _FENCE.fullmatch(text)
    return match[2].strip() if match and match[1] not in match[2] else text


def _whole(text: Any, what: str) -> str:
    if not isinstance(text, str):
        raise UnusableAnswer("wrong_type", f"{what} is {_shown(text)}; expected text")
    if not text.strip():
        raise UnusableAnswer("empty_text", f"{what} is empty")
    if _SURROGATE.search(text):
        raise UnusableAnswer("wrong_type", f"{what} has half a character (a lone surrogate)")
    return text


def _line(value: Mapping[str, Any], name: str) -> str:
    """The text of a field, on one line."""
    if name not in value:
        raise UnusableAnswer("empty_text", f'an entry has no "{name}"')
    text = " ".join(_whole(value[name], f'"{name}"').split())
    if count_tokens(text) > MOST_TOKENS[name]:
        raise UnusableAnswer("too_long", f'"{name}" has more than {MOST_TOKENS[name]} tokens: {text[:60]!r}...')
    return text


def _items(value: Mapping[str, Any], name: str) -> list[Any]:
    entries = value[name]
    if not isinstance(entries, list):
        raise UnusableAnswer("wrong_type", f'"{name}" is {_shown(entries)}; expected a list')
    return entries


def _index(value: Any, most: int) -> int:
    """The index (from 0) of an id (3, 3.0, "3" or "#3"; from 1)."""
    if isinstance(value, str) and (match := _ID.fullmatch(value.strip())):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UnusableAnswer("unknown_id", f"id {_shown(value)} is not in the input; expected 1 to {most}")
    return value - 1


def _named(list_name: str, text_name: str) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> tuple[tuple[str, str], ...]:
        entries = _items(value, list_name)
        if len(entries) != given["n"]:
            raise UnusableAnswer("wrong_number", f'"{list_name}" has {len(entries)} entries; expected exactly {given["n"]}')
        if not all(isinstance(entry, dict) for entry in entries):
            raise UnusableAnswer("wrong_type", f'an entry of "{list_name}" is not an object with "name" and "{text_name}"')
        return tuple((_line(entry, "name"), _line(entry, text_name)) for entry in entries)

    return reader


def _pairs_of(task: Task) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> tuple[tuple[int, int], ...]:
        most = _n_listed(task, given)
        pairs: dict[tuple[int, int], None] = {}
        for entry in _items(value, _FIELD[task]):
            if not isinstance(entry, list) or len(entry) != 2:
                raise UnusableAnswer("wrong_type", f'an entry of "{_FIELD[task]}" is {_shown(entry)}; expected two ids')
            first, second = sorted(_index(each, most) for each in entry)
            if first == second:
                raise UnusableAnswer("unknown_id", f'"{_FIELD[task]}" pairs {first + 1} with itself')
            pairs[first, second] = None
        return tuple(sorted(pairs))

    return reader


def _n_listed(task: Task, given: Input) -> int:
    return len(given["subtopics" if task in _SUBTOPICS else "insights"])


def _choice(task: Task) -> Callable[[dict[str, Any], Input], Any]:
    def reader(value: dict[str, Any], given: Input) -> int | None:
        chosen = value[_FIELD[task]]
        return None if chosen is None else _index(chosen, _n_listed(task, given))

    return reader


def _leaked(value: dict[str, Any], given: Input) -> tuple[int, ...]:
    return tuple(sorted({_index(each, len(given["insights"])) for each in _items(value, "leaked")}))


def _present(value: dict[str, Any], given: Input) -> dict[int, str]:
    evidence: dict[int, str] = {}
    without_evidence = 0
    for entry in _items(value, "present"):
        if not isinstance(entry, dict) or "id" not in entry:
            raise UnusableAnswer(
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
        raise UnusableAnswer("empty_text", f'"evidence" is missing from {without_evidence} entries')
    invented = [words for words in evidence.values() if not quoted(words, given["document"])]
    if 2 * len(invented) > len(evidence) > 1:
        raise UnusableAnswer("invented_evidence", f"most of the evidence is not in the document, such as {_shown(invented[0])}")
    return dict(sorted(evidence.items()))


def _evidence(entry: Mapping[str, Any]) -> str:
    """The evidence of an entry, with the parts of a list joined. Empty if it has none."""
    words = next((entry[name] for name in _SHOWS if entry.get(name)), None)
    parts = words if isinstance(words, list) else [] if words is None else [words]
    if not all(isinstance(part, str) for part in parts):
        raise UnusableAnswer("wrong_type", f'"evidence" is {_shown(words)}; expected text')
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
