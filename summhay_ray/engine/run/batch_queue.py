"""Sends a run's requests through batch APIs: collects them, submits batches, waits, and records answers and costs. Uses no Ray.

It runs in the driver. If an item's requests must wait for a batch, a worker parks the item and reports the requests (`Parking`).
When no item of a queue can continue, the queue's requests are submitted. When a batch has ended, its answers are written to the
log, and the parked items are answered again; they find the answers in the log. So a second batch is needed only if requests
depend on answers.

A kill at any moment loses nothing, because of the order of the steps. First the batch's money is reserved durably. Then its
record with the keys is stored. Then it is created with the record's token, and the provider's id is stored. If a driver finds a
record without an id, it searches for the token at the provider. When all answers are in the log, the record is marked as ended,
and their price is charged.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from summhay_ray.engine.ask import SYNCHRONOUS
from summhay_ray.engine.run.execution import Work
from summhay_ray.engine.run.queues import WorkItem
from summhay_ray.errors import UserError
from summhay_ray.llm import (
    BATCH,
    BatchApi,
    BatchRequest,
    BatchState,
    CallFailed,
    Claim,
    Ledger,
    LedgerClient,
    LedgerPort,
    LedgerService,
    Line,
    ModelSettings,
    Settlement,
    batch_api,
    known_secrets,
    written,
)
from summhay_ray.store import BatchRecord, Excess, LogWriter

log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_POLL_S, LONGEST_POLL_S = 0.5, 60.0
POLLS_AN_AGE = 20
"""The time until the next poll of a batch is the batch's age divided by this number."""
SEARCH_S = 5.0
"""If it is unknown whether a batch was created, and the provider does not list it for this long, it was not created."""
GONE_AFTER_S = 600.0
"""If a provider does not know a batch for this long, the batch is lost. A new batch may be unknown for a moment."""
TRIES, PAID_TRIES = 6, 3
"""A request fails after this many batches have left it unanswered. The first number applies if they cost nothing, the second if
they may have cost money."""
CREATIONS = 8
"""Maximum number of attempts to create a batch."""
POLLS_BEFORE_OUT = 3
"""After this many failed polls, a batch counts as in progress. So a detached driver can end although the provider does not
answer."""
LINES_TOGETHER = 256
"""Maximum number of answers that are written to the log at a time."""
FULL_PAUSE_S = 60.0
"""Pause after the provider refused a batch because too many tokens are enqueued there."""


@dataclass
class _Parked:
    """A parked item, the keys of its requests, and the keys of its open requests, which are neither answered nor decided."""

    work: WorkItem
    keys: Sequence[str]
    open: set[str]


@dataclass
class _Group:
    """The waiting requests of one model and stage: key -> (queue of the item, request)."""

    requests: dict[str, tuple[str, BatchRequest]] = field(default_factory=dict)
    size: int = 0


class BatchQueue:
    """The queue that this module describes. `act` calls a method of the ledger for the worker `name`; `port` is the worker's
    connection to the ledger."""

    def __init__(self, work: Work, name: str, log: LogWriter, port: LedgerPort, act: Callable[..., Awaitable[Any]]) -> None:
        self._work, self._name, self._log, self._act = work, name, log, act
        self._settings: Mapping[str, ModelSettings] = work.workload.models.settings()
        self._queues = work.workload.queues()
        self._records = work.run.batches
        self._client = LedgerClient(port)
        self._apis: dict[str, BatchApi] = {}
        self._items: dict[str, _Parked] = {}
        self._items_of: dict[str, list[str]] = {}
        self._groups: dict[tuple[str, str], _Group] = {}
        self._submitted: set[str] = set()
        """Keys of requests that are being submitted, or are in batches that have not ended."""
        self._ids: set[str] = set()
        """The ids that the providers gave the run's batches."""
        self._answered: set[str] = set()
        self._decided: dict[str, Mapping[str, Any]] = {}
        self._tries: Counter[str] = Counter()
        self._ready: list[WorkItem] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._out: set[str] = set()
        """Tokens of the batches that are in progress at their providers."""
        self._reserving = asyncio.Lock()
        self._without_money = 0
        """Number of submissions that wait for money."""
        self._not_before: dict[str, float] = {}
        self._cancelling = False
        self._changed = asyncio.Event()
        self._appending = asyncio.Lock()

    @classmethod
    def inline(cls, work: Work, session: int, service: LedgerService) -> BatchQueue:
        """Return the queue of a driver whose ledger is in this process. `session`: the number of the driver's session."""
        log = LogWriter(work.run.store.files, session)

        async def act(verb: Any, *arguments: Any) -> Any:
            return service.act(verb, *arguments)

        return cls(work, log.writer, log, service.port(log.writer), act)

    # --- parked items -------------------------------------------------------------------------------------------------

    def park(self, work: WorkItem, requests: Sequence[BatchRequest]) -> None:
        """Add an item whose open requests all wait for batches."""
        item_id = work.item.id
        parked = self._items[item_id] = _Parked(work, [request.claim.key for request in requests], set())
        for request in requests:
            key, claim = request.claim.key, request.claim
            # The request may have been answered or decided since the item sent it.
            if key in self._answered or key in self._decided:
                continue
            parked.open.add(key)
            self._items_of.setdefault(key, []).append(item_id)
            group = self._groups.setdefault((claim.model, claim.stage), _Group())
            if key not in self._submitted and key not in group.requests:
                group.requests[key] = work.item.queue, request
                group.size += len(request.body)
        if not parked.open:
            self._unpark(item_id)

    def look(self) -> None:
        """Make `feed` check again what can be submitted. Call this when an item was parked or has ended."""
        self._changed.set()

    async def feed(self, is_drained: Callable[[str], bool]) -> AsyncGenerator[Sequence[WorkItem], None]:
        """Yield parked items as soon as their requests are answered or decided. Ends when no item is parked or, with `detach`,
        when only the providers have work left.

        `is_drained`: returns whether no item of a queue waits or is in progress, apart from parked items.
        """
        await self.resume()
        while True:
            self._changed.clear()
            self._check_tasks()
            self._flush(is_drained)
            if self._ready:
                block, self._ready = self._ready, []
                yield block
            elif all(map(is_drained, self._queues)) and self._is_over():
                return
            else:
                await self._changed.wait()

    def _is_over(self) -> bool:
        if self._ready or any(group.requests for group in self._groups.values()):
            return False
        # Submissions that wait for money may have to wait for the money of batches in progress.
        waiting = len(self._tasks) == len(self._out) + self._without_money
        return not self._tasks or (self._work.detach and waiting and bool(self._out))

    def _flush(self, is_drained: Callable[[str], bool]) -> None:
        """Submit the requests that need not wait for more requests."""
        for (model, stage), group in self._groups.items():
            batching = self._settings[model].batch
            if not group.requests or batching is None:
                continue
            api = self._api(model)
            if len(group.requests) >= api.most_requests or group.size >= api.most_bytes:
                chosen = [*group.requests]
            else:
                chosen = [key for key, (queue, _) in group.requests.items() if is_drained(queue)]
                if not chosen:
                    continue
                if len(chosen) < batching.min_requests:
                    if not all(is_drained(name) for name, queue in self._queues.items() if model in queue.models):
                        continue
                    self._note(
                        f"{model}: {len(chosen)} {stage} requests wait, fewer than min_requests ({batching.min_requests}); "
                        "they are asked synchronously, at the standard price"
                    )
                    self._take(group, chosen)
                    self._decide(dict.fromkeys(chosen, SYNCHRONOUS))
                    continue
            self._begin(self._submit(model, stage, self._take(group, chosen)))

    def _take(self, group: _Group, keys: Iterable[str]) -> list[BatchRequest]:
        """Remove requests from their group, and mark them as submitted. So an item that is parked before the submission begins
        does not submit them again."""
        taken = [group.requests.pop(key)[1] for key in keys]
        self._submitted.update(request.claim.key for request in taken)
        group.size -= sum(len(request.body) for request in taken)
        return taken

    def _decide(self, decisions: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the decisions about requests that no batch has answered."""
        self._decided |= decisions
        self._settle(decisions)

    def _settle(self, keys: Iterable[str]) -> None:
        """Unpark the items that wait only for these requests. Each was answered, was decided, or will be sent again."""
        for key in keys:
            self._submitted.discard(key)
            for item_id in self._items_of.pop(key, ()):
                if (parked := self._items.get(item_id)) is not None:
                    parked.open.discard(key)
                    if not parked.open:
                        self._unpark(item_id)
        self._changed.set()

    def _unpark(self, item_id: str) -> None:
        parked = self._items.pop(item_id)
        new = {key: self._decided[key] for key in parked.keys if key in self._decided}
        self._ready.append(replace(parked.work, decided={**(parked.work.decided or {}), **new}))

    # --- batches ------------------------------------------------------------------------------------------------------

    async def resume(self, cancel: bool = False) -> None:
        """Continue the batches that earlier sessions left open. `cancel`: cancel all batches."""
        self._cancelling = cancel
        records = await asyncio.to_thread(self._records.all)
        self._ids.update(record.id for record in records if record.id)
        records = [record for record in records if not record.how]
        await self._act(Ledger.resume_batches, self._name, [_claim(record) for record in records])
        for record in records:
            keys, group = _keys(record), self._groups.get((record.model, record.stage))
            self._submitted.update(keys)
            if group is not None:
                # Items that were parked while the records were read now wait for this batch.
                self._take(group, [key for key in keys if key in group.requests])
            self._begin(self._go_on(record))

    async def wait(self) -> None:
        """Wait until no batch is open."""
        while self._tasks:
            self._changed.clear()
            self._check_tasks()
            await self._changed.wait()
        self._check_tasks()

    async def close(self) -> None:
        """Stop waiting for batches. The next session continues them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()
        for api in self._apis.values():
            await api.close()
        await asyncio.to_thread(self._log.close)

    @property
    def doing(self) -> str:
        """What the queue waits for, as text for the progress; empty if it waits for nothing."""
        n = len(self._out)
        return f"waiting for {n} batch{'' if n == 1 else 'es'}" if n else ""

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._changed.set())

    def _check_tasks(self) -> None:
        """Remove the tasks that have ended. Raises their errors."""
        done = {task for task in self._tasks if task.done()}
        self._tasks -= done
        for task in done:
            task.result()

    def _api(self, model: str) -> BatchApi:
        if model not in self._apis:
            self._apis[model] = batch_api(self._settings[model])
        return self._apis[model]

    def _note(self, line: str) -> None:
        log.info(line)
        if self._work.note is not None:
            self._work.note(line)

    async def _submit(self, model: str, stage: str, requests: list[BatchRequest]) -> None:
        """Submit the requests. Each batch has as many requests as the budgets allow."""
        batching = self._settings[model].batch
        assert batching is not None
        while requests:
            await asyncio.sleep(max(0.0, self._not_before.get(model, 0.0) - time.monotonic()))
            # Reserve for one submission at a time, so that no other submission takes the money before it is reserved.
            async with self._reserving:
                worst = [request.claim.worst_micros for request in requests]
                fits = await self._act(Ledger.fitting, self._name, (stage, model), worst)
                # If none fits now, claim money for the cheapest one only. The ledger answers when money is available, or when it
                # is clear that there will be none.
                chosen = _first([requests[at] for at in fits] or [requests[worst.index(min(worst))]], self._api(model))
                claims = [one.claim for one in chosen]
                body = [(one.key, one.worst_micros, one.input_tokens, one.output_tokens) for one in claims]
                record = BatchRecord(
                    self._work.run.run_id, uuid.uuid4().hex, model, stage, batching.price_factor, time.time(), tuple(body)
                )
                granted = await self._client.claim(_claim(record)) if fits else None
            if granted is None:
                self._without_money += 1
                self._changed.set()
                try:
                    granted = await self._client.claim(_claim(record))
                finally:
                    self._without_money -= 1
            state = granted.grant.state
            if state == "stopped":
                failure = _failed(granted.grant.error, granted.grant.reason)
                self._decide({request.claim.key: failure for request in requests})
                return
            if state == "budget":
                if not fits:
                    # No request fits, so the items stay unfinished.
                    return
                continue
            if not self._client.may_send(granted, model + BATCH, paid=record.worst_micros > 0):
                self._client.settle(Settlement(record.key, model + BATCH, 0, sent=False, again=True))
                await asyncio.sleep(SHORTEST_POLL_S)
                continue
            taken = set(_keys(record))
            requests = [request for request in requests if request.claim.key not in taken]
            self._begin(self._create(record, chosen))

    async def _create(self, record: BatchRecord, requests: Sequence[BatchRequest]) -> None:
        """Create a batch whose money is reserved, and wait for its end."""
        api = self._api(record.model)
        await asyncio.to_thread(self._records.write, record)
        for attempt in range(1, CREATIONS + 1):
            try:
                batch_id = await api.create(record.token, requests)
                break
            except CallFailed as error:
                log.info("%s: a batch was not created: %s", record.model, error)
                if error.doubtful and (found := await self._find(record)):
                    batch_id = found
                    break
                decision = error.decision
                if attempt == CREATIONS or decision.kind not in ("rate_limit", "transient", "ambiguous"):
                    stop = (decision.error, str(error)) if decision.kind == "model" else None
                    await self._unsent(record, stop)
                    self._decide({key: _failed(decision.error, str(error), attempts=attempt) for key in _keys(record)})
                    return
                await asyncio.sleep(decision.after_s or min(LONGEST_POLL_S, SHORTEST_POLL_S * 2.0**attempt))
        await self._follow(record, batch_id)

    async def _go_on(self, record: BatchRecord) -> None:
        """Continue a batch of an earlier session."""
        batch_id = record.id or await self._find(record)
        if batch_id:
            await self._follow(record, batch_id)
        else:
            await self._unsent(record, None)
            self._settle(_keys(record))

    async def _unsent(self, record: BatchRecord, stop: tuple[str, str] | None) -> None:
        """Record the end of a batch that was never created. `stop`: why the model must be stopped; None if it need not."""
        await asyncio.to_thread(self._records.ended, record.token, "unsent", 0)
        self._client.settle(Settlement(record.key, record.model + BATCH, 0, sent=False, stop=stop))

    async def _find(self, record: BatchRecord) -> str | None:
        """Return the id of a batch that may have been created; None if it was not created."""
        until, keys = time.monotonic() + SEARCH_S, frozenset(_keys(record))
        while True:
            try:
                found = await self._api(record.model).find(record.token, record.began, keys, frozenset(self._ids))
                if found:
                    self._note(f"{record.model}: a batch whose creation was not confirmed was found ({found})")
                    return found
                if found is None and time.monotonic() >= until:
                    return None
            except CallFailed as error:
                self._check_key(record, error)
            await asyncio.sleep(SHORTEST_POLL_S if time.monotonic() < until else self._pause_s(record))

    def _check_key(self, record: BatchRecord, error: CallFailed) -> None:
        """Raise UserError for an error that waiting does not resolve, such as a refused key."""
        if error.decision.kind == "model" and error.status != 404:
            raise UserError(f"{record.model}: its batch cannot be reached: {error}; mend it, and run again: the batch is kept")

    @staticmethod
    def _pause_s(record: BatchRecord) -> float:
        return min(LONGEST_POLL_S, max(SHORTEST_POLL_S, (time.time() - record.began) / POLLS_AN_AGE))

    async def _follow(self, record: BatchRecord, batch_id: str) -> None:
        """Wait until a batch has ended, then store its answers and charge them."""
        await asyncio.to_thread(self._records.submitted, record.token, batch_id)
        self._ids.add(batch_id)
        api, batching, failures, unknown_since = self._api(record.model), self._settings[record.model].batch, 0, 0.0
        until = record.began + 3600.0 * (batching.max_wait_h if batching else 24.0)
        how = "ended"
        while True:
            pause_s = self._pause_s(record)
            try:
                state = await api.look(batch_id)
                if state.ended:
                    break
                failures = 0
                if how != "cancelled" and (self._cancelling or time.time() > until):
                    await api.cancel(batch_id)
                    how = "cancelled"
                    if not self._cancelling:
                        self._note(f"{record.model}: a batch is cancelled after max_wait_h; its missing answers are asked again")
            except CallFailed as error:
                self._check_key(record, error)
                failures, pause_s = failures + 1, max(pause_s, error.decision.after_s or 0.0)
                if error.status == 404:
                    unknown_since = unknown_since or time.monotonic()
                    if time.monotonic() - unknown_since > GONE_AFTER_S:
                        state = BatchState(batch_id, True, answered=len(record.requests), failure="the provider lost the batch")
                        break
            if not failures or failures >= POLLS_BEFORE_OUT:
                self._out.add(record.token)
                self._changed.set()
            await asyncio.sleep(pause_s)
        self._out.discard(record.token)
        lines = await self._lines(record, state)
        await self._book(record, state, lines, "failed" if state.failure else how)

    async def _lines(self, record: BatchRecord, state: BatchState) -> list[Line]:
        n_tokens = sum(tokens for _, _, _, tokens in record.requests)
        while True:
            try:
                return await self._api(record.model).lines(state, n_tokens)
            except CallFailed as error:
                self._check_key(record, error)
                await asyncio.sleep(max(self._pause_s(record), error.decision.after_s or 0.0))

    # --- books --------------------------------------------------------------------------------------------------------

    async def _book(self, record: BatchRecord, state: BatchState, lines: Sequence[Line], how: str) -> None:
        """Write the answers of a batch to the log, charge them, mark the batch as ended, and decide about its unanswered
        requests."""
        asked = {request[0]: request for request in record.requests}
        found: dict[str, Line] = {}
        for line in lines:
            # If a request has several lines, an answer takes precedence over other lines.
            if line.key in asked and (line.key not in found or (line.kind == "answer" and found[line.key].kind != "answer")):
                found[line.key] = line
        before = set(await self._act(Ledger.answered, self._name, [*asked]))
        paid = [line for line in found.values() if line.reply is not None]
        fresh = [line for line in paid if line.key not in before]
        charged = 0
        for start in range(0, len(fresh), LINES_TOGETHER):
            charged += await self._write(record, fresh[start : start + LINES_TOGETHER])
        # The provider may count more answers than it returns, and may charge for the missing ones.
        lacking = sorted((asked[key][1] for key in asked.keys() - found.keys() - before), reverse=True)
        uncertain = sum(lacking[: max(0, state.answered - len(paid))])
        # Flush first, since the parked items look for the answers next.
        await self._client.flush()
        await self._act(Ledger.end_batch, self._name, record.key, charged, uncertain)
        answered = before | {line.key for line in paid if line.kind == "answer"}
        await asyncio.to_thread(self._records.ended, record.token, how, len(answered))
        if state.is_full:
            self._not_before[record.model] = time.monotonic() + FULL_PAUSE_S
        self._answered |= answered
        decisions = {}
        flaws = {_keys(record)[number - 1]: said for number, said in state.flaws if 0 < number <= len(record.requests)}
        for key in asked.keys() - answered:
            ended = found.get(key)
            if ended is None and how == "cancelled":
                ended = Line(key, "cancelled", message="the batch was cancelled before the request was answered")
            decision = self._decision(key, ended, state, flaws.get(key))
            if decision is not None:
                decisions[key] = decision
        n_again = len(asked) - len(answered) - len(decisions)
        if n_again and not self._cancelling:
            self._note(f"{record.model}: {n_again} of the {len(asked)} requests of a batch have no answer, and are sent again")
        self._decide(decisions)
        self._settle(asked)

    def _decision(self, key: str, line: Line | None, state: BatchState, flaw: str | None) -> Mapping[str, Any] | None:
        """Return the failure of a request that its batch did not answer; None if the request is sent again."""
        if flaw is not None:
            return _failed("bad_request", flaw)
        if state.is_full:
            return None
        if line is not None and line.kind in ("expired", "cancelled") and state.answered:
            # Send it again without a limit: each batch that has some answers leaves fewer requests.
            return None
        self._tries[key] += 1
        error, message, most = "batch_incomplete", "its batch ended without a line for it", PAID_TRIES
        if line is None and state.failure:
            error, message, most = "batch_failed", state.failure, TRIES
        elif line is not None:
            most = PAID_TRIES if line.kind == "unreadable" else TRIES
            error, message = {"unreadable": "bad_response"}.get(line.kind, f"batch_{line.kind}"), line.message
            if line.decision is not None:
                error, kind = line.decision.error, line.decision.kind
                if kind in ("row", "model"):
                    retryable = kind == "model" or error in ("bad_request", "context_window", "request_too_large")
                    what = "refusal" if error == "content_filter" else "failed"
                    return _failed(error, message, attempts=self._tries[key], retryable=retryable, kind=what)
        return _failed(error, message, attempts=self._tries[key]) if self._tries[key] >= most else None

    async def _write(self, record: BatchRecord, lines: Sequence[Line]) -> int:
        """Write answers to the log, and report them to the ledger. Returns their price in micro-dollars."""
        model = self._settings[record.model]
        settings = replace(model, price=model.price.times(record.price_factor))
        requests = {request[0]: request for request in record.requests}
        secrets = known_secrets([model.api_key_env] if model.api_key_env else [])
        origin = {"origin": model.origin} if model.origin else {}

        def work() -> list[tuple[dict[str, Any], bytes]]:
            records = []
            for line in lines:
                reply = line.reply
                assert reply is not None
                if line.kind != "answer":
                    reply = replace(reply, flaw=line.message or "the answer is unreadable")
                # An unusable answer is stored under another key, so that the request is sent again.
                key = f"{line.key}/{record.token}" if reply.flaw else line.key
                known: dict[str, Any] = {
                    "kind": "answer",
                    "run": record.run,
                    "model": record.model,
                    "stage": record.stage,
                    **origin,
                }
                known |= {"key": key, "attempts": self._tries[line.key] + 1}
                _, worst_micros, read, answered = requests[line.key]
                claim = Claim(line.key, record.model, record.stage, worst_micros, read, answered)
                records.append(written(known, reply, settings, claim, secrets))
            return records

        records = await asyncio.to_thread(work)
        # The log allows one caller at a time.
        async with self._appending:
            locations = await asyncio.to_thread(self._log.append, [line for _, line in records])
        for (one, _), location in zip(records, locations, strict=True):
            tokens = {"input_tokens": one["input_tokens"], "output_tokens": one["output_tokens"]}
            micros, excess = one["usd_micros"], Excess.of(one)
            self._client.settle(Settlement(one["key"], record.model + BATCH, micros, location, **tokens, excess=excess))
        return sum(one["usd_micros"] for one, _ in records)


def _keys(record: BatchRecord) -> list[str]:
    return [request[0] for request in record.requests]


def _claim(record: BatchRecord) -> Claim:
    """Return the claim for the money of a whole batch."""
    read, answered = sum(tokens for _, _, tokens, _ in record.requests), sum(tokens for _, _, _, tokens in record.requests)
    return Claim(record.key, record.model + BATCH, record.stage, record.worst_micros, read, answered)


def _failed(error: str, message: str, attempts: int = 1, retryable: bool = True, kind: str = "failed") -> Mapping[str, Any]:
    """Return the fields of a failure, for `no_answer`."""
    known = {"kind": kind, "error": error, "message": message}
    return {**known, "attempts": attempts, "usd_micros": 0, "retryable": retryable}


def _first(requests: Sequence[BatchRequest], api: BatchApi) -> list[BatchRequest]:
    """Return the first requests, as many as a batch of the provider may contain."""
    chosen: list[BatchRequest] = []
    size = 0
    for request in requests[: api.most_requests]:
        # The 200 bytes are for the request's key and the JSON around its body.
        size += len(request.body.encode()) + 200
        if chosen and size > api.most_bytes:
            break
        chosen.append(request)
    return chosen
