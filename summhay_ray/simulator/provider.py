"""The simulated provider without its web server: admits, answers and bills requests.

A request is checked (key, model, quota), counted against the rate limits on arrival, answered and billed. Only then is the reply
delayed, so a client that disconnects in the meantime has still paid. Everything runs in one event loop, except for the
computation of answers.
"""

import asyncio
import dataclasses
import functools
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import IO, Any

from summhay_ray.llm import Price, Usage
from summhay_ray.simulator import bodies, messages, vectors
from summhay_ray.simulator.answering import Answers
from summhay_ray.simulator.batches import Batch, Batches, Item, Served
from summhay_ray.simulator.bills import Books, Call, Totals, fingerprint
from summhay_ray.simulator.chat import finish, reported_usage, scaled_prefix, with_logprobs
from summhay_ray.simulator.faults import SERVER_ERRORS, Fate, draw, skew, uniform
from summhay_ray.simulator.limits import Amount, Minute
from summhay_ray.simulator.prefixes import Encoder
from summhay_ray.simulator_settings import Settings

_LONG_TEXT = 100_000
"""Minimum length, in characters, of a text that is encoded in a thread."""
_KEPT_TEXTS = 128
"""Number of shorter texts whose tokens are cached."""
_MODELS = ("simulated", "simulated-judge")
_LONGER = 12
"""Lifetime of a prefix stored for an hour, divided by the lifetime of one stored for five minutes."""
_CONNECTION_FAULTS = ("hangs", "drops", "broken")
_READ: Mapping[str, Callable[[Mapping[str, Any]], bodies.ChatAsk | bodies.EmbeddingAsk | bodies.RerankAsk]] = {
    "chat": bodies.read_chat,
    "embeddings": bodies.read_embeddings,
    "rerank": bodies.read_rerank,
}


@dataclass(slots=True)
class _Job:
    """An admitted request in progress."""

    call: Call
    ask: bodies.ChatAsk | bodies.EmbeddingAsk | bodies.RerankAsk
    settings: Settings
    totals: Totals
    factor: float
    """Provider's tokens per cl100k token."""
    fate: Fate = field(default_factory=Fate)
    prefixes: list[bytes] = field(default_factory=list)
    stored: dict[bytes, float] = field(default_factory=dict)
    """Prefixes that `cache_control` stores -> their lifetimes in seconds."""
    taken: list[tuple[Minute, Amount]] = field(default_factory=list)
    """Amounts counted against rate limits."""


class Provider:
    """The simulated provider. `keys`: accepted API keys, or None to accept any; `record`: see `Books`."""

    def __init__(
        self, settings: Settings, answers: Answers, keys: frozenset[str] | None = None, record: IO[str] | None = None
    ) -> None:
        self.books = Books(record)
        self.answers = answers
        self._settings, self._keys = settings, keys
        self._of: dict[str, Settings] = {}
        self._encoder = Encoder()
        self._read = functools.lru_cache(maxsize=_KEPT_TEXTS)(self._encoder.read)
        """Tokens and prefixes of a text. Cached, since repeats send the same prompt again."""
        self.batches = Batches(self.settings_of, self._serve_item)

    @property
    def models(self) -> list[str]:
        """Return the listed names. Other names are answered, too, except for `unknown_models`."""
        named = [model.removeprefix("openai/") for model in self._settings.models]
        return sorted({*_MODELS, *named} - set(self._settings.unknown_models))

    @property
    def settings(self) -> Settings:
        """The settings of all models."""
        return self._settings

    def settings_of(self, model: str) -> Settings:
        """The settings of a model."""
        found = self._of.get(model)
        if found is None:
            found = self._of[model] = self._settings.of(model)
        return found

    def reset(self) -> None:
        """Delete the books, the files and the batches."""
        self.books.reset()
        self.batches.reset()

    def check_key(self, key: str) -> str:
        """Return the fingerprint of an API key. Raise Refused (401) if the key is not accepted."""
        if self._keys is not None and key not in self._keys:
            message = "Incorrect API key provided. The simulated provider accepts only the keys in its --keys file."
            raise bodies.Refused(401, "invalid_api_key", message)
        return fingerprint(key)

    async def serve(self, kind: str, key: str, raw: bytes, version: str = "") -> tuple[Call, bodies.Reply]:
        """Return the reply to a request (`chat`, `messages`, `embeddings` or `rerank`). The caller must call `sent` after sending
        it.

        `version`: that of Anthropic's API. For a simulated hang, this never returns; the server cancels it when the client
        disconnects.
        """
        call = self.books.arrive(kind, fingerprint(key), time.time(), time.monotonic())
        try:
            self.check_key(key)
            return call, await self._reply(call, bodies.read_body(raw), version)
        except bodies.Refused as refusal:
            self._note_refusal(call, refusal)
            return call, messages.error_reply(refusal) if kind == "messages" else refusal.reply()
        except asyncio.CancelledError:
            call.fault = call.fault or "client_gone"
            self.books.end(call, None, time.time())
            raise

    def sent(self, call: Call, whole: bool) -> None:
        """Record that the reply was sent. `whole`: whether the connection was still open."""
        call.answered = whole and call.served and call.fault != "broken"
        self.books.end(call, self.books.totals[call.key, call.model], time.time())

    async def _serve_item(self, batch: Batch, item: Item) -> Served:
        """Serve and bill a request of a batch, without rate limits."""
        call = self.books.arrive(item.kind, batch.key, time.time(), time.monotonic())
        call.channel, call.batch, call.custom_id = "batch", batch.id, item.custom_id
        try:
            reply = await self._reply(call, item.body, batch.version)
        except bodies.Refused as refusal:
            self._note_refusal(call, refusal)
            reply = messages.error_reply(refusal) if item.kind == "messages" else refusal.reply()
        self.sent(call, True)
        return Served(reply.status, json.loads(reply.body))

    def _note_refusal(self, call: Call, refusal: bodies.Refused) -> None:
        call.status, call.fault = refusal.status, refusal.limit or f"http_{refusal.status}"
        if refusal.type != "server_error":
            totals = self.books.totals[call.key, call.model]
            totals.refused[call.fault] += 1
            totals.rate_limited += refusal.status == 429

    def warm(self) -> None:
        """Load the tokenizer's vocabulary, which takes half a second, so that the first request does not wait for it."""
        self._encoder.count("warm")

    async def _reply(self, call: Call, body: Mapping[str, Any], version: str) -> bodies.Reply:
        call.model = bodies.model_of(body)
        ask = messages.read_messages(body, version) if call.kind == "messages" else _READ[call.kind](body)
        call.prompt = ask.sha
        settings = self.settings_of(call.model)
        if call.channel == "batch":
            # Rate limits do not apply within a batch.
            unlimited: Mapping[str, Any] = dict.fromkeys(("rpm", "input_tpm", "output_tpm", "concurrency"))
            settings = dataclasses.replace(settings, **unlimited, latency=0.0, models={})
        elif isinstance(ask, bodies.ChatAsk) and ask.flex:
            call.channel = "flex"
        if call.model in settings.unknown_models:
            raise bodies.Refused(
                404, "model_not_found", f"The model `{call.model}` does not exist or you do not have access to it."
            )
        if settings.quota is not None and self.books.micros[call.key] >= settings.quota * 1e6:
            message = "You exceeded your current quota, please check your plan and billing details."
            raise bodies.Refused(429, "insufficient_quota", message, type="insufficient_quota")
        job = _Job(call, ask, settings, self.books.totals[call.key, call.model], skew(settings, call.model, call.prompt))
        if settings.concurrency is not None and job.totals.in_flight >= settings.concurrency:
            limit = f"limit {settings.concurrency}. Please wait for an answer before the next request."
            message = f"Too many requests at once for {call.model}: {limit}"
            raise bodies.Refused(429, "rate_limit_exceeded", message, type="requests", limit="concurrency")
        job.totals.in_flight += 1
        try:
            return await self._work(job)
        finally:
            job.totals.in_flight -= 1

    async def _work(self, job: _Job) -> bodies.Reply:
        call, totals = job.call, job.totals
        try:
            self._take(job, "rpm", 1)
            await self._count(job)
            self._take(job, "input_tpm", call.tokens_in)
        except bodies.Refused:
            self._undo(job)
            raise
        totals.most_in_flight = max(totals.most_in_flight, totals.in_flight)
        call.attempt = totals.attempts[call.prompt]
        totals.attempts[call.prompt] += 1
        seed, least = job.settings.seed, job.settings.flex_unavailable
        if call.channel == "flex" and uniform(1, seed, call.model, call.prompt, call.attempt, "flex")[0] < least:
            self._undo(job)
            message = "Resource unavailable: there is not enough capacity for flex processing now. (simulated)"
            raise bodies.Refused(429, "resource_unavailable", message, type="resource_unavailable")
        fate = draw(job.settings, job.call.model, job.call.prompt, job.call.attempt)
        unfit = ("refusals", "filtered", "cut") if isinstance(job.ask, bodies.EmbeddingAsk) else ()
        if fate.fault in (*unfit, *(_CONNECTION_FAULTS if call.channel == "batch" else ())):
            fate = Fate("", fate.usage_fault, fate.variant, fate.latency_s)
        job.fate = fate
        if job.fate.fault == "errors":
            totals.accepted.append(call.monotonic)
            totals.faults["errors"] += 1
            await self._wait(job)
            message = "The server had an error while processing your request. Sorry about that! (simulated)"
            raise bodies.Refused(
                SERVER_ERRORS[int(job.fate.variant * len(SERVER_ERRORS))], "", message, type="server_error", limit="errors"
            )
        body = await self._served(job)
        await self._wait(job)
        if job.prefixes:
            job.totals.cache.remember(job.prefixes, time.monotonic())
        for digest, lifetime in job.stored.items():
            job.totals.marked.store(digest, lifetime, time.monotonic())
        if job.fate.fault == "drops":
            return bodies.Reply(0, b"", drop=True)
        job.call.status = 200
        return bodies.Reply(200, body[: len(body) // 2] if job.fate.fault == "broken" else body)

    def _take(self, job: _Job, which: str, amount: int) -> None:
        limit = getattr(job.settings, which)
        if limit is None:
            return
        window: Minute = getattr(job.totals.limiter, which)
        now = time.monotonic()
        wait_s = window.wait_s(amount, limit, now)
        if wait_s > 0:
            raise bodies.over_limit(which, job.call.model, limit, amount, wait_s)
        job.taken.append((window, window.take(amount, now)))

    def _undo(self, job: _Job) -> None:
        for window, taken in job.taken:
            window.undo(taken)
        job.call.tokens_in = 0

    async def _count(self, job: _Job) -> None:
        """Count the prompt's tokens as the provider does, and find its prefixes. Raise Refused if the model's window is too
        small."""
        ask, window = job.ask, job.settings.context_window
        text = ask.text if isinstance(ask, bodies.ChatAsk) else "\n".join(ask.inputs)
        if isinstance(ask, bodies.EmbeddingAsk) and ask.n_given_tokens is not None:
            n = ask.n_given_tokens
        elif len(text) > _LONG_TEXT:
            n, job.prefixes = await asyncio.to_thread(self._encoder.read, text)
        else:
            n, job.prefixes = self._read(text)
        job.call.tokens_in = round(n * job.factor)
        longest = (ask.max_tokens or 0) if isinstance(ask, bodies.ChatAsk) else 0
        if window is not None and job.call.tokens_in + longest > window:
            n = job.call.tokens_in
            requested = f"you requested {n + longest} tokens ({n} in the messages, {longest} in the completion)"
            exceeded = f"This model's maximum context length is {window} tokens. However, {requested}."
            message = f"{exceeded} Please reduce the length of either one."
            raise bodies.Refused(400, "context_length_exceeded", message, param="messages")

    async def _served(self, job: _Job) -> bytes:
        """Bill the request, and return the body of the answer."""
        if isinstance(job.ask, bodies.EmbeddingAsk):
            self._bill(job)
            embedded = [vectors.embed(text, job.ask.dimensions) for text in job.ask.inputs]
            usage = reported_usage(job.fate.usage_fault, job.fate.variant, job.call.tokens_in, 0, 0)
            reported = usage and {name: usage[name] for name in ("prompt_tokens", "total_tokens")}
            shown = [vectors.packed(vector) if job.ask.base64 else vector for vector in embedded]
            return bodies.embeddings(job.ask.model, shown, reported)
        if isinstance(job.ask, bodies.RerankAsk):
            # Cohere counts in the same way: a long document is split into pieces, and each piece counts as a document.
            query, *documents = job.ask.inputs
            lengths = (round(self._encoder.count(query + document) * job.factor) for document in documents)
            pieces = sum(max(1, -(-length // vectors.SEARCH_TOKENS)) for length in lengths)
            job.call.searches = -(-pieces // vectors.SEARCH_DOCUMENTS)
            self._bill(job)
            scores = vectors.relevance(query, documents)
            ranked = sorted(enumerate(scores), key=lambda indexed: -indexed[1])[: job.ask.top_n]
            usage = reported_usage(job.fate.usage_fault, job.fate.variant, job.call.searches, 0, 0)
            return bodies.reranking(job.call.n, ranked, None if usage is None else int(usage["prompt_tokens"]))
        ask = job.ask
        text = self.answers.known(ask.model, ask.prompt, job.call.prompt)
        if text is not None:
            return self._charge(job, ask, text)

        async def compute() -> bytes:
            return self._charge(job, ask, await self.answers.find(ask.model, ask.prompt, job.call.prompt))

        # A client that disconnects while its answer is computed still pays for it.
        return await asyncio.shield(asyncio.ensure_future(compute()))

    def _charge(self, job: _Job, ask: bodies.ChatAsk, text: str) -> bytes:
        call = job.call
        done = finish(text, job.fate.fault, ask.max_tokens, job.factor, self._encoder)
        try:
            self._take(job, "output_tpm", done.tokens_out * ask.n)
        except bodies.Refused:
            self._undo(job)
            job.totals.attempts[call.prompt] -= 1
            raise
        if call.kind == "messages":
            self._read_marks(job, ask)
        else:
            lifetime = job.settings.cache_lifetime
            known = job.totals.cache.cached_tokens(job.prefixes, time.monotonic(), lifetime) if job.prefixes else 0
            call.tokens_cached = min(scaled_prefix(known, job.factor), call.tokens_in)
        call.tokens_out = done.tokens_out * ask.n
        self._bill(job)
        claimed = (round(n * job.settings.claim) for n in (call.tokens_in, call.tokens_cached, call.tokens_out))
        usage = reported_usage(job.fate.usage_fault, job.fate.variant, *claimed)
        if call.kind == "messages":
            written = [0, 0] if job.fate.usage_fault else [call.tokens_written, call.tokens_written_1h]
            return messages.message(call.n, call.model, done.choice, messages.usage_of(usage, written, call.channel))
        choice = done.choice if ask.logprobs is None else with_logprobs(done.choice, ask.logprobs)
        # All answers of a call are equal, as from a real provider at temperature 0.
        return bodies.completion(call.n, call.model, [choice] * ask.n, usage, int(call.time), "flex" if ask.flex else "default")

    def _read_marks(self, job: _Job, ask: bodies.ChatAsk) -> None:
        """Count the tokens that `cache_control` reads and stores, as at Anthropic."""
        call, job.prefixes = job.call, []
        if not ask.marks:
            return
        starts = (0, *ask.block_ends)
        blocks = (ask.text[start:end].encode("utf-8", "surrogatepass") for start, end in zip(starts, starts[1:], strict=False))
        hashes = (hashlib.sha256(block).digest() for block in blocks)
        digests = list(accumulate(hashes, lambda before, block: hashlib.sha256(before + block).digest()))

        def tokens(n_blocks: int) -> int:
            counted = self._encoder.count(ask.text[: ask.block_ends[n_blocks - 1]])
            return min(round(counted * job.factor), call.tokens_in)

        minimum, lifetime, now = job.settings.cache_minimum, job.settings.cache_lifetime, time.monotonic()
        cached = job.totals.marked
        if read := cached.longest(digests, (mark.block for mark in ask.marks), now):
            call.tokens_cached = tokens(read)
            cached.renew(digests[read - 1], now)
        reached = call.tokens_cached
        for mark in ask.marks:
            end = tokens(mark.block + 1)
            if end < minimum:
                continue
            job.stored[digests[mark.block]] = lifetime * (_LONGER if mark.ttl == "1h" else 1)
            if end > reached:
                name = "tokens_written_1h" if mark.ttl == "1h" else "tokens_written"
                setattr(call, name, getattr(call, name) + end - reached)
                reached = end

    def _bill(self, job: _Job) -> None:
        call, fate = job.call, job.fate
        settings = job.settings
        written = call.tokens_written + call.tokens_written_1h
        price = Price(
            settings.input_price,
            settings.output_price,
            settings.cached_price,
            settings.input_price * settings.write_factor,
            cache_write_1h_per_mtok=settings.input_price * settings.write_hour_factor,
        ).times({"standard": 1.0, "flex": settings.flex_factor, "batch": settings.batch_factor}[call.channel])
        if call.searches:
            price = Price(0, 0, per_search=settings.search_price)
        usage = Usage(
            call.tokens_in,
            call.tokens_out,
            call.tokens_cached,
            written,
            searches=call.searches,
            cache_write_1h_tokens=call.tokens_written_1h,
        )
        call.micros = price.micros(usage)
        call.fault = fate.fault or fate.usage_fault or call.fault
        job.totals.accepted.append(call.monotonic)
        for fault in filter(None, (fate.fault, fate.usage_fault)):
            job.totals.faults[fault] += 1
        self.books.bill(call, job.totals, time.time())

    async def _wait(self, job: _Job) -> None:
        if job.fate.fault == "hangs":
            await asyncio.get_running_loop().create_future()
        left = job.fate.latency_s - (time.monotonic() - job.call.monotonic)
        if left > 0:
            await asyncio.sleep(left)
