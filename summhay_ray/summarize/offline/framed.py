"""Parses prompts whose text is under `### Context:`, for the offline models.

The layout is ETHIC's (Lee et al., 2024, appendix B): the text, a sentence that begins `Now, respond to the instruction`, and the
request under `### Instruction:`. `### Options:`, `### Background:` and `### Target Case:` hold its material.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FRAME = re.compile(r"### Context:\n(.*)\n\nNow, respond to the instruction[^\n]*\n+(.*)", re.DOTALL)
_PARTS = re.compile(r"^### (Instruction|Options|Background|Target Case):[ \t]*\n", re.MULTILINE)
_CUE = re.compile(r"\n+Answer:\s*\Z")
_OPTION = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)
SECTION = re.compile(r"^<(Section|Segment) (\d{1,6})>", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Framed:
    """The parts of a prompt; a missing part is empty."""

    context: str
    instruction: str
    options: tuple[tuple[int, str], ...] = ()
    """(number, text) in the order of the prompt."""
    background: str = ""
    """The text under `### Background:` or `### Target Case:`, against which documents or citations are matched."""


def read_frame(prompt: str) -> Framed | None:
    """The parts of a prompt; None for a prompt without this layout."""
    found = _FRAME.search(prompt)
    if found is None:
        return None
    named = _PARTS.split(found[2])
    parts = {name: _CUE.sub("", text).strip() for name, text in zip(named[1::2], named[2::2], strict=True)}
    options = tuple(numbered(parts.get("Options", ""), list(_OPTION.finditer(parts.get("Options", "")))))
    return Framed(found[1], parts.get("Instruction", ""), options, parts.get("Background", "") or parts.get("Target Case", ""))


def numbered(text: str, headers: Sequence[re.Match[str]]) -> list[tuple[int, str]]:
    """(number, text below it) of each header. The last group of a header's match is the number."""
    ends = [*(header.start() for header in headers), len(text)][1:]
    pairs = zip(headers, ends, strict=True)
    return [(int(header[header.lastindex or 0]), text[header.end() : end].strip()) for header, end in pairs]
