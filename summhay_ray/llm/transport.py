"""What carries one HTTP attempt: the contract, and which model uses which. Part of the llm room, for the room alone.

A transport makes exactly one attempt, and raises where there is no answer. Retries, limits, budget and
prices are not its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from summhay_ray.llm.local import LocalModel
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.providers import provider_of
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request


class Transport(Protocol):
    """One way to reach models."""

    async def send(self, request: Request, settings: ModelSettings, key: str | None) -> Reply:
        """One attempt. `key` is the provider's key, None where none is known. Raises whatever says why there is no answer."""
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


_RERANKED_OTHERWISE = frozenset(
    ("azure_ai", "bedrock", "huggingface", "infinity", "jina_ai", "together_ai", "vertex_ai", "voyage")
)
"""Providers whose reranking has a form or a login of its own: litellm speaks it."""


class Transports:
    """One of each kind, made when it is first needed: importing what they stand on takes seconds. `local`: as for a gateway."""

    def __init__(self, local: Mapping[str, LocalModel] | None = None) -> None:
        self._local = local or {}
        self._made: dict[str, Transport] = {}

    def of(self, settings: ModelSettings, request: Request) -> Transport:
        """The transport of a model, for what it is asked: reranking in Cohere's form is spoken by us."""
        kind = settings.transport
        if request.task == "rerank" and provider_of(settings.model) not in _RERANKED_OTHERWISE:
            kind = "direct"
        if kind not in self._made:
            self._made[kind] = self._make(kind)
        return self._made[kind]

    def _make(self, kind: str) -> Transport:
        if kind == "direct":
            from summhay_ray.llm.direct import DirectTransport

            return DirectTransport()
        if kind == "local":
            from summhay_ray.llm.local_transport import LocalTransport

            return LocalTransport(self._local)

        from summhay_ray.llm.via_litellm import LitellmTransport

        return LitellmTransport()

    async def close(self) -> None:
        """Give all connections back."""
        for transport in self._made.values():
            await transport.close()
        self._made.clear()
