"""A worker that asks again what it has just had reads nothing and claims nothing, and it counts as reused."""

from __future__ import annotations

from typing import Any

import pytest
from fake_provider import FakeProvider
from gateway_room import Room

from summhay_ray.llm import RawAnswer
from summhay_ray.llm.calls import gateway
from summhay_ray.llm.calls.recent_answers import ENTRY, RecentAnswers
from summhay_ray.outcome import Answer


def raw(key: str, text: str = "") -> RawAnswer:
    return RawAnswer(key, "m", text, "stop", 1, 0, 1, 0, 1)


def test_what_was_just_answered_is_neither_claimed_nor_read_again(
    room: Room, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = room.one()

    def away(*_: Any) -> None:
        raise AssertionError("the log was read")

    monkeypatch.setattr(gateway, "read_at", away)
    assert room.one() == first and room.one(sample=1) != first
    room.run(room.gateway.close())
    assert room.ledger.counts == {"made": 2, "reused": 1} and len(provider.requests) == 2


def test_the_oldest_make_room_and_one_that_is_too_long_is_not_kept() -> None:
    recent = RecentAnswers(letters=2 * ENTRY + 10)
    for one in (raw("a", "1234"), raw("b", "1234"), raw("c", "1" * (ENTRY + 11)), raw("d", "1234")):
        recent.put(Answer(one), one)
    assert [key for key in "abcd" if recent.get(key)] == ["b", "d"]
