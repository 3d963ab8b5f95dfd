"""The interface of models that run in this process and need no key, and their transport. Higher packages implement the interface.

A gateway gets these models, and the settings of all models. It handles their answers like paid ones: key, log, limits, budget,
outcome.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Protocol, runtime_checkable

from summhay_ray.llm.model_settings import ModelSettings
from summhay_ray.llm.request import Reply, Request, Usage
from summhay_ray.routes import Wire
from summhay_ray.text import count_tokens


class LocalModel(Protocol):
    """A model in this process. `name` is its full name in a spec (`offline/support`), or the prefix of a family (`replay/`)."""

    name: ClassVar[str]
    revision: ClassVar[str]
    """The model's version, which is part of every request's key. Change it when the answers change, so that answers of an older
    revision are not reused. A revision that begins with `sha256:` is a hash of the model's files, and is part of the run's id.

    A model gets the request's sampling parameters only if it has a true attribute `reads_sampling`.
    """

    def answer(self, request: Request) -> str:
        """Return the text of the answer to the request's messages (for replay, to its `lookup`). It must be deterministic.

        It is called in a single thread, for one request after another. If there is no answer, it raises LookupError, whose
        message says what is missing.
        """
        ...


@dataclass(frozen=True)
class Generation:
    """A batch of requests. A model generates their answers token by token."""

    requests: Sequence[Request]
    answered: Callable[[int, str], None]
    """Call this with a request's index and its answer, as soon as the answer is complete."""
    goes_on: Callable[[int, int], bool]
    """Call this after each token, with the number of tokens of each answer so far and its maximum. If it returns False, stop
    generating; incomplete answers are dropped."""


@runtime_checkable
class GeneratingModel(LocalModel, Protocol):
    """A local model that needs minutes for an answer. It answers several requests in a batch, and can stop after any token.

    Both methods are called in a single thread, with requests that have the same sampling parameters. They raise the same errors
    as `answer`.
    """

    reads_sampling: ClassVar[bool] = True

    def batches(self, requests: Sequence[Request], most: int) -> Sequence[Sequence[int]]:
        """Divide requests into batches of at most `most` that fit into memory. Returns their indices."""
        ...

    def generate(self, generation: Generation) -> None:
        """Generate the answers of one batch."""
        ...


LINGER_S = 0.05
"""Seconds to wait for more calls: the first calls of items that begin together arrive within this time."""
COUNT_EVERY_S = 0.5

TOKENS, UNDER_WAY = "generated_tokens", "answers_under_way"
"""Counters of a run: the number of tokens that models in the workers have generated, and the sum of the generated shares of
unfinished answers, in thousandths."""


class GenerationStopped(Exception):
    """Raised if the run stopped before the answer was complete. A later start asks again."""


class GenerationTimeout(Exception):
    """Raised if the answer was not complete after the model's `timeout_s`."""


@dataclass(frozen=True, eq=False)
class _Call:
    model: GeneratingModel
    request: Request
    settings: ModelSettings
    text: Future[str] = field(default_factory=Future)

    def end(self, text: str = "", error: Exception | None = None) -> None:
        """Set the answer or the error, unless one was already set."""
        with contextlib.suppress(InvalidStateError):
            if error is None:
                self.text.set_result(text)
            else:
                self.text.set_exception(error)


@dataclass(eq=False)
class GenerationThread:
    """Answers calls in one thread. `count` adds to the run's counters, on the event loop. `named` converts a model's exceptions
    to the transport's errors."""

    count: Callable[[Mapping[str, int]], None]
    named: Callable[[BaseException], Exception]
    _thread: ThreadPoolExecutor = field(
        init=False, default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="generation")
    )
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _waiting: list[_Call] = field(init=False, default_factory=list)
    _working: bool = field(init=False, default=False)
    _open: set[_Call] = field(init=False, default_factory=set)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)
    _loop: asyncio.AbstractEventLoop | None = field(init=False, default=None)
    _counted_at: float = field(init=False, default=0.0)
    _tokens: int = field(init=False, default=0)
    _under_way: int = field(init=False, default=0)

    async def answer(self, model: GeneratingModel, request: Request, settings: ModelSettings) -> str:
        """Return the model's complete answer. Raises GenerationStopped, GenerationTimeout, and the model's errors, converted by
        `named`."""
        call, self._loop = _Call(model, request, settings), asyncio.get_running_loop()
        if self._stopped.is_set():
            raise GenerationStopped
        self._open.add(call)
        with self._lock:
            self._waiting.append(call)
            begins, self._working = not self._working, True
        if begins:
            self._thread.submit(self._work)
        try:
            return await asyncio.wrap_future(call.text)
        finally:
            self._open.discard(call)

    def stop(self) -> None:
        """Stop after the current tokens, end all calls that have no complete answer, and end the thread."""
        self._stopped.set()
        for call in self._open:
            call.end(error=GenerationStopped())
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        model: GeneratingModel | None = None
        while calls := self._next(model):
            model = calls[0].model
            self._generate(model, calls)

    def _next(self, model: GeneratingModel | None) -> list[_Call]:
        """Return the batch with the call that has waited longest. Calls of the loaded `model` come first."""
        seen: list[_Call] = []
        batches: Sequence[Sequence[int]] = ()
        while True:
            time.sleep(LINGER_S)
            with self._lock:
                first = next((call for call in self._waiting if call.model is model), next(iter(self._waiting), None))
                if first is None or self._stopped.is_set():
                    self._working = False
                    return []
                chosen = first.model, first.request.sampling
                alike = [call for call in self._waiting if (call.model, call.request.sampling) == chosen]
                # Most calls of the first batch arrive while the model is being loaded, so look for new calls again.
                if alike == seen:
                    batch = [alike[place] for place in next(places for places in batches if 0 in places)]
                    self._waiting = [call for call in self._waiting if call not in batch]
                    return batch
            seen, model = alike, first.model
            try:
                batches = first.model.batches([call.request for call in alike], first.settings.limits.concurrency)
            # A library may raise anything, as in `_generate`.
            except BaseException as error:  # noqa: BLE001
                for call in alike:
                    call.end(error=self.named(error))
                with self._lock:
                    self._waiting = [call for call in self._waiting if call not in alike]

    def _generate(self, model: GeneratingModel, calls: Sequence[_Call]) -> None:
        left, within_s = dict(enumerate(calls)), calls[0].settings.timeout_s
        end = time.monotonic() + within_s

        def answered(place: int, text: str) -> None:
            left.pop(place).end(text)

        def goes_on(tokens: int, most: int) -> bool:
            self._note(len(left), 1000 * len(left) * tokens // most)
            return not self._stopped.is_set() and time.monotonic() < end

        error: Exception = GenerationTimeout(f"the answer is not complete after {within_s:g} s; raise the model's timeout_s")
        try:
            if not self._stopped.is_set():
                model.generate(Generation([call.request for call in calls], answered, goes_on))
        # A library may raise anything, for example if native code panics. End the calls, which would otherwise wait forever.
        except BaseException as problem:  # noqa: BLE001
            error = self.named(problem)
        for call in [*left.values()]:
            call.end(error=error)
        self._note(0, 0)

    def _note(self, tokens: int, under_way: int) -> None:
        """Count tokens, and report them to the loop at intervals."""
        self._tokens += tokens
        now = time.monotonic()
        if self._loop is None or (under_way and now < self._counted_at + COUNT_EVERY_S):
            return
        numbers = {TOKENS: self._tokens, UNDER_WAY: under_way - self._under_way}
        self._counted_at, self._tokens, self._under_way = now, 0, under_way
        # The loop may have ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.count, numbers)


class MissingAnswer(Exception):
    """Raised if a local model has no answer to this request."""


class UnknownLocalModel(Exception):
    """Raised if no local model has this name."""


class LocalModelError(Exception):
    """Raised if a local model raises an unexpected error."""


class LocalTransport:
    """Answers requests in order, in one thread. Generating models use a second thread, and answer several requests at a time.

    `models`: the models by full name, or by `provider/` for a family. `count` adds to the run's counters.
    """

    def __init__(
        self,
        models: Mapping[str, LocalModel] = MappingProxyType({}),
        count: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._models = models
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-models")
        self.generation = GenerationThread(count, _as_transport_error)

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """Return the model's answer, with our own counts of its tokens.

        Raises MissingAnswer, UnknownLocalModel, LocalModelError; for a generating model also GenerationStopped,
        GenerationTimeout.
        """
        model = self._models.get(request.model) or self._models.get(f"{request.model.partition('/')[0]}/")
        if model is None:
            raise UnknownLocalModel(f"no local model is named {request.model!r}")
        wire.sent = True
        run = asyncio.get_running_loop().run_in_executor
        if isinstance(model, GeneratingModel):
            return await run(self._thread, _reply, request, await self.generation.answer(model, request, settings))
        return await run(self._thread, _answer_alone, model, request)

    async def close(self) -> None:
        """End the threads after the current answer or token."""
        self.generation.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _answer_alone(model: LocalModel, request: Request) -> Reply:
    # Hide the sampling parameters from a model that does not declare to read them, since its answer must not depend on them.
    reads = getattr(model, "reads_sampling", False)
    question = request if reads else Request(request.model, request.messages, lookup=request.lookup)
    try:
        text = model.answer(question)
    # Users may write models, so an unexpected error fails only this request.
    except Exception as error:
        raise _as_transport_error(error) from error
    return _reply(request, text)


def _reply(request: Request, text: str) -> Reply:
    return Reply(text, "stop", Usage(count_tokens(request.prompt), count_tokens(text)))


def _as_transport_error(error: BaseException) -> Exception:
    # KeyError and IndexError are LookupErrors, but they mean a mistake in the model, not a missing answer.
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
        return MissingAnswer(str(error.args[0]) if error.args else "no answer")
    return LocalModelError(": ".join(filter(None, (type(error).__name__, str(error)))))
