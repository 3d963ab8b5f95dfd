"""A person's own code, at its borders: what is wrong with it is one line that says where. Part of the engine room."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from summhay_ray import plugins
from summhay_ray.errors import UserError

_OURS = Path(__file__).resolve().parents[1]


class BadBenchmark(UserError):
    """A benchmark does what its own declarations do not allow: its run stops before more is paid, and says so in one line."""


class Unplannable(UserError):
    """A person's own code raises where it is asked what it would ask."""

    exit_code = 1


def raised(error: BaseException) -> str:
    """What a person's own code raised, in one line, with the file and the line of the innermost frame that is theirs."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(Path(frame.filename))]
    return f"{plugins.told(error)} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else plugins.told(error)


def _is_own(file: Path) -> bool:
    return file.is_file() and not file.resolve().is_relative_to(_OURS) and not {"site-packages", "lib"} & set(file.parts)


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
            f"the run cannot be planned: {name!r} raises {plugins.told(error)}; it must bear a Failed answer"
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
        raise BadBenchmark(f"{what} raises {raised(error)}; {mend}") from error
