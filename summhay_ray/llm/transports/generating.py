"""The thread that generates the answers of models in this process, in batches, until the run stops. Part of the llm room, for the
room alone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass, field

from summhay_ray.llm.messages.request import Request
from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.transports.local_model import GeneratingModel, Generation

LINGER_S = 0.05
"""The first calls of items that begin together arrive within this time."""
COUNT_EVERY_S = 0.5

TOKENS, UNDER_WAY = "generated_tokens", "answers_under_way"
"""Counters of a run: the tokens that its models here have generated; and the answers of which a part is generated, as the sum of
these parts in thousandths."""


class GenerationStopped(Exception):
    """The run stops before the answer is complete. A later start asks again."""


class GenerationTimeout(Exception):
    """The answer is not complete after the model's `timeout_s`."""


@dataclass(frozen=True, eq=False)
class _Call:
    model: GeneratingModel
    request: Request
    settings: ModelSettings
    text: Future[str] = field(default_factory=Future)

    def end(self, text: str = "", error: Exception | None = None) -> None:
        """Set the answer or the error, unless there is one."""
        with contextlib.suppress(InvalidStateError):
            if error is None:
                self.text.set_result(text)
            else:
                self.text.set_exception(error)


class GenerationThread:
    """Answers calls in one thread. `count` adds to the run's counters, on the event loop; `named` turns what a model raises into
    the transport's errors."""

    def __init__(self, count: Callable[[Mapping[str, int]], None], named: Callable[[BaseException], Exception]) -> None:
        self._count, self._named = count, named
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="generation")
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._working = False
        self._open: set[_Call] = set()
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._counted_at, self._tokens, self._under_way = 0.0, 0, 0

    async def answer(self, model: GeneratingModel, request: Request, settings: ModelSettings) -> str:
        """The model's whole answer. Raises GenerationStopped, GenerationTimeout, and what `named` makes of the model's errors."""
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
        """Generate no more than the tokens under way, and end all calls whose answer is not complete."""
        self._stopped.set()
        for call in self._open:
            call.end(error=GenerationStopped())

    def close(self) -> None:
        """Stop, and end the thread."""
        self.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        model: GeneratingModel | None = None
        while calls := self._next(model):
            model = calls[0].model
            self._generate(model, calls)

    def _next(self, model: GeneratingModel | None) -> list[_Call]:
        """The batch of the call that has waited longest; as long as any call asks `model`, which is loaded, of those."""
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
                # While a model is loaded, most calls of the first batch come.
                if alike == seen:
                    batch = [alike[place] for place in next(places for places in batches if 0 in places)]
                    self._waiting = [call for call in self._waiting if call not in batch]
                    return batch
            seen, model = alike, first.model
            try:
                batches = first.model.batches([call.request for call in alike], first.settings.limits.concurrency)
            # As in `_generate`.
            except BaseException as error:  # noqa: BLE001
                _end(alike, self._named(error))
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
        # A library may raise anything, such as a panic of native code; without an end the calls would wait for ever.
        except BaseException as problem:  # noqa: BLE001
            error = self._named(problem)
        _end([*left.values()], error)
        self._note(0, 0)

    def _note(self, tokens: int, under_way: int) -> None:
        """Count tokens, and tell the loop now and then."""
        self._tokens += tokens
        now = time.monotonic()
        if self._loop is None or (under_way and now < self._counted_at + COUNT_EVERY_S):
            return
        numbers = {TOKENS: self._tokens, UNDER_WAY: under_way - self._under_way}
        self._counted_at, self._tokens, self._under_way = now, 0, under_way
        # The loop may have ended.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._count, numbers)


def _end(calls: Sequence[_Call], error: Exception) -> None:
    for call in calls:
        call.end(error=error)
