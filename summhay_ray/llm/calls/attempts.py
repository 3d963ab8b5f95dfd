"""The attempts of one granted call: each waits for its grant and its time, and temporary errors are retried.

Part of the llm room, for the room alone. `retry` says what an error means; this module says how often to try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from tenacity import AsyncRetrying, RetryCallState, TryAgain, retry_never, wait_random_exponential

from summhay_ray.llm.calls.reply import Reply
from summhay_ray.llm.calls.request import Request
from summhay_ray.llm.calls.retry import Decision, decide
from summhay_ray.llm.limits.ledger_client import GrantedCall, LedgerClient
from summhay_ray.llm.limits.messages import Claim, Reclaim
from summhay_ray.llm.providers.model_settings import ModelSettings
from summhay_ray.llm.providers.secrets import known_secrets, one_line
from summhay_ray.llm.transports.transport import Transports

log = logging.getLogger(__name__)

ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6}
"""Error kind -> how many attempts of one call may end with it. Any other kind ends the call at once."""

BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0


class Call:
    """A call under way, for a stage."""

    claim: Claim
    told: asyncio.Future[Any]
    """What its caller awaits, and cancels when it is gone: the attempt under way is then completed, and no other follows."""

    def __init__(self, request: Request, settings: ModelSettings, stage: str) -> None:
        self.request, self.settings, self.stage = request, settings, stage
        self.sending = False
        """An attempt is under way, or the last one has ended and is being written down."""
        self.sent = False
        """An attempt was begun: it may have been paid."""

    @property
    def wanted(self) -> bool:
        """Whether the caller still waits for the answer."""
        return not self.told.cancelled()


class Attempt(NamedTuple):
    """How an attempt ended: with a reply, or with the decision on its error. `number` counts the attempts so far."""

    reply: Reply | None
    decision: Decision | None
    message: str
    number: int


class Attempts:
    """Makes the attempts of one worker's calls."""

    def __init__(self, client: LedgerClient, transports: Transports) -> None:
        self._client = client
        self._transports = transports

    async def of(self, call: Call, granted: GrantedCall) -> Attempt:
        """Attempt a granted call until it is answered or given up. Its slot is free when this returns."""
        attempt = await self._in_turn(call, granted, 1)
        return attempt if attempt.decision is None else await self._again(call, granted, attempt)

    async def _again(self, call: Call, granted: GrantedCall, attempt: Attempt) -> Attempt:
        """Attempt a call again after its first attempt has failed, as often as `ATTEMPTS` allows."""
        ends, paused = Counter[str](), False
        backoff = wait_random_exponential(multiplier=BACKOFF_S, max=LONGEST_BACKOFF_S)

        def wait(state: RetryCallState) -> float:
            # The ledger keeps a pause for all calls of the model, so that no backoff is needed then.
            return 0.0 if paused else backoff(state)

        async for trial in AsyncRetrying(retry=retry_never, wait=wait):
            with trial:
                if ends:
                    granted = await self._claim_again(call, granted, "retry")
                    attempt = await self._in_turn(call, granted, ends.total() + 1)
                decision = attempt.decision
                if decision is None:
                    return attempt
                ends[decision.kind] += 1
                paused = self._pause(call, decision)
                if ends[decision.kind] >= ATTEMPTS.get(decision.kind, 0):
                    return attempt
                call.sending = False
                log.info("%s: call %.12s is tried again after %s", call.claim.model, call.claim.key, decision.error)
                raise TryAgain
        return attempt

    def _pause(self, call: Call, decision: Decision) -> bool:
        """Report a 429, and the pause after it or that the provider asked for. Returns whether there is one."""
        limited = decision.kind == "rate_limit"
        if limited:
            self._client.limited(call.claim.model)
        paused = bool(decision.after_s) or limited and decision.after_s is None
        if paused:
            self._client.pause(call.claim.model, decision.after_s)
        return paused

    async def _claim_again(self, call: Call, granted: GrantedCall, reclaim: Reclaim) -> GrantedCall:
        """Claim a call that is granted already, for another attempt or because its time has passed."""
        return await self._client.claim(call.claim._replace(ticket=granted.ticket, reclaim=reclaim))

    async def _in_turn(self, call: Call, granted: GrantedCall, number: int) -> Attempt:
        """Make one attempt, at its time; else return why none was made."""
        paid = call.claim.worst_micros > 0
        loop = asyncio.get_running_loop()
        while granted.grant.state == "go":
            if granted.at > loop.time():
                await asyncio.sleep(granted.at - loop.time())
            if not call.wanted:
                return Attempt(None, Decision("lost", "unwanted"), "the caller has gone", number - 1)
            hindrance = self._client.hindrance(granted, call.claim.model, paid=paid)
            if not hindrance:
                call.sending = call.sent = True
                attempt = await self._attempt(call, number)
                self._client.ended(call.claim.key)
                return attempt
            if hindrance in ("stopped", "lost"):
                break
            if hindrance == "late":
                granted = await self._claim_again(call, granted, "late")
        return self._broken_off(call, granted, number - 1)

    def _broken_off(self, call: Call, granted: GrantedCall, attempts: int) -> Attempt:
        """The end of a call whose model was given up, or that another worker has taken over."""
        stopped = self._client.stopped.get(call.claim.model)
        if granted.grant.state == "stopped":
            stopped = granted.grant.error, granted.grant.reason
        if stopped is not None:
            return Attempt(None, Decision("model", stopped[0]), stopped[1], attempts)
        return Attempt(None, Decision("lost", "claim_lost"), "another worker has taken the call over", attempts)

    async def _attempt(self, call: Call, number: int) -> Attempt:
        settings = call.settings
        # A transport's own timeout may apply to each read: a server that sends a byte now and then would never end.
        limit = contextlib.nullcontext() if settings.local else asyncio.timeout(settings.timeout_s)
        try:
            async with limit:
                reply = await self._transports.of(settings, call.request.task).send(call.request, settings)
        # Each SDK behind a transport raises errors of its own, and each must become a decision.
        except Exception as error:  # noqa: BLE001
            return Attempt(None, decide(error), one_line(error, known_secrets(settings.api_key_env)), number)
        return Attempt(reply, None, "", number)
