"""ETHIC's metrics by our own, lenient reading of answers; `release_metrics.py` has the scripts'. Part of the ethic folder; pure.

A list may be written in lines, bullets or brackets, as JSON or as a table, within a code fence, and with remarks around it;
"none" can be a right answer; repeated items count once; a section without a summary gets the lowest score, and a lost judgment
gets no score.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmarks.ethic import forms, release_metrics
from summhay_ray.benchmarks.ethic.release_metrics import FAILED, Overlap
from summhay_ray.text import UnusableAnswer, without_thinking

NONE = "none"
"""The item, of an answer or a gold list, that says that there is nothing to name."""

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
_MARKUP_EDGES = " \t\r\n*_#:"
_SHUFFLES = 2000
_ENUMERATED = 7


@dataclass(frozen=True, slots=True)
class Read:
    """The items of an answer; `unparsed`: it has no readable form."""

    items: tuple[str, ...]
    unparsed: bool = False


def without_reasoning(text: str) -> str:
    """The answer without the model's thinking; empty if that does not end."""
    try:
        return without_thinking(text)
    except UnusableAnswer:
        return ""


def same(text: str) -> str:
    """The text normalized for comparison: NFKC, ASCII digits, plain quotation marks and commas, case folded."""
    plain = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    digits = "".join(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter for letter in plain)
    return unicodedata.normalize("NFKC", digits.casefold())


def _item(text: str) -> str:
    return " ".join(_BULLET.sub("", text).strip(_EDGES).split())


def _without_thousands(text: str) -> str:
    return _THOUSANDS.sub(lambda match: match.group().replace(",", ""), text)


def items(answer: str, gold: Collection[str] = ()) -> Read:
    """The items of a list, split at commas, semicolons, line ends and `and`, without bullets, quotes and brackets, each once.

    A comma between groups of three digits is a thousands separator. A lead-in that ends with a colon and sentences behind the
    list are no items. `gold`: items that are not split at an `and` within.
    """
    bare = forms.unfenced(answer)
    value, rows = forms.json_of(bare), forms.table_of(bare)
    if value is not None:
        listed = list(forms.leaves(value)) or [NONE]
    else:
        listed = forms.column(rows) if rows else [_LEAD_IN.sub("", forms.without_remarks(bare))]
    parts = (_item(part) for text in listed for part in _BETWEEN.split(_without_thousands(same(text).strip())))
    found = dict.fromkeys(item for part in parts for item in ([part] if part in gold else map(_item, _AND.split(part))) if item)
    return Read(tuple(found), not found)


def gold_items(labels: Iterable[str]) -> frozenset[str]:
    """The normalized labels; without labels, or with only "None", the single item `none`."""
    found = {item for label in labels if (item := _item(_without_thousands(same(label))))}
    return frozenset(found - {NONE} or {NONE})


def recalling(prediction: str, answer: Sequence[str]) -> Overlap:
    """F1 of the answer's items against the labels, as sets."""
    gold = gold_items(answer)
    return overlap(items(prediction, gold) if prediction != FAILED else Read(()), gold)


def overlap(read: Read, gold: frozenset[str]) -> Overlap:
    """Precision, recall and F1 of an answer's items against the gold ones."""
    return Overlap.of(len(gold.intersection(read.items)), len(set(read.items)), len(gold))


def numbers_of(text: str) -> list[str]:
    """The numbers in brackets, or, if there are none, all numbers except list numbering; without leading zeros, each once."""
    plain = same(text)
    inside = [number for part in _BRACKETS.findall(plain) for number in _NUMBER.findall(part)]
    numbers = inside or _NUMBER.findall(_LINE_NUMBER.sub("", plain)) or _NUMBER.findall(plain)
    # Compared as strings: `int` refuses numbers with thousands of digits.
    return list(dict.fromkeys(number.lstrip("0") or "0" for number in numbers))


def order(prediction: str) -> Read:
    """The numbers of the options, in the order of the answer."""
    bare = forms.unfenced(prediction)
    listed = ", ".join(forms.column(rows)) if (rows := forms.table_of(bare)) else forms.without_remarks(bare)
    numbers = numbers_of(listed) if prediction != FAILED else []
    return Read(tuple(numbers), not numbers)


def order_score(said: Sequence[str], gold: Sequence[str]) -> float:
    """The length of the longest common subsequence, divided by that of the longer sequence: extra numbers cost, repeated ones
    do not. Raises ValueError if the gold order is empty."""
    mine, place = dict.fromkeys(said), {token: index for index, token in enumerate(dict.fromkeys(gold))}
    if not place:
        raise ValueError("the gold order is empty")
    # Without duplicates, the longest common subsequence is the longest increasing subsequence of the positions.
    return _rising(place[token] for token in mine if token in place) / max(len(place), len(mine))


def _rising(values: Iterable[int]) -> int:
    """The length of the longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    for value in values:
        place = bisect_left(ends, value)
        ends[place : place + 1] = [value]
    return len(ends)


@functools.lru_cache(maxsize=1024)
def chance(n: int) -> float:
    """The mean score of a random order of n options: exact up to 7, else over 2,000 seeded shuffles. Answering 1..n scores the
    same, since the options are shuffled."""
    if n <= _ENUMERATED:
        lengths = [_rising(permutation) for permutation in itertools.permutations(range(n))]
        return sum(lengths) / len(lengths) / n
    shuffled, draws = list(range(n)), random.Random(n)
    total = 0
    for _ in range(_SHUFFLES):
        draws.shuffle(shuffled)
        total += _rising(shuffled)
    return total / _SHUFFLES / n


def attributed(prediction: str) -> Read:
    """The ids in an answer's core category: after its last header, up to the header of the other category.

    Without a core header, the ids before the other category's header count, or those of the whole text if it has neither header.
    """
    bare = forms.unfenced(prediction)
    if (core := _core_of(bare)) is not None:
        return Read(tuple(numbers_of(core)) or (NONE,))
    text = _MARKUP.sub("", unicodedata.normalize("NFKC", forms.without_remarks(bare)))
    headers = list(_CORE.finditer(text))
    other = list(_OTHER.finditer(text))
    if headers:
        start = headers[-1].end()
        end = next((match.start() for match in other if match.start() >= start), len(text))
        return Read(tuple(numbers_of(text[start:end])) or (NONE,))
    numbers = numbers_of(text[: other[0].start()] if other else text)
    if numbers and prediction != FAILED:
        return Read(tuple(numbers))
    return Read((NONE,)) if _NOTHING.search(text) and not other else Read((), True)


def _core_of(text: str) -> str | None:
    """The ids of the core category in an answer that is JSON or a table with the categories; None for any other."""
    value = forms.json_of(text)
    if isinstance(value, Mapping):
        return next((str(inner) for name, inner in value.items() if _is_core(name)), None)
    rows = forms.table_of(text)
    if rows and any(map(_is_core, rows[0])):
        place = next(place for place, cell in enumerate(rows[0]) if _is_core(cell))
        return " ".join(row[place] for row in rows[1:] if len(row) > place)
    of_core = [[cell for cell in row if not _is_core(cell)] for row in rows[1:] if any(map(_is_core, row))]
    return " ".join(cell for row in of_core for cell in row[:1]) if of_core else None


def _is_core(name: str) -> bool:
    """Whether a key or a cell names the core category: `Core IDs`, `core_ids`, `Core`, `Related`."""
    return (
        re.fullmatch(r"(?:core|related)(?:id|segment|stud(?:y|ie)|document)?s?", re.sub(r"[^a-z]", "", name.casefold()))
        is not None
    )


def gold_ids(labels: Iterable[str]) -> frozenset[str]:
    """The first number of each label; if no label has one, the single item `none`."""
    matches = (_NUMBER.search(same(label)) for label in labels)
    return frozenset(match.group().lstrip("0") or "0" for match in matches if match) or frozenset({NONE})


def sections(text: str) -> dict[int, str]:
    """Section number -> the text below its header, `<Section 1>` or a line such as `**Section 1:**`. The texts of a repeated
    section are joined."""
    pattern = _HEADER if _HEADER.search(text) else _LINE_HEADER
    headers = list(pattern.finditer(text))
    ends = [*(match.start() for match in headers), len(text)][1:]
    bodies: dict[int, str] = {}
    for header, end in zip(headers, ends, strict=True):
        number, body = int(header.group(1)), text[header.end() : end].strip().rstrip("#").rstrip()
        bodies[number] = "\n".join(filter(None, (bodies.get(number, ""), body)))
    return bodies


def summaries(answer: str) -> dict[int, str]:
    """Section number -> its summary, in an answer: below headers as in `sections`, in JSON, or in a table."""
    bare = forms.unfenced(answer)
    value = forms.json_of(bare)
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, list):
        entries = [tuple(entry.values())[:2] for entry in value if isinstance(entry, Mapping) and len(entry) > 1]
    elif isinstance(value, Mapping):
        entries = list(value.items())
    elif rows := forms.table_of(bare):
        entries = [(row[0], " ".join(row[1:])) for row in rows[1:]]
    named = {number: str(text).strip() for name, text in entries if (number := _section_number(str(name))) is not None}
    return named or sections(bare)


def _section_number(name: str) -> int | None:
    match = re.fullmatch(r"\W*(?:(?:section|segment)\s*)?(\d{1,9})\W*", name, re.IGNORECASE)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class RatedPair:
    """A section and its summary, for the judges. `reading`: which reading gave this pair: ours, release, or both."""

    number: str
    reading: str
    section: str
    summary: str


def rated_pairs(user_msg: str, context: str, domain: str, read: str, answer: str) -> list[RatedPair]:
    """The pairs to rate for both scores: our pairs from `read` (the answer without reasoning), the scripts' from all of `answer`.

    Equal pairs are rated once, for both readings. The scripts find no section in a prompt without their frame.
    """
    try:
        theirs = release_metrics.pairs(domain, release_metrics.source_of(user_msg), answer)
    except AttributeError:
        theirs = {}
    found: list[RatedPair] = []
    said = summaries(read)
    for number, body in sections(context).items():
        if not said.get(number):
            continue
        pair = body, said[number]
        twin = next(
            (header for header, texts in theirs.items() if number_of(header) == str(number) and _alike(pair, texts)), None
        )
        found.append(RatedPair(str(number), "ours" if twin is None else "both", *pair))
        theirs.pop(twin or "", None)
    return [*found, *(RatedPair(header.split()[1][:-1], "release", *texts) for header, texts in theirs.items())]


def _alike(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two (section, summary) pairs are equal, up to markup of the headers around them."""
    return all(mine.strip(_MARKUP_EDGES) == theirs.strip(_MARKUP_EDGES) for mine, theirs in zip(one, other, strict=True))


def number_of(header: str) -> str:
    """The number of a header such as `<Section 01>`, without leading zeros."""
    return re.sub(r"[^0-9]", "", same(header)).lstrip("0") or "0"


def mean(values: Iterable[float]) -> float | None:
    """The mean; None if there are no values."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else None
