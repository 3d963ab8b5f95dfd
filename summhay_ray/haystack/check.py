"""Strict JSON parsing, and access to values with one-line errors that give the location."""

from __future__ import annotations

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from summhay_ray.errors import UserError, printable

MAX_DEPTH = 100
_SHOWN = 60
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ABSENT = object()


class InvalidHaystack(UserError):
    """A file is not a haystack. The message gives, in one line, the file, the path in it, and the expected and found values."""


@dataclass(frozen=True, slots=True)
class _Flaw:
    """A placeholder for an invalid value in the parsed JSON. Its path is known only after parsing."""

    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a parsed file, and its path. Methods raise InvalidHaystack if the value does not have the required type."""

    file: str
    path: str
    value: Any

    def refuse(self, expected: str, found: str = "") -> InvalidHaystack:
        """Return the error for this value. `found` defaults to a description of the value."""
        line = f"{self.file}: {self.path or 'the file'}: expected {expected}, found {found or described(self.value)}"
        return InvalidHaystack(printable(line))

    def entry(self, key: str) -> Node:
        value = self.fields().get(key, _ABSENT)
        step = _step(key)
        node = Node(self.file, self.path + step if self.path else step.removeprefix("."), None if value is _ABSENT else value)
        if value is _ABSENT:
            raise node.refuse("this field", "nothing: it is missing")
        return node

    def optional(self, key: str) -> Node | None:
        """Return the value under `key`, or None if it is absent or null."""
        return self.entry(key) if self.fields().get(key) is not None else None

    def fields(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.refuse("an object")
        return self.value

    def entries(self) -> list[Node]:
        return [self.entry(key) for key in self.fields()]

    def items(self, what: str = "a list", least: int = 0) -> list[Node]:
        """Return the items of a list with at least `least` items. `what`: the list's name in the error."""
        if not isinstance(self.value, list) or len(self.value) < least:
            raise self.refuse(what)
        return [Node(self.file, f"{self.path}[{place}]", item) for place, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.refuse("a string")
        return self.value

    def identifier(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.refuse("an identifier (a string that is not empty)")
        return self.value

    def number(self) -> float:
        """Return a number; true and false are not numbers."""
        try:
            if isinstance(self.value, int | float) and not isinstance(self.value, bool):
                return float(self.value)
        except OverflowError:
            pass
        raise self.refuse("a number")


def parse(source: bytes | str, file: str) -> Any:
    """Parse the JSON of a file. `source`: its content, as text or UTF-8. Raise InvalidHaystack for invalid JSON.

    It is stricter than Python's reader. It rejects NaN, Infinity, duplicate keys, lone surrogates (which no table can store),
    numbers that overflow, and more than MAX_DEPTH levels.
    """
    root = Node(file, "", None)
    try:
        text = source.decode("utf-8") if isinstance(source, bytes) else source
        parsed = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_object,
            parse_constant=lambda name: _Flaw("a number as JSON has them", name),
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as error:
        raise root.refuse("UTF-8 text", f"byte 0x{error.object[error.start]:02x} at offset {error.start}") from None
    except json.JSONDecodeError as error:
        raise Node(file, f"line {error.lineno}, column {error.colno}", None).refuse("JSON", f"none ({error.msg})") from None
    except RecursionError:
        raise root.refuse(f"at most {MAX_DEPTH} levels of nesting", "more") from None
    if flaw := _find_flaw(parsed):
        raise Node(file, flaw[0].removeprefix("."), None).refuse(flaw[1].expected, flaw[1].found)
    return parsed


def described(value: Any) -> str:
    """Describe a value briefly, on one line."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _SHOWN else value[:_SHOWN] + "...")
    return json.dumps(value)[:_SHOWN]


@functools.lru_cache(maxsize=1024)
def _step(key: str) -> str:
    """Return the part of a path that leads to a field of an object."""
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{described(key)}]"


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any] | _Flaw:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    counts = Counter(key for key, _ in pairs)
    twice = next(key for key, count in counts.items() if count > 1)
    return _Flaw("each key once", f"{described(twice)} twice")


def _float(digits: str) -> float | _Flaw:
    value = float(digits)
    return value if math.isfinite(value) else _Flaw("a number that fits 64 bits", digits[:_SHOWN])


def _int(digits: str) -> int | _Flaw:
    try:
        return int(digits)
    except ValueError:
        return _Flaw("a number of fewer digits", f"one of {len(digits)}")


def _find_flaw(value: Any, depth: int = 0) -> tuple[str, _Flaw] | None:
    """Return the first _Flaw, lone surrogate or too deep nesting in a value, with its path in the value; None if there is
    none."""
    if isinstance(value, str):
        surrogate = None if value.isascii() else _SURROGATE.search(value)
        return ("", _Flaw("whole characters", f"the lone surrogate \\u{ord(surrogate[0]):04x}")) if surrogate else None
    if isinstance(value, _Flaw):
        return "", value
    if not isinstance(value, dict | list):
        return None
    if depth == MAX_DEPTH:
        return "", _Flaw(f"at most {MAX_DEPTH} levels of nesting", "more")
    if isinstance(value, dict) and (flaw := next(filter(None, map(_find_flaw, value)), None)):
        return flaw
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if flaw := _find_flaw(inner, depth + 1):
            return (_step(key) if isinstance(key, str) else f"[{key}]") + flaw[0], flaw[1]
    return None
