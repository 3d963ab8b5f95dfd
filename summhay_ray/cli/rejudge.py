"""`summhay rejudge`: judges the stored summaries of a run again. Part of the cli room."""

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
    from summhay_ray.benchmarks.rejudge import Choice
    from summhay_ray.engine import RunResult

JudgeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        help="A judge: a model, offline, per_summary(MODEL), few_shot(MODEL), blend(MODEL,offline), cascade(offline,MODEL,0.1), "
        "or a judge of the spec (without --spec, of the run) by its name. Repeatable.",
        metavar="NAME",
    ),
]


def rejudge(
    run: RunArgument,
    judges: JudgeOption = None,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    workers: Annotated[int | None, typer.Option(help="Worker actors; default one per CPU, at most 4.", min=1)] = None,
    spec: Annotated[str | None, typer.Option(help="A spec (YAML) with judges, and with endpoints and prices of models.")] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the stored summaries of a run again; the old judgments stay.

    The same command resumes. Without --judge, all judges of the spec are used. A cascade(offline,MODEL) without a share gets the
    largest share that --budget pays for. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document

    changed = [*(overrides or ()), *([f"workers={workers}"] if workers is not None else [])]
    # Ray reports dead workers on stdout, which is reserved for results.
    with ProgressDisplay(first=f"reading run {run}") as display, contextlib.redirect_stdout(sys.stderr):
        result = api.rejudge(
            run,
            judges or (),
            store,
            budget,
            display,
            address=address,
            spec=spec,
            overrides=changed,
            executor=executor and executor.value,
            note=display.note,
        )
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        _show(result, api.store_uri(store))
    raise typer.Exit({"done": DONE, "budget": BUDGET, "partial": PARTIAL}[result.status])


def _choice_line(choice: Choice) -> str:
    """How many insights a cascade asks its model about, at what cost, and the uncertainty of the others."""
    paid = (
        f", at most ${choice.usd_max:.6f} and about ${choice.usd_expected:.6f}: what the budget pays for"
        if choice.by_budget
        else ""
    )
    given_up = "" if choice.uncertainty_left is None else f"; the others keep a mean uncertainty of {choice.uncertainty_left:.3f}"
    of = "" if choice.uncertainty_asked is None else f" (mean uncertainty {choice.uncertainty_asked:.3f})"
    return f"{choice.judge} asks about {choice.n_asked:,} of {choice.n:,} insights{of}{paid}{given_up}"


def show_judges(result: RunResult) -> None:
    """Print a table of the judges' results."""
    from summhay_ray.cli.show import say, tables
    from summhay_ray.report import LEGEND, rejudge_table

    means = rejudge_table(result)
    tables([means])
    if means.starred:
        say(LEGEND)
    for choice in result.choices:
        say(_choice_line(choice))


def _show(result: RunResult, store: str) -> None:
    from summhay_ray.cli.show import ended, facts

    show_judges(result)
    head = ("rejudge", f"{result.run} of {result.of}")
    facts(ended(result, head, "summaries", store, " the same command and a larger --budget"))
