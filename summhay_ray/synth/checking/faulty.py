"""Adds faults at known rates to a model's answers to prompts of the synthesis.

Simulated providers use it, and tests measure which faults the verification finds.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from summhay_ray.synth.making.outline import seeded
from summhay_ray.synth.making.prompting import read_input, task_of, with_input
from summhay_ray.synth.offline_writer import invented_insight

Answer = Callable[[str, str], str]
"""(model, prompt) -> the text of the answer."""

_WRITING = frozenset({"document", "chapter", "edit_document"})
_PROSE = "I have read the input with care. In my opinion it is all in good order, so there is nothing to list."
_OTHER: dict[str, Any] = {"result": "ok", "items": []}


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of the answers that get a fault. `seed` and the prompt decide which ones. Raises ValueError for a share outside 0 to
    1."""

    forget: float = 0.0
    """A document, chapter or edited document lacks a requested insight, or an edit keeps an insight that it should remove."""
    extra: float = 0.0
    """The text has an extra insight: one of `avoid`, or else an invented one."""
    malformed: float = 0.0
    """An answer that should be JSON is cut off, is prose, or is another object."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("forget", "extra", "malformed"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ValueError(f"the share {name} is {share}; expected 0 to 1")


def faulty(answer: Answer, faults: Faults) -> Answer:
    """Add faults to the answers that `answer` gives to prompts of the synthesis.

    Faults of writing are made in the input: `answer` gets a prompt with one insight less or more. The same prompt always gets the
    same faults, but another `attempt` can succeed.
    """

    def faulted(model: str, prompt: str) -> str:
        task = task_of(prompt)
        if task is None:
            return answer(model, prompt)
        if task not in _WRITING:
            text = answer(model, prompt)
            return _malformed(text, seeded(faults.seed, "how", prompt)) if _has_fault(faults, "malformed", prompt) else text
        changed = prompt
        if _has_fault(faults, "forget", prompt):
            changed = _with_one_less(changed, seeded(faults.seed, "which", prompt))
        if _has_fault(faults, "extra", prompt):
            changed = _with_one_more(changed, seeded(faults.seed, "more", prompt))
        return answer(model, changed)

    return faulted


def _has_fault(faults: Faults, kind: str, prompt: str) -> bool:
    share: float = getattr(faults, kind)
    return seeded(faults.seed, kind, prompt).random() < share


def _with_one_less(prompt: str, rng: random.Random) -> str:
    """Return the prompt without one of its insights. If an edit adds none, drop one from those to remove."""
    given = read_input(prompt)
    if given["task"] == "chapter":
        return with_input(prompt, {**given, "insight": ""})
    for field in ("insights", "add", "remove"):
        listed = given.get(field)
        if isinstance(listed, list) and listed:
            gone = int(rng.random() * len(listed))
            return with_input(prompt, {**given, field: listed[:gone] + listed[gone + 1 :]})
    return prompt


def _with_one_more(prompt: str, rng: random.Random) -> str:
    """Return the prompt with one more insight, added to its list or, in a prompt for a chapter, to the chapter's insight."""
    given = read_input(prompt)
    avoid = [text for text in given.get("avoid") or [] if isinstance(text, str) and text.strip()]
    more = avoid[int(rng.random() * len(avoid))] if avoid else invented_insight(rng, prompt)
    if given["task"] == "chapter":
        own = given.get("insight", "")
        text = own.get("text", "") if isinstance(own, dict) else str(own)
        return with_input(prompt, {**given, "insight": f"{text} {more}".strip()})
    field = "add" if given["task"] == "edit_document" else "insights"
    listed = list(given.get(field) or [])
    return with_input(prompt, {**given, field: [*listed, {"id": len(listed) + 1, "text": more}]})


def _malformed(text: str, rng: random.Random) -> str:
    kind = int(rng.random() * 3)
    if kind == 0:
        # At least the last bracket is cut off, so that the rest is never the whole answer.
        return text.rstrip()[: max(1, int(len(text) * (0.2 + 0.6 * rng.random())) - 1)]
    return _PROSE if kind == 1 else json.dumps(_OTHER)
