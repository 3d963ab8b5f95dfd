"""Strategies of several calls, each for one document or one chunk (ODSum, section 7: map-reduce and refine).

Every piece keeps the number of its document, so that a summary can cite it. Lengths are in cl100k tokens.
"""

import asyncio
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from summhay_ray.llm import Ask, RawAnswer
from summhay_ray.outcome import Answer, Outcome
from summhay_ray.summarize.base import Reducer, Shown, Task
from summhay_ray.summarize.prompting import call
from summhay_ray.text import count_tokens, first_tokens

Units = Literal["documents", "chunks"]
"""The input of each call: one document, or one chunk."""
CHUNK_TOKENS = 6800
"""Number of tokens per chunk, as in ODSum's scripts."""
_SENTENCE_END = re.compile(r"[.!?](?=\s)")
_WORD_CUT = re.compile(r"\S+\Z")
_JOINT = "\n\n"


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class MapReduce:
    """Makes one concurrent call per document or chunk. Then the task's reducer merges the answers into one summary.

    If the answers together exceed the budget, they are first merged in groups. Without documents, there is only one call.
    """

    name: ClassVar[str] = "map-reduce"
    units: Units = "documents"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget of a call; None: the run's budget. A longer document is split into several calls."""
    chunk_tokens: Annotated[int, Field(ge=1)] = CHUNK_TOKENS

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the final merge, or the first outcome that is not an answer."""
        if not task.shown:
            return await call(task, ask)
        budget = self.tokens or task.token_budget
        reducer = task.reducer or Reducer(task.model, task.sampling)
        reducing = replace(task, shown=(), step="reduce", model=reducer.model, sampling=reducer.sampling)
        parts = units_of(task.shown, self.units, budget, self.chunk_tokens)
        found: Sequence[Outcome[RawAnswer]] = await asyncio.gather(*(call(replace(task, shown=part), ask) for part in parts))
        while True:
            if missing := next((one for one in found if not isinstance(one, Answer)), None):
                return missing
            notes = [text for one in found if isinstance(one, Answer) and (text := one.value.text)]
            if not notes:
                return found[0]
            groups = _groups(notes, budget)
            found = await asyncio.gather(*(call(replace(reducing, notes=group), ask) for group in groups))
            if len(groups) == 1:
                return found[0]


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class RefineHighToLow:
    """Makes one call per document or chunk, the best-ranked first. Each call shows the previous answer."""

    name: ClassVar[str] = "refine-high-to-low"
    from_last: ClassVar[bool] = False
    units: Units = "documents"
    tokens: Annotated[int | None, Field(ge=1)] = None
    """Token budget of a call; None: the run's budget. A longer document is split into several calls."""
    chunk_tokens: Annotated[int, Field(ge=1)] = CHUNK_TOKENS

    async def summarize(self, task: Task, ask: Ask) -> Outcome[RawAnswer]:
        """Return the last answer, or the first outcome that is not an answer."""
        parts = units_of(task.shown, self.units, self.tokens or task.token_budget, self.chunk_tokens) or [()]
        first, *rest = parts[::-1] if self.from_last else parts
        found = await call(replace(task, shown=first), ask)
        for part in rest:
            if not isinstance(found, Answer):
                return found
            note = found.value.text
            further = replace(task, shown=part, step="refine", notes=(note,)) if note else replace(task, shown=part)
            found = await call(further, ask)
        return found


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class RefineLowToHigh(RefineHighToLow):
    """Like `RefineHighToLow`, but from the last-ranked document to the best."""

    name: ClassVar[str] = "refine-low-to-high"
    from_last: ClassVar[bool] = True


def _groups(notes: Sequence[str], budget: int | None) -> list[tuple[str, ...]]:
    """Return the notes in groups within the budget, or a single group if no two neighbouring notes fit together."""
    groups: list[list[str]] = []
    room = 0
    for note in notes:
        length = count_tokens(note)
        if not groups or (budget is not None and length > room):
            groups.append([])
            room = budget or 0
        groups[-1].append(note)
        room -= length
    return [tuple(notes)] if len(groups) == len(notes) else [tuple(group) for group in groups]


def units_of(shown: Sequence[Shown], units: Units, budget: int | None, chunk_tokens: int) -> list[tuple[Shown, ...]]:
    """Return the input of each call: one document, or one chunk of all documents. A document beyond the budget becomes several
    units."""
    if units == "chunks":
        return chunks(shown, chunk_tokens)
    return [(part,) for document in shown for part in _parts(document, budget)]


def chunks(shown: Sequence[Shown], chunk_tokens: int) -> list[tuple[Shown, ...]]:
    """Split the concatenated documents into at most `1 + tokens // chunk_tokens` chunks with about equal numbers of characters.

    Each chunk is extended to the next end of a sentence, so there may be fewer chunks. A chunk may span documents, as in ODSum's
    scripts. No text is left out.
    """
    article = _JOINT.join(document.text for document in shown)
    n_chunks = 1 + sum(count_tokens(document.text) for document in shown) // chunk_tokens
    length = max(1, math.ceil(len(article) / n_chunks))
    spans, start = [], 0
    while start < len(article):
        ends = _SENTENCE_END.search(article, min(start + length, len(article)) - 1)
        end = ends.end() if ends and start + length < len(article) else len(article)
        spans.append((start, end))
        start = end
    found = []
    for start, end in spans:
        pieces, at = [], 0
        for document in shown:
            first, last = max(start - at, 0), min(end - at, len(document.text))
            if first < last and document.text[first:last].strip():
                pieces.append(Shown(document.number, document.text[first:last]))
            at += len(document.text) + len(_JOINT)
        found.append(tuple(pieces))
    return found or [tuple(shown)]


def _parts(document: Shown, budget: int | None) -> Iterator[Shown]:
    """Yield the document in parts of at most `budget` tokens, cut between words if possible."""
    text = document.text
    while budget is not None and count_tokens(text) > budget and (part := first_tokens(text, budget)):
        part = part if text[len(part)].isspace() else _WORD_CUT.sub("", part) or part
        yield Shown(document.number, part)
        text = text[len(part) :]
    yield Shown(document.number, text)
