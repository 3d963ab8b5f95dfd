"""One call to a model, from its key to its outcome. Part of the llm room; the only place where litellm is called.

key -> claim at the ledger (the log's answer, or leave to send) -> intent on disk, where the call costs money -> HTTP attempts
-> answer on disk -> settled -> outcome. Retries, limits, budget and prices are ours; litellm is transport: one attempt a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from summhay_ray.llm.answers import answer_of, read_answer
from summhay_ray.llm.batching import Batched
from summhay_ray.llm.ledger import Claim, Grant, Settlement
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.request import Request
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.llm.sampling import beside, bounded, longest_answer, unusable
from summhay_ray.llm.secrets import known_secrets, one_line, told_secrets
from summhay_ray.llm.tokens import count
from summhay_ray.llm.transport import load_litellm
from summhay_ray.outcome import Failed, Outcome, Refusal
from summhay_ray.records import RawAnswer
from summhay_ray.store import LocalFiles, Location, LogWriter, read_at

ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6}
"""Attempts of one call that may end so; any other end is the last."""

MENDABLE = {"bad_request", "context_window", "request_too_large"}
"""Errors of one row that a person may mend (an endpoint, a window): a later run tries them again, and nothing was paid."""

AMBIGUOUS_ROUNDS = 2
BUSY_POLL_S = 0.05
BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
LONGEST_UNASKED_PAUSE_S = 60.0


class LedgerPort(Protocol):
    """The ledger as a worker reaches it."""

    async def claim(self, claims: list[Claim]) -> Sequence[Grant]: ...

    async def settle(self, settlements: list[Settlement]) -> Sequence[None]: ...

    async def again(self, claim: Claim, pause_s: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """How the attempts of one call ended: a response, or the decision on the last error."""

    response: Any
    decision: Decision | None
    message: str
    number: int


@dataclass
class _Call:
    """A call under way. `wanted` until its caller is gone: what was sent by then is kept, nothing more is sent."""

    request: Request
    settings: ModelSettings
    claim: Claim
    wanted: bool = True


_UNWANTED = Grant("stopped", reason="the caller has gone")


class Gateway:
    """A worker's way to the models. `models` holds the settings of every model that may be asked."""

    def __init__(
        self, models: Mapping[str, ModelSettings], ledger: LedgerPort, files: LocalFiles, log: LogWriter, run: str
    ) -> None:
        self._models = models
        self._ledger = ledger
        self._files = files
        self._log = log
        self._writer = log.writer
        self._run = run
        self._slots = {name: asyncio.Semaphore(settings.limits.concurrency) for name, settings in models.items()}
        self._claim = Batched(ledger.claim)
        self._settle = Batched(ledger.settle)
        self._append: Batched[Mapping[str, Any], Location] = Batched(self._append_all)

    async def _append_all(self, records: list[Mapping[str, Any]]) -> list[Location]:
        return await asyncio.to_thread(self._log.append, records)

    async def complete(self, request: Request) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        """The outcome, and the raw answer where the model gave one, usable or not.

        A caller that is cancelled does not break the call off: an answer that is on its way is paid, and so it is kept.
        """
        settings = self._models[request.model]
        problem = unusable(request.sampling)
        if problem:
            return Failed("unusable_sampling", problem), None
        max_tokens = longest_answer(request.sampling)
        # Counting costs; for a free model without a window nothing depends on it.
        prompt_tokens = 0 if settings.local and settings.context_window is None else count(request.prompt)
        if not settings.local:
            prompt_tokens += count(beside(request.sampling))
        if settings.context_window is not None and prompt_tokens + max_tokens > settings.context_window:
            message = window_message(settings, prompt_tokens, max_tokens)
            # Another window may be written, and trying again costs no call.
            return Failed("context_window", message, retryable=True), None
        worst_micros = settings.worst_micros(prompt_tokens, max_tokens)
        claim = Claim(request.key, request.model, worst_micros, prompt_tokens, max_tokens, self._writer)
        call = _Call(request, settings, claim)
        try:
            return await asyncio.shield(self._complete(call))
        finally:
            call.wanted = False

    async def _complete(self, call: _Call) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        attempts = charged = 0
        async with self._slots[call.request.model]:
            for _ in range(AMBIGUOUS_ROUNDS):
                grant = await self._granted(call)
                if grant.state != "go":
                    return self._not_sent(grant, call)
                try:
                    outcome, raw, again = await self._send(call)
                except BaseException:
                    # The disk is full, or the loop ends: nobody may wait for this call, and it may have been paid.
                    await self._settle(Settlement(call.claim.key, call.claim.model, call.claim.worst_micros))
                    raise
                attempts += outcome.attempts
                charged += outcome.usd_micros
                if not again:
                    break
        return (replace(outcome, attempts=attempts, usd_micros=charged) if isinstance(outcome, Failed) else outcome), raw

    def _not_sent(self, grant: Grant, call: _Call) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        if grant.location is not None:
            return read_answer(read_at(self._files, grant.location))
        if grant.state == "budget":
            message = "the call's worst case does not fit into what is left of the budget"
            return Failed("budget", message, retryable=True), None
        return Failed("model_stopped", grant.reason, call.claim.key, retryable=True), None

    async def _granted(self, call: _Call, held_for_s: float | None = None) -> Grant:
        """Leave to send now, or why not. `held_for_s`: the call is in flight already, and waits so long before it asks."""
        held, wait_s = held_for_s is not None, held_for_s or 0.0
        while True:
            if wait_s:
                await asyncio.sleep(wait_s)
            if not call.wanted:
                if held:
                    await self._settle(Settlement(call.claim.key, call.claim.model, 0))
                return _UNWANTED
            grant: Grant = await self._claim(replace(call.claim, held=held))
            held, wait_s = grant.state == "go", BUSY_POLL_S if grant.state == "busy" else grant.wait_s
            if not wait_s:
                return grant

    async def _send(self, call: _Call) -> tuple[Outcome[RawAnswer], RawAnswer | None, bool]:
        claim = call.claim
        known = {"call": uuid.uuid4().hex, "run": self._run, "key": claim.key, "model": claim.model}
        if claim.worst_micros:
            await self._append({"kind": "intent", **known, "usd_micros": claim.worst_micros})
        attempt = await self._attempts(call)
        if attempt.decision is None:
            answer = answer_of(attempt.response, call.settings, claim, told_secrets(call.settings.api_key_env))
            record = {"kind": "answer", **known, "attempts": attempt.number, **answer}
            location = await self._append(record)
            await self._settle(Settlement(claim.key, claim.model, record["usd_micros"], location))
            return *read_answer(record), False
        decision = attempt.decision
        charged = claim.worst_micros if decision.kind == "ambiguous" else 0
        if claim.worst_micros:
            await self._append({"kind": "void", **known, "usd_micros": charged})
        stop = f"{decision.error}: {attempt.message}" if decision.kind == "model" else ""
        await self._settle(Settlement(claim.key, claim.model, charged, stop=stop))
        if decision.error == "content_filter":
            return Refusal("content_filter", attempt.message, claim.key, attempt.number, charged), None, False
        failed = Failed(
            decision.error,
            attempt.message,
            claim.key,
            attempt.number,
            charged,
            decision.kind != "row" or decision.error in MENDABLE,
        )
        return failed, None, decision.kind in ("ambiguous", "lost")

    async def _attempts(self, call: _Call) -> Attempt:
        ends: Counter[str] = Counter()
        pause_s = 0.0

        async def once() -> Attempt:
            nonlocal pause_s
            number = ends.total() + 1
            if number > 1:
                grant = await self._granted(call, await self._ledger.again(call.claim, pause_s))
                if grant.state != "go":
                    return _broken_off(grant, number - 1)
            attempt = await self._attempt(call, number)
            decision = attempt.decision
            pause_s = 0.0
            if decision is not None:
                ends[decision.kind] += 1
                unasked = min(2.0**number, LONGEST_UNASKED_PAUSE_S) if decision.kind == "rate_limit" else 0.0
                pause_s = unasked if decision.after_s is None else decision.after_s
            return attempt

        backoff = wait_random_exponential(multiplier=BACKOFF_S, max=LONGEST_BACKOFF_S)

        def is_last(state: RetryCallState) -> bool:
            decision = _decision(state)
            return decision is None or ends[decision.kind] >= ATTEMPTS.get(decision.kind, 0)

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda attempt: attempt.decision is not None),
            stop=is_last,
            # A pause that the provider asked for, or a full bucket, is kept by the ledger, for all calls of the model.
            wait=lambda state: 0.0 if pause_s else backoff(state),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        ended: Attempt = await retrying(once)
        return ended

    async def _attempt(self, call: _Call, number: int) -> Attempt:
        litellm = load_litellm()
        request, settings = call.request, call.settings
        arguments = bounded(request.sampling)
        if request.lookup:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), "lookup": request.lookup}
        secrets = known_secrets(settings.api_key_env)
        # A transport's timeout is for one read: a server that sends a byte now and then would never end.
        limit = contextlib.nullcontext() if settings.local else asyncio.timeout(settings.timeout_s)
        try:
            async with limit:
                response = await litellm.acompletion(
                    model=request.model,
                    messages=[{"role": "user", "content": request.prompt}],
                    api_base=settings.api_base,
                    api_key=os.environ.get(settings.api_key_env) if settings.api_key_env else None,
                    timeout=settings.timeout_s,
                    max_retries=0,
                    **arguments,
                )
        # The border of one attempt: each SDK behind litellm raises errors of its own, and each must become a decision.
        except Exception as error:  # noqa: BLE001
            decision = decide(error)
            if settings.local and decision.kind in ("transient", "ambiguous"):
                decision = Decision("row", "local_model_error")
            return Attempt(None, decision, one_line(error, secrets), number)
        return Attempt(response, None, "", number)


def window_message(settings: ModelSettings, prompt_tokens: int, max_tokens: int) -> str:
    """The failure's line: both lengths."""
    return (
        f"the prompt's {prompt_tokens} tokens and {max_tokens} for the answer exceed the context window of "
        f"{settings.context_window} tokens of {settings.model}"
    )


def _broken_off(grant: Grant, attempts: int) -> Attempt:
    """Another attempt was not allowed: the model was given up, or the call is another worker's by now."""
    if grant.state == "stopped" and grant is not _UNWANTED:
        return Attempt(None, Decision("model", "model_stopped"), grant.reason, attempts)
    return Attempt(None, Decision("lost", "claim_lost"), "another worker has taken the call over", attempts)


def _decision(state: RetryCallState) -> Decision | None:
    if state.outcome is None or state.outcome.failed:
        return None
    attempt: Attempt = state.outcome.result()
    return attempt.decision
