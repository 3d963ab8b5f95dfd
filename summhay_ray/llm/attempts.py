"""A call in progress, and its single attempts, each at the time of its grant and by the transport of its model.

A transport makes exactly one attempt, and raises if there is no answer. It does not handle retries, limits, budgets and prices.
`retry` says what an error means; `ATTEMPTS` says how often to try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from summhay_ray.llm.keys import Secrets
from summhay_ray.llm.ledger_messages import Claim
from summhay_ray.llm.local_model import LocalModel, LocalTransport
from summhay_ray.llm.model_settings import ModelSettings, transport_of
from summhay_ray.llm.reply import Reply
from summhay_ray.llm.request import Request, Task
from summhay_ray.llm.retry import NO_ROUTE, UNREACHED, Decision, decide
from summhay_ray.routes import NoRoute, Wire

if TYPE_CHECKING:
    from summhay_ray.llm.direct import DirectTransport
    from summhay_ray.llm.via_litellm import LitellmTransport

ATTEMPTS: Mapping[str, int] = {"rate_limit": 20, "transient": 6, "ambiguous": 2}
"""Error kind -> maximum number of such errors in one call. Any other kind ends the call at once."""


@dataclass(eq=False)
class Call:
    """A call in progress, for a stage."""

    request: Request
    settings: ModelSettings
    stage: str
    future: asyncio.Future[Any]
    """Awaited by the caller. If the caller cancels it, the current attempt is completed, and no other follows."""
    claim: Claim = field(init=False)
    wire: Wire = field(init=False)
    """The progress of the attempt under the current grant."""
    attempts: int = 0
    charged_micros: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    """Error kind -> number of attempts that ended with it."""


Transport: TypeAlias = "DirectTransport | LitellmTransport | LocalTransport"
"""One way to reach models. `send(request, settings, wire)` makes one attempt, with the key from `keys` and the proxy from
`routes` for the URL. Any exception explains why there is no answer, and `wire` records the progress of the request. `close()`
closes all connections."""


class Transports:
    """One transport of each needed kind, since importing their libraries takes seconds. `local`, `count`: as in `Gateway`."""

    def __init__(
        self, local: Mapping[str, LocalModel] | None = None, count: Callable[[Mapping[str, int]], None] = lambda _: None
    ) -> None:
        self.local = LocalTransport(local or {}, count)
        self._made: dict[str, Transport] = {}

    def of(self, settings: ModelSettings, task: Task) -> Transport:
        """The transport for a task of a model."""
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


class Attempt(NamedTuple):
    """How an attempt ended: with a reply, or with the decision on its error. An answer that broke off has both."""

    reply: Reply | None
    decision: Decision | None = None
    message: str = ""


async def make_attempt(call: Call, transports: Transports, secrets: Callable[[], Secrets]) -> Attempt:
    """Make one attempt now. `secrets` returns the secrets to hide in error messages."""
    settings = call.settings
    call.attempts += 1
    # A transport's own timeout may apply to each read: a server that sends a byte now and then would never end.
    limit = contextlib.nullcontext() if settings.local else asyncio.timeout(settings.timeout_s)
    try:
        async with limit:
            return Attempt(await transports.of(settings, call.request.task).send(call.request, settings, call.wire))
    # Each SDK behind a transport raises its own errors, and every error must become a decision.
    except Exception as error:  # noqa: BLE001
        decision = decide(error, call.wire)
        return Attempt(getattr(error, "reply", None), decision, _explain(error, decision, call, secrets()))


def _explain(error: Exception, decision: Decision, call: Call, secrets: Secrets) -> str:
    """Why an attempt failed, in one line; with a remedy if the endpoint's address or the proxy may be the cause."""
    base, route, message = call.settings.api_base, call.wire.route, secrets.one_line(error)
    lost = getattr(error, "status_code", None) == 404 and call.request.task != "search"
    if lost and base and not re.search(r"/v\d", urlsplit(base).path):
        return f"{message}; does the api_base {base} lack /v1?"
    if isinstance(error, NoRoute) or call.wire.sent or route is None or decision.error not in (UNREACHED, NO_ROUTE):
        return message
    mend = "start it, or mend its api_base" if base else "let the workers reach it, or name their proxy in HTTPS_PROXY"
    return route.failure(error, message) + ("" if route.proxy else f"; {mend}, and run again")
