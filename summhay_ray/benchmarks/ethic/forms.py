"""The forms of answers beside the one that was asked for: fences, JSON, tables, remarks. Part of the ethic folder; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.text import UnusableAnswer, json_value, without_fences

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
"""A sentence has at least this many words between two commas; the items of a list are shorter."""


def unfenced(text: str) -> str:
    """The answer without the lines of code fences, and without an offer of help at its end."""
    return _CLOSER.sub("", without_fences(text)).strip()


def without_remarks(text: str) -> str:
    """The answer without the sentences that follow its list, on lines of their own or behind its last item."""
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


def json_of(text: str) -> Any:
    """The one JSON object or list of an answer that begins with it; None if it begins with none."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json_value(text, kind=dict if text.startswith("{") else list)
    except UnusableAnswer:
        return None


def leaves(value: Any) -> Iterator[str]:
    """The items in a JSON value: of an object that has lists, those of the lists; of an object in a list, its first value."""
    if isinstance(value, Mapping):
        lists = [inner for inner in value.values() if isinstance(inner, list | dict)]
        for inner in lists or value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(next(iter(inner.values()), None) if isinstance(inner, Mapping) else inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def table_of(text: str) -> list[list[str]]:
    """The rows of the first Markdown table, its head first; empty without one."""
    lines = text.split("\n")
    for place in range(1, len(lines)):
        if "|" in lines[place - 1] and "-" in lines[place] and "|" in lines[place] and _RULE.fullmatch(lines[place]):
            rows = [lines[place - 1]]
            for line in lines[place + 1 :]:
                if "|" not in line:
                    break
                rows.append(line)
            return [[cell.strip() for cell in _CELLS.split(row.strip().strip("|"))] for row in rows]
    return []


def column(rows: Sequence[Sequence[str]]) -> list[str]:
    """The cells below the head of the column that holds the items: the first, or the second if the first only counts the rows."""
    counted = [str(number) for number in range(1, len(rows))]
    place = 1 if [row[0].strip(".) ") for row in rows[1:]] == counted and all(len(row) > 1 for row in rows) else 0
    return [row[place] for row in rows[1:] if len(row) > place]
