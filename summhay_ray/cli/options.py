"""The arguments and options that several commands share, and the exit codes. Part of the cli room."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DONE, FAILED, USAGE, BUDGET, PARTIAL, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143


class ExecutorChoice(StrEnum):
    """Where a run works."""

    auto = "auto"
    inline = "inline"
    ray = "ray"


class CompatChoice(StrEnum):
    """How judgments and citations are read."""

    default = "default"
    release = "release"


SpecArgument = Annotated[str, typer.Argument(help="The spec, a YAML file.", metavar="SPEC")]
RunArgument = Annotated[str, typer.Argument(help="A run's id, as run and import print it.", metavar="RUN")]
StoreOption = Annotated[str | None, typer.Option("--store", help="The store; else $SUMMHAY_STORE, else ./summhay-store.")]
BudgetOption = Annotated[
    float | None, typer.Option("--budget", help="Dollars that the run never exceeds; else the spec's.", min=0)
]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a field of the spec: a.b=c, lists by index.")]
AddressOption = Annotated[str | None, typer.Option(help="auto, or the address of a Ray cluster; else this machine.")]
ExecutorOption = Annotated[
    ExecutorChoice | None,
    typer.Option(help="inline: in this process, without Ray; ray; auto takes what is sooner done. Else the spec's."),
]
CompatOption = Annotated[CompatChoice, typer.Option("--compat", help="release: as the release's scoring script reads them.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"summhay_ray {version('summhay-ray')}")
        raise typer.Exit


VersionOption = Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)]
AllOption = Annotated[bool, typer.Option("--all", help="Every table: coverage, citations, what is corrected, document order.")]
HashesOption = Annotated[bool, typer.Option("--all", help="The rows and hashes of its tables, too.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else on stderr.")]
