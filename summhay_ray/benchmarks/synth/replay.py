"""Replays the synthesis of a topic from its stored answers, to recover the prompts and the answers behind a document.

Prompts are rendered again, because they are not stored; an equal key proves that the text is the same. Later prompts depend on
earlier answers, so the whole synthesis is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmark import RawAnswer, Request
from summhay_ray.benchmarks.synth.make_haystack import asker_of
from summhay_ray.benchmarks.synth.recipe import Recipe
from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.synth import Asker, Task, Topic, synthesize

_READ: Mapping[str, str] = {"edit_document": "document", "insights_present": "document", "chapter_check": "chapter"}
"""Task -> the field of its input that has the text of a document or chapter."""
_SHOWN = ("key", "model", "input_tokens", "output_tokens", "usd_micros", "attempts")


@dataclass(frozen=True, slots=True)
class _Question:
    """One question to a model: its task and input, the keys of its requests, and the value of its answer (None without one)."""

    task: Task
    given: Mapping[str, Any]
    keys: tuple[str, ...]
    value: Any


class _Replay:
    """A `synth.Asker` that answers from the store and records the questions and prompts."""

    def __init__(self, recipe: Recipe, topic: Topic, raw: Mapping[str, RawAnswer]) -> None:
        self.questions: list[_Question] = []
        self.prompts: dict[str, str] = {}
        self._raw = raw
        # Questions overlap, each in its own asyncio task.
        self._keys: ContextVar[list[str]] = ContextVar("keys")
        self._recipe = recipe
        self._topic = topic
        self._asker: Asker = asker_of(self._recipe, dict.fromkeys(GROUPS, self._answer))

    def model(self, task: Task) -> str:
        return self._asker.model(task)

    async def ask(self, task: Task, given: Mapping[str, Any], sample: int = 0) -> Outcome[Any]:
        keys: list[str] = []
        self._keys.set(keys)
        outcome = await self._asker.ask(task, given, sample)
        self.questions.append(_Question(task, given, tuple(keys), outcome.value if isinstance(outcome, Answer) else None))
        return outcome

    async def _answer(self, request: Request) -> Outcome[RawAnswer]:
        self._keys.get().append(request.key)
        self.prompts[request.key] = request.prompt
        if (answer := self._raw.get(request.key)) is not None:
            return Answer(answer, key=answer.key, attempts=answer.attempts, usd_micros=answer.usd_micros)
        return Failed("not_asked", "explaining makes no call")

    def play(self) -> _Replay:
        """Replay the synthesis."""
        run_loop(lambda: synthesize(self._recipe.of(self._topic), self))
        return self


def prompt_of(recipe: Recipe, topic: Topic, raw: Mapping[str, RawAnswer], key: str) -> str | None:
    """The prompt of an answer; None if this version of the program renders another prompt."""
    return _Replay(recipe, topic, raw).play().prompts.get(key)


def answers_of_document(recipe: Recipe, topic: Topic, raw: Mapping[str, RawAnswer], number: int) -> list[dict[str, Any]]:
    """The answers that wrote, edited and checked a document (by its number, from 1), in order.

    They are found by the document's number or text in their inputs. Empty if this version of the program renders other prompts.
    """
    texts: list[str] = []
    answers: list[dict[str, Any]] = []
    for question in _Replay(recipe, topic, raw).play().questions:
        read = question.given.get(_READ.get(question.task, ""), "")
        # `in`, because a document of several chapters is checked and edited as a whole.
        if not (_writes(question, number) or any(text in read for text in texts)):
            continue
        if isinstance(question.value, str) and question.value:
            texts.append(question.value)
        answers += listed_answers(raw, question.task, [key for key in question.keys if key in raw])
    return answers


def listed_answers(raw: Mapping[str, RawAnswer], task: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of answers in `explain`."""
    return [{"task": task, **{name: getattr(raw[key], name) for name in _SHOWN}} for key in keys]


def _writes(question: _Question, number: int) -> bool:
    return question.task in ("document", "chapter") and question.given.get("number") == number
