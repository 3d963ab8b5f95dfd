"""Renders prompts, and reads the input of a rendered one.

A prompt is a template in our own words (content after the paper, section 3.2 and appendix A.1) that ends with `Input:` and one
line of JSON. Models and the offline writer find all data in that line, and no text in it can pass for a line of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from summhay_ray.synth.making.domains import INPUT, TASKS
from summhay_ray.synth.making.kinds import Input
from summhay_ray.text import fill, json_line

_MARK = "\nInput:\n"


def render(template: str, given: Input) -> str:
    """The template with the input in place of its marker, as one line of JSON; a marker within the input is kept."""
    return fill(template.rstrip("\n"), {INPUT: json_line(given)})


def numbered(texts: Iterable[str]) -> list[dict[str, Any]]:
    """`[{"id": 1, "text": ...}]`: the form of lists in inputs, whose ids answers refer to."""
    return [{"id": number, "text": text} for number, text in enumerate(texts, 1)]


def read_input(prompt: str) -> dict[str, Any]:
    """The input of a rendered prompt. Raises LookupError, which names what is missing, for any other prompt."""
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
    """A rendered prompt with another input. Raises LookupError, as `read_input` does."""
    read_input(prompt)
    before, mark, _ = f"\n{prompt}".rpartition(_MARK)
    return f"{before}{mark}{json_line(given)}".removeprefix("\n")


def task_of(prompt: str) -> str | None:
    """The task of a prompt of the synthesis; None for any other prompt."""
    try:
        return str(read_input(prompt)["task"])
    except LookupError:
        return None
