"""Room synth: the contract of who asks the models. All of the room may import it.

To add a task: name it in `kinds.Task`, give it a prompt in `prompts/` and a reader in `answers.py`.
"""

from __future__ import annotations

from typing import Any, Protocol

from summhay_ray.outcome import Outcome
from summhay_ray.synth.kinds import Input, Task


class Asker(Protocol):
    """Asks one model for one task and reads the answer.

    What `Answer.value` holds, by task; places count from 0 in the order of the input's list (prompts and answers from 1):
    subtopics, insights: tuple of (name, text) · conflicting_insight: (name, text) · overlapping_subtopics, duplicate_insights:
    tuple of pairs of places · assign_subtopic, chapter_check: a place, or None · query, document, chapter, edit_document: text ·
    query_leaks: tuple of places · insights_present: dict of place -> the document's words that show it.
    """

    async def ask(self, task: Task, given: Input, sample: int = 0) -> Outcome[Any]:
        """The outcome; an answer that cannot be read is Malformed. Another `sample` asks the same thing for another answer.

        Raises nothing but what no row can hold (a full disk, a bug).
        """
        ...

    def model(self, task: Task) -> str:
        """The model that the task is asked of; empty where no model is: then `ask` must not be called for it."""
        ...
