"""`summhay coverage`: measures which share of their contexts a benchmark's questions need. Part of the cli room."""

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


def coverage(
    spec: SpecArgument,
    evaluators: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator",
            help="What decides whether a chunk is needed: a model, offline/coverage, offline/coverage-embed. Repeatable.",
            metavar="NAME",
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Questions per task and domain; default 50.", min=1)] = None,
    chunk_tokens: Annotated[int | None, typer.Option(help="The longest chunk, in tokens; default 512.", min=32)] = None,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure information coverage: the share of a context's chunks that a question needs (ETHIC, appendix A).

    SPEC is the spec of any benchmark, or one of kind coverage. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document, ended, facts, sections, store_option

    # Ray reports dead workers on stdout, which is reserved for results.
    with ProgressDisplay() as display, contextlib.redirect_stdout(sys.stderr):
        result = api.coverage(
            spec,
            evaluators or (),
            store,
            budget,
            display,
            sample=sample,
            chunk_tokens=chunk_tokens,
            overrides=overrides or (),
            address=address,
            executor=executor and executor.value,
            note=display.note,
        )
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        sections(result.sections)
        where = api.store_uri(store)
        go_on = f": summhay coverage {spec}{store_option(where)} --budget MORE"
        facts(ended(result, ("run", result.run), result.unit, where, go_on))
    raise typer.Exit({"done": DONE, "budget": BUDGET, "partial": PARTIAL}[result.status])
