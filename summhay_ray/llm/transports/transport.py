"""The choice of a transport for each model.

A transport makes exactly one attempt, and raises if there is no answer. It does not handle retries, limits, budgets and prices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from summhay_ray.llm.messages.request import Task
from summhay_ray.llm.providers.model_settings import ModelSettings, transport_of
from summhay_ray.llm.transports.local_model import LocalModel, LocalTransport

if TYPE_CHECKING:
    from summhay_ray.llm.transports.direct import DirectTransport
    from summhay_ray.llm.transports.via_litellm import LitellmTransport

Transport: TypeAlias = "DirectTransport | LitellmTransport | LocalTransport"
"""One way to reach models. `send(request, settings, wire)` makes one attempt, with the key from `gate` and the proxy from
`routes` for the URL. Any exception explains why there is no answer, and `wire` records the progress of the request. `close()`
closes all connections."""


class Transports:
    """One transport of each needed kind, since importing their libraries takes seconds. `local`, `count`: as in `Gateway`."""

    def __init__(
        self, local: Mapping[str, LocalModel] | None = None, count: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        self.local = LocalTransport(local or {}, count)
        self._made: dict[str, Transport] = {}

    def of(self, settings: ModelSettings, task: Task) -> Transport:
        """The transport for a task of a model."""
        kind = transport_of(settings.model, task, settings.api_base, settings.transport)
        if kind not in self._made:
            if kind == "direct":
                from summhay_ray.llm.transports.direct import DirectTransport

                self._made[kind] = DirectTransport()
            elif kind == "local":
                self._made[kind] = self.local
            else:
                from summhay_ray.llm.transports.via_litellm import LitellmTransport

                self._made[kind] = LitellmTransport()
        return self._made[kind]

    async def close(self) -> None:
        """Close all transports."""
        for transport in self._made.values():
            await transport.close()
        self._made.clear()
