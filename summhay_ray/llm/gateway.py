"""Makes one call to a model, from its key to its outcome, in one or more attempts.

These are the steps: compute the key; claim the call at the ledger, which grants it or returns the location of its answer; make
HTTP attempts; write the answer to the log; settle; return the outcome. Retries, limits, budgets and prices are handled here and
in the ledger. The gateway waits until the time that the grant states. Then a transport makes exactly one attempt, and raises if
there is no answer. `retry` defines what an error means, and `ATTEMPTS` how often to retry.
"""

import asyncio
import contextlib
import functools
import logging
import random
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from summhay_ray.llm.batches import BatchRequest, batch_body
from summhay_ray.llm.keys import SENT, Secrets, known_secrets
from summhay_ray.llm.ledger_messages import Claim, Grant, Settlement
from summhay_ray.llm.ledger_service import COMPUTING_TRIP_EVERY_S, TRIP_EVERY_S, GrantedCall, LedgerClient, LedgerPort
from summhay_ray.llm.local_model import LocalModel, LocalTransport
from summhay_ray.llm.model_settings import ModelSettings, transport_of
from summhay_ray.llm.prefix import PrefixGate, Turn, prefixes_of
from summhay_ray.llm.prices import FREE
from summhay_ray.llm.provider_table import known_extra, lacking
from summhay_ray.llm.read_reply import BAD_NUMBERS, answer_of, letters, read_answer, written
from summhay_ray.llm.request import RawAnswer, Reply, Request, Task, longest_answer, unusable
from summhay_ray.llm.retry import NO_CAPACITY, NO_ROUTE, UNREACHED, Decision, decide
from summhay_ray.llm.vectors_and_scores import dimensions_of, is_usable
from summhay_ray.loops import Batched, off_loop
from summhay_ray.outcome import Answer, Failed, Malformed, Outcome, Refusal
from summhay_ray.routes import NoRoute, Wire
from summhay_ray.store import DamagedRecord, Dimensions, Excess, Files, Location, LogWriter, StoreError, read_at
from summhay_ray.text import count_tokens

if TYPE_CHECKING:
    from summhay_ray.llm.direct import DirectTransport
    from summhay_ray.llm.via_litellm import LitellmTransport

ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6, "ambiguous": 2}
"""Error kind -> maximum number of errors of this kind in one call. Any other kind ends the call at once."""


@dataclass(eq=False)
class Call:
    """A call in progress. `stage`: the stage to which its cost counts."""

    request: Request
    settings: ModelSettings
    stage: str
    future: asyncio.Future[Any] = field(init=False)
    """The future that the caller awaits. If the caller cancels it, the current attempt is completed, and no further one is
    made."""
    claim: Claim = field(init=False)
    wire: Wire = field(init=False)
    """The progress of the current attempt."""
    attempts: int = 0
    charged_micros: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Error kind -> number of attempts that ended with it."""


Transport: TypeAlias = "DirectTransport | LitellmTransport | LocalTransport"
"""A transport. `send(request, settings, wire)` makes one attempt, with the key from `keys` and the proxy from `routes` for the
URL. If there is no answer, it raises an exception with the reason. It records the progress of the request in `wire`. `close()`
closes all connections."""


@dataclass(eq=False)
class Transports:
    """The transports that are needed. Each is made on first use, since importing its library may take seconds."""

    local: LocalTransport = field(default_factory=LocalTransport)
    _made: dict[str, Transport] = field(default_factory=dict, init=False)

    def of(self, settings: ModelSettings, task: Task) -> Transport:
        """Return the transport for a task of a model."""
        kind = transport_of(settings.model, task, settings.api_base, settings.transport)
        if kind not in self._made:
            if kind == "direct":
                from summhay_ray.llm.direct import DirectTransport

                self._made[kind] = DirectTransport()
            elif kind == "local":
                self._made[kind] = self.local
            else:
                from summhay_ray.llm.via_litellm import LitellmTransport

                self._made[kind] = LitellmTransport()
        return self._made[kind]

    async def close(self) -> None:
        """Close all transports."""
        for transport in self._made.values():
            await transport.close()
        self._made.clear()


def _explain(error: Exception, decision: Decision, call: Call, secrets: Secrets) -> str:
    """Return why an attempt failed, in one line. It includes a remedy if the endpoint's address or the proxy may be the cause."""
    base, route, message = call.settings.api_base, call.wire.route, secrets.one_line(error)
    lost = getattr(error, "status_code", None) == 404 and call.request.task != "search"
    if lost and base and not re.search(r"/v\d", urlsplit(base).path):
        return f"{message}; does the api_base {base} lack /v1?"
    if isinstance(error, NoRoute) or call.wire.sent or route is None or decision.error not in (UNREACHED, NO_ROUTE):
        return message
    mend = "start it, or mend its api_base" if base else "let the workers reach it, or name their proxy in HTTPS_PROXY"
    return route.failure(error, message) + ("" if route.proxy else f"; {mend}, and run again")


log = logging.getLogger(__name__)

MENDABLE = {"bad_request", "context_window", "request_too_large", "timeout"}
"""Errors of a single request that the user can fix, for example with another endpoint or window. A later start retries the
request."""

LINGER_S = 0.1
"""Seconds for which an answer waits for other answers before it is written to a bucket, since each durable write costs a
request."""

BACKOFF_S = 0.5
LONGEST_BACKOFF_S = 30.0
DRAIN_LOOK_S = 0.02

Ended = tuple[Outcome[RawAnswer], RawAnswer | None]
Park = Callable[[BatchRequest], asyncio.Future[None]]
"""Takes a request that must wait for a batch, and returns a future. The future is cancelled when the request's item ends."""


class Gateway:
    """Sends a worker's requests to the models, on one event loop.

    `models` has the settings of every model that may be called. `local` has the models that run in this process, by name, or by
    `provider/` for a family. `count` adds the tokens that these models generate to the run's counters. `computes`: whether the
    worker asks only local models.
    """

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        port: LedgerPort,
        files: Files,
        log: LogWriter,
        run: str,
        evicted: Callable[[], None] | None = None,
        local: Mapping[str, LocalModel] = MappingProxyType({}),
        count: Callable[[Mapping[str, int]], None] = lambda _: None,
        computes: bool = False,
    ) -> None:
        self._models = models
        self._files = files
        self._log = log
        self._run = run
        self._transports = Transports(LocalTransport(local, count))
        trip_every_s = COMPUTING_TRIP_EVERY_S if computes else TRIP_EVERY_S
        self._client = LedgerClient(port, evicted, self._transports.local.generation.stop, trip_every_s)
        self._prefixes = PrefixGate()
        self._dimensions = Dimensions(files)
        self._append: Batched[bytes, Location]
        self._append = Batched(lambda lines: asyncio.to_thread(self._log.append, lines), 0.0 if files.folder else LINGER_S)
        self._ended = False
        self._open = 0
        """Number of calls that are granted but not settled."""
        self._secrets_known, self._n_sent_keys = Secrets(), -1

    def make_transports(self) -> None:
        """Import the transports' libraries before the first call, since this may take seconds. Call this on the event loop."""
        for settings in self._models.values():
            self._transports.of(settings, "chat")

    async def flush(self) -> None:
        """Send the last settlements."""
        await self._client.flush()

    async def close(self) -> None:
        """Send the last settlements, and close all connections."""
        await self._client.close()
        await self._transports.close()

    async def drain(self, patience_s: float) -> None:
        """Send no more calls, stop models in this process, wait up to `patience_s` for the calls in flight, and complete the log.

        Unsent calls are given back to the ledger. Their callers wait forever, since the worker ends.
        """
        self._client.drain()
        end = asyncio.get_running_loop().time() + patience_s
        # Wait a moment, so that grants which arrive now are given back before the first check.
        await asyncio.sleep(DRAIN_LOOK_S)
        while self._open and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(DRAIN_LOOK_S)
        self._ended = True
        await self._client.close()
        await asyncio.to_thread(self._log.close)

    def complete(
        self,
        request: Request,
        stage: str = "",
        kept: Callable[[Outcome[RawAnswer], RawAnswer | None], Any] = lambda outcome, raw: (outcome, raw),
        park: Park | None = None,
        resumed: bool = False,
    ) -> asyncio.Future[Any]:
        """Begin a call, and return a future. Its result is that of `kept`, which is called with the outcome and the raw answer.
        The raw answer is None if there is none; it may also be unusable. The call's cost counts to `stage`.

        `park`: called with the request instead of sending it, if the model has `batch` and the log has no answer. `resumed`: see
        `Claim`.

        Cancelling the future does not abort the call, so that an answer that is already paid for is kept.
        """
        call = Call(request, self._models[request.model], stage)
        work = asyncio.create_task(self._complete(call, kept, park, resumed))
        # Retrieve the call's error here. If the caller was cancelled, nobody else does, and asyncio would print the traceback.
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        call.future = asyncio.shield(work)
        return call.future

    async def _complete(
        self, call: Call, kept: Callable[[Outcome[RawAnswer], RawAnswer | None], Any], park: Park | None, resumed: bool
    ) -> Any:
        request = call.request
        problem = await self._prepare(call)
        if problem is not None:
            return kept(problem, None)
        if resumed:
            call.claim = call.claim._replace(resumed=True)
        if park is not None and call.settings.batch is not None and not request.inputs:
            return kept(*await self._park(call, park))
        if request.inputs:
            # Unusable stored vectors and scores are requested again.
            for key in request.keys:
                call.claim = call.claim._replace(key=key)
                outcome, raw = await self._claim_and_send(call, None)
                if not isinstance(outcome, Answer):
                    break
                if await asyncio.to_thread(is_usable, request, outcome.value.text, self._dimensions):
                    break
            return kept(outcome, raw)
        prefixes = () if call.settings.local else prefixes_of(request.model, request.prompt)
        if not prefixes:
            return kept(*await self._claim_and_send(call, None))
        async with self._prefixes.turn(prefixes) as turn:
            ended = await self._claim_and_send(call, turn)
        return kept(*ended)

    async def _park(self, call: Call, park: Park) -> Ended:
        """Return the stored answer to a request. If there is none, pass the request to `park`, and wait until the caller
        cancels."""
        settings, claim = call.settings.in_batch, call.claim
        while True:
            grant = (await self._client.claim(claim._replace(parks=True))).grant
            if grant.state == "parked":
                try:
                    body = batch_body(call.request, settings)
                except ValueError as error:
                    return Failed("bad_request", str(error), claim.key), None
                worst_micros = settings.worst_micros(claim.input_tokens, claim.output_tokens)
                await park(BatchRequest(claim._replace(worst_micros=worst_micros), body))
            elif (ended := await self._end_unsent(grant, call)) is not None:
                return ended
            claim = claim._replace(damaged=grant.location)

    async def _prepare(self, call: Call) -> Failed | None:
        """Set the call's claim, or return the reason why the call cannot be sent."""
        request, settings = call.request, call.settings
        if problem := lacking(request.model, request.task, settings.api_base):
            return Failed("no_such_service", problem)
        way = transport_of(request.model, request.task, settings.api_base, settings.transport)
        if problem := unusable(request.sampling, known_extra(request.model, way, settings.api_base)):
            return Failed("unusable_sampling", problem)
        longest = 0 if request.inputs else longest_answer(request.sampling)
        prompt = request.prompt
        # Do not count tokens for a free local model without a context window, since counting takes time.
        uncounted = settings.local and settings.context_window is None and settings.price == FREE
        counting = functools.partial(settings.prompt_tokens, prompt, request.sampling)
        prompt_tokens = 0 if uncounted else await off_loop(len(prompt), counting)
        # For embeddings and reranking, the context window applies to each text separately.
        length = max(map(count_tokens, request.inputs)) if request.inputs and settings.context_window else prompt_tokens
        if settings.context_window is not None and length + longest > settings.context_window:
            # The failure is retryable, since the user may set another window.
            message = (
                f"the prompt's {length} tokens and {longest} for the answer exceed the context window of "
                f"{settings.context_window} tokens of {settings.model}"
            )
            return Failed("context_window", message, retryable=True)
        max_tokens = longest * request.n
        worst_micros = 0 if uncounted else settings.worst_micros(prompt_tokens, max_tokens, request.searches[2])
        call.claim = Claim(request.key, request.model, call.stage, worst_micros, prompt_tokens, max_tokens)
        return None

    async def _claim_and_send(self, call: Call, turn: Turn | None) -> Ended:
        """Claim, send and settle the call, repeatedly until it is answered or given up."""
        ended: Ended | None = None
        while ended is None:
            if call.future.cancelled():
                return Failed("unwanted", "the caller has gone", call.request.key, retryable=True), None
            granted = await self._client.claim(call.claim)
            ended = await (self._end_unsent(granted.grant, call) if granted.grant.state != "go" else self._send(call, granted))
            if ended is None:
                call.claim = call.claim._replace(first=True, damaged=granted.grant.location)
        if turn is not None and call.attempts:
            turn.answered = ended[1] is not None
        return ended

    async def _end_unsent(self, grant: Grant, call: Call) -> Ended | None:
        """Return the outcome of an unsent call. Returns None if the stored answer is damaged, so that the call must be claimed
        again."""
        if grant.location is not None:
            try:
                if self._files.folder is not None:
                    # Read without a thread, which would be slower if thousands of equal questions wait.
                    return read_answer(read_at(self._files, grant.location, call.claim.key))
                return read_answer(await asyncio.to_thread(read_at, self._files, grant.location, call.claim.key))
            except DamagedRecord:
                return None
        error, message = grant.error, grant.reason
        if grant.state == "budget":
            error, message = "budget", "the call's worst case does not fit into what is left of the budget"
        return Failed(error, message, call.request.key, call.attempts, call.charged_micros, retryable=True), None

    async def _send(self, call: Call, granted: GrantedCall) -> Ended | None:
        """Send a granted call at its time, settle it, and return its outcome. Returns None if it must be claimed again."""
        self._open += 1
        call.wire = Wire()
        try:
            loop = asyncio.get_running_loop()
            if granted.at > loop.time():
                await self._client.rest(granted.at - loop.time())
            is_wanted = not call.future.cancelled()
            if not is_wanted or not self._client.may_send(granted, call.claim.model, paid=call.claim.worst_micros > 0):
                self._settle(call, sent=False, again=is_wanted)
                return None
            call.attempts += 1
            # Limit the whole attempt: a transport's own timeout may apply to each read, so that a server that sends single bytes
            # would never end.
            limit = contextlib.nullcontext() if call.settings.local else asyncio.timeout(call.settings.timeout_s)
            try:
                async with limit:
                    transport = self._transports.of(call.settings, call.request.task)
                    reply = await transport.send(call.request, call.settings, call.wire)
            # Each SDK behind a transport raises its own errors, and every error must become a decision.
            except Exception as error:  # noqa: BLE001
                decision = decide(error, call.wire)
                # The error of a truncated answer contains the received part.
                broken: Reply | None = getattr(error, "reply", None)
                return await self._handle_failure(call, decision, _explain(error, decision, call, self._secrets()), broken)
            return await self._store_answer(call, reply)
        except BaseException:
            # For example, the disk is full, or the loop ends. Settle anyway, since the call may have been charged and others may
            # wait for it.
            self._settle(call, call.claim.worst_micros * call.wire.sent, sent=call.wire.sent, doubtful=call.wire.sent)
            raise
        finally:
            self._open -= 1

    def _settle(self, call: Call, micros: int = 0, **how: Any) -> None:
        self._client.settle(Settlement(call.claim.key, call.claim.model, micros, **how))

    async def _store_answer(self, call: Call, reply: Reply) -> Ended:
        self._client.ended(call.claim.key)
        claim, settings = call.claim, call.settings
        if call.request.task == "embed" and not reply.flaw:
            reply = await self._check_dimensions(call.request, reply)
        # Store an unusable answer under another key, so that a later run sends the request again.
        key = f"{claim.key}/{secrets.token_hex(16)}" if reply.flaw else claim.key
        origin = {"origin": settings.origin} if settings.origin else {}
        known: dict[str, Any] = {"kind": "answer", "run": self._run, "model": claim.model, "stage": claim.stage}
        known |= {**origin, "key": key, "attempts": call.attempts}
        work = functools.partial(written, known, reply, settings, claim, self._secrets())
        record, line = await off_loop(letters(reply), work)
        if self._ended:
            # Wait forever, since the worker ends after a drain.
            await asyncio.Future()
        location = await self._append(line)
        flaw, read, answered = record.get("flaw"), record["input_tokens"], record["output_tokens"]
        if not settings.local:
            # Count at most the reserved tokens for the limits, since implausible usage must not block calls for minutes.
            most_read, most_answered = settings.reserved_tokens(claim.input_tokens, claim.output_tokens)
            read, answered = min(read, most_read), min(answered, most_answered)
        # Stop a service with contradictory answers, since all texts would be embedded again.
        stop = (BAD_NUMBERS, flaw) if flaw and call.request.space in self._dimensions.overruled else None
        how = {"location": location, "input_tokens": read, "output_tokens": answered, "stop": stop, "excess": Excess.of(record)}
        self._settle(call, record["usd_micros"], **how)
        return read_answer(record)

    async def _check_dimensions(self, request: Request, reply: Reply) -> Reply:
        """Return the reply, with a flaw if its vectors have another length than the model's other vectors."""
        found = dimensions_of(reply.text)
        try:
            expected = await asyncio.to_thread(self._dimensions.expected, request.space, found)
        except (OSError, StoreError):
            # Keep the answer, which is paid for. It is compared with the others when it is read.
            return reply
        if found == expected:
            return reply
        mend = "where another model answers now, give it a `revision:` in the spec"
        return replace(reply, flaw=f"the vectors have {found} dimensions, and the model's others {expected} ({mend})")

    async def _handle_failure(self, call: Call, decision: Decision, message: str, reply: Reply | None) -> Ended | None:
        if decision.kind == "stopped":
            self._settle(call, sent=False, again=not call.future.cancelled())
            return None
        paid = call.wire.sent and decision.kind in ("ambiguous", "malformed")
        key, charged = call.request.key, call.claim.worst_micros * paid
        if reply is not None:
            charged = answer_of(reply, call.settings, call.claim)["usd_micros"]
        call.charged_micros += charged
        if call.settings.service_tier and decision.error == NO_CAPACITY:
            # Send the call again: later in the same tier, or now in the standard tier. This does not count as an attempt.
            call.attempts -= 1
            falls_back = call.settings.falls_back
            if falls_back:
                call.settings = call.settings.standard()
            self._settle(call, again=True, limited=not falls_back, pause_s=decision.after_s or None, fell_back=falls_back)
            return None
        call.ends[decision.kind] += 1
        limited, again = decision.kind == "rate_limit", call.ends[decision.kind] < ATTEMPTS.get(decision.kind, 0)
        if again:
            log.info("%s: call %.12s is tried again after %s", call.claim.model, call.claim.key, decision.error)
        pause_s = decision.after_s or None
        # After a 429 or with a requested pause, the ledger pauses all calls of the model. Otherwise, wait here.
        if again and not (limited or pause_s):
            self._client.ended(call.claim.key)
            # The pause is random. Its mean doubles with each attempt.
            await self._client.rest(random.uniform(0.0, min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** (call.attempts - 1))))
        stop = (decision.error, message) if decision.kind == "model" else None
        unreached = (UNREACHED, message) if decision.error == UNREACHED else None
        self._settle(call, charged, stop=stop, unreached=unreached, again=again, limited=limited, pause_s=pause_s)
        if again:
            return None
        details = message, key, call.attempts, call.charged_micros
        if decision.error == "content_filter":
            return Refusal("content_filter", *details), None
        if decision.kind == "malformed":
            # The failure is retryable, since the user may raise the limit.
            return Malformed(decision.error, *details, retryable=True), None
        return Failed(decision.error, *details, retryable=decision.kind != "row" or decision.error in MENDABLE), None

    def _secrets(self) -> Secrets:
        """Return the secrets to hide in answers and errors. They are cached until a new key is sent, since there are many
        calls."""
        if self._n_sent_keys != len(SENT):
            self._n_sent_keys = len(SENT)
            self._secrets_known = known_secrets(known.api_key_env for known in self._models.values() if known.api_key_env)
        return self._secrets_known
