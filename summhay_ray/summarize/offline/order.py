"""`offline/order` sorts summaries by their position in the text. Found by name; reads only the prompt.

Each option is placed at the window of the text with the highest tf-idf cosine. A paraphrase without the text's words is not
recognized: a lower bound for models that understand the text.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from summhay_ray.llm import Request
from summhay_ray.summarize.offline.framed import read_frame
from summhay_ray.summarize.offline.index import index_of
from summhay_ray.summarize.offline.words import sentences_of

_WINDOW, _STEP = 12, 4
"""Sentences per window; sentences from the start of one window to the next."""


class Order:
    """Sorts the options by the position of their most similar window."""

    name: ClassVar[str] = "offline/order"
    revision: ClassVar[str] = "2"

    def answer(self, request: Request) -> str:
        """The options' numbers in order: `[4], [1], ...`. Raises LookupError for a prompt without options."""
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
