"""Part of the synth room's writer: the local model `offline/writer`. The room imports it from `summhay_ray.synth.writer`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar

from summhay_ray.llm import Request
from summhay_ray.synth.writer import outline, reading
from summhay_ray.synth.writer.documents import chapter, document
from summhay_ray.synth.writer.editing import edit
from summhay_ray.synth.writer.prompts import Given, read_input, seeded

_TEXTS: Mapping[str, Callable[[Given, Random], str]] = {"document": document, "chapter": chapter, "edit_document": edit}
_INVENTED: Mapping[str, Callable[[Given, Random], Any]] = {
    "subtopics": lambda given, rng: {"subtopics": outline.subtopics(given, rng)},
    "insights": lambda given, rng: {"insights": outline.insights(given, rng)},
    "conflicting_insight": outline.conflicting,
    "query": outline.query,
}
_READ: Mapping[str, Callable[[Given], Any]] = {
    "overlapping_subtopics": reading.overlapping_subtopics,
    "duplicate_insights": reading.duplicate_insights,
    "assign_subtopic": reading.assign_subtopic,
    "query_leaks": reading.query_leaks,
    "chapter_check": reading.chapter_check,
    "insights_present": reading.insights_present,
}


class OfflineWriter:
    """The local model `offline/writer` (llm.LocalModel): invents outlines, writes documents from grammars, and checks by words.

    It reads only the `Input:` of a prompt. The same prompt and sample get the same answer on every machine. Its inventions and
    filler are English whatever `language` says; insights are stated in the language of the input.
    """

    name: ClassVar[str] = "offline/writer"
    revision: ClassVar[str] = "3"

    def answer(self, request: Request) -> str:
        """The answer to a prompt of the synthesis: a document's text, or JSON.

        Raises LookupError, which names what is missing, if the prompt has no input, no known task, or lacks a field of its task.
        """
        fields = read_input(request.prompt)
        given, task = Given(fields), fields["task"]
        if task in _READ:
            return json.dumps(_READ[task](given), ensure_ascii=False)
        rng = seeded(request.prompt, str(request.sample))
        if task in _TEXTS:
            return _TEXTS[task](given, rng)
        return json.dumps(_INVENTED[task](given, rng), ensure_ascii=False)
