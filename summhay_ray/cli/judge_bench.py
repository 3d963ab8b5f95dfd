"""`summhay judge-bench`: how well judges agree with people, and how they are biased. Part of the cli room."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from summhay_ray.cli.options import BUDGET, DONE, PARTIAL, JsonOption, StoreOption
from summhay_ray.problems import Problem


def judge_bench(
    file: Annotated[str, typer.Argument(help="Annotated summaries, as SummHay released them.", metavar="FILE")],
    more: Annotated[list[str] | None, typer.Argument(help="Judges, as --judge names them.", metavar="NAME")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="Repeatable: offline, stored/KEY, a model, per_summary(MODEL), few_shot(MODEL), blend(JUDGE,offline), "
            "cascade(offline,JUDGE,0.1), module:Class, or a label of the spec's judges. Else the file's own and offline."
        ),
    ] = None,
    spec: Annotated[str | None, typer.Option(help="A spec whose judges say how models are reached, and at what price.")] = None,
    store: StoreOption = None,
    budget: Annotated[
        float | None, typer.Option(help="Dollars that these judges never exceed on this file, over all times.", min=0)
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Fit offline on the file's other topics: for a file that ours was fitted on.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="Write the measured biases there, for score --bias.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure judges against people: correlation, linking, dollars (Table 1), and bias (Table 6).

    Exit codes: 0 done, 3 stopped at the budget, 4 judgments are missing.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, note, say, tables
    from summhay_ray.report import BENCH_LEGEND, bench_tables

    if out and not Path(out).absolute().parent.is_dir():
        raise Problem(f"--out {out}: its folder is not there; make it first")
    result = api.judge_bench(file, [*(judge or ()), *(more or ())], store, budget, spec=spec, held_out=held_out)
    if out:
        Path(out).write_text(result.biases(), encoding="utf-8")
    for row in result.judges:
        if row.failures:
            told = ", ".join(f"{count} {error}" for error, count in row.failures.items())
            note(f"{row.judge}: judgments are missing: {told}")
    if as_json:
        document(result.to_json())
    else:
        tables(bench_tables(result.judges))
        say(BENCH_LEGEND)
        say(f"{result.n_insights} insights in {result.n_summaries} summaries; {result.calls['made']} calls made")
    raise typer.Exit({"done": DONE, "budget": BUDGET, "partial": PARTIAL}[result.status])
