"""`summhay report`: writes a report of runs as a page, or as tables for papers and tools."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from summhay_ray.cli.shared_options import CompatOption, JsonOption, JudgedOption, LabelsOption, OverOption, StoreOption


def report(
    runs: Annotated[list[str], typer.Argument(help="The ids of runs, as run and import print them.", metavar="RUN...")],
    out: Annotated[str, typer.Option("--out", help="The folder or s3://... for the report.")] = "",
    kind: Annotated[
        Literal["html", "md", "latex", "csv", "json"],
        typer.Option("--format", help="html: index.html and the samples in data/; the others: tables for papers and tools."),
    ] = "html",
    figures: Annotated[str, typer.Option(help="Also write each chart as a file: svg, pdf, or svg,pdf.", metavar="KINDS")] = "",
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page on this machine, and follow unfinished runs.")] = False,
    port: Annotated[int, typer.Option(help="The port for --serve; 0: any free one.", min=0, max=65535)] = 0,
    store: StoreOption = None,
    judge: JudgedOption = "",
    labels: LabelsOption = None,
    over: OverOption = None,
    compat: CompatOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Write a report of runs, finished or not: tables, figures, and every sample with its verdicts and documents."""
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, say
    from summhay_ray.report import serve_report

    kinds = [name.strip() for name in figures.split(",") if name.strip()]
    for name in kinds:
        if name not in ("svg", "pdf"):
            raise typer.BadParameter(f"--figures {name!r}: expected svg, pdf, or svg,pdf")
    if serve:
        if kind != "html" or kinds:
            raise typer.BadParameter("--serve makes the page alone: give it without --format and --figures")

        def tell(url: str) -> None:
            document({"runs": runs, "url": url}) if as_json else say(url)
            # The command continues.
            sys.stdout.flush()

        serve_report(lambda: api.make_report(runs, store, compat, judge, labels or "", over), out, port, tell)
        return
    if not out:
        raise typer.BadParameter("give --out FOLDER (or s3://...), or --serve")
    made = api.make_report(runs, store, compat, judge, labels or "", over)
    written = made.write(out, kind, ["svg" if name == "svg" else "pdf" for name in kinds])
    places = [f"{out.rstrip('/')}/{name}" for name in written]
    if as_json:
        document({"runs": runs, "files": places})
    else:
        facts([("written", place) for place in places])
