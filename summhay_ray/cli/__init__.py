"""The command line: thin. It parses, calls `summhay_ray.api` and prints."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence

import typer

from summhay_ray.cli.app import app
from summhay_ray.cli.options import DONE, FAILED, INTERRUPTED, TERMINATED, USAGE
from summhay_ray.cli.visible import one_line
from summhay_ray.errors import UserError

__all__ = ["main"]

# typer brings its own click or the installed one: this is the base of the usage errors of whichever it is.
_UsageProblem: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    0 done, 1 failed, 2 usage, 3 budget, 4 with failures, 130 Ctrl-C, 143 SIGTERM.
    """
    _find_users_modules()
    # A shell asks for completions, and typer ends the process once it has told them.
    completing = "_SUMMHAY_COMPLETE" in os.environ
    # Only the main thread may hear signals.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, _terminated)
    try:
        code = _command(arguments)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = _say(INTERRUPTED, "stopped; the same command goes on where it was")
    except UserError as problem:
        code = _say(problem.exit_code, str(problem))
    except _UsageProblem as problem:
        code = _say(USAGE, _usage(problem))
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`); nothing more can be said there, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as problem:
        code = _say(FAILED, _system(problem))
    except SystemExit as stop:
        # Of code that we called: ours ends here alone. Only typer ends so as well, where whoever read our output has enough.
        if isinstance(stop.__context__, BrokenPipeError):
            sys.exit(FAILED)
        if completing:
            raise
        code = _say(FAILED, f"code of a module that was called ended the process (SystemExit: {stop}); it must return instead")
    sys.exit(code)


def _system(problem: OSError) -> str:
    """What the system refused, where, and what to do where that is plain."""
    why = problem.strerror or str(problem) or type(problem).__name__
    where = f"{problem.filename}: " if problem.filename else ""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}no room is left on the disk ({why}); make room and run again: nothing that is paid for is lost"
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}{why}; give yourself the right, or name another place"
    return f"{where}{why}" if problem.filename else str(problem) or why


def _terminated(*_: object) -> None:
    raise _Terminated("stopped by SIGTERM; the same command goes on where it was")


class _Terminated(UserError):
    exit_code = TERMINATED


def _command(arguments: Sequence[str] | None) -> int:
    try:
        found = app(args=list(arguments) if arguments is not None else None, prog_name="summhay", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    if found == INTERRUPTED:
        # typer makes this code of Ctrl-C, and says nothing.
        raise KeyboardInterrupt
    return found if isinstance(found, int) else DONE


def _find_users_modules() -> None:
    # What a spec names as module:Class is found from where the person stands, but never instead of an installed module.
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return
    if here not in sys.path:
        sys.path.append(here)


def _usage(problem: Exception) -> str:
    said = problem.format_message() if hasattr(problem, "format_message") else str(problem)
    context = getattr(problem, "ctx", None)
    command = context.command_path if context else "summhay"
    return f"{said.replace('Value error, ', '').rstrip('.')} (see {command} --help)"


def _say(code: int, message: str) -> int:
    sys.stderr.write("summhay: " + one_line(" ".join(message.split())) + "\n")
    return code
