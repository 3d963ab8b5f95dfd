"""How an item asks its models, and what becomes of its questions. Part of the engine room; `plan.py` has one that counts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from summhay_ray.engine.contract import Item, Workload
from summhay_ray.engine.own_code import BadBenchmark
from summhay_ray.engine.spec import ModelSpec, near
from summhay_ray.llm import Ask as AskModel
from summhay_ray.llm import ModelSettings, RawAnswer, Request
from summhay_ray.outcome import KIND, Answer, Failed, Malformed, NoAnswer, Outcome, Refusal

LOCAL_AT_ONCE = 4
MORE_THAN_ONCE = 16
"""Further items that may hold a prompt: those that wait for the first of their prefix, and the next to be sent."""

MOST_SHOWN = 80
"""Characters of an answer that cannot be read, in the message that says so."""

Complete = Callable[[Request, str], Awaitable[tuple[Outcome[RawAnswer], RawAnswer | None]]]
"""A request and its stage in; the outcome out, and the raw answer where there is one."""


class NoReply(Exception):
    """A question has no usable answer. Not caught by the benchmark, it ends the item, whose failure row says why."""

    def __init__(self, stage: str, outcome: NoAnswer) -> None:
        super().__init__(f"{outcome.error}: {outcome.message}")
        self.stage, self.outcome = stage, outcome


class Unreadable(NoReply):
    """An answer that came, and is not in the form that was asked for: `raise Unreadable(reply, "A, B, C or D")`."""

    def __init__(self, reply: RawAnswer, expected: str) -> None:
        found = " ".join(reply.text.split())
        message = f"expected {expected}; found {found[:MOST_SHOWN]!r}{' ...' if len(found) > MOST_SHOWN else ''}"
        super().__init__("", Malformed("unreadable", message, reply.key, reply.attempts, reply.usd_micros))


class ConcurrencyLimiter:
    """How many items of one worker hold a prompt for a model at once: first come, first served.

    An item waits here as a small thing; past it, it holds a prompt, which may be half a megabyte. It is no limit on calls: these
    are bounded by each model's concurrency, and somewhat more than that is let in here.
    """

    def __init__(self, settings: Mapping[str, ModelSettings]) -> None:
        self._settings = settings
        self._turns: dict[tuple[str, str], asyncio.Semaphore] = {}

    def turn(self, stage: str, model: str, name: str = "") -> contextlib.AbstractAsyncContextManager[None]:
        """While a prompt for the model is made and asked. `name` keeps several uses of one model apart."""
        place = stage, name or model
        if place not in self._turns:
            one = self._settings.get(model)
            width = LOCAL_AT_ONCE if one is None or one.local else one.limits.concurrency + MORE_THAN_ONCE
            self._turns[place] = asyncio.Semaphore(width)
        return self._turns[place]


class Ask:
    """The questions of one item. Every raw answer that comes is kept, usable or not."""

    planning = False
    """Whether nothing is asked, and calls are only counted."""
    guessed_on = False
    """While planning: whether something was asked after an answer that nobody knows yet."""
    too_long = False
    """Whether the item's prompt is too long for its model: the plan says how many such there are."""

    def __init__(self, workload: Workload[Any], item: Item, complete: Complete, limiter: ConcurrencyLimiter) -> None:
        self.item = item
        self.prepared: Any = None
        """What `prepare` gave to the item."""
        self._workload, self._complete, self._limiter = workload, complete, limiter
        self._stages = {stage.name: stage for stage in workload.stages}
        self.raw: dict[str, RawAnswer] = {}
        self._stage_of: dict[str, str] = {}
        self.failures: list[Any] = []
        self.retry = False
        """A later run may try again what failed."""
        self._asked: dict[tuple[str, str], Sequence[Any]] = {}
        """Model whose answers lie in a file, and stage -> what it was asked."""
        self.over_budget = False
        """Stopped at the budget: the item is unfinished, and nothing of it is committed."""

    async def __call__(
        self,
        stage: str,
        messages: Sequence[Any] | str,
        model: ModelSpec | None = None,
        sample: int = 0,
        prompt_hash: str = "",
        n: int = 1,
        logprobs: int | None = None,
        **sampling: Any,
    ) -> RawAnswer:
        """Ask a model, by default the item's: its answer's `text` is what it said. A text is the one message of a user.

        `sample`: which of several answers to one and the same prompt. `n`: samples in one call; `logprobs`: so
        many log probabilities of each token. `sampling` overrides what the spec's entry says. Raises
        NoReply where there is no usable answer; not caught, that becomes the item's failure row.
        """
        self._check_stage(stage)
        entry = model or self._model()
        fixed = {**entry.sampling(), **self._workload.revision_of(entry.model), **sampling}
        request = Request(entry.model, messages, fixed, prompt_hash, sample, n=n, logprobs=logprobs)
        async with self.turn(stage, entry.model, entry.label):
            outcome = await self.of(stage)(request)
        self._stage_of[outcome.key] = stage
        if isinstance(outcome, Answer):
            return outcome.value
        raise NoReply(stage, outcome)

    def of(self, stage: str, share: float = 1.0, output_tokens: Callable[[Request], int] | None = None) -> AskModel:
        """The bare ask of a stage: a request in, its outcome out. For planning: the `share` of the requests that are expected to
        be made, and the length of an answer that is expected."""
        self._check_stage(stage)

        async def ask(request: Request) -> Outcome[RawAnswer]:
            request, none = self.known(request, stage)
            if none is not None:
                return none
            outcome, raw = await self._complete(request, stage)
            if raw is not None:
                # Vectors are large, and lie in the log: a row says what they cost.
                self.raw[raw.key] = replace(raw, text="") if request.inputs else raw
            return outcome

        return ask

    def known(self, request: Request, stage: str) -> tuple[Request, Failed | None]:
        """The request; to a file of answers with the line that is meant, and a failure where a stage asks several questions."""
        given = self._workload.given_answers.get(request.model)
        if given is None:
            return request, None
        if self._asked.setdefault((request.model, stage), request.messages) != request.messages:
            told = f"{given.file} holds one text for each query, and stage {stage!r} asks several questions about it"
            return request, Failed("several_questions", told)
        first = next(asked for model, asked in self._asked if model == request.model)
        query = self._workload.query_of(self.item)
        return replace(request, lookup=query if stage == first else f"{query}/{stage}"), None

    def spares(self, stage: str, whole: Request, made: Request) -> None:
        """For planning: `made`, which is asked next, stands in the place of the longer `whole`. The plan tells what it saves."""

    def turn(self, stage: str, model: str, name: str = "") -> contextlib.AbstractAsyncContextManager[None]:
        """While the item makes a prompt for a model and asks it: of many items some wait before they hold a prompt."""
        return self._limiter.turn(stage, model, name)

    def gives_up(self, none: NoReply) -> None:
        """The item ends without its rows: the failure's row, in the stage whose answer it was."""
        self.fail(none.stage or self._stage_of.get(none.outcome.key, ""), none.outcome)

    def fail(self, stage: str, outcome: NoAnswer, **where: str) -> None:
        """A failure's row, and what it means for the item. `where`: further columns of the benchmark's own failures table."""
        if isinstance(outcome, Failed):
            self.over_budget |= outcome.error == "budget"
        if not isinstance(outcome, Refusal):
            self.retry |= outcome.retryable
        self.failures.append(failure_row(self._workload, self.item.id, stage, outcome, where))

    def _model(self) -> ModelSpec:
        entries: Sequence[ModelSpec] = self._workload.spec.model_entries()
        found = [one for one in entries if one.label == self.item.queue] or (entries if len(entries) == 1 else [])
        if not found:
            told = f"is of queue {self.item.queue!r}, which is no model of the spec" if self.item.queue else "names no model"
            raise BadBenchmark(
                f"{self._workload.kind}: item {self.item.id!r} {told}; write Item(..., model=...), or ask(..., model=...)"
            )
        if any(one != found[0] for one in found):
            raise BadBenchmark(
                f"{self._workload.kind}: item {self.item.id!r} asks {self.item.queue!r}, and the spec has several entries of "
                "that name; give one of them a `name:` of its own"
            )
        return found[0]

    def _check_stage(self, stage: str) -> None:
        if stage not in self._stages:
            told = near(stage, self._stages) or "; write stages = (Stage(...),)"
            raise BadBenchmark(f"{self._workload.kind} asks in a stage {stage!r} that it does not name{told}")


def failure_row(workload: Workload[Any], item_id: str, stage: str, outcome: NoAnswer, where: Mapping[str, str]) -> Any:
    """The row of a failure, in the benchmark's own failures table where it has one: its item stands in the first key column."""
    table = next(table for table in workload.all_tables() if table.name == "failures")
    told = {
        table.key[0]: item_id,
        "stage": stage,
        "kind": KIND[type(outcome)],
        "error": outcome.error,
        "message": " ".join(outcome.message.split()),
        "key": outcome.key,
        "attempts": outcome.attempts,
        "usd_micros": outcome.usd_micros,
    }
    return table.record(**{**dict.fromkeys(table.columns.schema.names, ""), **told, **where})
