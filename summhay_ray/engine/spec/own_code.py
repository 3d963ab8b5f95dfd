"""Turns exceptions of a user's own code into one-line errors that say where they come from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from summhay_ray import plugins
from summhay_ray.errors import UserError


class BadBenchmark(UserError):
    """A benchmark violates the contract or its own declarations. The run stops before it spends more; the message is one line."""


class Unplannable(UserError):
    """A user's own code raised an exception while it was planned."""

    exit_code = 1


@contextlib.contextmanager
def planning(name: str) -> Iterator[None]:
    """A context for planning with a user's code, called `name`: its exceptions become Unplannable, in one line."""
    try:
        yield
    except (OSError, UserError, *plugins.STOPS):
        raise
    # A user's code may raise anything.
    except BaseException as error:
        raise Unplannable(
            f"the run cannot be planned: {name!r}, tried on a first question, raises {plugins.error_line(error)}; mend it (while "
            "planning, an answer that is not known yet is a Failed, which it must handle)"
        ) from error


@contextlib.contextmanager
def reading(what: str, mend: str) -> Iterator[None]:
    """A context for a benchmark's own code: its exceptions become BadBenchmark. `what` says where, `mend` what to do about it."""
    try:
        yield
    except (OSError, UserError, KeyboardInterrupt, *plugins.STOPS):
        raise
    # A benchmark's code may raise anything; it must not look like an error of the engine.
    except BaseException as error:
        raise BadBenchmark(f"{what} raises {plugins.error_line(error)}; {mend}") from error
