"""`summhay compare`: compares systems of one or two runs, or two judges on one run. Part of the cli room."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from summhay_ray.cli.options import JsonOption, RunArgument, StoreOption


def _two_names(names: tuple[str, str] | None) -> tuple[str, str] | None:
    """Raises BadParameter where an option stands in the place of the second name."""
    for name in names or ():
        if name.startswith("--"):
            raise typer.BadParameter(f"expected two names, A B; found the option {name} in the place of one")
    return names


def compare(
    run: RunArgument,
    other: Annotated[
        str | None, typer.Argument(help="Another run: systems of the same name are compared.", metavar="[RUN_B]")
    ] = None,
    systems: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--systems",
            help="Two systems or patterns such as 'oracle_*'; A is in the first run.",
            metavar="A B",
            callback=_two_names,
        ),
    ] = None,
    judges: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--judges",
            help="Two of the run's judges; with two runs or --systems, the judges whose scores are used.",
            metavar="A B",
            callback=_two_names,
        ),
    ] = None,
    rows: Annotated[int, typer.Option(help="How many of the insights on which judges differ most to list.", min=0)] = 20,
    seed: Annotated[int, typer.Option(help="The random seed for resampling.")] = 0,
    over: Annotated[
        Literal["haystacks", "queries"],
        typer.Option(help="What the intervals generalize to: other haystacks, or further queries of these."),
    ] = "haystacks",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare systems of one or two runs (is a difference real?), or two judges on one run.

    RUN_A RUN_B, or --systems A B: paired differences per query, with intervals, tests, and how much more data would
    settle them. One RUN alone: two of its judges on the insights that both scored, where they differ most, and how the ranking
    of the systems changes. For runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL): two raters of one run, or one
    of each of two runs.
    """
    from summhay_ray import api
    from summhay_ray.benchmarks.extract_evaluate import RaterComparison
    from summhay_ray.cli.show import document, lines, note, say, sections, tables
    from summhay_ray.report import COMPARED_LEGEND, compare_tables, compared_systems_tables, verdict_lines

    if other is not None or systems is not None:
        found = api.compare_systems(run, other, systems or (), judges or (), store, seed=seed, over=over)
        if as_json:
            document(found.to_json())
            return
        if isinstance(found, RaterComparison):
            sections(found.sections())
            return
        for warning in found.warnings:
            note(f"warning: {warning}")
        tables(compared_systems_tables(found))
        for line in (*COMPARED_LEGEND, *verdict_lines(found)):
            say(line)
        return
    result = api.compare(run, judges or (), store, rows)
    if as_json:
        document(result.to_json())
        return
    if isinstance(result, RaterComparison):
        sections(result.sections())
        return
    *figures, differences = compare_tables(result)
    tables(figures)
    lines(differences)
