"""`summhay compare`: two judges on one run. Part of the cli room."""

from __future__ import annotations

from typing import Annotated

import typer

from summhay_ray.cli.options import JsonOption, RunArgument, StoreOption


def compare(
    run: RunArgument,
    judges: Annotated[
        tuple[str, str] | None,
        typer.Option("--judges", help="Two of the run's judges, its own or those of rejudge.", metavar="A B"),
    ] = None,
    rows: Annotated[int, typer.Option(help="So many insights on which they differ most are listed.", min=0)] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two judges on one run: agreement, where they differ most, and what moves in the ranking of systems.

    Measured on the insights that both scored. A run that has just two judges needs no --judges.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, lines, tables
    from summhay_ray.report import compare_tables

    result = api.compare(run, judges or (), store, rows)
    if as_json:
        document(result.to_json())
        return
    *figures, differences = compare_tables(result)
    tables(figures)
    lines(differences)
