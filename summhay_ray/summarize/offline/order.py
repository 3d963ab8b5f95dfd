"""Room summarize: `offline/order`, which puts summaries of parts into the order of the text. Found by name; reads the prompt
alone.

Each option stands where the text's window is that has most of its words, rare ones above all. A summary in other words than the
text's is lost on it: a floor for models that read.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.framed import read_frame
from summhay_ray.summarize.offline.index import index_of
from summhay_ray.summarize.offline.words import sentences_of

_WINDOW, _STEP = 12, 4
"""Sentences of a window, and between the beginnings of two."""


class Order:
    """Options by the place of the window that is most like each."""

    name: ClassVar[str] = "offline/order"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """`[4], [1], ...`. Raises LookupError for a prompt without options."""
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
