"""Batch APIs, which answer many requests in one job within a day, at a fraction of the price.

There are two protocols. OpenAI's has a file of requests, and a batch of the file; other providers and endpoints also speak it.
Anthropic's has message batches. One object serves one model. This module does not retry, wait or charge; the engine's batch queue
does. Creating a batch is not idempotent. If it is unknown whether a batch was created, `find` first searches the provider's list
for it.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from summhay_ray.llm.bodies import ProviderError, error_in
from summhay_ray.llm.keys import known_secrets
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.model_settings import ModelSettings, batch_wire
from summhay_ray.llm.provider_table import address_of, wire_name
from summhay_ray.llm.read_reply import BROKEN, finish_reason_of, reply_of, usage_of
from summhay_ray.llm.request import REVISION, Reply, Request, with_max_tokens
from summhay_ray.llm.retry import Decision, decide
from summhay_ray.routes import Wire

TOKEN = "summhay"
"""The field of a batch's metadata that contains the batch's token. If the reply to its creation was lost, the batch is found by
the token."""
ANTHROPIC_VERSION = "2023-06-01"
MOST_BYTES_A_TOKEN = 64
LISTED = 100
"""Number of batches per page of a provider's list."""
SKEW_S = 600.0
"""The provider's clock may be this many seconds behind ours."""

LineKind = Literal["answer", "error", "unreadable", "expired", "cancelled"]


class BatchRequest(NamedTuple):
    """A request that waits for a batch. Its `custom_id` is the answer's key."""

    claim: Claim
    """Key, model, stage, tokens, and the worst case at the price of a batch."""
    body: str
    """The JSON of the request in the provider's form."""


class BatchState(NamedTuple):
    """A batch as its provider reports it."""

    id: str
    ended: bool
    total: int = 0
    """Number of requests; 0 if unknown."""
    answered: int = 0
    """Number of requests that were answered, and so are charged."""
    created: float = 0.0
    """Seconds since 1970, by the provider's clock."""
    token: str = ""
    files: tuple[str, ...] = ()
    """The files of the results, for OpenAI's protocol."""
    failure: str = ""
    """Why the whole batch failed the validation; empty if it did not fail."""
    flaws: tuple[tuple[int, str], ...] = ()
    """(Number of the line, counted from 1; what is wrong with it) of each request that failed the validation."""
    is_full: bool = False
    """Whether it failed because too much is enqueued. The same batch may be created later."""


class Line(NamedTuple):
    """The result of one request."""

    key: str
    kind: LineKind
    reply: Reply | None = None
    decision: Decision | None = None
    """What the error means, if `kind` is error."""
    message: str = ""


class CallFailed(Exception):
    """Raised if a request about a batch fails. The message is one line without secrets. `doubtful`: the request may have been
    executed."""

    def __init__(self, message: str, decision: Decision, status: int, doubtful: bool) -> None:
        super().__init__(message)
        self.decision, self.status, self.doubtful = decision, status, doubtful


def batch_body(request: Request, settings: ModelSettings) -> str:
    """Return the JSON of a request for its provider's batches. Raises UnicodeEncodeError, or ValueError for NaN or infinity."""
    if batch_wire(settings.model, settings.api_base, settings.transport) == "openai":
        from summhay_ray.llm.direct import body_of

        return body_of(request, settings).decode("utf-8")
    sent = with_max_tokens(request.sampling)
    sent |= sent.pop("extra_body", None) or {}
    longest = sent.pop("max_completion_tokens", None) or sent.pop("max_tokens", None)
    stop = sent.pop("stop", None)
    conversation = [one for one in request.conversation(settings.cache) if one["role"] != "system"]
    system = "\n\n".join(one.content for one in request.messages if one.role == "system")
    body = {
        "model": wire_name(settings.model),
        "max_tokens": longest,
        **({"system": system} if system else {}),
        "messages": conversation,
        **({} if stop is None else {"stop_sequences": [stop] if isinstance(stop, str) else stop}),
        **{name: value for name, value in sent.items() if name not in (REVISION, "max_tokens")},
    }
    text = json.dumps(body, allow_nan=False, ensure_ascii=False)
    text.encode()
    return text


@dataclass
class BatchApi:
    """The batches of one model. Each method makes its requests only once, and raises CallFailed."""

    settings: ModelSettings
    most_requests = 50_000
    most_bytes = 190_000_000
    _http: Any = field(default=None, init=False)

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()

    async def create(self, token: str, requests: Sequence[BatchRequest]) -> str:
        """Create a batch and return its id. If this raises a `doubtful` CallFailed, the batch may have been created."""
        raise NotImplementedError

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        return self._state(await self._json("GET", f"{self._batches}/{quote(batch_id, safe='')}"))

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to stop a batch. Answers that it has already made can be read, and are charged."""
        await self._json("POST", f"{self._batches}/{quote(batch_id, safe='')}/cancel", {})

    async def lines(self, state: BatchState, n_tokens: int) -> list[Line]:
        """Return the results of a batch that has ended. `n_tokens`: maximum tokens of all its answers."""
        raise NotImplementedError

    async def find(self, token: str, since: float, keys: frozenset[str], others: frozenset[str]) -> str | None:
        """Return the id of the batch with this token, or with these keys, among the batches that were created after `since`.
        Returns None if there is none, and an empty text if that is not known yet. `others`: ids of other known batches."""
        raise NotImplementedError

    async def _states(self, since: float) -> AsyncIterator[BatchState]:
        """Yield the provider's batches that were created after `since`, newest first."""
        after = ""
        while True:
            page = await self._json("GET", f"{self._batches}?limit={LISTED}{after}")
            states = [self._state(one) for one in page["data"]]
            for state in states:
                yield state
            if not states or not page.get("has_more") or states[-1].created < since - SKEW_S:
                return
            after = f"&{self._after}={quote(states[-1].id, safe='')}"

    _after = "after"

    @property
    def _batches(self) -> str:
        raise NotImplementedError

    def _state(self, body: Mapping[str, Any]) -> BatchState:
        raise NotImplementedError

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    async def _json(self, method: str, url: str, data: Any = None) -> Any:
        content = await self._call(method, url, None if data is None else json.dumps(data, ensure_ascii=False).encode())
        try:
            body = json.loads(content)
            if not isinstance(body, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError) as error:
            # Despite the error, the batch may exist.
            raise CallFailed(f"{url} answers no JSON ({error})", Decision("transient", "bad_response"), 200, True) from error
        return body

    async def _call(
        self, method: str, url: str, data: bytes | None, kind: str = "application/json", limit: int = 1 << 26
    ) -> bytes:
        if self._http is None:
            from summhay_ray.llm.direct import DirectTransport

            self._http = DirectTransport()
        wire = Wire()
        try:
            content: bytes = await self._http.fetch(method, url, self.settings, wire, data, kind, self._headers, limit)
            return content
        # The HTTP client raises its own errors, and every error must become a decision.
        except Exception as error:  # noqa: BLE001
            status = getattr(error, "status_code", 0)
            named = [self.settings.api_key_env] if self.settings.api_key_env else []
            message = known_secrets(named).one_line(error)
            refused = 300 <= status < 500 and status not in (408, 409)
            raise CallFailed(message, decide(error, wire), status, wire.sent and not refused) from None

    def _reply(self, key: str, body: Any) -> Line:
        """Return the line of an answer in OpenAI's format."""
        error = error_in(body, "chat")
        if error is not None:
            return Line(key, "error", None, decide(error), str(error))
        try:
            reply = reply_of(body)
        except (ValueError, RecursionError) as why:
            return Line(key, "unreadable", Reply("", BROKEN, None, body), None, str(why))
        if reply.finish_reason == BROKEN:
            return Line(key, "unreadable", reply, None, "the answer broke off")
        return Line(key, "answer", reply)


class OpenAiBatches(BatchApi):
    """OpenAI's files and batches."""

    async def create(self, token: str, requests: Sequence[BatchRequest]) -> str:
        """See `BatchApi`."""
        url = "/v1/chat/completions"
        # The bodies are already JSON. Encoding them again would take a second per 100 MB.
        lines = "".join(
            f'{{"custom_id":"{request.claim.key}","method":"POST","url":"{url}","body":{request.body}}}\n' for request in requests
        )
        mark = f"summhay{token}"
        parts = (
            f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{TOKEN}-{token}.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n",
            lines,
            f"\r\n--{mark}--\r\n",
        )
        try:
            content = await self._call(
                "POST", f"{self._base}/files", "".join(parts).encode(), f"multipart/form-data; boundary={mark}"
            )
            file = json.loads(content)["id"]
        except CallFailed as error:
            # The error is not doubtful, since a file that was uploaded twice costs nothing.
            raise CallFailed(str(error), error.decision, error.status, False) from None
        except (ValueError, KeyError, TypeError) as error:
            message = f"the uploaded file has no id ({type(error).__name__})"
            raise CallFailed(message, Decision("transient", "bad_response"), 200, False) from error
        fields = {"input_file_id": file, "endpoint": url, "completion_window": "24h", "metadata": {TOKEN: token}}
        return self._state(await self._json("POST", self._batches, fields)).id

    async def find(self, token: str, since: float, keys: frozenset[str], others: frozenset[str]) -> str | None:
        """See `BatchApi`."""
        async for state in self._states(since):
            if state.token == token:
                return state.id
        return None

    async def lines(self, state: BatchState, n_tokens: int) -> list[Line]:
        """See `BatchApi`. A missing file counts as empty."""
        found: list[Line] = []
        for file in state.files:
            limit = (1 << 26) + state.total * (1 << 14) + n_tokens * MOST_BYTES_A_TOKEN
            try:
                content = await self._call("GET", f"{self._base}/files/{quote(file, safe='')}/content", None, limit=limit)
            except CallFailed as error:
                if error.status not in (404, 410):
                    raise
                continue
            found += map(self._line, _json_lines(content))
        return found

    def _line(self, line: Any) -> Line:
        key, response, error = str(line.get("custom_id", "")), line.get("response"), line.get("error")
        if isinstance(response, dict):
            status = response.get("status_code")
            if status == 200:
                return self._reply(key, response.get("body"))
            failed = ProviderError(status if isinstance(status, int) else 500, json.dumps(response.get("body"), default=str))
            return Line(key, "error", None, decide(failed), str(failed))
        code = str(error.get("code", "")) if isinstance(error, dict) else ""
        if "expired" in code:
            return Line(key, "expired", None, None, "the batch expired before the request was answered")
        if "cancel" in code:
            return Line(key, "cancelled", None, None, "the batch was cancelled before the request was answered")
        failed = ProviderError(500, json.dumps({"error": error}, default=str))
        return Line(key, "error", None, decide(failed), str(failed))

    @property
    def _base(self) -> str:
        return address_of(self.settings.model, self.settings.api_base).rstrip("/")

    @property
    def _batches(self) -> str:
        return f"{self._base}/batches"

    def _state(self, body: Mapping[str, Any]) -> BatchState:
        status, counts = str(body.get("status", "")), _object(body, "request_counts")
        errors = [one for one in _object(body, "errors").get("data") or () if isinstance(one, dict)]
        flaws = tuple((one["line"], str(one.get("message", ""))) for one in errors if isinstance(one.get("line"), int))
        failure = "; ".join(f"{one.get('code')}: {one.get('message')}" for one in errors[:3]) or "the batch failed"
        return BatchState(
            id=str(body.get("id", "")),
            ended=status in ("failed", "completed", "expired", "cancelled"),
            total=_count(counts, "total"),
            answered=_count(counts, "completed"),
            created=float(_count(body, "created_at")),
            token=str(_object(body, "metadata").get(TOKEN, "")),
            files=tuple(str(body[name]) for name in ("output_file_id", "error_file_id") if body.get(name)),
            failure=failure if status == "failed" else "",
            flaws=flaws,
            is_full=any("limit" in str(one.get("code")) for one in errors),
        )


class AnthropicBatches(BatchApi):
    """Anthropic's message batches. They have no metadata, so a batch whose creation was not confirmed is found by the keys in its
    results."""

    most_requests = 100_000
    most_bytes = 250_000_000
    _after = "after_id"

    async def create(self, token: str, requests: Sequence[BatchRequest]) -> str:
        """See `BatchApi`."""
        listed = ",".join(f'{{"custom_id":"{request.claim.key}","params":{request.body}}}' for request in requests)
        content = await self._call("POST", self._batches, f'{{"requests":[{listed}]}}'.encode())
        try:
            return str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError) as error:
            message = f"the created batch has no id ({type(error).__name__})"
            raise CallFailed(message, Decision("transient", "bad_response"), 200, True) from error

    async def find(self, token: str, since: float, keys: frozenset[str], others: frozenset[str]) -> str | None:
        """See `BatchApi`. The keys of a batch are unknown until it has ended."""
        unknown = False
        async for state in self._states(since):
            if state.id in others or state.total != len(keys) or state.created < since - SKEW_S:
                continue
            if not state.ended:
                unknown = True
            elif {line.key for line in await self.lines(state, 0)} & keys:
                return state.id
        return "" if unknown else None

    async def lines(self, state: BatchState, n_tokens: int) -> list[Line]:
        """See `BatchApi`. Missing results count as empty."""
        limit = (1 << 28) + state.total * (1 << 14) + n_tokens * MOST_BYTES_A_TOKEN
        try:
            content = await self._call("GET", f"{self._batches}/{quote(state.id, safe='')}/results", None, limit=limit)
        except CallFailed as error:
            if error.status not in (404, 410):
                raise
            return []
        return list(map(self._line, _json_lines(content)))

    def _line(self, line: Any) -> Line:
        key, result = str(line.get("custom_id", "")), _object(line, "result")
        kind = result.get("type")
        if kind == "succeeded":
            return self._message(key, _object(result, "message"))
        if kind in ("expired", "canceled"):
            known: LineKind = "expired" if kind == "expired" else "cancelled"
            return Line(key, known, None, None, f"the batch was {kind} before the request was answered")
        error = _object(result, "error")
        error = _object(error, "error") or error
        failed = ProviderError(_STATUS.get(str(error.get("type")), 500), json.dumps({"error": error}, default=str))
        return Line(key, "error", None, decide(failed), str(failed))

    def _message(self, key: str, message: Mapping[str, Any]) -> Line:
        parts = [part for part in message.get("content") or () if isinstance(part, dict)]
        text = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
        said = _object(message, "usage")
        read, written = (_count(said, f"cache_{way}_input_tokens") for way in ("read", "creation"))
        usage = None
        if {"input_tokens", "output_tokens"} <= said.keys():
            tokens = {"prompt_tokens": _count(said, "input_tokens") + read + written}
            tokens |= {"completion_tokens": _count(said, "output_tokens")}
            cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
            usage = usage_of({**tokens, **cache, "cache_creation": said.get("cache_creation")})
        if not isinstance(message.get("content"), list):
            return Line(key, "unreadable", Reply("", BROKEN, usage, dict(message)), None, "the message has no content")
        return Line(key, "answer", Reply(text, finish_reason_of(str(message.get("stop_reason") or "")), usage, dict(message)))

    def _headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}

    @property
    def _batches(self) -> str:
        base = (self.settings.api_base or "https://api.anthropic.com").rstrip("/")
        return f"{base}{'' if base.endswith('/v1') else '/v1'}/messages/batches"

    def _state(self, body: Mapping[str, Any]) -> BatchState:
        counts = _object(body, "request_counts")
        names = ("processing", "succeeded", "errored", "canceled", "expired")
        return BatchState(
            id=str(body.get("id", "")),
            ended=body.get("processing_status") == "ended",
            total=sum(_count(counts, name) for name in names),
            answered=_count(counts, "succeeded"),
            created=_seconds(body.get("created_at")),
        )


_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Anthropic's type of an error -> its HTTP status outside of batches."""


def batch_api(settings: ModelSettings) -> BatchApi:
    """Return the batch API of a model, in the protocol of its endpoint."""
    wire = batch_wire(settings.model, settings.api_base, settings.transport)
    return AnthropicBatches(settings) if wire == "anthropic" else OpenAiBatches(settings)


def _json_lines(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects in JSON lines. Skips other lines, whose requests then count as missing."""
    for line in content.split(b"\n"):
        try:
            found = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _object(body: Any, name: str) -> dict[str, Any]:
    part = body.get(name) if isinstance(body, dict) else None
    return part if isinstance(part, dict) else {}


def _count(body: Mapping[str, Any], name: str) -> int:
    number = body.get(name)
    return int(number) if isinstance(number, int | float) and not isinstance(number, bool) and number >= 0 else 0


def _seconds(text: Any) -> float:
    """Convert a time in RFC 3339 to seconds since 1970. Returns 0 for any other text."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
