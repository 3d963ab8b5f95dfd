"""`summhay audit`, `label` and `verify`: check haystacks and judgments by people's labels, or haystacks without a model."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from summhay_ray.cli.shared_options import DONE, PARTIAL, JsonOption, JudgedOption, RunArgument, StoreOption


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


def label(
    run: RunArgument,
    n: Annotated[int, typer.Option("--n", help="Judgments to label.", min=1)] = 30,
    out: Annotated[str, typer.Option("--out", help="The CSV file to write.")] = "labels.csv",
    judge: JudgedOption = "",
    seed: Annotated[int, typer.Option(help="The random seed of the sample.")] = 0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the most informative judgments into a sheet for people to label; score, report and compare take it with --labels.

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


def verify(
    files: Annotated[list[str], typer.Argument(help="Haystacks as released JSON files.", metavar="FILE.json...")],
    out: Annotated[str | None, typer.Option("--out", help="A CSV file to write: every check, with its evidence.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check haystack files against their own annotations, as `synth` does, but without a model.

    Checks that subtopics and insights are distinct, that insights fit their subtopics (assigned blind), that queries give no
    insight away, which insights each document has, and that no document is a near-copy. Sure is only what rests on numbers, names
    and dates, or on equal texts; the rest is unsure, and counted apart. Exit codes: 0 all as stated, 4 something otherwise or
    unsure.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, lines, say, tables
    from summhay_ray.report import VERIFIED_LEGEND, otherwise_table, verified_table

    # Ray prints messages on stdout, which is reserved for results.
    with contextlib.redirect_stdout(sys.stderr):
        verified = api.verify(files, out)
    if as_json:
        document({"files": [file.to_json() for file in verified]})
    else:
        for file in verified:
            say(file.file)
            tables([verified_table(file)])
            if file.mismatches:
                lines(otherwise_table(file))
        say(VERIFIED_LEGEND)
        facts([("written", out)] if out else [])
    raise typer.Exit(PARTIAL if any(file.mismatches for file in verified) else DONE)
