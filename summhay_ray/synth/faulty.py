"""Part of the synth room: makes a model that answers prompts of the synthesis forgetful, talkative or careless, for rehearsals.

For the rooms above, which simulate a provider, and for tests: what the verification must find is put in here at known rates.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from summhay_ray.synth.writer import invented_insight, read_input, seeded, task_of, with_input

Answer = Callable[[str, str], str]
"""(model, prompt) -> the answer's text."""

_WRITING = frozenset({"document", "chapter", "edit_document"})
_PROSE = "I have read the input with care. In my opinion it is all in good order, so there is nothing to list."
_OTHER: dict[str, Any] = {"result": "ok", "items": []}


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares (0 to 1) of the answers that get a fault, drawn by `seed` and prompt. Raises ValueError for a share that is none."""

    forget: float = 0.0
    """A document, chapter or edited document lacks one of the insights asked for; an edit may keep one that was to go."""
    extra: float = 0.0
    """It states an insight that was not asked for: one of `avoid`, else an invented one."""
    malformed: float = 0.0
    """An answer that should be JSON is cut off, is prose, or is another object."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("forget", "extra", "malformed"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise ValueError(f"the share {name} is {share}; expected 0 to 1")


def faulty(answer: Answer, faults: Faults) -> Answer:
    """`answer` with faults in what it says to prompts of the synthesis; other prompts pass through untouched.

    A fault of writing is a misread input: what `answer` is asked lacks an insight, or lists one more. The same prompt always
    meets the same faults, so only another prompt (an input that counts its attempts, say) can do better.
    """

    def faulted(model: str, prompt: str) -> str:
        task = task_of(prompt)
        if task is None:
            return answer(model, prompt)
        if task not in _WRITING:
            text = answer(model, prompt)
            return _spoilt(text, _rng(faults, "how", prompt)) if _drawn(faults, "malformed", prompt) else text
        asked = prompt
        if _drawn(faults, "forget", prompt):
            asked = _forgetting(asked, _rng(faults, "which", prompt))
        if _drawn(faults, "extra", prompt):
            asked = _with_one_more(asked, _rng(faults, "more", prompt))
        return answer(model, asked)

    return faulted


def _rng(faults: Faults, purpose: str, prompt: str) -> random.Random:
    return seeded(str(faults.seed), purpose, prompt)


def _drawn(faults: Faults, kind: str, prompt: str) -> bool:
    share: float = getattr(faults, kind)
    return _rng(faults, kind, prompt).random() < share


def _forgetting(prompt: str, rng: random.Random) -> str:
    """The prompt without one of its insights; where an edit has none to add, without one that is to be removed."""
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
    """The prompt with an insight more: in a list, or, for a chapter, behind its own."""
    given = read_input(prompt)
    avoid = [text for text in given.get("avoid") or [] if isinstance(text, str) and text.strip()]
    more = avoid[int(rng.random() * len(avoid))] if avoid else invented_insight(rng, str(given.get("domain", "")), prompt)
    if given["task"] == "chapter":
        own = given.get("insight", "")
        text = own.get("text", "") if isinstance(own, dict) else str(own)
        return with_input(prompt, {**given, "insight": f"{text} {more}".strip()})
    field = "add" if given["task"] == "edit_document" else "insights"
    listed = list(given.get(field) or [])
    return with_input(prompt, {**given, field: [*listed, {"id": len(listed) + 1, "text": more}]})


def _spoilt(text: str, rng: random.Random) -> str:
    kind = int(rng.random() * 3)
    if kind == 0:
        # What is left must not be the whole answer by accident: its last bracket is always gone.
        return text.rstrip()[: max(1, int(len(text) * (0.2 + 0.6 * rng.random())) - 1)]
    return _PROSE if kind == 1 else json.dumps(_OTHER)
