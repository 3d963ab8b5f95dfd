"""Renders prompts, parses the input of a rendered prompt, and parses answers.

A prompt is a template that ends with `Input:` and one line of JSON. Its content follows the paper, section 3.2 and appendix A.1;
its wording is our own. Models and the offline writer find all data in the last line, and no text in it can imitate a line of the
prompt.

`text.answers` reads the JSON of answers; ids may be strings. Malformed answers have an `error` of `text.answers`, or wrong_type,
wrong_number, empty_text, too_long, too_short, unknown_id, not_text, invented_evidence.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from summhay_ray.outcome import Malformed
from summhay_ray.synth.checking.words import quoted
from summhay_ray.synth.making.domains import INPUT, TASKS
from summhay_ray.synth.making.kinds import Input, Task
from summhay_ray.text import UnusableAnswer, count_tokens, fill, final_text, json_line, json_value, plain_words, whole_number

_MARK = "\nInput:\n"
MOST_TOKENS: Mapping[str, int] = {"name": 60, "subtopic": 150, "insight": 300, "query": 200}
"""Maximum tokens of each field, on which the planned costs depend (the paper's insights have about 35 tokens)."""
_MAX_EVIDENCE = 2000
"""Maximum number of characters of evidence for one insight."""
_LEAST_SHARE = 0.4
"""Minimum share of the requested words that a text must have."""

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
"""Task -> the field of the answer's JSON object with the answer. The answers of other tasks are plain text."""
_FENCED = re.compile(r"\A\s*(?P<fence>```|~~~)[^\n]*\n(?P<text>(?:(?!(?P=fence)).)*)(?P=fence)\s*\Z", re.DOTALL)
_ANNOUNCES = r"sure|certainly|of course|okay|here(?: is| are|'s|’s)|below is|the (?:edited|mended)"
_ANNOUNCED = re.compile(rf"\A[*# ]*(?:{_ANNOUNCES})\b[^\n]{{0,160}}:[*# \t]*\n(?P<text>\s*\S.*)\Z", re.DOTALL | re.IGNORECASE)
_NO = re.compile(
    r"(?:no|0|false|absent|missing|partial(?:ly)?|not (?:present|found|stated|mentioned)|none|n/?a)\.?", re.IGNORECASE
)
_SHOWS = ("evidence", "quote", "quotes")
_WHETHER = frozenset(("present", "is_present", "found", "contained", "contains", "included", "stated"))
_WHETHER |= {"status", "verdict", "answer", "label"}
"""Fields of an entry that state whether the insight is present. Models that list all insights use such fields."""
_JSON_TEXT = re.compile(r'[\[{]\s*(?:\{\s*)?"[^"\n]*"\s*:')
_EMPTY_LINES = re.compile(r"[^\S\n]*\n(?:[^\S\n]*\n)+")
_TABS = re.compile(r"\t{2,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXPECTED: Mapping[type, str] = {str: "text", list: "a list", dict: "an object"}
T = TypeVar("T")


def render(template: str, given: Input) -> str:
    """Replace the template's marker by the input, as one line of JSON. A marker within the input stays."""
    return fill(template.rstrip("\n"), {INPUT: json_line(given)})


def numbered(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return `[{"id": 1, "text": ...}]`, the form of lists in inputs. Answers refer to the ids."""
    return [{"id": number, "text": text} for number, text in enumerate(texts, 1)]


def read_input(prompt: str) -> dict[str, Any]:
    """Parse the input of a rendered prompt. Raise LookupError, which names what is missing, for any other prompt."""
    _, mark, text = f"\n{prompt}".rpartition(_MARK)
    if not mark:
        raise LookupError("the prompt has no line 'Input:'; expected one near its end, followed by one JSON object")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LookupError(f"what follows the last line 'Input:' is not one JSON object ({error})") from error
    if not isinstance(given, dict) or given.get("task") not in TASKS:
        raise LookupError(f"what follows the last line 'Input:' has no task; expected one of {', '.join(TASKS)}")
    return given


def with_input(prompt: str, given: Input) -> str:
    """Return a rendered prompt with another input. Raise LookupError like `read_input`."""
    read_input(prompt)
    before, mark, _ = f"\n{prompt}".rpartition(_MARK)
    return f"{before}{mark}{json_line(given)}".removeprefix("\n")


def task_of(prompt: str) -> str | None:
    """Return the task of a prompt of the synthesis, or None for any other prompt."""
    try:
        return str(read_input(prompt)["task"])
    except LookupError:
        return None


def read_answer(task: Task, given: Input, text: str, finish_reason: str = "stop") -> Any:
    """Parse an answer into the value that `kinds.Asker` describes for the task, or Malformed. An answer cut at the token limit
    (`finish_reason` "length") is always Malformed. `given`: the input of the request."""
    try:
        answer = final_text(text, finish_reason)
        return _value(task, json_value(answer, _FIELD[task]), given) if task in _FIELD else _document(task, answer, given)
    except UnusableAnswer as error:
        return Malformed(error.error, str(error))


def _value(task: Task, value: Mapping[str, Any], given: Input) -> Any:
    said = value[_FIELD[task]]
    n = len(given.get("subtopics" if task in ("overlapping_subtopics", "assign_subtopic") else "insights", ()))
    match task:
        case "query":
            return _line(value, "query")
        case "conflicting_insight":
            return _line(value, "name"), _line(value, "insight")
        case "assign_subtopic" | "chapter_check":
            return None if said is None else _index(said, n)
    listed = _typed(said, list, f'"{_FIELD[task]}"')
    match task:
        case "query_leaks":
            return tuple(sorted({_index(each, n) for each in listed}))
        case "overlapping_subtopics" | "duplicate_insights":
            return tuple(sorted({_pair(each, n) for each in listed}))
    entries = [_typed(entry, dict, f'an entry of "{_FIELD[task]}"') for entry in listed]
    if task == "insights_present":
        return _present(entries, n, given["document"])
    if len(entries) != given["n"]:
        raise UnusableAnswer("wrong_number", f'"{_FIELD[task]}" has {len(entries)} entries; expected exactly {given["n"]}')
    return tuple((_line(entry, "name"), _line(entry, "subtopic" if task == "subtopics" else "insight")) for entry in entries)


def _document(task: Task, answer: str, given: Input) -> str:
    """Return the text without a code fence and an introductory line. Raise UnusableAnswer if it has far fewer words than
    requested, since it is then most likely a refusal.

    Runs of empty lines and of tabs are collapsed: a failing model may write thousands, and each costs a token in later prompts.
    """
    text = answer
    for wrapping in (_FENCED, _ANNOUNCED, _FENCED):
        text = wrapping.sub(r"\g<text>", text).strip()
    if text[:1] in "{[" and _is_json(text):
        raise UnusableAnswer("not_text", "the answer is JSON; expected the document's text alone")
    if '"task":' in text and '"insight' in text:
        raise UnusableAnswer("not_text", "the answer repeats the input; expected the document's text alone")
    text = _nonblank(_TABS.sub("\t", _EMPTY_LINES.sub("\n\n", _CONTROLS.sub("", text))).strip(), "the text")
    wanted = len(plain_words(given["document"])) if task == "edit_document" else given["words"]
    number = len(plain_words(text))
    if number < _LEAST_SHARE * wanted:
        raise UnusableAnswer("too_short", f"the text has {number} words, but about {wanted} were requested: {text[:60]!r}")
    return text


def _is_json(text: str) -> bool:
    """Whether a text is JSON, or contains more JSON than other text. A report, for example, may begin with a log line."""
    named = _JSON_TEXT.match(text) is not None
    try:
        end = json.JSONDecoder(strict=False).raw_decode(text)[1]
    except (ValueError, RecursionError):
        return named
    rest = plain_words(text[end:])
    return not text[end:].strip() or (named and len(rest) <= len(plain_words(text[:end])))


def _typed(value: Any, kind: type[T], what: str) -> T:
    if not isinstance(value, kind):
        raise UnusableAnswer("wrong_type", f"{what} is {_quote(value)}; expected {_EXPECTED[kind]}")
    return value


def _nonblank(value: Any, what: str) -> str:
    text = _typed(value, str, what)
    if not text.strip():
        raise UnusableAnswer("empty_text", f"{what} is empty")
    if _SURROGATE.search(text):
        raise UnusableAnswer("wrong_type", f"{what} has half a character (a lone surrogate)")
    return text


def _line(value: Mapping[str, Any], name: str) -> str:
    text = " ".join(_nonblank(value.get(name, ""), f'"{name}"').split())
    if count_tokens(text) > MOST_TOKENS[name]:
        raise UnusableAnswer("too_long", f'"{name}" has more than {MOST_TOKENS[name]} tokens: {text[:60]!r}...')
    return text


def _index(value: Any, n: int) -> int:
    """Return the index (from 0) of an id (from 1) of one of `n` entries."""
    number = whole_number(value)
    if number is None or not 1 <= number <= n:
        raise UnusableAnswer("unknown_id", f"id {_quote(value)} is not in the input; expected 1 to {n}")
    return number - 1


def _pair(entry: Any, n: int) -> tuple[int, int]:
    if len(ids := _typed(entry, list, "a pair")) != 2:
        raise UnusableAnswer("wrong_type", f"a pair is {_quote(entry)}; expected two ids")
    first, second = sorted(_index(each, n) for each in ids)
    if first == second:
        raise UnusableAnswer("unknown_id", f"a pair names {first + 1} twice")
    return first, second


def _present(entries: list[dict[str, Any]], n: int, document: str) -> dict[int, str]:
    """Return index of an insight -> the evidence that the document contains it."""
    evidence: dict[int, str] = {}
    without_evidence = 0
    for entry in entries:
        index = _index(entry.get("id"), n)
        # Some models list all insights, and state for each whether it is present.
        whether = [entry[name] for name in _WHETHER if name in entry]
        if any(said in (False, 0) or (isinstance(said, str) and _NO.fullmatch(said.strip())) for said in whether):
            continue
        shown: Any = next((entry[name] for name in _SHOWS if entry.get(name)), [])
        parts = [_typed(part, str, '"evidence"') for part in (shown if isinstance(shown, list) else [shown])]
        words = " ... ".join(" ".join(part.split()) for part in parts if part.strip())
        if words:
            evidence.setdefault(index, _nonblank(words, '"evidence"')[:_MAX_EVIDENCE])
        without_evidence += not words
    if without_evidence > len(evidence):
        raise UnusableAnswer("empty_text", f'"evidence" is missing from {without_evidence} entries')
    invented = [words for words in evidence.values() if not quoted(words, document)]
    if 2 * len(invented) > len(evidence) > 1:
        raise UnusableAnswer("invented_evidence", f"most of the evidence is not in the document, such as {_quote(invented[0])}")
    return dict(sorted(evidence.items()))


def _quote(value: Any) -> str:
    return json.dumps(value, default=str)[:60]
