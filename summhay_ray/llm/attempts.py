"""The attempts of one granted call: each within a slot and its time, again after what passes, never after what does not.

Part of the llm room, for the room alone. What an error means stands in `retry`; how often it is tried again, here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from summhay_ray.llm.ledger_client import GrantedCall, LedgerClient
from summhay_ray.llm.messages import Claim, Held
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.pacing import UNASKED_PAUSE_S
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.llm.secrets import key_of, known_secrets, one_line
from summhay_ray.llm.transport import Transports

ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6}
"""Attempts of one call that may end so; any other end is the last."""

BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0


@dataclass
class Call:
    """A call under way. `wanted` until its caller is gone: what was sent by then is kept, nothing more is sent."""

    request: Request
    settings: ModelSettings
    claim: Claim
    wanted: bool = True
    sending: bool = False
    """An attempt is under way."""
    announced: bool = False
    """Its intent is in the log, or needs none: from then on it may have been sent, and paid."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How the attempts of one call ended: a reply, or the decision on the last error."""

    reply: Reply | None
    decision: Decision | None
    message: str
    number: int


class Attempts:
    """One worker's."""

    def __init__(self, client: LedgerClient, transports: Transports) -> None:
        self._client = client
        self._transports = transports
        self.in_flight = 0
        """Attempts under way at this moment."""

    async def of(self, call: Call, leave: GrantedCall, keep: Callable[[Reply, int], Awaitable[None]]) -> Attempt:
        """Attempt a granted call until it is answered or given up.

        `keep` makes a reply durable. The slot is held until then: after a kill, no more calls are repeated than there are slots.
        """
        ends: Counter[str] = Counter()
        pause_s = 0.0
        held = leave

        async def once() -> Attempt:
            nonlocal pause_s, held
            number = ends.total() + 1
            if number > 1:
                held = await self._leave(call, held, "retry")
            attempt = await self._in_turn(call, held, number, keep)
            decision = attempt.decision
            pause_s = 0.0
            if decision is not None:
                ends[decision.kind] += 1
                pause_s = self._pause(call, decision)
            return attempt

        first = await once()
        if first.decision is None or _is_last(first.decision, ends):
            return first
        backoff = wait_random_exponential(multiplier=BACKOFF_S, max=LONGEST_BACKOFF_S)
        given = [first]
        retrying = AsyncRetrying(
            retry=retry_if_result(lambda attempt: attempt.decision is not None),
            stop=_stopping(ends),
            # A pause that the provider asked for, or a full bucket, is kept by the ledger, for all calls of the model.
            wait=lambda state: 0.0 if pause_s else backoff(state),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )

        async def next_one() -> Attempt:
            return given.pop() if given else await once()

        ended: Attempt = await retrying(next_one)
        return ended

    def _pause(self, call: Call, decision: Decision) -> float:
        """Tell of a 429, and of any pause that the provider asked for; gives how long nothing is to be sent."""
        unasked = 0.0
        if decision.kind == "rate_limit":
            self._client.limited(call.claim.model, unasked=decision.after_s is None)
            unasked = UNASKED_PAUSE_S
        pause_s = unasked if decision.after_s is None else decision.after_s
        if pause_s:
            self._client.pause(call.claim.model, pause_s)
        return pause_s

    async def _leave(self, call: Call, leave: GrantedCall, held: Held) -> GrantedCall:
        """GrantedCall to send a call that is granted already: another attempt, or one whose time has passed."""
        return await self._client.claim(replace(call.claim, ticket=leave.ticket, held=held))

    async def _in_turn(
        self, call: Call, leave: GrantedCall, number: int, keep: Callable[[Reply, int], Awaitable[None]]
    ) -> Attempt:
        """One attempt, within a slot, in its time; or why there is none."""
        paid = call.claim.worst_micros > 0
        loop = asyncio.get_running_loop()
        while True:
            if leave.grant.state != "go":
                return self._broken_off(call, leave, number - 1)
            if leave.at > loop.time():
                await asyncio.sleep(leave.at - loop.time())
            async with self._client.slot(call.claim.model):
                if not call.wanted:
                    return Attempt(None, Decision("lost", "unwanted"), "the caller has gone", number - 1)
                hindrance = self._client.hindrance(leave, call.claim.model, paid=paid)
                if not hindrance:
                    self.in_flight += 1
                    call.sending = True
                    try:
                        attempt = await self._attempt(call, number)
                        if attempt.reply is not None:
                            await keep(attempt.reply, number)
                        return attempt
                    finally:
                        self.in_flight -= 1
                        call.sending = False
            if hindrance in ("stopped", "lost"):
                return self._broken_off(call, leave, number - 1)
            if hindrance == "stale":
                await self._client.news()
            elif hindrance == "late":
                leave = await self._leave(call, leave, "late")

    def _broken_off(self, call: Call, leave: GrantedCall, attempts: int) -> Attempt:
        """The model was given up, or the call is another worker's by now."""
        stopped = self._client.stopped.get(call.claim.model)
        if leave.grant.state == "stopped":
            stopped = leave.grant.error, leave.grant.reason
        if stopped is not None:
            return Attempt(None, Decision("model", stopped[0]), stopped[1], attempts)
        return Attempt(None, Decision("lost", "claim_lost"), "another worker has taken the call over", attempts)

    async def _attempt(self, call: Call, number: int) -> Attempt:
        settings = call.settings
        # A transport's timeout is for one read: a server that sends a byte now and then would never end.
        limit = contextlib.nullcontext() if settings.local else asyncio.timeout(settings.timeout_s)
        try:
            key = None if settings.local else key_of(settings.api_key_env, settings.model, settings.api_base)
            async with limit:
                reply = await self._transports.of(settings, call.request).send(call.request, settings, key)
        # The border of one attempt: each SDK behind a transport raises errors of its own, and each must become a decision.
        except Exception as error:  # noqa: BLE001
            return Attempt(None, decide(error), one_line(error, known_secrets(settings.api_key_env)), number)
        return Attempt(reply, None, "", number)


def _is_last(decision: Decision, ends: Counter[str]) -> bool:
    return ends[decision.kind] >= ATTEMPTS.get(decision.kind, 0)


def _stopping(ends: Counter[str]) -> Callable[[RetryCallState], bool]:
    def is_last(state: RetryCallState) -> bool:
        if state.outcome is None or state.outcome.failed:
            return True
        attempt: Attempt = state.outcome.result()
        return attempt.decision is None or _is_last(attempt.decision, ends)

    return is_last
