"""The entry point of `summhay`, and its commands grouped by purpose.

Heavy modules are imported inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from summhay_ray.cli.judge import compare, judge_bench, label, score
from summhay_ray.cli.make import audit, import_released, init, mine, verify
from summhay_ray.cli.read import explain, export, failures, release, report, runs, status, stop
from summhay_ray.cli.run import coverage, plan, recite, rejudge, retrieve, run, submit, support, synth
from summhay_ray.cli.serve import clean, doctor, simulate
from summhay_ray.cli.shared_options import DONE, FAILED, INTERRUPTED, TERMINATED, USAGE, VersionOption
from summhay_ray.errors import UserError, printable
from summhay_ray.loops import COLLECT_AFTER

RUN, READ, JUDGE, MAKE, SERVE = "Run", "Read", "Judge", "Make", "Serve and check"
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    RUN: (run, plan, retrieve, stop, release, submit),
    READ: (runs, status, failures, explain, export, report),
    JUDGE: (score, compare, coverage, rejudge, support, recite, judge_bench, label),
    MAKE: (import_released, init, mine, synth, audit, verify),
    SERVE: (clean, doctor, simulate),
}
"""Purpose -> its commands, in the order of the help."""


class Grouped(TyperGroup):
    """Lists the commands in groups by purpose, each with its full summary."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See click's `MultiCommand`."""
        for group in COMMANDS:
            with formatter.section(group):
                commands = ((name, self.commands[name]) for name in self.list_commands(ctx))
                own = [(name, one) for name, one in commands if getattr(one, "rich_help_panel", "") == group]
                formatter.write_dl([(name, one.get_short_help_str(limit=200)) for name, one in own])


def _about(version: VersionOption = False) -> None: ...


app = typer.Typer(
    callback=_about,
    name="summhay",
    cls=Grouped,
    help="Summary of a Haystack on Ray: how well models and RAG systems summarize large document sets and cite their sources.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


for _purpose, _commands in COMMANDS.items():
    for _command in _commands:
        _name = "import" if _command is import_released else _command.__name__.replace("_", "-")
        app.command(_name, rich_help_panel=_purpose)(_command)


# The base class of click's usage errors: typer may use its bundled click or the installed one.
_UsageProblem: type[Exception] = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


_COMPLETION = frozenset({"--install-completion", "--show-completion"})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    0 done, 1 failed, 2 usage, 3 budget, 4 with failures, 5 waiting for batches, 6 taken over by another driver, 130 Ctrl-C,
    143 SIGTERM.
    """
    gc.set_threshold(COLLECT_AFTER)
    # Let polars return freed memory immediately. Otherwise it keeps a fifth of what scoring thousands of haystacks takes.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
    # When typer prints or installs completions, it ends the process itself.
    words = sys.argv[1:] if arguments is None else arguments
    completing = "_SUMMHAY_COMPLETE" in os.environ or bool(_COMPLETION.intersection(words))
    # Only the main thread may install signal handlers.
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, _terminated)
    try:
        try:
            given = list(arguments) if arguments is not None else None
            returned = _parser(app)(args=given, prog_name="summhay", standalone_mode=False)
        except typer.Exit as stop:
            returned = stop.exit_code
        else:
            if returned == INTERRUPTED:
                # typer turns Ctrl-C into this code, without a message.
                raise KeyboardInterrupt
        code = returned if isinstance(returned, int) else DONE
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = _print_error(INTERRUPTED, "stopped; run the same command again to resume")
    except UserError as problem:
        code = _print_error(problem.exit_code, str(problem))
    except _UsageProblem as problem:
        message = problem.format_message() if hasattr(problem, "format_message") else str(problem)
        context = getattr(problem, "ctx", None)
        command = context.command_path if context else "summhay"
        code = _print_error(USAGE, f"{message.replace('Value error, ', '').rstrip('.')} (see {command} --help)")
    except BrokenPipeError:
        # The reader of our output has closed it (`| head`). Nothing more can be written to it, even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as problem:
        code = _print_error(FAILED, _system(problem))
    except SystemExit as stop:
        # Our own code never raises SystemExit before this point. Typer raises it if the reader has closed our output; otherwise a
        # plugin raised it.
        if isinstance(stop.__context__, BrokenPipeError):
            sys.exit(FAILED)
        if completing:
            raise
        code = _print_error(
            FAILED, f"code of a module that was called ended the process (SystemExit: {stop}); it must return instead"
        )
    if arguments is None and code in (INTERRUPTED, TERMINATED):
        # Otherwise the interpreter would wait for threads that still compute, and would take long to free a large library.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _system(problem: OSError) -> str:
    """Return the message for an operating system error: what failed, where, and the remedy if it is known."""
    why = problem.strerror or str(problem) or type(problem).__name__
    where = f"{problem.filename}: " if problem.filename else ""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{where}no room is left on the disk ({why}); make room and run again: nothing that is paid for is lost"
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}{why}; give yourself the right, or name another place"
    return f"{where}{why}" if problem.filename else str(problem) or why


def _terminated(*_: object) -> None:
    raise _Terminated("stopped by SIGTERM; run the same command again to resume")


class _Terminated(UserError):
    exit_code = TERMINATED


# Cached, because deriving all commands' options from their functions takes longer than a small command.
_parser: Callable[[typer.Typer], Callable[..., object]] = functools.cache(typer.main.get_command)


def _print_error(code: int, message: str) -> int:
    sys.stderr.write("summhay: " + printable(" ".join(message.split())) + "\n")
    return code
