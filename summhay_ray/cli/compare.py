"""`summhay compare`: compares systems of one or two runs, or two judges on one run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from summhay_ray.cli.shared_options import JsonOption, JudgedOption, LabelsOption, OverOption, RunArgument, StoreOption

if TYPE_CHECKING:
    from summhay_ray.benchmarks.extract_evaluate import RaterComparison


def _two_names(names: tuple[str, str] | None) -> tuple[str, str] | None:
    """Raises BadParameter if an option takes the place of the second name."""
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
            help="Two of the run's judges; with two runs or --systems, those whose scores are used. Of ratings: the raters.",
            metavar="A B",
            callback=_two_names,
        ),
    ] = None,
    judge: JudgedOption = "",
    by: Annotated[
        Literal["retriever", "model"] | None,
        typer.Option(help="Compare retrievers, each averaged over the models, or models, each averaged over the retrievers."),
    ] = None,
    labels: LabelsOption = None,
    rows: Annotated[int, typer.Option(help="How many of the insights on which judges differ most to list.", min=0)] = 20,
    over: OverOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every figure, system and pair, not only one screen.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare systems of one or two runs (which one to use? is a difference real?), or two judges on one run.

    For runs of any kind: which system to use, the ranking, and paired differences per query, with intervals, tests, and how much
    more data would settle them. One RUN alone: every pair of its systems; --systems A B: some; RUN_A RUN_B: systems of the same
    name. Scores are by the run's own judge unless --judge NAME says otherwise. RUN --judges A B: two of its judges on the
    insights that both scored, where they differ most, and how the ranking of the systems changes. For runs with ratings
    (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL), --judges A B: two raters of one run, or one of each of two runs.
    """
    from summhay_ray import api
    from summhay_ray.benchmarks.rejudge import CompareResult
    from summhay_ray.cli.show import document, lines, sections
    from summhay_ray.comparison import SystemComparison, screen_sections
    from summhay_ray.report import section_table

    result: CompareResult | RaterComparison | SystemComparison
    if judges is not None and other is None and systems is None and not judge and not labels and by is None:
        result = api.compare(run, judges, store, rows)
    else:
        result = api.compare_systems(run, other, systems or (), judges or (), store, judge=judge, over=over, by=by, labels=labels)
    if as_json:
        document(result.to_json())
        return
    found = list(screen_sections(result, everything) if isinstance(result, SystemComparison) else result.sections())
    # The insights on which judges differ are printed as lines, to search and copy.
    listed = found.pop() if isinstance(result, CompareResult) else None
    sections(found, more=True)
    if listed is not None and (table := section_table(listed)) is not None:
        lines(replace(table, title=listed.title))
