"""The transport of models that run in this process: `offline/...` and `replay/...`. Part of the llm room, for the room alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from summhay_ray.llm.calls.reply import Reply, Usage
from summhay_ray.llm.calls.request import Request
from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.transports.local_model import LocalModel
from summhay_ray.routes import Wire
from summhay_ray.text import count_tokens


class MissingAnswer(Exception):
    """A local model has no answer to this request."""


class UnknownLocalModel(Exception):
    """No local model has this name."""


class LocalModelError(Exception):
    """A local model raised an error of its own."""


class LocalTransport:
    """Answers in one thread, in the order of the requests. `models` are by full name, or by `provider/` for a family."""

    def __init__(self, models: Mapping[str, LocalModel]) -> None:
        self._models = models
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-models")

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """The model's answer, with our own counts of its tokens. Raises MissingAnswer, UnknownLocalModel, LocalModelError."""
        model = self._models.get(request.model) or self._models.get(f"{request.model.partition('/')[0]}/")
        if model is None:
            raise UnknownLocalModel(f"no local model is named {request.model!r}")
        wire.sent = True
        return await asyncio.get_running_loop().run_in_executor(self._thread, _answered, model, request)

    async def close(self) -> None:
        """End the thread after its current answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _answered(model: LocalModel, request: Request) -> Reply:
    # A model that does not read the sampling parameters must not see them: its answer may not depend on them.
    reads = getattr(model, "reads_sampling", False)
    asked = request if reads else Request(request.model, request.messages, lookup=request.lookup)
    try:
        text = model.answer(asked)
    # Anybody may have written the model: an error of its own fails the row only. KeyError and IndexError are LookupErrors, but
    # mean a mistake in the model, not a missing answer.
    except Exception as error:
        if isinstance(error, LookupError) and not isinstance(error, KeyError | IndexError):
            raise MissingAnswer(str(error.args[0]) if error.args else "no answer") from error
        raise LocalModelError(": ".join(filter(None, (type(error).__name__, str(error))))) from error
    return Reply(text, "stop", Usage(count_tokens(request.prompt), count_tokens(text)))
