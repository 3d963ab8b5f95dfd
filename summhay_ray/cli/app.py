"""The commands of `summhay`.

Heavy modules are imported inside the commands, so that `--help` is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

import typer
from typer.core import TyperGroup

from summhay_ray.cli.audit import audit, label, verify
from summhay_ray.cli.compare import compare
from summhay_ray.cli.init import init
from summhay_ray.cli.judge_bench import judge_bench
from summhay_ray.cli.mine import mine
from summhay_ray.cli.report import report
from summhay_ray.cli.run import coverage, recite, rejudge, retrieve, run, support, synth
from summhay_ray.cli.shared_options import (
    DONE,
    FAILED,
    AllOption,
    CompatOption,
    JsonOption,
    JudgedOption,
    LabelsOption,
    RunArgument,
    SpecArgument,
    StoreOption,
    UntrustedOption,
    VersionOption,
    with_options,
)
from summhay_ray.cli.simulate import simulate
from summhay_ray.cli.status import failures, release, runs, status, stop
from summhay_ray.cli.submit import submit
from summhay_ray.run_options import PlanOptions

if TYPE_CHECKING:
    from typing import Any

    from summhay_ray.benchmarks.odsum import CollectionImport
    from summhay_ray.benchmarks.summhay import ImportResult

RUN, READ, JUDGE, MAKE, SERVE = "Run", "Read", "Judge", "Make", "Serve and check"


class Grouped(TyperGroup):
    """Lists the commands in groups by purpose, each with its full summary."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """See click's `MultiCommand`."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        for group in (RUN, READ, JUDGE, MAKE, SERVE):
            with formatter.section(group):
                rows = [(name, cmd.get_short_help_str(limit=200)) for name, cmd in commands if _group(cmd) == group]
                formatter.write_dl(rows)


def _group(command: Any) -> str:
    return str(getattr(command, "rich_help_panel", ""))


app = typer.Typer(
    name="summhay",
    cls=Grouped,
    help="Summary of a Haystack on Ray: how well models and RAG systems summarize large document sets and cite their sources.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _about(version: VersionOption = False) -> None: ...


app.command(rich_help_panel=RUN)(run)


@app.command(rich_help_panel=RUN)
@with_options
def plan(spec: SpecArgument, store: StoreOption = None, as_json: JsonOption = False, **options: Unpack[PlanOptions]) -> None:
    """Show the calls and cost of a run before it makes any, and what is already paid."""
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, say, tables, warn
    from summhay_ray.report import BOUNDS_LEGEND, bounds_table, dollars_line, extracts_spare, minutes, plan_table

    result = api.plan(spec, store, **options)
    warn(result.warnings)
    if as_json:
        document(result.to_json())
        return
    stages = [stage.to_json() for stage in result.stages]
    bounded = any("max_calls" in stage for stage in stages)
    tables([bounds_table(stages) if bounded else plan_table(stages)])
    for line in BOUNDS_LEGEND if any(stage.get("max_calls") for stage in stages) else ():
        say(line)
    usd = result.usd
    unaskable = [
        ("too long for the model's window", result.too_long),
        ("cannot be prepared", result.no_context),
    ]
    pairs = [
        ("run", result.run),
        (result.unit, f"{result.cells}, {result.cells_finished} finished"),
        *([] if bounded else unaskable),
        ("dollars", f"{usd['min']:.4f} at least, {usd['expected']:.4f} expected, {usd['max']:.4f} at most"),
        *([("extracts spare", spared)] if (spared := extracts_spare(stages)) else []),
        ("dollars so far", dollars_line(result.so_far)),
        ("budget", "none" if result.budget_usd is None else f"{result.budget_usd:g}"),
        ("minimum minutes at the rate limits", minutes(result.minutes)),
    ]
    facts(pairs)


app.command(rich_help_panel=READ)(runs)
app.command(rich_help_panel=READ)(status)
app.command(rich_help_panel=READ)(failures)


@app.command(rich_help_panel=READ)
def explain(
    run: RunArgument,
    key: Annotated[
        str,
        typer.Argument(
            help="The id of a cell or key of an answer, or its beginning; of a synth run also NAME or NAME/DOCUMENT_ID.",
            metavar="KEY",
        ),
    ],
    store: StoreOption = None,
    compat: CompatOption = "default",
    as_json: JsonOption = False,
) -> None:
    """Show where a number comes from: score, judgment, raw answer, prompt, price, documents cited.

    In a synth run: a haystack with its checks and documents, or a document with its planned and found insights.
    """
    from summhay_ray import api
    from summhay_ray.cli.explained import show
    from summhay_ray.cli.show import document

    found = api.explain(run, key, store, compat)
    if as_json:
        document(found)
    else:
        show(found)


@app.command("import", rich_help_panel=MAKE)
def import_released(
    files: Annotated[
        list[str],
        typer.Argument(help="Released SummHay JSON files, or one folder of documents and queries.", metavar="FILE.json..."),
    ],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import released SummHay files, with summaries and judgments, as a run; or a folder as a collection for `corpus:`."""
    from summhay_ray import api
    from summhay_ray.cli.show import answers_wanted, document, facts, store_option, warn

    where = store_option(api.store_uri(store))
    result: CollectionImport | ImportResult
    if len(files) == 1 and Path(files[0]).is_dir():
        result = kept = api.import_collection(files[0], store)
        further = f"in a spec: kind: odsum, corpus: {kept.corpus}; then summhay run SPEC{where}"
    else:
        result = made = api.import_released(files, store)
        further = f"summhay score {made.run}{where}" if made.summaries else answers_wanted(files[0])
    warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        facts([*result.to_json().items(), ("next", further)])


@app.command(rich_help_panel=READ)
def export(
    run: RunArgument,
    out: Annotated[str, typer.Option("--out", help="The folder for released SummHay JSON files, or TREC RAG answers.")] = "",
    tables: Annotated[str, typer.Option("--tables", help="The folder or s3://... for the run's tables.")] = "",
    kind: Annotated[
        Literal["parquet", "csv", "jsonl", "released", "trec-rag"] | None,
        typer.Option(
            "--format", help="Of tables: parquet (by default), csv, jsonl; with --out: released (by default), trec-rag."
        ),
    ] = None,
    store: StoreOption = None,
    judge: JudgedOption = "",
    as_json: JsonOption = False,
) -> None:
    """Write a run as released SummHay JSON files, or its tables."""
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts

    if bool(out) == bool(tables):
        raise typer.BadParameter("give one of --out FOLDER (released JSON files) and --tables FOLDER (the run's tables)")
    if judge and tables:
        raise typer.BadParameter("--judge belongs to --out; the tables hold the judgments of every judge")
    if judge and kind == "trec-rag":
        raise typer.BadParameter("--judge belongs to the released format; trec-rag holds answers without judgments")
    if kind in ("parquet", "csv", "jsonl"):
        if out:
            raise typer.BadParameter(f"--format belongs to --tables if it is {kind}; --out writes released, or trec-rag")
        written = list(api.export_tables(run, tables, store, kind).values())
    elif tables:
        if kind:
            raise typer.BadParameter(f"--format belongs to --out if it is {kind}; --tables writes parquet, csv or jsonl")
        written = list(api.export_tables(run, tables, store).values())
    else:
        written = [str(path) for path in api.export(run, out, store, judge, "trec-rag" if kind == "trec-rag" else "released")]
    if as_json:
        document({"run": api.full_id(run, store), "files": written})
    else:
        facts([("written", path) for path in written])


@app.command(rich_help_panel=JUDGE)
def score(
    run: RunArgument,
    store: StoreOption = None,
    compat: CompatOption = "default",
    bias: Annotated[str | None, typer.Option(help="A file of judges' biases from judge-bench --out; it overrides ours.")] = None,
    judge: JudgedOption = "",
    labels: LabelsOption = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Score a run's stored judgments again, without any call: its own judge's first, then those of `rejudge`."""
    from summhay_ray import api
    from summhay_ray.cli.results import show_scores
    from summhay_ray.cli.show import document, note, sections, warn
    from summhay_ray.engine import Results

    result = api.score(run, store, compat, bias, judge, labels)
    if isinstance(result, Results):
        warn(result.warnings)
        document({"run": api.full_id(run, store), **result.details}) if as_json else sections(result.sections, everything)
        return
    if result.failures:
        note(f"{len(result.failures)} judgments cannot be used and are not scored; summhay failures {run} lists them")
    if as_json:
        document(result.to_json())
    else:
        show_scores(result, api.store_uri(store), everything or bias is not None or labels is not None)


@app.command(rich_help_panel=SERVE)
def clean(
    store: StoreOption = None,
    older_than: Annotated[str, typer.Option("--older-than", help="Only what was written longer ago: 1d, 6h, 30m, 0.")] = "1d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be freed, and delete nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete files of a store that no reader needs any more."""
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, warn

    result = api.clean(store, _seconds(older_than), dry_run)
    warn(f"{damaged}; see: summhay doctor --store URI" for damaged in result.warnings)
    if as_json:
        document(result.to_json())
        return
    word = "would free" if dry_run else "freed"
    kinds = [(what, f"{kind['files']} files, {_mib(kind['bytes'])}") for what, kind in sorted(result.kinds.items())]
    facts([*kinds, (word, f"{result.files} files, {_mib(result.bytes)}")])


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _seconds(text: str) -> float:
    """The seconds in `1d`, `6h`, `30m`, `15s` or a plain number. Raises BadParameter."""
    units = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    if not number.replace(".", "", 1).isdecimal():
        raise typer.BadParameter(f"--older-than {text!r}: expected a number and d, h, m or s, such as 1d")
    return float(number) * unit


@app.command(rich_help_panel=SERVE)
def doctor(
    spec: Annotated[str | None, typer.Argument(help="A spec whose models are checked too.", metavar="[SPEC]")] = None,
    store: StoreOption = None,
    untrusted: UntrustedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check keys, prices, Ray and offline models; with --store, check the store's files."""
    from dataclasses import asdict

    from summhay_ray import api
    from summhay_ray.cli.show import document, facts

    checks = api.doctor(spec, store, untrusted=untrusted)
    if as_json:
        document({"checks": [asdict(check) for check in checks]})
    else:
        marks = ("ok  " if check.ok else "BAD " if check.needed else "-   " for check in checks)
        facts([(f"{mark} {check.name}", check.message) for mark, check in zip(marks, checks, strict=True)])
    raise typer.Exit(DONE if all(check.ok or not check.needed for check in checks) else FAILED)


app.command(rich_help_panel=READ)(report)
app.command(rich_help_panel=JUDGE)(compare)
app.command(rich_help_panel=JUDGE)(coverage)
app.command(rich_help_panel=JUDGE)(rejudge)
app.command(rich_help_panel=JUDGE)(support)
app.command(rich_help_panel=JUDGE)(recite)
app.command("judge-bench", rich_help_panel=JUDGE)(judge_bench)
app.command(rich_help_panel=JUDGE)(label)
app.command(rich_help_panel=SERVE)(simulate)
app.command(rich_help_panel=RUN)(retrieve)
app.command(rich_help_panel=RUN)(stop)
app.command(rich_help_panel=RUN)(release)
app.command(rich_help_panel=RUN)(submit)
app.command(rich_help_panel=MAKE)(init)
app.command(rich_help_panel=MAKE)(mine)
app.command(rich_help_panel=MAKE)(synth)
app.command(rich_help_panel=MAKE)(audit)
app.command(rich_help_panel=MAKE)(verify)
