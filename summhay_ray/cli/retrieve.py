"""`summhay retrieve`: rankings and what they are worth, without a summary. Part of the cli room."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from summhay_ray.cli.options import (
    BUDGET,
    DONE,
    PARTIAL,
    AddressOption,
    BudgetOption,
    ExecutorOption,
    JsonOption,
    SetOption,
    SpecArgument,
    StoreOption,
)


def retrieve(
    spec: SpecArgument,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    trec: Annotated[str | None, typer.Option("--trec", help="A folder that gets TREC's RETRIEVER.run and qrels.")] = None,
    beir: Annotated[str | None, typer.Option("--beir", help="A folder that gets each corpus as a BEIR folder.")] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the documents by every retriever of a spec and measure the rankings; nothing is summarized.

    The spec needs neither summarizers nor judges; `k: [1, 5, 10]` says how many documents count. Exit codes: 0 done, 3 stopped at
    the budget, 4 finished with failures listed.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document, ended, facts, sections, store_option

    # Ray tells of dead workers on stdout, which is for results alone.
    with ProgressDisplay() as display, contextlib.redirect_stdout(sys.stderr):
        result = api.retrieve(
            spec,
            store,
            budget,
            address,
            display,
            overrides=overrides or (),
            executor=executor and executor.value,
            note=display.note,
            trec=trec,
            beir=beir,
        )
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        sections(result.sections)
        go_on = f": summhay retrieve {spec}{store_option(api.store_uri(store))} --budget MORE"
        facts(ended(result, ("run", result.run), result.unit, api.store_uri(store), go_on))
    raise typer.Exit({"done": DONE, "budget": BUDGET, "partial": PARTIAL}[result.status])
