"""What carries one HTTP attempt: the contract, and which model uses which. Part of the llm room, for the room alone.

A transport makes exactly one attempt, and raises where there is no answer. Retries, limits, budget and
prices are not its business.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Protocol

from summhay_ray.llm.models import ModelSettings
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


def _direct() -> Transport:
    from summhay_ray.llm.direct import DirectTransport

    return DirectTransport()


def _litellm() -> Transport:
    from summhay_ray.llm.via_litellm import LitellmTransport

    return LitellmTransport()


MAKERS: Mapping[str, Callable[[], Transport]] = {"direct": _direct, "litellm": _litellm, "local": _litellm}
"""Local models are registered with litellm, so that a run without a key takes the path of a paid one."""


def spare_collector() -> None:
    """Keep the garbage collector off what is there now: imports live as long as the process.

    Walking litellm's million objects again and again costs a fifth of its speed.
    """
    gc.collect()
    gc.freeze()


class Transports:
    """One of each kind, made when it is first needed: importing what they stand on takes seconds."""

    def __init__(self) -> None:
        self._made: dict[Callable[[], Transport], Transport] = {}

    def of(self, settings: ModelSettings) -> Transport:
        """The transport of a model."""
        maker = MAKERS[settings.transport]
        if maker not in self._made:
            self._made[maker] = maker()
            spare_collector()
        return self._made[maker]

    async def close(self) -> None:
        """Give all connections back."""
        for transport in self._made.values():
            await transport.close()
        self._made.clear()
