"""`summhay synth` makes haystacks from topics; `summhay audit` checks them against a person's labels. Part of the cli room."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from summhay_ray.cli.options import (
    BUDGET,
    DONE,
    PARTIAL,
    AddressOption,
    BudgetOption,
    ExecutorOption,
    JsonOption,
    RunArgument,
    SetOption,
    StoreOption,
)

if TYPE_CHECKING:
    from summhay_ray.engine import RunResult

SynthArgument = Annotated[
    str, typer.Argument(help="The synth spec, a YAML file: topics, size, difficulty, models.", metavar="SPEC")
]


def synth(
    spec: SynthArgument,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    out: Annotated[str | None, typer.Option("--out", help="A folder to write the haystacks to, as released JSON files.")] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make haystacks from topics (subtopics, insights, queries, documents, each verified), or resume.

    `summhay plan SPEC` shows calls and cost beforehand. To use the haystacks in a run, give `haystacks: [SPEC]` in its spec.
    Exit codes: 0 done, 3 stopped at the budget, 4 finished, with topics that failed.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document

    # Ray reports dead workers on stdout, which is reserved for results.
    with ProgressDisplay(first=f"reading {spec}") as display, contextlib.redirect_stdout(sys.stderr):
        result = api.synth(
            spec,
            store,
            budget,
            address,
            display,
            overrides=overrides or (),
            out=out,
            executor=executor and executor.value,
            note=display.note,
        )
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        _show(result, spec, api.store_uri(store))
    raise typer.Exit({"done": DONE, "budget": BUDGET, "partial": PARTIAL}[result.status])


def show_made(result: RunResult) -> None:
    """Print the haystacks that were made, and the topics that failed."""
    from summhay_ray.cli.show import tables
    from summhay_ray.report import failed_table, made_table

    made = [made_table(result.haystacks)] if result.haystacks else []
    tables([*made, *([failed_table(result.failed)] if result.failed else [])])


def _show(result: RunResult, spec: str, store: str) -> None:
    from summhay_ray.cli.show import ended, facts, store_option

    show_made(result)
    go_on = f": summhay synth {spec}{store_option(store)} --budget MORE"
    written = [("written", path) for path in result.files]
    facts([*ended(result, ("run", result.run), "topics", store, go_on), *written])


def audit(
    run: RunArgument,
    store: StoreOption = None,
    out: Annotated[str | None, typer.Option("--out", help="A CSV file to write: a sample for a person to label.")] = None,
    labels: Annotated[str | None, typer.Option(help="That file, labelled by a person, to evaluate.")] = None,
    insights: Annotated[int, typer.Option(help="Insights to assign to subtopics.", min=0)] = 100,
    documents: Annotated[int, typer.Option(help="Documents to look for insights in.", min=0)] = 10,
    haystacks: Annotated[int, typer.Option(help="Largest number of haystacks to sample from.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The random seed of the sample.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Check the annotations of a run's haystacks against a person's labels (the paper's Tables 4 and 5).

    --out writes the sheet, which does not reveal the expected answers; --labels reads it back.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, say, tables
    from summhay_ray.report import AUDITED_LEGEND, audited_tables

    if out and not insights and not documents:
        raise typer.BadParameter("a sheet without rows asks nothing; give --insights or --documents more than 0")

    if (out is None) == (labels is None):
        raise typer.BadParameter("give --out FILE to write the sheet, or --labels FILE to read it back")
    if out is not None:
        sizes = {"insights": insights, "documents": documents, "haystacks": haystacks, "seed": seed}
        found = api.audit(run, out, store, **sizes)
    else:
        found = api.audited(run, str(labels), store)
    if as_json:
        document(found)
    elif out is not None:
        facts([*found.items(), ("then", f"fill in the column `answer`, and: summhay audit {run} --labels {out}")])
    else:
        tables(audited_tables(found))
        say(AUDITED_LEGEND)
