"""A synthesis gone through again over its answers: what was asked, and for which document.

Prompts are made again from content: a key proves that it is the same text. What was answered is answered again, since what is
asked next hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmarks.synth.spec import GROUPS
from summhay_ray.benchmarks.synth.topic import asker_of
from summhay_ray.benchmarks.synth.workload import Synth
from summhay_ray.llm import RawAnswer, Request
from summhay_ray.loops import run_loop
from summhay_ray.outcome import Answer, Failed, Outcome
from summhay_ray.store import RunStore
from summhay_ray.synth import Asker, Task, Topic, synthesize

_READ: Mapping[str, str] = {"edit_document": "document", "insights_present": "document", "chapter_check": "chapter"}
"""Task -> the field of its input that is a document's text, or a chapter's."""
_SHOWN = ("key", "model", "input_tokens", "output_tokens", "usd_micros", "attempts")


@dataclass(frozen=True, slots=True)
class _Question:
    """What was asked of a model once, and in how many answers."""

    task: Task
    given: Mapping[str, Any]
    keys: tuple[str, ...]
    value: Any


class _Listening:
    """`synth.Asker` that notes what is asked, and under which keys."""

    def __init__(self, run: RunStore, topic: Topic, raw: Mapping[str, RawAnswer]) -> None:
        self.questions: list[_Question] = []
        self.prompts: dict[str, str] = {}
        self._raw = raw
        # Many documents are asked about at one time; each has a task of its own.
        self._keys: ContextVar[list[str]] = ContextVar("keys")
        self._grid = Synth.from_record(run.store, run.record)
        self._topic = topic
        self._asker: Asker = asker_of(self._grid, dict.fromkeys(GROUPS, self._answer))

    def model(self, task: Task) -> str:
        """As `Asker` says."""
        return self._asker.model(task)

    async def ask(self, task: Task, given: Mapping[str, Any], sample: int = 0) -> Outcome[Any]:
        """As `Asker` says."""
        keys: list[str] = []
        self._keys.set(keys)
        outcome = await self._asker.ask(task, given, sample)
        self.questions.append(_Question(task, given, tuple(keys), outcome.value if isinstance(outcome, Answer) else None))
        return outcome

    async def _answer(self, request: Request) -> Outcome[RawAnswer]:
        self._keys.get().append(request.key)
        self.prompts[request.key] = request.prompt
        if (one := self._raw.get(request.key)) is not None:
            return Answer(one, key=one.key, attempts=one.attempts, usd_micros=one.usd_micros)
        return Failed("not_asked", "explaining makes no call")

    def listen(self) -> _Listening:
        """Go through it all."""
        run_loop(lambda: synthesize(self._grid.job(self._topic), self))
        return self


def prompt_of(run: RunStore, topic: Topic, raw: Mapping[str, RawAnswer], key: str) -> str | None:
    """The prompt of an answer; None where this version asks with another one."""
    return _Listening(run, topic, raw).listen().prompts.get(key)


def answers_of_document(run: RunStore, topic: Topic, raw: Mapping[str, RawAnswer], number: int) -> list[dict[str, Any]]:
    """The answers that wrote, edited and checked the document of this number, from 1, as far as their inputs tell; in order.

    Empty where another version asked with other prompts.
    """
    texts: list[str] = []
    found: list[dict[str, Any]] = []
    for question in _Listening(run, topic, raw).listen().questions:
        read = question.given.get(_READ.get(question.task, ""), "")
        # A document of chapters is checked and edited whole.
        if not (_writes(question, number) or any(text in read for text in texts)):
            continue
        if isinstance(question.value, str) and question.value:
            texts.append(question.value)
        found += told(raw, question.task, [key for key in question.keys if key in raw])
    return found


def told(raw: Mapping[str, RawAnswer], task: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Answers as `explain` lists them."""
    return [{"task": task, **{name: getattr(raw[key], name) for name in _SHOWN}} for key in keys]


def _writes(question: _Question, number: int) -> bool:
    return question.task in ("document", "chapter") and question.given.get("number") == number
