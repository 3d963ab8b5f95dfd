"""Room synth: renders prompts. For the room alone.

A prompt is a template in our own words (content after the paper, section 3.2 and appendix A.1) that ends with `Input:` and one
line of JSON. Models and the offline writer find all data in that line, and no text in it can pass for a line of the prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from summhay_ray.synth.domains import INPUT
from summhay_ray.synth.kinds import Input

_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def render(template: str, given: Input) -> str:
    """The template with the input in place of its marker, as one line of JSON; a marker within the input stays."""
    before, _, after = template.rstrip("\n").rpartition(INPUT)
    return f"{before}{input_json(given)}{after}"


def input_json(given: Input) -> str:
    """The input as one line of readable JSON that any transport can carry: line separators and lone surrogates are escaped."""
    text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def numbered(texts: Iterable[str]) -> list[dict[str, Any]]:
    """`[{"id": 1, "text": ...}]`: the form of lists in inputs, whose ids answers refer to."""
    return [{"id": number, "text": text} for number, text in enumerate(texts, 1)]
