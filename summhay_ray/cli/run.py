"""The commands that start, plan or submit a run, and `recite`, which creates one.

A command that starts a run shows a live display, then the results. Exit codes: 0 done, 3 stopped at the budget, 4 failures
listed.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

import typer

import summhay_ray
from summhay_ray.cli import shared_options as shared
from summhay_ray.cli.show import document, facts, note, print_line, prose, sections, show_result, store_option, tables, warn
from summhay_ray.errors import printable
from summhay_ray.run_options import PlanOptions, RunOptions, StartOptions

if TYPE_CHECKING:
    from summhay_ray.engine import RayJob, RunResult


SynthArgument = Annotated[
    str, typer.Argument(help="The synth spec, a YAML file: topics, size, difficulty, models.", metavar="SPEC")
]


JudgeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        help="A judge: a model, offline, per_summary(MODEL), few_shot(MODEL), blend(MODEL,offline), cascade(offline,MODEL,0.1), "
        "panel(JUDGE,JUDGE,...), or a judge of the spec (without --spec, of the run) by its name. Repeatable.",
        metavar="NAME",
    ),
]


NodesStoreOption = Annotated[
    str | None, typer.Option("--store", help="The store, as the nodes see it: s3://BUCKET/PREFIX or a shared folder.")
]


@shared.with_options
def run(
    spec: shared.SpecArgument,
    store: shared.StoreOption = None,
    everything: shared.AllOption = False,
    as_json: shared.JsonOption = False,
    **options: Unpack[RunOptions],
) -> None:
    """Run or resume the work of a spec of any kind.

    Exit codes: 0 done (or as far as --limit goes), 3 stopped at the budget, 4 finished with failures listed,
    5 waiting for batches.
    """

    carry_out(partial(summhay_ray.run, spec, store), ["run", spec], store, options, as_json, everything)


@shared.with_options
def plan(
    spec: shared.SpecArgument,
    store: shared.StoreOption = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also compare dollars and hours: standard, flex, batch; with and without cache.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Count every item of a large grid instead of a sample.")] = False,
    as_json: shared.JsonOption = False,
    **options: Unpack[PlanOptions],
) -> None:
    """Show the calls and cost of a run before it starts, and what is already paid.

    With more than 2,000 items, the plan is estimated from a stratified sample, and the error of the estimate is shown.
    """
    from summhay_ray.cli.record_tables import BOUNDS_LEGEND, plan_table, ways_table
    from summhay_ray.report import dollars_line

    result = summhay_ray.plan(spec, store, exact=exact, **options)
    warn(result.warnings)
    if as_json:
        document({**result.to_json(), **({"compare": [way.to_json() for way in result.ways]} if compare else {})})
        return
    stages = [stage.to_json() for stage in result.stages]
    bounded = any("max_calls" in stage for stage in stages)
    tables([plan_table(stages)])
    if compare:
        ways = [way.to_json() for way in result.ways]
        tables([ways_table(ways)])
        missing = ((way["channel"], model, why) for way in ways for model, why in way["unavailable"].items())
        for channel, model, why in dict.fromkeys(missing):
            print_line(f"{channel}: {model}: {why}; it is counted without it")
    for line in BOUNDS_LEGEND if any(stage.get("max_calls") for stage in stages) else ():
        prose(line)
    usd = result.usd
    # The savings of judges that read extracts.
    spared, usd_spared, left = (sum(stage.get(name, 0) for stage in stages) for name in ("spared_tokens", "usd_spared", "usd"))
    read, written = (sum(stage.get(f"cache_{way}_tokens", 0) for stage in stages) for way in ("read", "write"))
    cached = f"{sum(stage.get('usd_cached', stage['usd']) for stage in stages):.4f} expected"
    unaskable = [
        ("too long for the model's window", result.too_long),
        ("cannot be prepared", result.no_context),
    ]
    pairs = [
        ("run", result.run),
        (result.unit, f"{result.cells}, {result.cells_finished} finished"),
        *([("estimate", f"{result.drawn}; --exact counts all")] if result.drawn else []),
        *([] if bounded else unaskable),
        ("dollars", f"{usd['min']:.4f} at least, {usd['expected']:.4f} expected, {usd['max']:.4f} at most"),
        *([("extracts spare", f"{spared:,} input tokens, ${usd_spared:.4f} of ${usd_spared + left:.4f}")] if spared else []),
        *(
            [("with caches", f"{cached:.4f} expected, by {read:,} tokens read and {written:,} written")]
            if read or written
            else []
        ),
        ("dollars so far", dollars_line(result.so_far)),
        ("budget", "none" if result.budget_usd is None else f"{result.budget_usd:g}"),
        ("minimum minutes at the rate limits", "-" if result.minutes is None else f"{result.minutes:.1f}"),
        *([("batches", f"{result.waves} after one another, each up to 24 h")] if result.waves else []),
    ]
    facts(pairs)


@shared.with_options
def retrieve(
    spec: shared.SpecArgument,
    store: shared.StoreOption = None,
    trec: Annotated[str | None, typer.Option("--trec", help="The folder for TREC's RETRIEVER.run and qrels.")] = None,
    beir: Annotated[str | None, typer.Option("--beir", help="The folder for each corpus, in BEIR format.")] = None,
    as_json: shared.JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Rank the documents with every retriever of a spec, and measure the rankings. Nothing is summarized.

    The spec needs no summarizers or judges; `k: [1, 5, 10]` sets the cutoffs of the metrics. Exit codes: 0 done, 3 stopped at the
    budget, 4 finished with failures listed.
    """
    from summhay_ray import api

    carry_out(partial(api.specs.retrieve, spec, store, trec=trec, beir=beir), ["retrieve", spec], store, options, as_json)


@shared.with_options
def coverage(
    spec: shared.SpecArgument,
    evaluators: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator",
            help="Decides whether a chunk is needed: a model, offline/coverage, offline/coverage-embed. Repeatable.",
            metavar="NAME",
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(help="Number of questions per task and domain; default 50.", min=1)] = None,
    chunk_tokens: Annotated[int | None, typer.Option(help="Maximum tokens of a chunk; default 512.", min=32)] = None,
    store: shared.StoreOption = None,
    as_json: shared.JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Measure information coverage: the share of a context's chunks that a question needs (ETHIC, appendix A).

    SPEC is the spec of any benchmark, or one of kind coverage. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """

    words = [word for name in evaluators or () for word in ("--evaluator", name)]
    lengths = {"--sample": sample, "--chunk-tokens": chunk_tokens}
    words += [word for name, n in lengths.items() if n for word in (name, str(n))]
    start = partial(summhay_ray.coverage, spec, evaluators or (), store, sample=sample, chunk_tokens=chunk_tokens)
    carry_out(start, ["coverage", spec, *words], store, options, as_json)


@shared.with_options
def rejudge(
    run: shared.RunArgument,
    judges: JudgeOption = None,
    store: shared.StoreOption = None,
    workers: Annotated[int | None, typer.Option(help="Worker actors; default one per CPU, at most 4.", min=1)] = None,
    spec: Annotated[str | None, typer.Option(help="A spec (YAML) with judges, and with endpoints and prices of models.")] = None,
    as_json: shared.JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Judge the stored summaries of a run again; the old judgments stay.

    The same command resumes. Without --judge, all judges of the spec are used. A cascade(offline,MODEL) without a share gets the
    largest share for which --budget is enough. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """

    if workers is not None:
        options["overrides"] = [*options.get("overrides", ()), f"workers={workers}"]
    carry_out(partial(summhay_ray.rejudge, run, judges or (), store, spec=spec), ["rejudge", run], store, options, as_json)


@shared.with_options
def support(
    what: Annotated[
        str,
        typer.Argument(
            help="The id of a run, or its beginning; with --documents, a file of answers in JSON lines.",
            metavar="RUN|ANSWERS.jsonl",
        ),
    ],
    judge: Annotated[
        str,
        typer.Option(
            help="offline (by default), a model, nli/FOLDER, cascade(offline,MODEL,0.1), panel(MODEL,MODEL,offline).",
            metavar="NAME",
        ),
    ] = "",
    documents: Annotated[str | None, typer.Option("--documents", help="The folder of the documents that answers cite.")] = None,
    per: Annotated[
        Literal["citation", "bullet"], typer.Option("--per", help="One call to a model covers a citation, or a whole bullet.")
    ] = "citation",
    store: shared.StoreOption = None,
    everything: shared.AllOption = False,
    as_json: shared.JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Judge, without gold, whether the cited documents support the claims that cite them; or resume.

    Free, without a model, unless --judge names one. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """

    words = [*(["--judge", judge] if judge else []), *(["--documents", documents] if documents else []), "--per", per]
    start = partial(summhay_ray.support, what, judge, store, documents=documents, per=per)
    carry_out(start, ["support", what, *words], store, options, as_json, everything)


def recite(
    run: shared.RunArgument,
    drop_only: Annotated[bool, typer.Option("--drop-only", help="Only drop citations that are not supported.")] = False,
    add_only: Annotated[bool, typer.Option("--add-only", help="Only add documents that say what the bullet says.")] = False,
    store: shared.StoreOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Repair the citations of a run's summaries by the free support judge. The result is a new run, made without any call.

    Coverage judgments carry over. Any system could use this post-processing, so do not compare repaired with unrepaired systems.
    """
    from summhay_ray import api

    if drop_only and add_only:
        raise typer.BadParameter("give one of --drop-only and --add-only; without either, both are done")
    result = summhay_ray.recite(run, store, mode="drop" if drop_only else "add" if add_only else "both")
    if as_json:
        document(result.to_json())
        return
    sections([result.section()])
    where = store_option(api.store_uri(store))
    shown = ("run", "of", "summaries", "bullets", "before", "after", "dropped", "added")
    pairs = [(name, getattr(result, name)) for name in shown]
    facts([*pairs, ("calls", "0"), ("next", f"summhay score {result.run}{where}")])


@shared.with_options
def synth(
    spec: SynthArgument,
    store: shared.StoreOption = None,
    out: Annotated[str | None, typer.Option("--out", help="The folder for the haystacks, as released JSON files.")] = None,
    as_json: shared.JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Make haystacks from topics: subtopics, insights, queries and documents, all of them verified; or resume.

    `summhay plan SPEC` shows calls and cost beforehand. To use the haystacks in a run, give `haystacks: [SPEC]` in its spec. Exit
    codes: 0 done, 3 stopped at the budget, 4 finished, with topics that failed.
    """

    carry_out(partial(summhay_ray.synth, spec, store, out=out), ["synth", spec], store, options, as_json)


def carry_out(
    start: Callable[..., RunResult],
    again: Sequence[str],
    store: str | None,
    options: StartOptions,
    as_json: bool,
    everything: bool = False,
) -> None:
    """Start a run, print its results, and exit with its code.

    `again`: the command line that repeats this run, for the hint on resuming. `everything`: show all tables.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay

    # User code may print, but stdout is reserved for results.
    with ProgressDisplay(first=f"reading {again[1]}") as display, contextlib.redirect_stdout(sys.stderr):
        result = start(**{**options, "watch": display, "note": display.note})
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        words = [*again, *(word for one in options.get("overrides", ()) for word in ("--set", one))]
        words += ["--untrusted"] * options.get("untrusted", False)
        command = "" if again[0] == "rejudge" else shlex.join(["summhay", *words])
        show_result(result, api.store_uri(store), command, everything)
    raise typer.Exit(shared.EXIT_CODES[result.status])


@shared.with_options
def submit(
    spec: shared.SpecArgument,
    address: Annotated[str, typer.Option(help="URL of the head's dashboard: http://HEAD:8265.")],
    store: NodesStoreOption = None,
    compat: shared.CompatOption = "default",
    log_level: shared.LogLevelOption = None,
    wait: Annotated[bool, typer.Option(help="Show the job's log until its end; Ctrl-C leaves the job running.")] = True,
    as_json: shared.JsonOption = False,
    **options: Unpack[PlanOptions],
) -> None:
    """Run or resume the work of a spec as a job on a Ray cluster. If the job is already running, watch it.

    It sends the spec, its files and your own modules, but never a key: keys come from the nodes' environment or files. Haystacks
    are passed through the s3:// store if this machine can reach it. Exit codes: the run's own (0 done, 3 stopped at the budget, 4
    failures listed), or 1 if the job died or is still running.
    """

    if log_level is not None:
        shared.log_from(log_level)
    job = summhay_ray.submit(spec, address, store, compat=compat, **options)
    for line in job.notes:
        note(f"note: {line}")
    note(f"job {job.job} of run {job.run} " + ("is already running; this is its log" if job.attached else "is sent"))
    if not wait:
        note(f"look: {job.look()}; stop: {job.stop()}")
        _show(job, None, None, as_json)
        return
    try:
        # The job's log goes to stdout, or to stderr if stdout is for the JSON document.
        stream = sys.stderr if as_json else sys.stdout

        def write(text: str) -> None:
            stream.write(printable(text, "\n\t"))
            stream.flush()

        end = job.follow(write)
    except KeyboardInterrupt:
        note(f"\njob {job.job} runs on; look: {job.look()}; stop: {job.stop()}; the same command watches it again")
        raise typer.Exit(shared.FAILED) from None
    if end.message:
        note(f"summhay: {end.message}")
    if end.exit_code == shared.BUDGET:
        note(f"stopped at its budget; to go on: summhay submit {spec} with a larger --budget, as before otherwise")
    _show(job, end.status, end.exit_code, as_json)
    raise typer.Exit(end.exit_code)


def _show(job: RayJob, status: str | None, code: int | None, as_json: bool) -> None:

    fields = {name: getattr(job, name) for name in ("run", "job", "address", "store", "attached")}
    fields |= {"status": status, "exit_code": code}
    if as_json:
        document(fields)
    elif status is None:
        facts([(name, fields[name]) for name in ("run", "job", "store")])
