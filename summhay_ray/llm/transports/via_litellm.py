"""The transport through litellm, one attempt per call."""

from __future__ import annotations

import functools
import os
from typing import Any

from summhay_ray.llm.messages.reply import Reply
from summhay_ray.llm.messages.request import Request
from summhay_ray.llm.messages.sampling import REVISION, bounded
from summhay_ray.llm.providers.gate import key_for_litellm
from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.transports.bodies import answer_limit, reply_in
from summhay_ray.llm.transports.outgoing import Clients, Outgoing, watch_clients, watching
from summhay_ray.routes import Wire


@functools.cache
def load_litellm() -> Any:
    """The litellm module with its network look-ups and prints switched off. The first import takes seconds."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOG", "ERROR")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    _disable_accounting()
    watch_clients()
    return litellm


def _disable_accounting() -> None:
    """Disable litellm's pricing and logging of each call: they take a fifth of its time, and we have our own."""
    from litellm.litellm_core_utils.litellm_logging import Logging

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    for name, instead in (("response_cost_calculator", lambda *_, **__: None), ("async_success_handler", nothing)):
        # Other versions may lack these methods and are then just slower.
        if hasattr(Logging, name):
            setattr(Logging, name, instead)


class LitellmTransport:
    """Sends requests to any provider that litellm supports."""

    def __init__(self) -> None:
        self._litellm = load_litellm()
        self._clients = Clients()

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """Make one call through litellm.

        Raises NoKey, NoRoute, ProviderError, UnreadableAnswer, AnswerTooLarge, httpx's errors, UnicodeEncodeError;
        none of litellm's own errors.
        """
        request.prompt.encode()
        key = key_for_litellm(settings)
        with watching(Outgoing(settings, answer_limit(request, settings), request.task, wire, self._clients)):
            response = await self._call(request, settings, key)
        return reply_in(response.model_dump(mode="json", warnings=False), request)

    async def _call(self, request: Request, settings: ModelSettings, key: str | None) -> Any:
        how = {
            "model": request.model,
            "api_base": settings.api_base,
            "api_key": key,
            "timeout": settings.timeout_s,
            "max_retries": 0,
        }
        sampling = {name: value for name, value in request.sampling.items() if name != REVISION}
        if request.task == "embed":
            return await self._litellm.aembedding(**how, input=list(request.inputs), **sampling)
        if request.task == "rerank":
            query, *documents = request.inputs
            return await self._litellm.arerank(**how, query=query, documents=documents, top_n=len(documents), **sampling)
        return await self._litellm.acompletion(**how, **request.asked, **bounded(request.sampling))

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()
