"""The command line: thin. It parses, calls `summhay_ray.api` and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from summhay_ray.cli.app import FAILED, USAGE, app
from summhay_ray.problems import Problem

__all__ = ["main"]

# typer brings its own click or the installed one: this is the base of the usage errors of whichever it is.
_UsageProblem: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 done, 1 failed, 2 usage or spec, 3 budget, 4 with failures."""
    # What a spec names as module:Class is found from where the person stands.
    sys.path.insert(0, os.getcwd())
    try:
        found = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
        code = found if isinstance(found, int) else 0
    except typer.Exit as stop:
        code = stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = _say(FAILED, "stopped; the same command goes on where it was")
    except Problem as problem:
        code = _say(problem.exit_code, str(problem))
    except _UsageProblem as problem:
        code = _say(USAGE, problem.format_message() if hasattr(problem, "format_message") else str(problem))
    except OSError as problem:
        code = _say(FAILED, str(problem))
    sys.exit(code)


def _say(code: int, message: str) -> int:
    sys.stderr.write("summhay: " + " ".join(message.split()) + "\n")
    return code
