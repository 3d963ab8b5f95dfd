"""`offline/match` lists the documents relevant to a background. Found by name; reads only the prompt.

A document is relevant if its cosine with the background is at least half the highest, and at least 0.08. In segments with
citation marks, only the words around the marks count. It compares words only: a lower bound for models that understand the text.
"""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.framed import SECTION, Framed, numbered, read_frame
from summhay_ray.summarize.offline.index import index_of

_ID = re.compile(r"^\[(\d{1,12})\]", re.MULTILINE)
_MARK = "[CITATION]"
_AROUND = 400
"""Characters kept before and after a citation mark."""
_NEAR, _FAR = 0.5, 0.08
"""Share of the highest cosine that a relevant document must reach, and the minimum cosine of a relevant document."""


class Match:
    """Lists the ids of the relevant documents, and of all others."""

    name: ClassVar[str] = "offline/match"
    revision: ClassVar[str] = "2"

    def answer(self, request: Request) -> str:
        """The two lines that the prompt asks for. Raises LookupError for a prompt without a background or ids."""
        asked = read_frame(request.prompt)
        shown = _documents(asked) if asked is not None else []
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
        return f"- {first}: {_listed(core)}\n- {second}: {_listed(others)}"


def _documents(asked: Framed) -> list[tuple[int, str]]:
    headers = list(SECTION.finditer(asked.context)) or list(_ID.finditer(asked.context))
    found = numbered(asked.context, headers)
    if not any(_MARK in text for _, text in found):
        return found
    return [(number, _around(text)) for number, text in found]


def _around(text: str) -> str:
    places = [found.start() for found in re.finditer(re.escape(_MARK), text)]
    return "\n".join(text[max(0, place - _AROUND) : place + len(_MARK) + _AROUND] for place in places)


def _listed(numbers: list[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)
