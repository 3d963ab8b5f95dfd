"""Prompts for the tests of `offline/writer`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from summhay_ray.llm import Request
from summhay_ray.synth import OfflineWriter

PEOPLE = ("Ann", "Bob", "Cem")
TOPIC = "the future of a small town"


def prompt_of(task: str, **fields: Any) -> str:
    """A prompt with this input."""
    given = {"task": task, "topic": TOPIC, "domain": "news", "language": "en", **fields}
    return f"Do as you are told.\n\nInput:\n{json.dumps(given)}"


def say(task: str, **fields: Any) -> str:
    """The text of the answer."""
    return OfflineWriter().answer(Request("offline/writer", prompt_of(task, **fields)))


def ask(task: str, **fields: Any) -> Any:
    """The JSON of the answer."""
    return json.loads(say(task, **fields))


def listed(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Texts in the form of lists in prompts."""
    return [{"id": place, "text": text} for place, text in enumerate(texts, 1)]


@cache
def outline(domain: str, n_subtopics: int = 9, n_insights: int = 5) -> dict[str, tuple[str, ...]]:
    """Subtopic -> insights of TOPIC, requested as in the pipeline."""
    subtopics = ask("subtopics", domain=domain, n=n_subtopics, avoid=[], context=[], participants=[])["subtopics"]
    found: dict[str, tuple[str, ...]] = {entry["subtopic"]: () for entry in subtopics}
    for subtopic in found:
        others = [{"subtopic": name, "insights": list(texts)} for name, texts in found.items() if name != subtopic]
        answer = ask("insights", domain=domain, subtopic=subtopic, n=n_insights, others=others, avoid=[], participants=[])
        found[subtopic] = tuple(entry["insight"] for entry in answer["insights"])
    return found
