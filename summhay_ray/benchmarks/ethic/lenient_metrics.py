"""ETHIC's metrics with our lenient reading of answers; `release_metrics.py` reads them as the authors' scripts do.

A list may be in lines, bullets or brackets, in JSON or a table, within a code fence, and with remarks around it. "none" can be
a correct answer. Repeated items count once. A section without a summary gets the lowest score; a lost judgment gets no score.
"""

import functools
import itertools
import math
import random
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmarks.ethic import release_metrics
from summhay_ray.benchmarks.ethic.release_metrics import Overlap
from summhay_ray.text import UnusableAnswer, json_value, remove_fences, remove_thinking

NONE = "none"
"""The item, in an answer or a gold list, that means that there is nothing to name."""

_SIGNS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"', "\u3001": ",", "\ufe50": ","})
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_LEAD_IN = re.compile(r"\A(?:[^,;:\n]{0,120}:(?=\s)|[^:\n]{0,200}:[*_ \t]*\n)\s*")
_AND = re.compile(r"\s+(?:and|&)\s+|\A(?:and|&)\s+")
_BETWEEN = re.compile(r"[;,|\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_BULLET = re.compile(r"\A\s*(?:[-*+\u2022\u25e6\u2023\u2043\u2013\u2014]\s+|\(?\d{1,4}[.)]\s+)")
_EDGES = " \t\"'`*_.[](){}<>\u00ab\u00bb\u200b\u200c\u200d\u2060\ufeff"
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"[0-9]+")
_LINE_NUMBER = re.compile(r"^[ \t]*\(?[0-9]{1,4}[.)](?=\s)", re.MULTILINE)
_MARKUP = re.compile(r"[*_`#]+")
_CORE = re.compile(r"\b(?:related\s+segments?|core\s+ids?)\b[ \t]*:", re.IGNORECASE)
_OTHER = re.compile(r"\b(?:supporting\s+segments?|supplementary\s+ids?)\b[ \t]*:", re.IGNORECASE)
_NOTHING = re.compile(r"\b(?:none|no(?:ne)? of (?:them|the \w+))\b|\bn/a\b", re.IGNORECASE)
_HEADER = re.compile(r"[*_]*<[ \t]*(?:section|segment)[ \t]+(\d{1,9})[ \t]*>[*_]*", re.IGNORECASE)
"""At most nine digits: no context has more sections, and `int` refuses numbers with thousands of digits."""
_LINE_HEADER = re.compile(r"^[ \t#*_]*(?:section|segment)[ \t]+(\d{1,9})[ \t*_]*(?::[ \t*_]*|$)", re.IGNORECASE | re.MULTILINE)
_LISTED = re.compile(r"\s*(?:[-*+\u2022\u25e6\u2023\u2043\u2013\u2014|<#]|\(?\d{1,4}[.)]\s|\[)")
_SENTENCE = re.compile(r"\s*[(*_\"']*[A-Z\u00c0-\u00de].*[.!?][)*_\"']*\s*\Z", re.DOTALL)
_NEXT_SENTENCE = re.compile(r"(?<=[.!])\s+(?=[A-Z\u00c0-\u00de])")
_HEADED = re.compile(r"[\s*_#]*(?:core|related|supplementary|supporting|answer)\b", re.IGNORECASE)
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*")
_CELLS = re.compile(r"(?<!\\)\|")
_CLOSER = re.compile(
    r"\n\s*\n(?:let me know|i hope (?:this|that)|please let me know|feel free|if you (?:need|want|would|have))[^\n]*\s*\Z",
    re.IGNORECASE,
)
_WORDS = 4
"""Minimum number of words between two commas for a text to be a sentence. The items of a list are shorter."""
_SECTION = re.compile(r"\W*(?:(?:section|segment)\s*)?(\d{1,9})\W*", re.IGNORECASE)
_MARKUP_EDGES = " \t\r\n*_#:"
_SHUFFLES = 2000
_ENUMERATED = 7


def remove_reasoning(text: str) -> str:
    """Remove the model's thinking from an answer. Empty if the thinking does not end."""
    try:
        return remove_thinking(text)
    except UnusableAnswer:
        return ""


def _normalize_list(text: str) -> str:
    """Normalize like `normalize`, and remove commas between thousands."""
    return _THOUSANDS.sub(lambda match: match.group().replace(",", ""), normalize(text))


def normalize(text: str) -> str:
    """Normalize a text for comparison: NFKC, ASCII digits, plain quotation marks and commas, case folded."""
    plain = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    digits = "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in plain)
    return unicodedata.normalize("NFKC", digits.casefold())


def _item(text: str) -> str:
    return " ".join(_BULLET.sub("", text).strip(_EDGES).split())


def _remove_fences(text: str) -> str:
    """Remove code fence lines and a closing offer of help from an answer."""
    return _CLOSER.sub("", remove_fences(text)).strip()


def _remove_remarks(text: str) -> str:
    """Remove the sentences after an answer's list, whether they are on separate lines or follow its last item."""
    lines = [line for line in text.split("\n") if line.strip()]
    while len(lines) > 1 and _is_remark(lines[-1]):
        lines.pop()
    if not lines:
        return text
    first, *more = _NEXT_SENTENCE.split(lines[-1], maxsplit=1)
    if more and _is_remark(more[0]) and not _is_remark(first):
        lines[-1] = first
    return "\n".join(lines)


def _is_remark(line: str) -> bool:
    if _LISTED.match(line) or _HEADED.match(line) or not _SENTENCE.match(line):
        return False
    return max(len(part.split()) for part in re.split("[,;]", line)) >= _WORDS


def _json_of(text: str) -> Any:
    """Parse the JSON object or list that an answer begins with. None if it begins with no JSON, or contains several values."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json_value(text, kind=dict if text.startswith("{") else list)
    except UnusableAnswer:
        return None


def _leaves(value: Any) -> Iterator[str]:
    """Yield the items in a JSON value. An object with lists yields only those. A list of objects yields each object's first
    value."""
    if isinstance(value, Mapping):
        lists = [inner for inner in value.values() if isinstance(inner, list | dict)]
        for inner in lists or value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(next(iter(inner.values()), None) if isinstance(inner, Mapping) else inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _rows(text: str) -> list[list[str]]:
    """Return the header and rows of an answer that is a list of JSON objects or has a Markdown table; empty for other answers."""
    value = _json_of(text)
    if isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, Mapping) and entry]
        return [[*entries[0]], *([str(inner) for inner in entry.values()] for entry in entries)] if entries else []
    lines = text.split("\n") if value is None else []
    for place in range(1, len(lines)):
        if "|" in lines[place - 1] and "-" in lines[place] and "|" in lines[place] and _RULE.fullmatch(lines[place]):
            rows = [lines[place - 1], *itertools.takewhile(lambda line: "|" in line, lines[place + 1 :])]
            return [[cell.strip() for cell in _CELLS.split(row.strip().strip("|"))] for row in rows]
    return []


def _named(text: str) -> list[list[str]]:
    """Return the named values of an answer, each as a list that starts with the name: JSON fields, or columns and rows of
    `_rows`."""
    if isinstance(value := _json_of(text), Mapping):
        return [[str(name), ", ".join(_leaves(inner))] for name, inner in value.items()]
    rows = _rows(text)
    return [*([head, " ".join(cells)] for head, *cells in itertools.zip_longest(*rows, fillvalue="")), *rows]


def _listed(text: str) -> list[str] | None:
    """Return the items of JSON or of a table. A table's items are its first column, or the second if the first only numbers
    the rows. None for other answers."""
    if not (headed := _rows(text)):
        return None if (value := _json_of(text)) is None else list(_leaves(value)) or [NONE]
    rows = headed[1:]
    counted = [row[0].strip(".) ") for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    place = int(counted and all(len(row) > 1 for row in rows))
    return [row[place] for row in rows if len(row) > place]


def items(answer: str, gold: Collection[str] = ()) -> tuple[str, ...]:
    """Return the items of an answer's list without bullets, quotes and brackets, each once. Splits at commas (except between
    thousands), semicolons, line ends and `and`, but not inside items of `gold`. A lead-in that ends with a colon, and
    sentences after the list, are not items."""
    bare = _remove_fences(answer)
    listed = _listed(bare)
    texts = [_LEAD_IN.sub("", _remove_remarks(bare))] if listed is None else listed
    parts = (_item(part) for text in texts for part in _BETWEEN.split(_normalize_list(text.strip())))
    found = dict.fromkeys(item for part in parts for item in ([part] if part in gold else map(_item, _AND.split(part))) if item)
    return tuple(found)


def gold_items(labels: Iterable[str]) -> frozenset[str]:
    """Return the normalized labels. If there are none, or only "None", the single item is `none`."""
    found = {item for label in labels if (item := _item(_normalize_list(label)))}
    return frozenset(found - {NONE} or {NONE})


def recalling(prediction: str, answer: Sequence[str]) -> Overlap:
    gold = gold_items(answer)
    return overlap(items(prediction, gold), gold)


def overlap(said: Collection[str], gold: frozenset[str]) -> Overlap:
    """Return precision, recall and F1 of an answer's items against the gold items."""
    return Overlap.of(len(gold.intersection(said)), len(set(said)), len(gold))


def numbers_of(text: str) -> tuple[str, ...]:
    """Return the numbers in brackets or, if there are none, all numbers that do not number a list. Each occurs once, without
    leading zeros."""
    plain = normalize(text)
    inside = [number for part in _BRACKETS.findall(plain) for number in _NUMBER.findall(part)]
    numbers = inside or _NUMBER.findall(_LINE_NUMBER.sub("", plain)) or _NUMBER.findall(plain)
    # Keep numbers as strings: `int` refuses numbers with thousands of digits.
    return tuple(dict.fromkeys(number.lstrip("0") or "0" for number in numbers))


def order(prediction: str) -> tuple[str, ...]:
    """Return the numbers of the options, in the order of the answer."""
    bare = _remove_fences(prediction)
    listed = _listed(bare)
    return numbers_of(_remove_remarks(bare) if listed is None else "\n".join(listed))


def order_score(said: Sequence[str], gold: Sequence[str]) -> float:
    """Return the length of the longest common subsequence, divided by the longer sequence's length; repeats are dropped.
    Raises ValueError if the gold order is empty."""
    mine, place = dict.fromkeys(said), {token: index for index, token in enumerate(dict.fromkeys(gold))}
    if not place:
        raise ValueError("the gold order is empty")
    # Without duplicates, it is the longest increasing subsequence of the positions.
    return _longest_rising(place[token] for token in mine if token in place) / max(len(place), len(mine))


def _longest_rising(values: Iterable[int]) -> int:
    """Return the length of the longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    for value in values:
        place = bisect_left(ends, value)
        ends[place : place + 1] = [value]
    return len(ends)


@functools.lru_cache(maxsize=1024)
def chance(n: int) -> float:
    """Return the mean score of a random order of n options against 1..n: exact up to n = 7, else over 2,000 seeded shuffles."""
    if n <= _ENUMERATED:
        lengths = [_longest_rising(permutation) for permutation in itertools.permutations(range(n))]
        return sum(lengths) / len(lengths) / n
    shuffled, draws = list(range(n)), random.Random(n)
    total = 0
    for _ in range(_SHUFFLES):
        draws.shuffle(shuffled)
        total += _longest_rising(shuffled)
    return total / _SHUFFLES / n


def core_ids(prediction: str) -> tuple[str, ...]:
    """Return the ids in an answer's core category: from its last core header to the header of the other category. Without a
    core header, these are the ids before the other header; without any header, all ids."""
    bare = _remove_fences(prediction)
    # JSON or a table names the categories.
    rows = [[cell for cell in row if not _is_core(cell)] for row in _named(bare) if any(map(_is_core, row))]
    if rows:
        return numbers_of(" ".join(cell for row in rows for cell in row[:1])) or (NONE,)
    text = _MARKUP.sub("", unicodedata.normalize("NFKC", _remove_remarks(bare)))
    if numbers := numbers_of(_OTHER.split(_CORE.split(text)[-1])[0]):
        return numbers
    return (NONE,) if _CORE.search(text) or (_NOTHING.search(text) and not _OTHER.search(text)) else ()


def _is_core(name: str) -> bool:
    """Return whether a name or cell names the core category: `Core IDs`, `core_ids`, `Core`, `Related`."""
    plain = re.sub(r"[^a-z]", "", name.casefold())
    return re.fullmatch(r"(?:core|related)(?:id|segment|stud(?:y|ie)|document)?s?", plain) is not None


def gold_ids(labels: Iterable[str]) -> frozenset[str]:
    """Return the first number of each label. If no label has a number, the single item is `none`."""
    matches = (_NUMBER.search(normalize(label)) for label in labels)
    return frozenset(match.group().lstrip("0") or "0" for match in matches if match) or frozenset({NONE})


def sections(text: str) -> dict[int, str]:
    """Map each section number to the text below its header, which is `<Section 1>` or a line such as `**Section 1:**`. Texts
    of a repeated section are joined."""
    _, *parts = (_HEADER if _HEADER.search(text) else _LINE_HEADER).split(text)
    bodies: dict[int, str] = {}
    for number, body in zip(map(int, parts[::2]), parts[1::2], strict=True):
        bodies[number] = "\n".join(filter(None, (bodies.get(number, ""), body.strip().rstrip("#").rstrip())))
    return bodies


def summaries(answer: str) -> dict[int, str]:
    """Map each section number to its summary in an answer: below headers as in `sections`, in JSON, or in a table."""
    bare = _remove_fences(answer)
    named = {int(match[1]): " ".join(row[1:]) for row in _named(bare) if row and (match := _SECTION.fullmatch(row[0]))}
    return named or sections(bare)


@dataclass(frozen=True, slots=True)
class RatedPair:
    """A section and its summary, for the judges. `reading`: which reading of the answer found this pair (ours, release, or
    both)."""

    number: str
    reading: str
    section: str
    summary: str


def rated_pairs(user_msg: str, context: str, domain: str, read: str, answer: str) -> list[RatedPair]:
    """Return the pairs to rate for both scores. Ours come from `read` (the answer without reasoning), the scripts' from the
    whole `answer`. Equal pairs occur once. The scripts find no section in a prompt without their frame."""
    try:
        theirs = release_metrics.pairs(domain, release_metrics.source_of(user_msg), answer)
    except AttributeError:
        theirs = {}
    found: list[RatedPair] = []
    said = summaries(read)
    for number, body in sections(context).items():
        if summary := said.get(number):
            # Equal except for the markup of their headers.
            ours = [body.strip(_MARKUP_EDGES), summary.strip(_MARKUP_EDGES)]
            twins = (header for header in theirs if numbers_of(header) == (str(number),))
            twin = next((one for one in twins if [text.strip(_MARKUP_EDGES) for text in theirs[one]] == ours), "")
            found.append(RatedPair(str(number), "both" if theirs.pop(twin, None) else "ours", body, summary))
    return [*found, *(RatedPair(header.split()[1][:-1], "release", *texts) for header, texts in theirs.items())]


def mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None
