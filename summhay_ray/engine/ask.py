"""`Ask`: an item's interface to its models.

The subclass in `plan.py` makes no calls; it only counts them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from summhay_ray import text
from summhay_ray.engine.items import BadBenchmark, Item, Stage, all_tables
from summhay_ray.engine.spec.inputs import RunModels
from summhay_ray.engine.spec.spec import ModelSpec, suggestion
from summhay_ray.llm import Ask as AskModel
from summhay_ray.llm import BatchRequest, RawAnswer, Request, scores_of, vectors_of
from summhay_ray.loops import Ready
from summhay_ray.outcome import KIND, Answer, Failed, Malformed, NoAnswer, Outcome, Refusal, no_answer
from summhay_ray.store import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOCAL_AT_ONCE = 32
"""Maximum number of items that hold a prompt for a model in the worker. Such a model may answer several prompts in one batch."""
EXTRA_PROMPTS = 64
"""Number of items beyond a model's concurrency that may hold a prompt. They send calls while the items of a group wait for the
first call with their prefix."""

MOST_KEPT = 2000
"""Maximum number of characters that a row keeps of an answer with unusable vectors or scores."""

MOST_SHOWN = 80
"""Maximum number of characters that an error message quotes from an unreadable answer."""

Kept = Callable[[Outcome[RawAnswer], RawAnswer | None], Outcome[RawAnswer]]
Complete = Callable[..., Awaitable[Outcome[RawAnswer]]]
"""`Gateway.complete`: sends a request in a stage. Its last argument is a `Kept`, a function of the outcome and the raw answer
(None if there is none). Awaiting the call gives the result of that function."""

PARK_AFTER_S = 0.02
"""An item is parked after all its open requests have waited for batches for this many seconds."""
SYNCHRONOUS: Mapping[str, Any] = {}
"""The decision to send a request synchronously although its model has `batch`."""


class Parking:
    """The requests of one item that wait for a batch.

    An item is parked when all of its open requests wait for batches: it ends without rows. When the batches have ended, the item
    is answered again from the start, and it finds their answers in the log.

    `decided`: key -> the failure of a request that no batch answered (arguments of `no_answer`), or `SYNCHRONOUS`; None for an
    item that is answered for the first time.
    """

    def __init__(self, decided: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._decided, self._resumed = decided or {}, decided is not None
        self._open = 0
        self._futures: list[asyncio.Future[None]] = []
        self.requests: list[BatchRequest] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Completes when the item must be parked."""

    def send(self, complete: Complete, request: Request, stage: str, kept: Kept) -> Awaitable[Outcome[RawAnswer]]:
        """Send a request. If it must wait for a batch, its result never arrives, since the item is parked."""
        decision = self._decided.get(request.key)
        if decision:
            return Ready(kept(no_answer(**decision, key=request.key), None))
        self._open += 1
        park = None if decision is not None else self._park
        future = asyncio.ensure_future(complete(request, stage, kept, park, self._resumed))
        future.add_done_callback(self._ended)
        return future

    def close(self) -> None:
        """Cancel the waiting requests."""
        for future in self._futures:
            future.cancel()

    def _park(self, request: BatchRequest) -> asyncio.Future[None]:
        self.requests.append(request)
        self._futures.append(asyncio.get_running_loop().create_future())
        self._look()
        return self._futures[-1]

    def _ended(self, _: asyncio.Future[Any]) -> None:
        self._open -= 1
        self._look()

    def _look(self) -> None:
        if self.requests and len(self.requests) == self._open:
            # Wait a moment: the item may be about to send another request.
            asyncio.get_running_loop().call_later(PARK_AFTER_S, self._end)

    def _end(self) -> None:
        if len(self.requests) == self._open and not self.over.done():
            self.over.set_result(None)


class Asking(Protocol):
    """The parts of a workload that `Ask` needs."""

    models: RunModels

    kind: ClassVar[str]
    stages: ClassVar[Sequence[Stage]]
    tables: ClassVar[Sequence[Table]]

    spec: Any
    """See `Spec`."""

    def query_of(self, item: Item) -> str: ...


class NoReply(Exception):
    """Raised if a question has no usable answer. Unless the benchmark catches it, the item fails, and a failure row gives the
    reason."""

    def __init__(self, stage: str, outcome: NoAnswer) -> None:
        super().__init__(f"{outcome.error}: {outcome.message}")
        self.stage, self.outcome = stage, outcome


class Unreadable(NoReply):
    """Raise this if an answer does not have the expected form: `raise Unreadable(reply, "A, B, C or D")`."""

    def __init__(self, reply: RawAnswer, expected: str) -> None:
        found = " ".join(reply.text.split())
        message = f"expected {expected}; found {found[:MOST_SHOWN]!r}{' ...' if len(found) > MOST_SHOWN else ''}"
        super().__init__("", Malformed("unreadable", message, reply.key, reply.attempts, reply.usd_micros))


def read_json(reply: RawAnswer, *fields: str, kind: type[dict[str, Any]] | type[list[Any]] = dict) -> Any:
    """Return the only JSON object in an answer, or the only JSON list with `kind=list`. Text and code fences around it are
    ignored.

    `fields`: names that the object must have; case and spacing do not matter. Small mistakes such as single quotes are corrected.
    The types of the values are not checked. Raises Unreadable if an answer has no such JSON, several different ones or a
    truncated one, if a name has two values, or if a number is not finite.
    """
    try:
        return text.json_value(text.remove_thinking(reply.text), *fields, kind=kind)
    except text.UnusableAnswer:
        what = f"one JSON {'list' if kind is list else 'object'}{' with ' + ', '.join(fields) if fields else ''}"
        raise Unreadable(reply, what) from None


Turns = dict[tuple[str, str], asyncio.Semaphore]
"""(Stage, name of a model) -> a semaphore that limits how many items of a worker hold a prompt for it; see `Ask.turn`."""


@dataclass(eq=False)
class Ask:
    """Asks models on behalf of one item. It keeps all raw answers, usable or not, and all failures.

    `complete` and `turns` are None while planning. All items of a worker share one `turns`, which is empty at first.
    """

    planning = False
    """True while planning, when calls are counted instead of made."""
    guessed_on = False
    """While planning: whether a question depended on an answer that is not known yet."""
    too_long = False
    """While planning: whether the item's prompt is too long for its model."""

    workload: Asking
    item: Item
    complete: Complete | None
    turns: Turns | None
    prepared: Any = field(default=None, init=False)
    """The data that `prepare` made for the item."""
    raw: dict[str, RawAnswer] = field(default_factory=dict, init=False)
    failures: list[Any] = field(default_factory=list, init=False)
    retry: bool = field(default=False, init=False)
    """Whether a later start may try the item's failures again."""
    over_budget: bool = field(default=False, init=False)
    """Whether the budget stopped the item. It is then unfinished, and nothing of it is committed."""
    parking: Parking | None = field(default=None, init=False)
    """The item's requests that wait for batches; None while planning, and if no model of the run has `batch`."""
    stop: BadBenchmark | None = field(default=None, init=False)
    """The benchmark's violation of the contract, if any. It stops the run as soon as the item's failure is committed."""
    _stage_of: dict[str, str] = field(default_factory=dict, init=False)
    _model_of: dict[str, str] = field(default_factory=dict, init=False)
    """Key of a request -> the model that was asked."""
    _asked: dict[tuple[str, str], Sequence[Any]] = field(default_factory=dict, init=False)
    """(Model with a file of answers, stage) -> the messages sent to it."""

    async def __call__(
        self,
        stage: str,
        messages: Sequence[Any] | str,
        model: ModelSpec | None = None,
        sample: int = 0,
        prompt_hash: str = "",
        n: int = 1,
        logprobs: int | None = None,
        keep_thinking: bool = False,
        **sampling: Any,
    ) -> RawAnswer:
        """Ask a model (by default the item's) and return its raw answer, whose `text` is the reply without its thinking.

        `messages` may be a text, which is sent as one user message. `sample` numbers several answers to the same prompt. `n` is
        the number of samples in one call, `logprobs` the number of log probabilities per token. `keep_thinking`: leave the
        thinking in `text`; `further_texts` and the table `raw_answers` always contain it. `sampling` overrides the parameters of
        the spec's entry. Raises NoReply if there is no usable answer, or if its thinking does not end. If `answer` does not catch
        NoReply, it becomes the item's failure row.
        """
        send, entry = self.of(stage), model or self._model()
        fixed = {**self.workload.models.sampling(entry), **sampling}
        request = Request(entry.model, messages, fixed, prompt_hash, sample, n=n, logprobs=logprobs)
        async with self.turn(stage, entry.model, entry.label):
            outcome = await send(request)
        self._stage_of[outcome.key] = stage
        if not isinstance(outcome, Answer):
            raise NoReply(stage, outcome)
        reply = outcome.value
        if keep_thinking or self.planning:
            return reply
        try:
            return replace(reply, text=text.remove_thinking(reply.text))
        except text.UnusableAnswer as error:
            lost = Malformed(error.error, str(error), reply.key, reply.attempts, reply.usd_micros)
            raise NoReply(stage, lost) from None

    def of(self, stage: str, share: float = 1.0, output_tokens: Callable[[Request], int] | None = None) -> AskModel:
        """Return a function that sends a request in this stage and returns its outcome, without raising NoReply.

        Only the plan uses the other arguments. `share` is the expected share of these requests that a run sends. `output_tokens`
        returns the expected length of the answer to a request.
        """
        if stage not in (stages := [one.name for one in self.workload.stages]):
            hint = suggestion(stage, stages) or "; write stages = (Stage(...),)"
            raise BadBenchmark(f"{self.workload.kind} asks in a stage {stage!r} that it does not name{hint}")
        return functools.partial(self._send, stage, share, output_tokens)

    def _send(
        self, stage: str, share: float, output_tokens: Callable[[Request], int] | None, request: Request
    ) -> Awaitable[Outcome[RawAnswer]]:
        if request.model in self.workload.models.given_answers:
            request, none = self.with_query(request, stage)
            if none is not None:
                return Ready(none)
        assert self.complete is not None, "planning makes no call"
        keep = functools.partial(self._keep, request)
        if self.parking is not None:
            return self.parking.send(self.complete, request, stage, keep)
        return self.complete(request, stage, keep)

    def _keep(self, request: Request, outcome: Outcome[RawAnswer], raw: RawAnswer | None) -> Outcome[RawAnswer]:
        self._model_of[outcome.key] = request.model
        if raw is not None:
            # Vectors are large and already in the log. The row only records their cost or, if they are unusable, their beginning.
            n_letters = MOST_KEPT if isinstance(outcome, Malformed) else 0
            self.raw[raw.key] = replace(raw, text=raw.text[:n_letters]) if request.inputs else raw
        return outcome

    def with_query(self, request: Request, stage: str) -> tuple[Request, Failed | None]:
        """Return the request with the `query_id` to look up in its model's file of answers, and a failure or None.

        It fails if the item already asked the model another question in this stage, since the file has one text per query.
        """
        if self._asked.setdefault((request.model, stage), request.messages) != request.messages:
            file = self.workload.models.given_answers[request.model].file
            message = f"{file} holds one text for each query, and stage {stage!r} asks several questions about it"
            return request, Failed("several_questions", message)
        first = next(asked_stage for model, asked_stage in self._asked if model == request.model)
        query = self.workload.query_of(self.item)
        return replace(request, lookup=query if stage == first else f"{query}/{stage}"), None

    @staticmethod
    def vectors_of(reply: RawAnswer) -> NDArray[np.float32]:
        """The vectors of an answer to a request for embeddings, with shape (texts, dimensions)."""
        return vectors_of(reply.text)

    @staticmethod
    def scores_of(reply: RawAnswer) -> list[float]:
        """The scores of an answer that scores documents, one per document."""
        return scores_of(reply.text)

    def spares(self, stage: str, whole: Request, made: Request) -> None:
        """Report that the next request, `made`, is a shorter version of `whole`. The plan counts the tokens that this saves."""

    def turn(self, stage: str, model: str, name: str = "") -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context in which the item builds and sends a prompt for the model. Items enter in the order of their arrival.
        A model that is used under another `name` has a separate limit.

        The limit saves memory: a waiting item is small, but a prompt may be half a megabyte. It does not limit calls, since it is
        higher than the model's concurrency by `EXTRA_PROMPTS`.
        """
        if self.turns is None:
            return contextlib.nullcontext()
        key = stage, name or model
        if key not in self.turns:
            settings = self.workload.models.settings().get(model)
            if settings is not None and settings.batch is not None:
                # Requests that wait for a batch would block all others forever.
                return contextlib.nullcontext()
            width = LOCAL_AT_ONCE if settings is None or settings.local else settings.limits.concurrency + EXTRA_PROMPTS
            self.turns[key] = asyncio.Semaphore(width)
        return self.turns[key]

    def record(self, none: NoReply) -> None:
        """Record a failure. Its stage is that of the unusable answer.

        The engine does this if a NoReply ends `answer`. If `answer` catches a NoReply instead, it may call this method: the item
        then counts as failed, and the rows that `answer` returns are still kept.
        """
        self.fail(none.stage or self._stage_of.get(none.outcome.key, ""), none.outcome)

    def fail(self, stage: str, outcome: NoAnswer, **where: str) -> None:
        """Add a failure row, and set `retry` and `over_budget`. `where`: values for further columns of the failures table."""
        if isinstance(outcome, Failed):
            self.over_budget |= outcome.error == "budget"
        if not isinstance(outcome, Refusal):
            self.retry |= outcome.retryable
        where = {"model": self._model_of.get(outcome.key, ""), **where}
        self.failures.append(failure_row(self.workload, self.item.id, stage, outcome, where))

    def _model(self) -> ModelSpec:
        entries: Sequence[ModelSpec] = self.workload.spec.model_entries()
        matching = [entry for entry in entries if entry.label == self.item.queue] or (entries if len(entries) == 1 else [])
        if not matching:
            flaw = f"is of queue {self.item.queue!r}, which is not a model of the spec" if self.item.queue else "names no model"
            raise BadBenchmark(
                f"{self.workload.kind}: item {self.item.id!r} {flaw}; write Item(..., model=...), or ask(..., model=...)"
            )
        if any(entry != matching[0] for entry in matching):
            raise BadBenchmark(
                f"{self.workload.kind}: item {self.item.id!r} asks {self.item.queue!r}, and the spec has several entries of "
                "that name; give one of them a `name:` of its own"
            )
        return matching[0]


def failure_row(workload: Asking, item_id: str, stage: str, outcome: NoAnswer, where: Mapping[str, str]) -> Any:
    """Return a failure as a row of the failures table, which the benchmark may define. The first key column has the item's id.

    `where`: values for further columns; `model` is ignored if the table has no such column.
    """
    table = next(table for table in all_tables(workload) if table.name == "failures")
    common = {
        table.key[0]: item_id,
        "stage": stage,
        "kind": KIND[type(outcome)],
        "error": outcome.error,
        "message": " ".join(outcome.message.split()),
        "key": outcome.key,
        "attempts": outcome.attempts,
        "usd_micros": outcome.usd_micros,
    }
    names = table.columns.schema.names
    where = {name: value for name, value in where.items() if name != "model" or name in names}
    return table.record(**{**dict.fromkeys(names, ""), **common, **where})
