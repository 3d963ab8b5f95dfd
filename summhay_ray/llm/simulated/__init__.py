"""A provider of our own on loopback, OpenAI-compatible, that bills what it serves: part of the llm room, with a door of its own.

Paid runs are rehearsed with it, and the gateway's promises tested; what answers is given by the room above (`Answer`).
Importing it loads no web server: serving does.
"""

from collections.abc import Callable

from summhay_ray.llm.simulated.answering import Answer, Answers
from summhay_ray.llm.simulated.bills import Call
from summhay_ray.llm.simulated.provider import Provider
from summhay_ray.llm.simulated.settings import Settings, SettingsError, parse_limit, read_keys

__all__ = [
    "Answer",
    "Answers",
    "Call",
    "Provider",
    "Settings",
    "SettingsError",
    "parse_limit",
    "read_keys",
    "serve",
]


def serve(provider: Provider, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the API's base (`http://HOST:PORT/v1`) once it listens.

    Port 0 takes a free one. Raises OSError where the address cannot be taken.
    """
    from summhay_ray.llm.simulated.server import run

    run(provider, host, port, announce)
