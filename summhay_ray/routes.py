"""The route of every HTTP request that leaves this process: directly, or through the proxy that the environment names.

Any room may import this. A request to this machine and any `http://` URL goes directly: a proxy would read it, with its key. An
`https://` URL may go by CONNECT, where the proxy sees the host alone.
"""

from __future__ import annotations

import http
import ipaddress
import os
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit
from urllib.request import proxy_bypass


class NoRoute(ValueError):
    """No request can be sent to a URL: it is none, or the proxy on its way cannot be used. The message says how to mend it."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a request gets to `origin` (scheme, host and port)."""

    origin: str
    proxy: str = field(default="", repr=False)
    """URL of the proxy, with its user and password; empty if the request goes directly."""
    variable: str = ""
    """The environment variable that names the proxy."""

    @property
    def proxies(self) -> dict[str, str]:
        """Scheme -> proxy, as `urllib`, `requests` and `botocore` take it."""
        return {"https": self.proxy} if self.proxy else {}

    def refusal(self, error: BaseException) -> int:
        """The status with which the proxy refused the way, by the error of an HTTP client; 0 if it gave none."""
        # The text of httpx's ProxyError and of aiohttp's ClientHttpProxyError begins with it.
        status = re.match(r"[1-5]\d\d\b", str(error)) if self.proxy else None
        return int(status[0]) if status else 0

    def failure(self, error: BaseException, message: str) -> str:
        """Who did not answer, and why, for a request that failed before it was sent. `message` is the error's text."""
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
    """How far an attempt got. Its transport notes it, so that an error is judged by where it was raised, whatever its class."""

    route: Route | None = None
    """None until the transport begins to connect."""
    sent: bool = False
    """Whether a byte of the request may have left: before, it costs nothing; from then on, the provider may charge for it."""


def route_to(url: str) -> Route:
    """The route to a URL. Raises NoRoute if the URL is not `http://` or `https://`, or names a proxy that cannot be used."""
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
        # Its text may hold a password, and what cannot be read cannot be masked.
        which = (
            f"a {through.scheme} proxy ({_place(through)}), which is not supported" if through else "no proxy that can be read"
        )
        raise NoRoute(f"{variable} names {which}; write http://HOST:PORT of an HTTP proxy there, or add {host} to NO_PROXY")
    return Route(origin, proxy, variable)


def is_this_machine(host: str) -> bool:
    """Whether the host is a loopback address, or `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def origin_of(url: SplitResult) -> str:
    """Scheme, host and port of a URL."""
    return f"{url.scheme}://{_place(url)}"


def _place(url: SplitResult) -> str:
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname or ""
    return f"{host}:{url.port or {'http': 80, 'https': 443}.get(url.scheme, 0)}"


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url.strip())
        _ = parts.port  # Raises ValueError for a port that is none.
    except ValueError:
        return None
    return parts if parts.hostname else None


def _named_proxy() -> tuple[str, str]:
    """The variable that names the proxy of `https://` URLs, and its value. An empty lower-case variable hides the other."""
    for lower in ("https_proxy", "all_proxy"):
        for name in (lower, lower.upper()):
            if (value := os.environ.get(name)) is not None:
                if value.strip():
                    return name, value.strip()
                break
    return "", ""
