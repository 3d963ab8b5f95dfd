"""A worker that is about to end: it sends nothing more, gives back its grants, and its claims wait forever."""

from __future__ import annotations

import asyncio

import pytest
from test_llm_ledger_client import Port, claim, play

from summhay_ray.llm.ledger_messages import Settlement
from summhay_ray.llm.ledger_service import LedgerClient

pytestmark = pytest.mark.core


def test_what_is_granted_and_not_sent_may_not_be_sent_any_more() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        leave = await clerk.claim(claim("a"))
        assert clerk.may_send(leave, "m", paid=True)
        clerk.drain()
        assert not clerk.may_send(leave, "m", paid=True) and not clerk.may_send(leave, "m", paid=False)

    play(scene)


def test_whoever_claims_waits_and_the_ledger_hears_nothing_of_it() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        await clerk.claim(claim("a"))
        clerk.drain()
        late = [asyncio.ensure_future(clerk.claim(claim("b"))) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in late) and [one.key for one in port.said("claims")] == ["a"]
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    play(scene)


def test_settlements_are_delivered_before_the_end() -> None:
    async def scene(port: Port, clerk: LedgerClient) -> None:
        await clerk.claim(claim("a"))
        clerk.drain()
        clerk.settle(Settlement("a", "m", 0, sent=False))
        await clerk.close()
        assert [(one.key, one.sent) for one in port.said("settlements")] == [("a", False)]

    play(scene)
