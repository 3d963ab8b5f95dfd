"""`summhay label`: draws judgments for people to label."""

from __future__ import annotations

from typing import Annotated

import typer

from summhay_ray.cli.shared_options import JsonOption, JudgedOption, RunArgument, StoreOption


def label(
    run: RunArgument,
    n: Annotated[int, typer.Option("--n", help="Judgments to label.", min=1)] = 30,
    out: Annotated[str, typer.Option("--out", help="The CSV file to write.")] = "labels.csv",
    judge: JudgedOption = "",
    seed: Annotated[int, typer.Option(help="The random seed of the sample.")] = 0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the judgments whose label by a person tells most, into a sheet; score, report and compare take it with --labels.

    Stratified by system and by the judge's value. The sheet shows neither the system nor the judge's verdict. `audit` asks people
    about the truth of haystacks instead, not about judgments.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts

    found = api.label(run, n, out, store, judge=judge, seed=seed)
    if as_json:
        document(found)
        return
    fill = "write no, partial or full into the column coverage, and the bullet's number into bullet"
    facts([*found.items(), ("then", f"{fill}; then: summhay score {run} --labels {out}")])
