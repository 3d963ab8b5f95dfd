"""`summhay retrieve`: ranks documents and measures the rankings, without summaries. Part of the cli room."""

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
    trec: Annotated[str | None, typer.Option("--trec", help="A folder to write TREC's RETRIEVER.run and qrels to.")] = None,
    beir: Annotated[str | None, typer.Option("--beir", help="A folder to write each corpus to, as a BEIR folder.")] = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the documents with every retriever of a spec and measure the rankings; nothing is summarized.

    The spec needs no summarizers or judges; `k: [1, 5, 10]` sets the cutoffs of the metrics. Exit codes: 0 done, 3 stopped at the
    budget, 4 finished with failures listed.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document, ended, facts, sections, store_option

    # Ray reports dead workers on stdout, which is reserved for results.
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
