"""Controls what litellm sends, through whichever SDK: all of them use httpx, which is patched here. Part of the llm room.

litellm looks for keys in about a hundred variables, files and globals besides the key that it is given, and it follows redirects.
Here, a request goes only to the model's own endpoint and only with the model's own key. For some providers litellm lets an SDK
retry lost or failed requests, even when told not to. Here, each request is sent once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx

from summhay_ray.llm.bodies import UnreadableAnswer
from summhay_ray.llm.direct import ProviderError
from summhay_ray.llm.provider_table import WITH_DOMAINS, place_of
from summhay_ray.llm.providers import provider_of
from summhay_ray.llm.secrets import NoKey, answer_secrets

# A foreign endpoint gets only these headers and those that hold its key: others may identify an account.
_PROTOCOL = re.compile(
    r"accept(-.*)?|connection|content-.*|host|prefer|transfer-encoding|user-agent|x-stainless-.*|.*-(version|beta)"
)


@dataclass
class Outgoing:
    """One call of litellm: where it may send requests, and with which key."""

    model: str
    api_base: str | None
    api_key_env: str | None
    key: str | None
    sent: bool = False
    stopped: Exception | None = None
    """The error to raise for the call: why nothing was sent, or the response that an SDK wanted to retry."""
    ends: dict[tuple[str, str], httpx.Response | Exception | None] = field(default_factory=dict)
    """The end of each request, by method and URL; None while it is under way."""

    def __post_init__(self) -> None:
        self.provider = provider_of(self.model)
        self.own = place_of(self.provider, self.api_base) == "own"
        self.origin = _origin(httpx.URL(self.api_base)) if self.api_base else None

    def admitted(self, request: httpx.Request, options: dict[str, Any]) -> dict[str, Any]:
        """The options to send the request with. A request to a foreign endpoint is stripped of everything not meant for it.

        Raises NoKey if the request may not be sent, and the earlier error if it was sent before.
        """
        if isinstance(self.stopped, ProviderError):
            raise self.stopped
        if _name(request) in self.ends:
            raise self._again(self.ends[_name(request)])
        options = {**options, "follow_redirects": False}
        if _origin(request.url) == self.origin and not self.own:
            self._bare(request)
            self._note(request)
            return {**options, "auth": None}
        if _origin(request.url) == self.origin or self.own and self._at_own_domain(str(request.url)):
            self._note(request)
            return options
        whose = f"the api_base of {self.model}" if self.api_base else f"{self.provider}'s own; write it as api_base"
        raise self._refused(f"a request to {request.url.host} was not sent: the host is not {whose}")

    def _at_own_domain(self, url: str) -> bool:
        return self.provider not in WITH_DOMAINS or place_of(self.provider, url) == "own"

    def _bare(self, request: httpx.Request) -> None:
        for name, value in list(request.headers.items()):
            if not _PROTOCOL.fullmatch(name.lower()) and not (self.key and self.key in value):
                del request.headers[name]
        sent = str(request.url).encode() + request.content
        if any(secret.encode() in sent for secret in answer_secrets(self.api_key_env) if secret != self.key):
            raise self._refused(f"a request to {request.url.host} was not sent: it holds a secret of the worker's environment")

    def _note(self, request: httpx.Request) -> None:
        """Record a request that is sent. A login before it has a URL of its own. GET and HEAD may be repeated."""
        self.sent = True
        if request.method not in ("GET", "HEAD"):
            self.ends[_name(request)] = None

    def ended(self, request: httpx.Request, end: httpx.Response | Exception) -> Exception | None:
        """Record the end of a request. Returns an error for a redirect, like the direct transport; else None."""
        if _name(request) in self.ends:
            self.ends[_name(request)] = end
        if isinstance(end, Exception):
            return None
        # OpenAI's and similar SDKs obey this header.
        end.headers["x-should-retry"] = "false"
        if not 300 <= end.status_code < 400:
            return None
        self.stopped = ProviderError(end.status_code, "", end.headers)
        return self.stopped

    def _again(self, end: httpx.Response | Exception | None) -> Exception:
        """The error to raise when a request is sent a second time."""
        if isinstance(end, Exception):
            return end
        if end is not None and end.status_code >= 400:
            self.stopped = ProviderError(end.status_code, end.text if end.is_closed else "", end.headers)
        else:
            self.stopped = UnreadableAnswer(f"litellm tried to send a request of {self.model} twice; the second was not sent")
        return self.stopped

    def _refused(self, why: str) -> Exception:
        """The error of a request that is not sent. It stops the call only if nothing was sent before.

        After that, the call may be paid, and litellm may be fetching something else (a tokenizer).
        """
        reason = NoKey(why)
        if not self.sent:
            self.stopped = reason
        return reason


_CALL: ContextVar[Outgoing | None] = ContextVar("summhay_outgoing", default=None)


@contextmanager
def watching(call: Outgoing) -> Iterator[None]:
    """Within this context, httpx's requests belong to the call. Raises what stopped it, in place of an SDK's error."""
    token = _CALL.set(call)
    try:
        yield
    except Exception as error:
        if call.stopped is None or not _beneath(error, call.stopped):
            raise
        raise call.stopped from None
    finally:
        _CALL.reset(token)


def _beneath(error: BaseException | None, reason: Exception, depth: int = 0) -> bool:
    """Whether the reason is among the causes of the error."""
    if error is None or error is reason or depth > 20:
        return error is reason
    return _beneath(error.__cause__, reason, depth + 1) or _beneath(error.__context__, reason, depth + 1)


def _name(request: httpx.Request) -> tuple[str, str]:
    return request.method, str(request.url.copy_with(query=None, fragment=None))


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def watch_httpx() -> None:
    """Patch httpx's clients to check each request with its call. Outside a call they are unchanged."""
    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    def watched(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        call = _CALL.get()
        if call is None:
            return send(self, request, **options)
        options = call.admitted(request, options)
        try:
            response = send(self, request, **options)
        except Exception as error:
            call.ended(request, error)
            raise
        if problem := call.ended(request, response):
            response.close()
            raise problem
        return response

    async def watched_async(self: httpx.AsyncClient, request: httpx.Request, **options: Any) -> httpx.Response:
        call = _CALL.get()
        if call is None:
            return await send_async(self, request, **options)
        options = call.admitted(request, options)
        try:
            response = await send_async(self, request, **options)
        except Exception as error:
            call.ended(request, error)
            raise
        if problem := call.ended(request, response):
            await response.aclose()
            raise problem
        return response

    httpx.Client.send = watched  # type: ignore[method-assign]
    httpx.AsyncClient.send = watched_async  # type: ignore[method-assign]
