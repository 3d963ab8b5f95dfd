"""Arguments and options that several commands share, and the exit codes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_type_hints

import typer

from summhay_ray.run_options import Compat, Over, RunOptions, options_of

DONE, FAILED, USAGE, BUDGET, PARTIAL, WAITING, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 5, 130, 143
EXIT_CODES = {"done": DONE, "limited": DONE, "budget": BUDGET, "partial": PARTIAL, "waiting": WAITING}
"""Status of a result -> exit code."""
_HELP = {name: get_args(hint)[1].help for name, hint in get_type_hints(RunOptions, include_extras=True).items()}
_FOR_CODE = ("watch", "note")
"""Options of the Python API that the command line lacks, since their values are functions."""

SpecArgument = Annotated[str, typer.Argument(help="The spec, a YAML file.", metavar="SPEC")]
RunArgument = Annotated[str, typer.Argument(help="A run's id, as run and import print it.", metavar="RUN")]
StoreOption = Annotated[str | None, typer.Option("--store", help="The store; default $SUMMHAY_STORE, otherwise ./summhay-store.")]
UntrustedOption = Annotated[bool, typer.Option("--untrusted", help=_HELP["untrusted"])]


def log_from(level: str) -> None:
    """Log to stderr from this level on."""
    from summhay_ray.logs import log_to_stderr

    log_to_stderr(level.upper())


LogLevelOption = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(
        "--log-level",
        help="Log to stderr what workers and models do, from this level on; without it, workers on Ray log to Ray's files.",
    ),
]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `**options: Unpack[...]` one option for each of them, and --log-level if it starts a run.

    The command receives only the options that were given. In the help, `--json` comes last.
    """
    hints = get_type_hints(command, include_extras=True)
    own = {
        name: one.replace(kind=one.KEYWORD_ONLY, annotation=hints[name])
        for name, one in inspect.signature(command).parameters.items()
        if one.kind is not one.VAR_KEYWORD
    }
    last, taken = own.pop("as_json"), options_of(command)
    for name, (kind, option) in taken.items():
        if name not in _FOR_CODE:
            many = name == "overrides"
            default = typer.Option(
                None if many else option.default, "--set" if many else f"--{name.replace('_', '-')}", help=option.help
            )
            own[name] = inspect.Parameter(name, last.kind, default=default, annotation=list[str] | None if many else kind)

    @functools.wraps(command)
    def call(log_level: str | None = None, **given: Any) -> None:
        if log_level is not None:
            log_from(log_level)
        command(**{name: value for name, value in given.items() if value is not None or name not in taken})

    if "executor" in taken:
        own["log_level"] = inspect.Parameter("log_level", last.kind, default=None, annotation=LogLevelOption)
    call.__dict__["__signature__"] = inspect.Signature([*own.values(), last])
    return call


JudgedOption = Annotated[
    str,
    typer.Option(
        "--judge",
        help="The judge whose judgments are used; default the run's own (`released` for an imported run).",
        metavar="NAME",
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--labels", help="A sheet of `label` with people's labels, which also correct the figures.", metavar="SHEET"),
]
OverOption = Annotated[
    Over | None,
    typer.Option(
        "--over",
        help="Whether differences generalize to more queries of these haystacks (or documents), or to other haystacks; default "
        "others, with six or more.",
    ),
]
CompatOption = Annotated[Compat, typer.Option("--compat", help=_HELP["compat"])]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"summhay_ray {version('summhay-ray')}")
        raise typer.Exit


VersionOption = Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)]
AllOption = Annotated[bool, typer.Option("--all", help="Show every table: coverage, citations, corrections, document order.")]
HashesOption = Annotated[bool, typer.Option("--all", help="Also show the rows and hashes of the run's tables.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else on stderr.")]
