"""The transport of models in this process: `offline/...`, `replay/...`, `transformers/...`. Part of the llm room, for the room
alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from summhay_ray.llm.messages.reply import Reply, Usage
from summhay_ray.llm.messages.request import Request
from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.transports.generating import GenerationThread
from summhay_ray.llm.transports.local_model import GeneratingModel, LocalModel
from summhay_ray.routes import Wire
from summhay_ray.text import count_tokens


class MissingAnswer(Exception):
    """A local model has no answer to this request."""


class UnknownLocalModel(Exception):
    """No local model has this name."""


class LocalModelError(Exception):
    """A local model raised an error of its own."""


class LocalTransport:
    """Answers in the order of the requests, in one thread; models that generate have another one, and take several at a time.

    `models` are by full name, or by `provider/` for a family. `count` adds to the run's counters.
    """

    def __init__(self, models: Mapping[str, LocalModel], count: Callable[[Mapping[str, int]], None] = lambda _: None) -> None:
        self._models = models
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-models")
        self._generation = GenerationThread(count, _named)

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """The model's answer, with our own counts of its tokens.

        Raises MissingAnswer, UnknownLocalModel, LocalModelError; of a model that generates also GenerationStopped,
        GenerationTimeout.
        """
        model = self._models.get(request.model) or self._models.get(f"{request.model.partition('/')[0]}/")
        if model is None:
            raise UnknownLocalModel(f"no local model is named {request.model!r}")
        wire.sent = True
        run = asyncio.get_running_loop().run_in_executor
        if isinstance(model, GeneratingModel):
            return await run(self._thread, _reply, request, await self._generation.answer(model, request, settings))
        return await run(self._thread, _answered, model, request)

    def stop(self) -> None:
        """Stop what would take long: answers that a model has not generated completely."""
        self._generation.stop()

    async def close(self) -> None:
        """End the threads after the current answer and token."""
        self._generation.close()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _answered(model: LocalModel, request: Request) -> Reply:
    # A model that does not read the sampling parameters must not see them: its answer may not depend on them.
    reads = getattr(model, "reads_sampling", False)
    asked = request if reads else Request(request.model, request.messages, lookup=request.lookup)
    try:
        text = model.answer(asked)
    # Anybody may have written the model: an error of its own fails the row only.
    except Exception as error:
        raise _named(error) from error
    return _reply(request, text)


def _reply(request: Request, text: str) -> Reply:
    return Reply(text, "stop", Usage(count_tokens(request.prompt), count_tokens(text)))


def _named(error: BaseException) -> Exception:
    # KeyError and IndexError are LookupErrors, but mean a mistake in the model, not a missing answer.
    if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
        return MissingAnswer(str(error.args[0]) if error.args else "no answer")
    return LocalModelError(": ".join(filter(None, (type(error).__name__, str(error)))))
