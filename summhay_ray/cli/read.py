"""The commands that show, explain, export, stop and report runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

import summhay_ray
from summhay_ray.cli import shared_options as shared
from summhay_ray.cli.show import batches_line, console, counts_text, document, facts, print_line, show_scores, tables

if TYPE_CHECKING:
    from summhay_ray.engine import StatusResult


COMMANDS = {"synth": "summhay synth SPEC", "rejudge": "summhay rejudge RUN ..."}
"""Kind -> the command that starts its runs, if it is not `summhay run SPEC`."""


def status(
    run: shared.RunArgument,
    store: shared.StoreOption = None,
    everything: shared.HashesOption = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Show a run's progress, its cost compared with the plan, and its scores, while it is running or later.

    Missing and damaged files are listed, one line each; the exit code is then 1.
    """
    from summhay_ray.cli.record_tables import usage_table

    result = summhay_ray.status(run, store)
    if as_json:
        document(result.to_json())
    else:
        facts(status_facts(result, everything))
        table = usage_table(result.usage)
        tables([table] if table else [])
        if result.cells["done"] and not result.problems:
            show_scores(result.run, store, summhay_ray.results(result.run, store), everything=False)
    if result.problems:
        raise typer.Exit(shared.FAILED)


def status_facts(result: StatusResult, everything: bool = False) -> list[tuple[str, str]]:
    """Return (name, value) for each line of the status. `everything`: include the hashes of the tables."""
    from summhay_ray.llm import ExcessTotals
    from summhay_ray.report import dollars_line

    cells, unit = result.cells, result.unit
    pairs = [
        ("run", f"{result.run} ({result.kind}: {result.name})"),
        ("status", f"{result.status} {result.driver}".rstrip()),
        ("began", f"{result.began[:16].replace('T', ' ')} UTC"),
        (unit, f"{cells['done']} done, {cells['failed']} with failures, of {cells['total']}"),
        ("failures", counts_text(result.failures) or "none"),
        ("dollars", dollars_line(result.usd)),
    ]
    pairs += [(f"{'stopped' if one['stopped'] else 'claimed'} {one['model']}", str(ExcessTotals(**one))) for one in result.claims]
    if result.batches:
        pairs.append(("batches", batches_line(result.batches)))
    if result.left is not None:
        pairs.append(("left to do", _work_left(result, unit)))
    if result.finish_reasons:
        pairs.append(("cut or unfinished", f"{counts_text(result.finish_reasons)} of the answers"))
    shown = result.tables if everything else {}
    return [
        *pairs[:3],
        *(("warning", line) for line in result.warnings),
        *(("problem", line) for line in result.problems),
        *pairs[3:],
        ("store format", str(result.store_format)),
        *((f"table {name}", f"{table['rows']} rows, sha256 {table['sha256'][:12]}") for name, table in shown.items()),
    ]


def _work_left(result: StatusResult, unit: str) -> str:
    """Return the remaining work, its possible cost, and the command that resumes it."""
    left = dict(result.left or {})
    usd, cells, calls, most = (left.get(name) for name in ("usd", "cells", "calls", "max_calls"))
    parts = [f"{cells} {unit}", *([] if calls in (None, most) else [f"about {calls} calls"])]
    parts += [] if most is None else [f"at most {most} calls"]
    parts += [
        f"{usd[name]:.4f} dollars {word}" for name, word in (("expected", "expected"), ("max", "at most")) if usd and name in usd
    ]
    again = f"go on with: {COMMANDS.get(result.kind, 'summhay run SPEC')}"
    how = {"running": "", "budget": f"; {again} --budget MORE"}.get(result.status, f"; {again}, every stored answer is reused")
    return ", ".join(parts) + how


def runs(store: shared.StoreOption = None, as_json: shared.JsonOption = False) -> None:
    """List the runs of a store: name, status, dollars spent, reserved and uncertain, size."""
    from dataclasses import asdict

    from summhay_ray import api
    from summhay_ray.cli.record_tables import runs_table

    entries = [asdict(entry) for entry in summhay_ray.runs(store)]
    if as_json:
        document({"runs": entries})
    elif entries:
        tables([runs_table(entries)])
    else:
        print_line(f"no run in {api.store_uri(store)}; make one: summhay run SPEC")


def stop(
    run: shared.RunArgument,
    store: shared.StoreOption = None,
    cancel_batches: Annotated[
        bool,
        typer.Option("--cancel-batches", help="Also cancel the run's batches; store and charge what they have answered."),
    ] = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Stop a run, even one started in another shell or on another machine. The same command resumes it.

    The run's batches continue at their providers, and the next start fetches them, unless --cancel-batches is given.
    """
    from summhay_ray import api

    driver = summhay_ray.stop(run, store, cancel_batches=cancel_batches)
    if as_json:
        cancelled = {"batches": summhay_ray.status(run, store).batches} if cancel_batches else {}
        document({"run": api.full_id(run, store), "stopped": driver, **cancelled})
    else:
        how = f"stopped, {driver}" if driver else "its batches are over"
        print_line(f"{how}; the command that started it resumes it")


def release(run: shared.RunArgument, store: shared.StoreOption = None, as_json: shared.JsonOption = False) -> None:
    """Free a run's uncertain money, which a kill left in doubt. The run may then spend it.

    Check the provider's bill first: if these calls did cost something, it is not counted against the budget.
    """
    from summhay_ray.report import dollars_line

    result = summhay_ray.release(run, store)
    if as_json:
        document(result.to_json())
        return
    released = f"{result.released:.6f} dollars" if result.released else "nothing: no money of this run is uncertain"
    facts([("run", result.run), ("released", released), ("dollars", dollars_line(result.usd))])


def failures(run: shared.RunArgument, store: shared.StoreOption = None, as_json: shared.JsonOption = False) -> None:
    """List every failure of a run, with its place, reason and cost.

    `summhay explain RUN KEY` shows the details of a key or a cell.
    """
    from summhay_ray import api
    from summhay_ray.cli.record_tables import failure_blocks

    run, rows = api.full_id(run, store), summhay_ray.failures(run, store)
    if as_json:
        document({"run": run, "failures": rows})
        return
    for line in failure_blocks(run, rows, console().width):
        print_line(line)


def explain(
    run: shared.RunArgument,
    key: Annotated[
        str,
        typer.Argument(
            help="The id of a cell or key of an answer, or its beginning; of a synth run also NAME or NAME/DOCUMENT_ID.",
            metavar="KEY",
        ),
    ],
    store: shared.StoreOption = None,
    compat: shared.CompatOption = "default",
    as_json: shared.JsonOption = False,
) -> None:
    """Show where a number comes from: score, judgment, raw answer, prompt, price, documents cited.

    In a synth run, it shows a haystack with its checks and documents, or a document with its planned and found insights.
    """
    from summhay_ray.cli.explained import show

    found = summhay_ray.explain(run, key, store, compat)
    if as_json:
        document(found)
    else:
        show(found)


def export(
    run: shared.RunArgument,
    out: Annotated[str, typer.Option("--out", help="The folder for results or answers in a format of other tools.")] = "",
    tables: Annotated[str, typer.Option("--tables", help="The folder or s3://... for the run's tables.")] = "",
    hub: Annotated[str, typer.Option("--hub", help="The folder for a dataset with a card, which `hf upload` pushes.")] = "",
    to: Annotated[Literal["wandb", "mlflow"] | None, typer.Option("--to", help="The tracker that gets the figures.")] = None,
    kind: Annotated[
        Literal["parquet", "csv", "jsonl", "released", "trec-rag", "lm-eval", "every-eval-ever"] | None,
        typer.Option(
            "--format",
            help="With --tables: parquet (the default), csv, jsonl; with --out: released (SummHay JSON, the default), trec-rag, "
            "lm-eval, every-eval-ever.",
        ),
    ] = None,
    with_texts: Annotated[bool, typer.Option("--with-texts", help="With --hub: also the texts of documents.")] = False,
    store: shared.StoreOption = None,
    judge: shared.JudgedOption = "",
    as_json: shared.JsonOption = False,
) -> None:
    """Write a run's results, answers or tables for other tools, or log its figures in a tracker."""
    from summhay_ray import api

    if sum(map(bool, (out, tables, hub, to))) != 1:
        raise typer.BadParameter("give one of --out FOLDER, --tables FOLDER, --hub FOLDER and --to TRACKER")
    if judge and tables:
        raise typer.BadParameter("--judge belongs to --out; the tables hold the judgments of every judge")
    if judge and kind == "trec-rag":
        raise typer.BadParameter("--judge does not belong to trec-rag, which holds answers without judgments")
    if with_texts and not hub:
        raise typer.BadParameter("--with-texts belongs to --hub")
    of_tables = ("parquet", "csv", "jsonl")
    if kind and (hub or to or (kind in of_tables) != bool(tables)):
        where = "--tables" if kind in of_tables else "--out"
        raise typer.BadParameter(f"--format belongs to {where} if it is {kind}")
    if tables:
        written = list(summhay_ray.export_tables(run, tables, store, cast("Any", kind or "parquet")).values())
    else:
        form = "hub" if hub else to or kind or "released"
        found = summhay_ray.export(run, out or hub, store, judge, cast("Any", form), with_texts=with_texts)
        written = [str(one) for one in found]
    if as_json:
        document({"run": api.full_id(run, store), "files": written})
    else:
        facts([("written", path) for path in written])


def report(
    runs: Annotated[list[str], typer.Argument(help="The ids of runs, as run and import print them.", metavar="RUN...")],
    out: Annotated[str, typer.Option("--out", help="The folder or s3://... for the report.")] = "",
    kind: Annotated[
        Literal["html", "md", "latex", "csv", "json", "card"],
        typer.Option(
            "--format", help="html: index.html and the samples in data/; card: a picture for a README; else tables for papers."
        ),
    ] = "html",
    figures: Annotated[str, typer.Option(help="Also write each chart as a file: svg, pdf, or svg,pdf.", metavar="KINDS")] = "",
    single_file: Annotated[
        bool, typer.Option("--single-file", help="One page with its samples, up to 10 MB, to send or attach.")
    ] = False,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the page on this machine, and follow unfinished runs.")] = False,
    port: Annotated[int, typer.Option(help="The port for --serve; 0: any free one.", min=0, max=65535)] = 0,
    store: shared.StoreOption = None,
    judge: shared.JudgedOption = "",
    labels: shared.LabelsOption = None,
    over: shared.OverOption = None,
    compat: shared.CompatOption = "default",
    as_json: shared.JsonOption = False,
) -> None:
    """Write a report of runs, finished or not: tables, figures, and every sample with its verdicts and documents."""
    from summhay_ray.report import serve_report

    kinds = [name.strip() for name in figures.split(",") if name.strip()]
    for name in kinds:
        if name not in ("svg", "pdf"):
            raise typer.BadParameter(f"--figures {name!r}: expected svg, pdf, or svg,pdf")
    if serve:
        if kind != "html" or kinds or single_file:
            raise typer.BadParameter("--serve makes the page alone: give it without --format, --figures and --single-file")

        def announce(url: str) -> None:
            document({"runs": runs, "url": url}) if as_json else print_line(url)
            # The command continues after the server has started.
            sys.stdout.flush()

        serve_report(lambda: summhay_ray.make_report(runs, store, compat, judge, labels or "", over), out, port, announce)
        return
    if not out:
        raise typer.BadParameter("give --out FOLDER (or s3://...), or --serve")
    made = summhay_ray.make_report(runs, store, compat, judge, labels or "", over)
    if single_file and kind != "html":
        raise typer.BadParameter("--single-file is of the page alone: give it without --format")
    written = made.write(out, kind, ["svg" if name == "svg" else "pdf" for name in kinds], single_file)
    places = [f"{out.rstrip('/')}/{name}" for name in written]
    if as_json:
        document({"runs": runs, "files": places})
    else:
        facts([("written", place) for place in places])
