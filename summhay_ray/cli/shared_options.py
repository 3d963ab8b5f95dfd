"""Arguments and options that several commands share, and the exit codes. Part of the cli room."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

DONE, FAILED, USAGE, BUDGET, PARTIAL, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
EXIT_CODES = {"done": DONE, "limited": DONE, "budget": BUDGET, "partial": PARTIAL}
"""Status of a result -> exit code."""


SpecArgument = Annotated[str, typer.Argument(help="The spec, a YAML file.", metavar="SPEC")]
RunArgument = Annotated[str, typer.Argument(help="A run's id, as run and import print it.", metavar="RUN")]
StoreOption = Annotated[str | None, typer.Option("--store", help="The store; default $SUMMHAY_STORE, otherwise ./summhay-store.")]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", help="Dollars that the run never exceeds; default the spec's.", min=0)
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a field of the spec: a.b=c, lists by index.")]
UntrustedOption = Annotated[
    bool,
    typer.Option(
        "--untrusted", help="For a spec from somebody else: no code of its own, no file outside its folder, no key elsewhere."
    ),
]
AddressOption = Annotated[str | None, typer.Option(help="auto, or the address of a Ray cluster; default this machine.")]
ExecutorOption = Annotated[
    Literal["auto", "inline", "ray"] | None,
    typer.Option(help="inline: in this process, without Ray; ray; auto: whichever is faster. Default the spec's."),
]


def _log(level: str | None) -> None:
    if level is not None:
        from summhay_ray.logs import log_to_stderr

        log_to_stderr(level.upper())


LogLevelOption = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(
        "--log-level",
        help="Log to stderr what workers and models do, from this level on; without it, workers on Ray log to Ray's files.",
        callback=_log,
    ),
]
JudgedOption = Annotated[
    str,
    typer.Option(
        "--judge",
        help="Whose judgments, of several: the run's own judge if left out (an imported run's is called released).",
        metavar="NAME",
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--labels", help="A sheet of label, with people's labels: figures are corrected by it, too.", metavar="SHEET"),
]
OverOption = Annotated[
    Literal["queries", "haystacks"] | None,
    typer.Option(
        "--over",
        help="What differences generalize to: further queries of these haystacks (or documents), or other haystacks; by default "
        "others, with six or more.",
    ),
]
CompatOption = Annotated[
    Literal["default", "release"],
    typer.Option("--compat", help="release: read judgments and citations as the release's scoring script does."),
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"summhay_ray {version('summhay-ray')}")
        raise typer.Exit


VersionOption = Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)]
AllOption = Annotated[bool, typer.Option("--all", help="Show every table: coverage, citations, corrections, document order.")]
HashesOption = Annotated[bool, typer.Option("--all", help="Also show the rows and hashes of the run's tables.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else on stderr.")]
