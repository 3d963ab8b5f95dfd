"""A person's own code, at its borders: what is wrong with it is one line that says where. Part of the engine room."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from summhay_ray import plugins
from summhay_ray.errors import UserError


class BadBenchmark(UserError):
    """A benchmark does what its own declarations do not allow: its run stops before more is paid, and says so in one line."""


class Unplannable(UserError):
    """A person's own code raises where it is asked what it would ask."""

    exit_code = 1


@contextlib.contextmanager
def planning(name: str) -> Iterator[None]:
    """While a person's code, called `name`, is asked what it would ask: what it raises is Unplannable, in one line."""
    try:
        yield
    except (OSError, UserError, *plugins.STOPS):
        raise
    # The border to strategies, as in `guarded`.
    except BaseException as error:
        raise Unplannable(
            f"the run cannot be planned: {name!r}, tried on a first question, raises {plugins.told(error)}; mend it (an answer "
            "that is not there yet is a Failed, which it must bear)"
        ) from error


@contextlib.contextmanager
def reading(what: str, mend: str) -> Iterator[None]:
    """While a benchmark's own code is at work (`what`): what it raises is a BadBenchmark, and says where; `mend`: what to do."""
    try:
        yield
    except (OSError, UserError, KeyboardInterrupt, *plugins.STOPS):
        raise
    # The border to a benchmark's own code: nothing that it raises may look like an error of the run.
    except BaseException as error:
        raise BadBenchmark(f"{what} raises {plugins.told(error)}; {mend}") from error
