"""One call to a model, from its key to its outcome. Part of the llm room; the only place where litellm is called.

key -> claim at the ledger (the log's answer, or leave to send) -> intent on disk, where the call costs money -> HTTP attempts
-> answer on disk -> settled -> outcome. Retries, limits, budget and prices are ours; litellm is transport: one attempt a call.
"""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from summhay_ray.llm.batching import Batched
from summhay_ray.llm.ledger import Claim, Grant, Settlement
from summhay_ray.llm.models import ModelSettings
from summhay_ray.llm.request import Request
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.llm.tokens import count
from summhay_ray.llm.transport import load_litellm
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.records import RawAnswer
from summhay_ray.store import LocalFiles, Location, LogWriter, read_at

DEFAULT_MAX_TOKENS = 2000
ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6, "ambiguous": 1, "row": 1, "model": 1}
AMBIGUOUS_ROUNDS = 2
BUSY_POLL_S = 0.05
_KEY_LIKE = re.compile(r"\b(sk|key|AIza)[-_A-Za-z0-9]{12,}")


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


class Gateway:
    """A worker's way to the models. `models` holds the settings of every model that may be asked."""

    def __init__(
        self, models: Mapping[str, ModelSettings], ledger: LedgerPort, files: LocalFiles, log: LogWriter, run: str
    ) -> None:
        self._models = models
        self._ledger = ledger
        self._files = files
        self._log = log
        self._run = run
        self._slots = {name: asyncio.Semaphore(settings.limits.concurrency) for name, settings in models.items()}
        self._claim = Batched(ledger.claim)
        self._settle = Batched(ledger.settle)
        self._append: Batched[Mapping[str, Any], Location] = Batched(self._append_all)

    async def _append_all(self, records: list[Mapping[str, Any]]) -> list[Location]:
        return await asyncio.to_thread(self._log.append, records)

    async def complete(self, request: Request) -> tuple[Outcome[RawAnswer], RawAnswer | None]:
        """The outcome, and the raw answer where the model gave one, usable or not."""
        settings = self._models[request.model]
        max_tokens = int(request.sampling.get("max_tokens", DEFAULT_MAX_TOKENS))
        # Counting costs; for a free model without a window nothing depends on it.
        prompt_tokens = 0 if settings.local and settings.context_window is None else count(request.prompt)
        if settings.context_window is not None and prompt_tokens + max_tokens > settings.context_window:
            return Failed("context_window", window_message(settings, prompt_tokens, max_tokens)), None
        claim = Claim(request.key, request.model, settings.worst_micros(prompt_tokens, max_tokens), prompt_tokens, max_tokens)
        async with self._slots[request.model]:
            for _ in range(AMBIGUOUS_ROUNDS):
                grant = await self._granted(claim)
                if grant.location is not None:
                    return read_answer(read_at(self._files, grant.location))
                if grant.state == "budget":
                    message = "the call's worst case does not fit into what is left of the budget"
                    return Failed("budget", message, retryable=True), None
                if grant.state == "stopped":
                    return Failed("model_stopped", grant.reason, claim.key, retryable=True), None
                await asyncio.sleep(grant.wait_s)
                outcome, raw, again = await self._send(request, settings, claim)
                if not again:
                    break
            return outcome, raw

    async def _granted(self, claim: Claim) -> Grant:
        while True:
            grant: Grant = await self._claim(claim)
            if grant.state != "busy":
                return grant
            await asyncio.sleep(BUSY_POLL_S)

    async def _send(
        self, request: Request, settings: ModelSettings, claim: Claim
    ) -> tuple[Outcome[RawAnswer], RawAnswer | None, bool]:
        call = {"call": uuid.uuid4().hex, "run": self._run, "key": claim.key, "model": claim.model}
        if claim.worst_micros:
            await self._append({"kind": "intent", **call, "usd_micros": claim.worst_micros})
        attempt = await self._attempts(request, settings, claim)
        if attempt.decision is None:
            record = {"kind": "answer", **call, **_answer(attempt, settings, claim)}
            location = await self._append(record)
            await self._settle(Settlement(claim.key, claim.model, record["usd_micros"], location))
            return *read_answer(record), False
        decision = attempt.decision
        charged = claim.worst_micros if decision.kind == "ambiguous" else 0
        if claim.worst_micros:
            await self._append({"kind": "void", **call, "usd_micros": charged})
        stop = f"{decision.error}: {attempt.message}" if decision.kind == "model" else ""
        await self._settle(Settlement(claim.key, claim.model, charged, stop=stop))
        retryable = decision.kind != "row"
        failed = Failed(decision.error, attempt.message, claim.key, attempt.number, charged, retryable)
        return failed, None, decision.kind == "ambiguous"

    async def _attempts(self, request: Request, settings: ModelSettings, claim: Claim) -> Attempt:
        pause_s, number = 0.0, 0

        async def once() -> Attempt:
            nonlocal pause_s, number
            number += 1
            if number > 1:
                await asyncio.sleep(await self._ledger.again(claim, pause_s))
            attempt = await self._attempt(request, settings, number)
            decision = attempt.decision
            limited = decision is not None and decision.kind == "rate_limit"
            pause_s = (decision.after_s or min(2.0**number, 60.0)) if limited and decision is not None else 0.0
            return attempt

        backoff = wait_random_exponential(multiplier=0.5, max=30)

        def wait(state: RetryCallState) -> float:
            decision = _decision(state)
            if decision is None or decision.kind == "rate_limit":
                return 0.0
            return max(backoff(state), decision.after_s or 0.0)

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda attempt: attempt.decision is not None),
            stop=lambda state: (decision := _decision(state)) is None or state.attempt_number >= ATTEMPTS[decision.kind],
            wait=wait,
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        ended: Attempt = await retrying(once)
        return ended

    async def _attempt(self, request: Request, settings: ModelSettings, number: int) -> Attempt:
        litellm = load_litellm()
        key = os.environ.get(settings.api_key_env) if settings.api_key_env else None
        arguments = dict(request.sampling)
        if request.lookup:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), "lookup": request.lookup}
        try:
            response = await litellm.acompletion(
                model=request.model,
                messages=[{"role": "user", "content": request.prompt}],
                api_base=settings.api_base,
                api_key=key,
                timeout=settings.timeout_s,
                max_retries=0,
                **arguments,
            )
        # The border of one attempt: each SDK behind litellm raises errors of its own, and each must become a decision.
        except Exception as error:  # noqa: BLE001
            decision = decide(error)
            if settings.local and decision.kind in ("transient", "ambiguous"):
                decision = Decision("row", "local_model_error")
            return Attempt(None, decision, _one_line(error, key), number)
        return Attempt(response, None, "", number)


def window_message(settings: ModelSettings, prompt_tokens: int, max_tokens: int) -> str:
    """The failure's line: both lengths."""
    return (
        f"the prompt's {prompt_tokens} tokens and {max_tokens} for the answer exceed the context window of "
        f"{settings.context_window} tokens of {settings.model}"
    )


def _decision(state: RetryCallState) -> Decision | None:
    if state.outcome is None or state.outcome.failed:
        return None
    attempt: Attempt = state.outcome.result()
    return attempt.decision


def _one_line(error: BaseException, key: str | None) -> str:
    text = " ".join(str(error).split())
    if key:
        text = text.replace(key, "***")
    return _KEY_LIKE.sub("***", text)[:500]


def _answer(attempt: Attempt, settings: ModelSettings, claim: Claim) -> dict[str, Any]:
    response = attempt.response
    choice = response.choices[0]
    usage = getattr(response, "usage", None)
    answer: dict[str, Any] = {
        "text": choice.message.content or "",
        "finish_reason": str(choice.finish_reason or ""),
        "attempts": attempt.number,
    }
    if usage is None or not usage.prompt_tokens:
        answer |= {"input_tokens": claim.input_tokens, "cached_tokens": 0, "output_tokens": count(answer["text"])}
        answer["usd_micros"] = claim.worst_micros
    else:
        details = getattr(usage, "prompt_tokens_details", None)
        cached = int(getattr(details, "cached_tokens", 0) or 0)
        tokens_in, tokens_out = int(usage.prompt_tokens), int(usage.completion_tokens or 0)
        answer |= {"input_tokens": tokens_in, "cached_tokens": cached, "output_tokens": tokens_out}
        answer["usd_micros"] = settings.price.micros(tokens_in, tokens_out, cached)
    if not settings.local:
        answer["raw"] = response.model_dump(mode="json")
    return answer


def read_answer(record: Mapping[str, Any]) -> tuple[Outcome[RawAnswer], RawAnswer]:
    """What the log's answer record says: the outcome, and the raw answer that it comes from."""
    names = ("key", "model", "text", "finish_reason", "input_tokens", "cached_tokens", "output_tokens", "usd_micros", "attempts")
    raw = RawAnswer(**{name: record[name] for name in names})
    return outcome_of(raw), raw


def outcome_of(raw: RawAnswer) -> Outcome[RawAnswer]:
    """What a raw answer is worth before anything is parsed: an answer, a refusal, or malformed where it is empty."""
    if raw.finish_reason == "content_filter":
        return Refusal("content_filter", "the provider filtered the answer", raw.key, raw.attempts, raw.usd_micros)
    if not raw.text.strip():
        return Malformed("empty_answer", "the model answered with nothing", raw.key, raw.attempts, raw.usd_micros)
    return Answer(raw, raw.key, raw.attempts, raw.usd_micros)
