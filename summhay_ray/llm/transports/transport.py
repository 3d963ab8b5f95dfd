"""The contract of a transport, and the choice of one for each model. Part of the llm room, for the room alone.

A transport makes exactly one attempt, and raises if there is no answer. It knows nothing of retries, limits, budgets and prices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from summhay_ray.llm.messages.reply import Reply
from summhay_ray.llm.messages.request import Request, Task
from summhay_ray.llm.providers.model_settings import ModelSettings, transport_of
from summhay_ray.llm.transports.local_model import LocalModel
from summhay_ray.llm.transports.local_transport import LocalTransport
from summhay_ray.routes import Wire


class Transport(Protocol):
    """One way to reach models."""

    async def send(self, request: Request, settings: ModelSettings, wire: Wire) -> Reply:
        """Make one attempt, with the key that `gate` gives for the URL, by the route that `routes` gives for it.

        Any exception says why there is no answer, and `wire` how far the request got.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class Transports:
    """One transport of each kind that is needed: importing their libraries takes seconds. `local`, `count`: as in `Gateway`."""

    def __init__(
        self, local: Mapping[str, LocalModel] | None = None, count: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        self._local = LocalTransport(local or {}, count)
        self._made: dict[str, Transport] = {}

    def of(self, settings: ModelSettings, task: Task) -> Transport:
        """The transport for a task of a model."""
        kind = transport_of(settings.model, task, settings.api_base, settings.transport)
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return self._made[kind]

    def _make(self, kind: str) -> Transport:
        if kind == "direct":
            from summhay_ray.llm.transports.direct import DirectTransport

            return DirectTransport()
        if kind == "local":
            return self._local

        from summhay_ray.llm.transports.via_litellm import LitellmTransport

        return LitellmTransport()

    def stop(self) -> None:
        """Stop what models in this process generate, and generate no more."""
        self._local.stop()

    async def close(self) -> None:
        """Close all transports."""
        for transport in self._made.values():
            await transport.close()
        self._made.clear()
