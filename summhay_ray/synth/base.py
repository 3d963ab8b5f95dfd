"""The contract for asking models.

To add a task: name it in `kinds.Task`, give it a prompt in `prompts/` and a reader in `parsing.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

from summhay_ray.outcome import Outcome
from summhay_ray.synth.making.kinds import Input, Task


class Asker(Protocol):
    """Asks a model to do a task and parses its answer.

    `Answer.value` by task, where an index counts from 0 in the input's list (the ids in prompts and answers count from 1):
    subtopics, insights: tuple of (name, text) · conflicting_insight: (name, text) · overlapping_subtopics, duplicate_insights:
    tuple of pairs of indices · assign_subtopic, chapter_check: index, or None · query, document, chapter, edit_document: text ·
    query_leaks: tuple of indices · insights_present: dict of index -> the document's words that show the insight.
    """

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """The outcome; an answer that cannot be parsed is Malformed. Another `sample` requests another answer.

        Raises only what cannot be recorded as an outcome (a full disk, a bug).
        """
        ...

    def model(self, task: Task) -> str:
        """The model for the task. Empty without one; `ask` must then not be called for this task. `ask` must then not be
        called for this task."""
        ...
