"""The arguments and options that several commands share, and the exit codes. Part of the cli room."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

DONE, FAILED, USAGE, BUDGET, PARTIAL, INTERRUPTED = 0, 1, 2, 3, 4, 130


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
CompatOption = Annotated[CompatChoice, typer.Option("--compat", help="release: as the release's scoring script reads them.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else on stderr.")]
