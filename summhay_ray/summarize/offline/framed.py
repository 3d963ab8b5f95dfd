"""Parses prompts whose text is under `### Context:`; the models `offline/match` and `offline/order` answer them. Found by name.

The layout is ETHIC's (Lee et al., 2024, appendix B): the text, a sentence that begins `Now, respond to the instruction`, and the
request under `### Instruction:`. `### Options:`, `### Background:` and `### Target Case:` precede its material.

Both models only compare words, so they are lower bounds for models that understand the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.index import index_of, sentences_of

_FRAME = re.compile(r"### Context:\n(.*)\n\nNow, respond to the instruction[^\n]*\n+(.*)", re.DOTALL)
_PARTS = re.compile(r"^### (Instruction|Options|Background|Target Case):[ \t]*\n", re.MULTILINE)
_CUE = re.compile(r"\n+Answer:\s*\Z")
_OPTION = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)
SECTION = re.compile(r"^<(Section|Segment) (\d{1,6})>", re.MULTILINE)
_ID = re.compile(r"^\[(\d{1,12})\]", re.MULTILINE)
_MARK = "[CITATION]"
_AROUND = 400
"""Number of characters kept before and after a citation mark."""
_NEAR, _FAR = 0.5, 0.08
"""Minimum share of the highest cosine, and minimum cosine, of a relevant document."""
_WINDOW, _STEP = 12, 4
"""Number of sentences in a window, and from the start of one window to the next."""


@dataclass(frozen=True, slots=True)
class Framed:
    """The parts of a prompt. A missing part is empty."""

    context: str
    instruction: str
    options: tuple[tuple[int, str], ...] = ()
    """(number, text) in the order of the prompt."""
    background: str = ""
    """The text under `### Background:` or `### Target Case:`, with which documents or citations are compared."""


def read_frame(prompt: str) -> Framed | None:
    """Return the parts of a prompt, or None for a prompt without this layout."""
    frame = _FRAME.search(prompt)
    if frame is None:
        return None
    named = _PARTS.split(frame[2])
    parts = {name: _CUE.sub("", text).strip() for name, text in zip(named[1::2], named[2::2], strict=True)}
    options = tuple(numbered(parts.get("Options", ""), list(_OPTION.finditer(parts.get("Options", "")))))
    return Framed(frame[1], parts.get("Instruction", ""), options, parts.get("Background", "") or parts.get("Target Case", ""))


def numbered(text: str, headers: Sequence[re.Match[str]]) -> list[tuple[int, str]]:
    """Return (number, text below it) of each header. The last group of a header's match is the number."""
    ends = [*(header.start() for header in headers), len(text)][1:]
    pairs = zip(headers, ends, strict=True)
    return [(int(header[header.lastindex or 0]), text[header.end() : end].strip()) for header, end in pairs]


class Match:
    """Lists the ids of the documents relevant to a background, and the ids of all others.

    A document is relevant if its cosine with the background is at least half the highest, and at least 0.08. In segments with
    citation marks, only the words around the marks count.
    """

    name: ClassVar[str] = "offline/match"
    revision: ClassVar[str] = "2"

    def answer(self, request: Request) -> str:
        """Return the two lines that the prompt asks for. Raise LookupError for a prompt without a background or ids."""
        asked = read_frame(request.prompt)
        shown = _documents(asked.context) if asked is not None else []
        if asked is None or not asked.background or not shown:
            raise LookupError(
                "offline/match answers prompts with a '### Background:' or '### Target Case:' and a context of [ID] or "
                "<Segment N>"
            )
        index = index_of(tuple(shown))
        near = np.round(index.document_similarities(index.encode(asked.background)), 12)
        least = max(float(near.max(initial=0.0)) * _NEAR, _FAR)
        core = [number for (number, _), value in zip(shown, near.tolist(), strict=True) if value >= least]
        words = (
            ("Related Segments", "Supporting Segments") if "Related Segments" in asked.instruction + asked.background else None
        )
        first, second = words or ("Core IDs", "Supplementary IDs")
        others = [number for number, _ in shown if number not in core]
        listed, unlisted = (", ".join(f"[{number}]" for number in some) for some in (core, others))
        return f"- {first}: {listed}\n- {second}: {unlisted}"


class Order:
    """Sorts the options, which are summaries, by their positions in the text. An option's position is the window with the highest
    tf-idf cosine."""

    name: ClassVar[str] = "offline/order"
    revision: ClassVar[str] = "2"

    def answer(self, request: Request) -> str:
        """Return the options' numbers in order: `[4], [1], ...`. Raise LookupError for a prompt without options."""
        asked = read_frame(request.prompt)
        if asked is None or not asked.options:
            raise LookupError("offline/order answers prompts with '### Context:' and '### Options:'; this one has none")
        lines = sentences_of(asked.context)
        starts = range(0, max(1, len(lines) - _WINDOW + _STEP), _STEP)
        index = index_of(tuple((place, "\n".join(lines[place : place + _WINDOW])) for place in starts))
        near = [np.round(index.document_similarities(index.encode(text)), 12) for _, text in asked.options]
        places = [int(np.argmax(one)) if one.size and one.max() > 0 else len(starts) for one in near]
        numbers = [number for _, number in sorted(zip(places, (number for number, _ in asked.options), strict=True))]
        return ", ".join(f"[{number}]" for number in numbers)


def _documents(context: str) -> list[tuple[int, str]]:
    """Return (number, text) of each document or segment. Of segments with citation marks, return only the words around the
    marks."""
    found = numbered(context, list(SECTION.finditer(context)) or list(_ID.finditer(context)))
    if not any(_MARK in text for _, text in found):
        return found
    around = []
    for number, text in found:
        places = [mark.start() for mark in re.finditer(re.escape(_MARK), text)]
        around.append((number, "\n".join(text[max(0, place - _AROUND) : place + len(_MARK) + _AROUND] for place in places)))
    return around
