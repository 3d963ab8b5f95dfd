"""Files and batches of the simulated provider, in the forms of OpenAI's Batch API and Anthropic's Message Batches.

Each batch runs in a separate task. Its requests are spread over its duration, and each is served and billed like any other
request.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from summhay_ray.simulator.bodies import Refused, read_body
from summhay_ray.simulator.faults import uniform
from summhay_ray.simulator.messages import error_of
from summhay_ray.simulator_settings import Settings

Wire = Literal["openai", "anthropic"]
ENDPOINTS: Mapping[str, str] = {"/v1/chat/completions": "chat", "/v1/embeddings": "embeddings"}
"""Endpoint of OpenAI's batches -> the kind of its requests."""
DAY_S = 86_400
_AT_ONCE = 4
_VALIDATED, _FINALIZED = 0.05, 0.95
"""Shares of a batch's duration after which validation ends and finalizing begins."""
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_METADATA, _LONGEST_NAME, _LONGEST_VALUE = 16, 64, 512


@dataclass(frozen=True, slots=True)
class File:
    """A stored file. `key`: fingerprint of the API key that owns it; `created`: Unix seconds."""

    id: str
    key: str
    content: bytes
    name: str
    purpose: str
    created: int

    def to_json(self) -> dict[str, Any]:
        """Return the file in OpenAI's form."""
        about = {"id": self.id, "object": "file", "bytes": len(self.content), "created_at": self.created}
        return {**about, "filename": self.name, "purpose": self.purpose, "status": "processed", "status_details": None}


@dataclass(frozen=True, slots=True)
class Served:
    """A served request of a batch: HTTP status and JSON body."""

    status: int
    body: Any


@dataclass(slots=True)
class Item:
    """One request of a batch, and its result."""

    custom_id: str
    kind: str
    body: Any
    served: Served | None = None
    """None until the request is served, and for a request that is never served."""


@dataclass(slots=True)
class Batch:
    """A batch. `times`: status -> Unix seconds at which it began."""

    id: str
    wire: Wire
    key: str
    version: str = ""
    """The version of Anthropic's API."""
    endpoint: str = ""
    input_file_id: str = ""
    metadata: Mapping[str, str] | None = None
    status: str = "validating"
    times: dict[str, float] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    """The reasons why validation failed."""
    faults: frozenset[str] = frozenset()
    output_file_id: str | None = None
    error_file_id: str | None = None
    results: bytes = b""
    """Anthropic's results."""

    @property
    def ended(self) -> bool:
        """Whether no more requests are served."""
        return self.status in ("completed", "failed", "expired", "cancelled")

    @property
    def answered(self) -> int:
        """The number of requests with an answer."""
        return sum(item.served is not None and item.served.status == 200 for item in self.items)

    @property
    def refused(self) -> int:
        """The number of requests that ended with an error."""
        return sum(item.served is not None and item.served.status != 200 for item in self.items)

    def turn(self, status: str) -> None:
        """Change the status."""
        self.status = status
        self.times[status] = time.time()


Serve = Callable[[Batch, Item], Awaitable[Served]]
"""Serves and bills one request of a batch."""


@dataclass(eq=False)
class Batches:
    """All files and batches. `settings_of`: the settings of a model; `serve`: see `Serve`."""

    settings_of: Callable[[str], Settings]
    serve: Serve
    _tasks: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _numbers: Iterator[int] = field(init=False, default_factory=lambda: count(1))
    _polls: Iterator[int] = field(init=False, default_factory=lambda: count(1))
    files: dict[str, File] = field(init=False, default_factory=dict)
    batches: dict[str, Batch] = field(init=False, default_factory=dict)

    def reset(self) -> None:
        """Delete everything, and stop the batches in progress."""
        self.stop()
        self.files.clear()
        self.batches.clear()

    def stop(self) -> None:
        """Stop the batches in progress."""
        for task in self._tasks:
            task.cancel()

    def to_json(self) -> list[dict[str, Any]]:
        """Return all batches in order of creation, whatever their key."""
        about = ("id", "wire", "key", "status", "metadata", "answered", "refused")
        return [
            {**{name: getattr(batch, name) for name in about}, "model": _model_of(batch.items), "requests": len(batch.items)}
            for batch in self.batches.values()
        ]

    def poll(self, settings: Settings) -> None:
        """Count a request for the state of a file or batch. Raise Refused (429 or 500) if such a fault is drawn."""
        number = next(self._polls)
        (drawn,) = uniform(1, settings.seed, "poll", number)
        if drawn < settings.poll_errors:
            if number % 2:
                raise Refused(
                    429, "rate_limit_exceeded", "Too many requests for batches. (simulated)", headers={"Retry-After": "1"}
                )
            raise Refused(500, "", "The server had an error while processing your request. (simulated)", type="server_error")

    def create_file(self, key: str, content: bytes, name: str, purpose: str) -> File:
        """Store a file."""
        made = File(f"file-simulated{next(self._numbers)}", key, content, name, purpose, int(time.time()))
        self.files[made.id] = made
        return made

    def file(self, key: str, name: str) -> File:
        """Return a stored file. Raise Refused (404)."""
        found = self.files.get(name)
        if found is None or found.key != key:
            raise Refused(404, "", f"No such File object: {name}", param="id")
        return found

    def batch(self, key: str, wire: Wire, name: str) -> Batch:
        """Return a batch of this wire format. Raise Refused (404)."""
        found = self.batches.get(name)
        if found is None or found.key != key or found.wire != wire:
            raise Refused(404, "", f"No batch found with id '{name}'.")
        return found

    def listed(self, key: str, wire: Wire) -> list[Batch]:
        """Return the batches of this key and wire format, newest first."""
        return [batch for batch in reversed(self.batches.values()) if (batch.key, batch.wire) == (key, wire)]

    def create(self, key: str, raw: bytes) -> Batch:
        """Create a batch from a request in OpenAI's form, and start it. Raises Refused."""
        body = read_body(raw)
        endpoint, file_id, metadata = (body.get(name) for name in ("endpoint", "input_file_id", "metadata"))
        if endpoint not in ENDPOINTS:
            raise Refused(400, "invalid_value", f"endpoint is one of {', '.join(ENDPOINTS)}", param="endpoint")
        if not isinstance(file_id, str):
            raise Refused(
                400, "missing_required_parameter", "Missing required parameter: 'input_file_id'.", param="input_file_id"
            )
        if body.get("completion_window") != "24h":
            raise Refused(400, "invalid_value", "completion_window is 24h", param="completion_window")
        if metadata is not None and not (
            isinstance(metadata, dict)
            and len(metadata) <= _MOST_METADATA
            and all(len(name) <= _LONGEST_NAME for name in metadata)
            and all(isinstance(value, str) and len(value) <= _LONGEST_VALUE for value in metadata.values())
        ):
            wanted = f"at most {_MOST_METADATA} pairs of strings, of {_LONGEST_NAME} and {_LONGEST_VALUE} characters"
            raise Refused(400, "invalid_value", f"metadata has {wanted}", param="metadata")
        made = Batch(f"batch_simulated{next(self._numbers)}", "openai", key, "", str(endpoint), file_id, metadata)
        self._start(made)
        return made

    def create_messages(self, key: str, version: str, raw: bytes) -> Batch:
        """Create a batch from a request in Anthropic's form, and start it. Raises Refused."""
        given = read_body(raw).get("requests")
        if not isinstance(given, list) or not given:
            raise Refused(400, "", "requests: at least one request is required")
        items = []
        for number, one in enumerate(given):
            name, params = (one.get("custom_id"), one.get("params")) if isinstance(one, dict) else (None, None)
            if not isinstance(name, str) or not _CUSTOM_ID.fullmatch(name):
                raise Refused(400, "", f"requests.{number}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
            if not isinstance(params, dict):
                raise Refused(400, "", f"requests.{number}.params: Field required")
            items.append(Item(name, "messages", params))
        if len({item.custom_id for item in items}) < len(items):
            raise Refused(400, "", "requests: each custom_id must be unique within the batch")
        most = self.settings_of(_model_of(items)).batch_requests
        if len(items) > most:
            raise Refused(413, "", f"requests: at most {most} requests are allowed in a batch")
        made = Batch(f"msgbatch_simulated{next(self._numbers)}", "anthropic", key, version, items=items)
        self._start(made)
        return made

    def cancel(self, batch: Batch) -> None:
        """Serve no more requests of a batch. Raise Refused (409 or 400) if it has ended."""
        if batch.ended:
            status = 409 if batch.wire == "openai" else 400
            raise Refused(status, "", f"Cannot cancel a batch with status '{batch.status}'.")
        if batch.status != "cancelling":
            batch.turn("cancelling")

    def _start(self, batch: Batch) -> None:
        batch.turn("validating" if batch.wire == "openai" else "in_progress")
        self.batches[batch.id] = batch
        if batch.wire == "openai":
            batch.items, batch.errors = self._validated(batch)
        settings = self.settings_of(_model_of(batch.items))
        chosen, lost, shuffled, gone = uniform(4, settings.seed, "batch", len(self.batches))
        failed = settings.batch_failed
        drawn = {
            "batch_failed": chosen < failed,
            "batch_expired": failed <= chosen < failed + settings.batch_expired,
            "batch_lost": lost < settings.batch_lost,
            "batch_shuffled": shuffled < settings.batch_shuffled,
            "batch_gone": gone < settings.batch_gone,
        }
        batch.faults = frozenset(name for name, happens in drawn.items() if happens)
        task = asyncio.get_running_loop().create_task(self._work(batch, settings))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _validated(self, batch: Batch) -> tuple[list[Item], list[dict[str, Any]]]:
        """Return the requests in the input file, and the errors in it."""
        file = self.files.get(batch.input_file_id)
        if file is None or file.key != batch.key:
            return [], [_flaw("invalid_input_file", f"The input file {batch.input_file_id} does not exist.", None)]
        items, flaws = _read_lines(file.content, batch.endpoint)
        most = self.settings_of(_model_of(items)).batch_requests
        if not flaws and len(items) > most:
            flaws = [_flaw("too_many_tasks", f"The batch has {len(items)} requests; at most {most} are allowed.", None)]
        return ([], flaws) if flaws else (items, [])

    async def _work(self, batch: Batch, settings: Settings) -> None:
        loop = asyncio.get_running_loop()
        begin, duration = loop.time(), settings.batch_duration
        await asyncio.sleep(_VALIDATED * duration)
        if batch.wire == "openai" and "batch_failed" in batch.faults and not batch.errors:
            batch.errors = [_flaw("simulated_failure", "The input file could not be validated. (simulated)", 1)]
        if batch.errors:
            batch.turn("failed")
            return
        if batch.status == "validating":
            batch.turn("in_progress")
        expires = "batch_expired" in batch.faults
        # Serve the larger half, so that even a batch of one request makes progress.
        served = iter(batch.items[: (len(batch.items) + 1) // 2] if expires else batch.items)
        places = count(1)

        async def serve() -> None:
            for item in served:
                share = _VALIDATED + (_FINALIZED - _VALIDATED) * next(places) / len(batch.items)
                await _until(batch, begin + share * duration)
                if batch.status == "cancelling":
                    return
                item.served = await self._line(batch, item, settings)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(serve())
        if expires:
            await _until(batch, begin + duration)
        elif batch.wire == "openai" and batch.status != "cancelling":
            batch.turn("finalizing")
            await asyncio.sleep(begin + duration - loop.time())
        self._finish(batch, settings)
        batch.turn({"cancelling": "cancelled"}.get(batch.status, "expired" if expires else "completed"))

    async def _line(self, batch: Batch, item: Item, settings: Settings) -> Served:
        if batch.wire == "anthropic" and "batch_failed" in batch.faults:
            return Served(400, error_of(Refused(400, "", "The request could not be validated. (simulated)")))
        if _line_fault(settings, batch, item) == "errors":
            refusal = Refused(500, "", "The server had an error while processing your request. (simulated)", type="server_error")
            return Served(500, error_of(refusal) if batch.wire == "anthropic" else json.loads(refusal.reply().body))
        return await self.serve(batch, item)

    def _finish(self, batch: Batch, settings: Settings) -> None:
        """Write the results."""
        answers: list[str] = []
        errors: list[str] = []
        for number, item in enumerate(batch.items):
            line = _openai_line(batch, number, item) if batch.wire == "openai" else _anthropic_line(batch, item)
            fault = _line_fault(settings, batch, item)
            if line is None or fault == "missing":
                continue
            fine = batch.wire == "anthropic" or item.served is not None and item.served.status == 200
            copies = 2 if fault == "duplicates" else 1
            (answers if fine else errors).extend([json.dumps(line)] * copies)
        if "batch_shuffled" in batch.faults:
            for lines in (answers, errors):
                lines.sort(key=lambda line: uniform(1, settings.seed, line))
        if batch.wire == "anthropic":
            batch.results = _joined(answers)
            return
        is_lost = "batch_gone" in batch.faults
        if answers:
            batch.output_file_id = self._output(batch, "output", answers, is_lost)
        if errors:
            batch.error_file_id = self._output(batch, "error", errors, is_lost)

    def _output(self, batch: Batch, what: str, lines: Sequence[str], is_lost: bool) -> str:
        made = self.create_file(batch.key, _joined(lines), f"{batch.id}_{what}.jsonl", "batch_output")
        if is_lost:
            del self.files[made.id]
        return made.id


def openai_json(batch: Batch) -> dict[str, Any]:
    """Return a batch in OpenAI's form."""
    started, errors = batch.times["validating"], {"object": "list", "data": batch.errors}
    stamps = {f"{name}_at": int(batch.times[name]) if name in batch.times else None for name in _STAMPED}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": _model_of(batch.items) or None,
        "errors": errors if batch.errors else None,
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": batch.status,
        "output_file_id": batch.output_file_id,
        "error_file_id": batch.error_file_id,
        "created_at": int(started),
        "expires_at": int(started) + DAY_S,
        **stamps,
        "request_counts": {"total": len(batch.items), "completed": batch.answered, "failed": batch.refused},
        "metadata": batch.metadata,
    }


_STAMPED = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")


def anthropic_json(batch: Batch, origin: str) -> dict[str, Any]:
    """Return a batch in Anthropic's form. `origin`: scheme, host and port of the provider."""
    started, ended = batch.times["in_progress"], next((batch.times[name] for name in _ENDED if name in batch.times), None)
    cancelled = batch.times.get("cancelling")
    left = len(batch.items) - batch.answered - batch.refused
    ends = {"succeeded": batch.answered, "errored": batch.refused, "canceled": 0, "expired": 0}
    ends["canceled" if batch.status == "cancelled" else "expired"] = left
    counts = {"processing": 0, **ends} if batch.ended else {"processing": len(batch.items), **dict.fromkeys(ends, 0)}
    status = "ended" if batch.ended else "canceling" if batch.status == "cancelling" else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": _rfc3339(started),
        "expires_at": _rfc3339(started + DAY_S),
        "ended_at": None if ended is None else _rfc3339(ended),
        "cancel_initiated_at": None if cancelled is None else _rfc3339(cancelled),
        "archived_at": None,
        "results_url": f"{origin}/v1/messages/batches/{batch.id}/results" if batch.ended else None,
    }


_ENDED = ("completed", "expired", "cancelled")


def results_of(batch: Batch) -> bytes:
    """Return the results of a batch in Anthropic's form, as lines of JSON. Raise Refused (404) before it has ended, and if they
    have been deleted."""
    if not batch.ended or "batch_gone" in batch.faults:
        raise Refused(404, "", f"The results of {batch.id} are not available.")
    return batch.results


def page(batches: Sequence[Batch], after: str, before: str, limit: str, most: int) -> tuple[list[Batch], bool]:
    """Return a page of batches, and whether there are more. Raise Refused (400)."""
    n = int(limit) if limit.isdigit() else 20 if not limit else 0
    if not 1 <= n <= most:
        raise Refused(400, "invalid_value", f"limit is a whole number from 1 to {most}", param="limit")
    names = [batch.id for batch in batches]
    for cursor in filter(None, (after, before)):
        if cursor not in names:
            raise Refused(400, "invalid_value", f"{cursor} is not a batch of this list", param="after")
    if before:
        first = max(names.index(before) - n, 0)
        return list(batches[first : names.index(before)]), first > 0
    first = names.index(after) + 1 if after else 0
    return list(batches[first : first + n]), first + n < len(names)


def _read_lines(content: bytes, endpoint: str) -> tuple[list[Item], list[dict[str, Any]]]:
    """Return the requests of an input file, and its errors, as OpenAI's validation finds them."""
    items: list[Item] = []
    flaws: list[dict[str, Any]] = []
    known: set[str] = set()
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except (ValueError, RecursionError):
            given = None
        name, body = (given.get("custom_id"), given.get("body")) if isinstance(given, dict) else (None, None)
        model = body.get("model") if isinstance(body, dict) else None
        if not isinstance(given, dict):
            flaws.append(_flaw("invalid_json_line", "This line is not parseable as valid JSON.", number))
        elif not isinstance(name, str) or not name:
            flaws.append(_flaw("missing_required_parameter", "Missing required parameter: 'custom_id'.", number, "custom_id"))
        elif name in known:
            flaws.append(_flaw("duplicate_custom_id", f"The custom_id '{name}' is used more than once.", number, "custom_id"))
        elif given.get("method") != "POST" or given.get("url") != endpoint:
            flaws.append(_flaw("invalid_url", f"Each request is a POST to the batch's endpoint, {endpoint}.", number, "url"))
        elif not isinstance(model, str):
            flaws.append(_flaw("missing_required_parameter", "Missing required parameter: 'body.model'.", number, "body"))
        elif items and items[0].body["model"] != model:
            flaws.append(_flaw("mismatched_model", "All requests of a batch must have the same model.", number, "body.model"))
        else:
            known.add(name)
            items.append(Item(name, ENDPOINTS[endpoint], body))
    if not items and not flaws:
        flaws.append(_flaw("empty_file", "The input file is empty.", None))
    return items, flaws


def _flaw(code: str, message: str, line: int | None, param: str | None = None) -> dict[str, Any]:
    return {"code": code, "message": message, "line": line, "param": param}


def _openai_line(batch: Batch, number: int, item: Item) -> dict[str, Any] | None:
    """Return a line of the output or error file, or None if the request has no line there."""
    name = {"id": f"batch_req_{batch.id.removeprefix('batch_')}_{number}", "custom_id": item.custom_id}
    if item.served is not None:
        response = {"status_code": item.served.status, "request_id": f"req_{number}", "body": item.served.body}
        return {**name, "response": response, "error": None}
    if batch.status == "cancelling":
        return None
    expired = "This request could not be executed before the completion window expired."
    return {**name, "response": None, "error": {"code": "batch_expired", "message": expired}}


def _anthropic_line(batch: Batch, item: Item) -> dict[str, Any]:
    served = item.served
    if served is None:
        result = {"type": "canceled" if batch.status == "cancelling" else "expired"}
    else:
        result = (
            {"type": "succeeded", "message": served.body} if served.status == 200 else {"type": "errored", "error": served.body}
        )
    return {"custom_id": item.custom_id, "result": result}


def _line_fault(settings: Settings, batch: Batch, item: Item) -> str:
    """Return the fault of a request in the results: errors, missing, duplicates, or an empty string."""
    (drawn,) = uniform(1, settings.seed, "line", batch.id, item.custom_id)
    for share, fault in (
        (settings.batch_errors, "errors"),
        (settings.batch_missing, "missing"),
        (settings.batch_duplicates, "duplicates"),
    ):
        if drawn < share:
            return fault
        drawn -= share
    return ""


def _model_of(items: Sequence[Item]) -> str:
    model = items[0].body.get("model") if items else ""
    return model if isinstance(model, str) else ""


async def _until(batch: Batch, when: float) -> None:
    """Wait until this time of the event loop, or until the batch is cancelled."""
    loop = asyncio.get_running_loop()
    while batch.status != "cancelling" and (left := when - loop.time()) > 0:
        await asyncio.sleep(min(left, 0.05))


def _joined(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _rfc3339(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1e6):06d}Z"
