"""Part of the synth room's writer: reads the `Input:` of a prompt. For the writer; `faulty` imports it from the package."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from summhay_ray.synth.kinds import Task

_MARK = "Input:"
_TASKS = frozenset(get_args(Task))


def read_input(prompt: str) -> dict[str, Any]:
    """The JSON object after the last line `Input:` of a prompt. Raises LookupError, which names what is missing."""
    return _read(prompt)[1]


def task_of(prompt: str) -> str | None:
    """The task of a prompt of the synthesis; None for any other prompt."""
    try:
        return str(read_input(prompt)["task"])
    except LookupError:
        return None


def with_input(prompt: str, given: Mapping[str, Any]) -> str:
    """The prompt with another input. Raises LookupError if the prompt has none."""
    return prompt[: _read(prompt)[0]] + "\n" + json.dumps(given)


def _read(prompt: str) -> tuple[int, dict[str, Any]]:
    """The end of the line `Input:`, and the object after it."""
    end = _input_line(prompt)
    if end < 0:
        raise LookupError("the prompt has no line 'Input:'; expected one near its end, followed by one JSON object")
    try:
        given = json.loads(prompt[end:])
    except (ValueError, RecursionError) as error:
        raise LookupError(f"what follows the last line 'Input:' is not one JSON object ({error})") from error
    if not isinstance(given, dict):
        raise LookupError(f"what follows the last line 'Input:' is a {type(given).__name__}; expected one JSON object")
    if given.get("task") not in _TASKS:
        raise LookupError(f"the input's task is {given.get('task')!r}; expected one of {', '.join(sorted(_TASKS))}")
    return end, given


def _input_line(prompt: str) -> int:
    """The position where the last line `Input:` ends; -1 without one."""
    start = prompt.rfind(_MARK)
    while start >= 0:
        line_start, line_end = prompt.rfind("\n", 0, start) + 1, prompt.find("\n", start)
        line_end = len(prompt) if line_end < 0 else line_end
        if prompt[line_start:line_end].strip() == _MARK:
            return line_end
        start = prompt.rfind(_MARK, 0, start)
    return -1


def seeded(*parts: str) -> random.Random:
    """A random generator seeded by the parts, the same on every machine."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return random.Random(digest)


class Given:
    """The fields of an input. Each getter raises LookupError, which names the field, if it is missing or has another type."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    @property
    def domain(self) -> str:
        """The domain's name; may be empty."""
        return self.words("domain", "")

    def text(self, name: str) -> str:
        """A required text: a string, or an object with a `text`."""
        if name not in self._fields:
            raise LookupError(f"the input of task {self._fields['task']} lacks the field {name!r}")
        return _text(self._fields[name], name)

    def words(self, name: str, default: str) -> str:
        """An optional text."""
        return self.text(name) if self._fields.get(name) is not None else default

    def number(self, name: str) -> int:
        """A required whole number of at least 0."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise LookupError(f"the input's {name!r} is {value!r}; expected a whole number of at least 0")
        return value

    def texts(self, name: str, required: bool = False) -> list[str]:
        """The texts of a list, in order; empty if the list is missing and not required."""
        return [_text(entry, name) for entry in self.objects(name, required)]

    def numbered(self, name: str) -> list[tuple[int, str]]:
        """The ids and texts of a required list. An entry without an id gets its position, from 1."""
        return [(_id(entry, place), _text(entry, name)) for place, entry in enumerate(self.objects(name, required=True), 1)]

    def objects(self, name: str, required: bool = False) -> Sequence[Any]:
        """The entries of a list, unchanged; empty if the list is missing and not required."""
        value = self._fields.get(name)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            raise LookupError(f"the input of task {self._fields['task']} lacks the list {name!r}")
        return value


def _text(entry: Any, name: str) -> str:
    value = entry.get("text", "") if isinstance(entry, Mapping) else entry
    if not isinstance(value, str):
        raise LookupError(f"an entry of the input's {name!r} is {type(value).__name__}; expected a text, or an object with one")
    return value


def _id(entry: Any, place: int) -> int:
    number = entry.get("id", place) if isinstance(entry, Mapping) else place
    return number if isinstance(number, int) else place
