"""Turns exceptions of a user's own code into one-line errors that say where they come from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from summhay_ray import plugins
from summhay_ray.errors import UserError


class BadBenchmark(UserError):
    """A benchmark violates the contract or its own declarations. The run stops before it spends more; the message is one line."""


@contextlib.contextmanager
def reading(what: str, mend: str) -> Iterator[None]:
    """A context that turns exceptions of a benchmark's own code into BadBenchmark. `what` is the place, `mend` the remedy."""
    try:
        yield
    except (OSError, UserError, KeyboardInterrupt, *plugins.STOPS):
        raise
    # A benchmark's code may raise anything; it must not look like an error of the engine.
    except BaseException as error:
        raise BadBenchmark(f"{what} raises {plugins.error_line(error)}; {mend}") from error
