"""Fixtures of the tests over real HTTP: one provider, one loop, one import of litellm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_provider import FakeProvider, fake_provider
from gateway_room import KEY, KEY_ENV, Room, cancel_all, close_all, settings_of

from summhay_ray.llm import gateway


@pytest.fixture(scope="session")
def _served(litellm: Any) -> Iterator[FakeProvider]:
    with fake_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    # litellm leaves a task in every loop.
    cancel_all(loop)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def provider(_served: FakeProvider) -> FakeProvider:
    _served.clear()
    return _served


@pytest.fixture
def transport() -> str:
    """The transport of the room's model; a module may run its tests with both transports."""
    return "direct"


@pytest.fixture
def make_room(
    provider: FakeProvider, loop: asyncio.AbstractEventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> Iterator[Callable[..., Room]]:
    """`make_room(budget_micros=..., timeout_s=..., ...)`: a room whose only model is the fake provider's."""
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setattr(gateway, "BACKOFF_S", 0.01)

    def make(budget_micros: int | None = None, **changes: Any) -> Room:
        settings = settings_of(provider.base, **{"transport": transport, **changes})
        return Room(tmp_path / "store", [settings], loop, budget_micros)

    yield make
    close_all(loop)


@pytest.fixture
def room(make_room: Callable[..., Room]) -> Room:
    return make_room()
