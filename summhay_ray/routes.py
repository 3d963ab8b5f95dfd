"""Decides the route of every HTTP request of this process: direct, or through the proxy in the environment.

Any module may import this. Requests to this machine and to `http://` URLs are direct, since a proxy could read them and their
keys. An `https://` request may go through a proxy by CONNECT, so that the proxy sees only the host.
"""

import functools
import http
import ipaddress
import os
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit
from urllib.request import proxy_bypass


class NoRoute(ValueError):
    """Raised if no request can be sent, because the URL is invalid or its proxy is unusable. The message gives the remedy."""


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a request to `origin` (scheme, host and port)."""

    origin: str
    proxy: str = field(default="", repr=False)
    """URL of the proxy, with its user and password; empty if the request goes directly."""
    variable: str = ""
    """The environment variable with the proxy."""

    @property
    def proxies(self) -> dict[str, str]:
        """Scheme -> proxy, as `urllib`, `requests` and `botocore` expect it."""
        return {"https": self.proxy} if self.proxy else {}

    def refusal(self, error: BaseException) -> int:
        """Return the status with which the proxy refused the connection, from an HTTP client's error; 0 without a status."""
        # The texts of httpx's ProxyError and aiohttp's ClientHttpProxyError begin with the status.
        status = re.match(r"[1-5]\d\d\b", str(error)) if self.proxy else None
        return int(status[0]) if status else 0

    def failure(self, error: BaseException, message: str) -> str:
        """Return which host did not answer, and why, for a request that failed before it was sent. `message`: the error's
        text."""
        if not self.proxy:
            return f"nobody answers at {self.origin} ({message})"
        host, status = urlsplit(self.origin).hostname, self.refusal(error)
        known = status in http.HTTPStatus._value2member_map_
        why = f"HTTP {status} {http.HTTPStatus(status).phrase if known else ''}".rstrip() if status else message
        mend = f"write its user and password into {self.variable}" if status == 407 else f"mend {self.variable}"
        which = f"the proxy {_place(urlsplit(self.proxy))} of {self.variable}"
        return f"{which} does not lead to {host} ({why}); {mend}, or add {host} to NO_PROXY, and run again"


@dataclass(slots=True)
class Wire:
    """The progress of an attempt, as its transport records it. So an error can be judged by when it happened, not by its
    class."""

    route: Route | None = None
    """The route; None until the transport begins to connect."""
    sent: bool = False
    """Whether any byte of the request may have been sent. Before that, the provider cannot charge for it."""


def route_to(url: str) -> Route:
    """Return the route to a URL. Raises NoRoute if the URL is not `http://` or `https://`, or if its proxy is unusable."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        raise NoRoute("the address is no URL with http:// or https:// and a host; mend its api_base")
    origin, host = origin_of(parts), parts.hostname or ""
    if parts.scheme == "http" or is_this_machine(host):
        return Route(origin)
    variable, named = _named_proxy()
    if not named or proxy_bypass(origin.partition("://")[2]):
        return Route(origin)
    proxy = named if "://" in named else f"http://{named}"
    through = _split(proxy)
    if through is None or through.scheme not in ("http", "https"):
        # Do not show an invalid URL, since a password in it could not be hidden.
        which = (
            f"a {through.scheme} proxy ({_place(through)}), which is not supported" if through else "no proxy that can be read"
        )
        raise NoRoute(f"{variable} names {which}; write http://HOST:PORT of an HTTP proxy there, or add {host} to NO_PROXY")
    return Route(origin, proxy, variable)


def is_this_machine(host: str) -> bool:
    """Return whether the host is a loopback address or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@functools.lru_cache
def origin_of(url: SplitResult) -> str:
    """Return scheme, host and port of a URL."""
    return f"{url.scheme}://{_place(url)}"


def _place(url: SplitResult) -> str:
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    return f"{host}:{url.port or {'http': 80, 'https': 443}.get(url.scheme, 0)}"


# The result is cached, since every call needs it and a run has few endpoints.
@functools.lru_cache
def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port  # Raises ValueError for an invalid port.
    except ValueError:
        return None
    return parts if parts.hostname else None


def _named_proxy() -> tuple[str, str]:
    """Return the variable with the proxy for `https://` URLs, and its value. An empty lower-case variable overrides the
    upper-case one."""
    for lower in ("https_proxy", "all_proxy"):
        for name in (lower, lower.upper()):
            if (value := os.environ.get(name)) is not None:
                if value.strip():
                    return name, value.strip()
                break
    return "", ""
