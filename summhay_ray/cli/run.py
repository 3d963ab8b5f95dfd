"""The commands that start a run: `run`, `retrieve`, `coverage`, `rejudge`, `support` and `synth`; and `recite`, which creates a
run.

Each starts a run under a live display and prints its results. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

import typer

from summhay_ray.cli.shared_options import (
    EXIT_CODES,
    AllOption,
    JsonOption,
    RunArgument,
    SpecArgument,
    StoreOption,
    with_options,
)
from summhay_ray.run_options import RunOptions, StartOptions

if TYPE_CHECKING:
    from summhay_ray.engine import RunResult

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


@with_options
def run(
    spec: SpecArgument,
    store: StoreOption = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
    **options: Unpack[RunOptions],
) -> None:
    """Run or resume the work of a spec of any kind.

    Exit codes: 0 done (or as far as --limit goes), 3 stopped at the budget, 4 finished with failures listed.
    """
    from summhay_ray import api

    carry_out(partial(api.run, spec, store), ["run", spec], store, options, as_json, everything)


@with_options
def retrieve(
    spec: SpecArgument,
    store: StoreOption = None,
    trec: Annotated[str | None, typer.Option("--trec", help="A folder to write TREC's RETRIEVER.run and qrels to.")] = None,
    beir: Annotated[str | None, typer.Option("--beir", help="A folder to write each corpus to, as a BEIR folder.")] = None,
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Rank the documents with every retriever of a spec and measure the rankings; nothing is summarized.

    The spec needs no summarizers or judges; `k: [1, 5, 10]` sets the cutoffs of the metrics. Exit codes: 0 done, 3 stopped at the
    budget, 4 finished with failures listed.
    """
    from summhay_ray import api

    carry_out(partial(api.specs.retrieve, spec, store, trec=trec, beir=beir), ["retrieve", spec], store, options, as_json)


@with_options
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
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Measure information coverage: the share of a context's chunks that a question needs (ETHIC, appendix A).

    SPEC is the spec of any benchmark, or one of kind coverage. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    words = [word for name in evaluators or () for word in ("--evaluator", name)]
    lengths = {"--sample": sample, "--chunk-tokens": chunk_tokens}
    words += [word for name, n in lengths.items() if n for word in (name, str(n))]
    start = partial(api.coverage, spec, evaluators or (), store, sample=sample, chunk_tokens=chunk_tokens)
    carry_out(start, ["coverage", spec, *words], store, options, as_json)


@with_options
def rejudge(
    run: RunArgument,
    judges: JudgeOption = None,
    store: StoreOption = None,
    workers: Annotated[int | None, typer.Option(help="Worker actors; default one per CPU, at most 4.", min=1)] = None,
    spec: Annotated[str | None, typer.Option(help="A spec (YAML) with judges, and with endpoints and prices of models.")] = None,
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Judge the stored summaries of a run again; the old judgments stay.

    The same command resumes. Without --judge, all judges of the spec are used. A cascade(offline,MODEL) without a share gets the
    largest share that --budget pays for. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    if workers is not None:
        options["overrides"] = [*options.get("overrides", ()), f"workers={workers}"]
    carry_out(partial(api.rejudge, run, judges or (), store, spec=spec), ["rejudge", run], store, options, as_json)


@with_options
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
        Literal["citation", "bullet"], typer.Option("--per", help="What a model is asked about in one call.")
    ] = "citation",
    store: StoreOption = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Judge whether the cited documents say what is cited for them, without gold; or resume.

    Free, without a model, unless --judge names one. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    words = [*(["--judge", judge] if judge else []), *(["--documents", documents] if documents else []), "--per", per]
    start = partial(api.support, what, judge, store, documents=documents, per=per)
    carry_out(start, ["support", what, *words], store, options, as_json, everything)


def recite(
    run: RunArgument,
    drop_only: Annotated[bool, typer.Option("--drop-only", help="Only drop citations that are not supported.")] = False,
    add_only: Annotated[bool, typer.Option("--add-only", help="Only add documents that say what the bullet says.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Repair the citations of a run's summaries by the free support judge, as a run of its own, without any call.

    Coverage judgments carry over. It is post-processing that any system could have: compare like with like.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, sections, store_option

    if drop_only and add_only:
        raise typer.BadParameter("give one of --drop-only and --add-only; without either, both are done")
    result = api.recite(run, store, mode="drop" if drop_only else "add" if add_only else "both")
    if as_json:
        document(result.to_json())
        return
    sections([result.section()])
    where = store_option(api.store_uri(store))
    shown = ("run", "of", "summaries", "bullets", "before", "after", "dropped", "added")
    pairs = [(name, getattr(result, name)) for name in shown]
    facts([*pairs, ("calls", "0"), ("next", f"summhay score {result.run}{where}")])


@with_options
def synth(
    spec: SynthArgument,
    store: StoreOption = None,
    out: Annotated[str | None, typer.Option("--out", help="A folder to write the haystacks to, as released JSON files.")] = None,
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Make haystacks from topics (subtopics, insights, queries, documents, each verified), or resume.

    `summhay plan SPEC` shows calls and cost beforehand. To use the haystacks in a run, give `haystacks: [SPEC]` in its spec.
    Exit codes: 0 done, 3 stopped at the budget, 4 finished, with topics that failed.
    """
    from summhay_ray import api

    carry_out(partial(api.synth, spec, store, out=out), ["synth", spec], store, options, as_json)


def carry_out(
    start: Callable[..., RunResult],
    again: Sequence[str],
    store: str | None,
    options: StartOptions,
    as_json: bool,
    everything: bool = False,
) -> None:
    """Start a run, print its results, and exit with its code.

    `again`: the command line that repeats this run, for the hint how to resume. `everything`: show all tables.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.results import show_result
    from summhay_ray.cli.show import document

    # User code may print, and stdout is reserved for results.
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
    raise typer.Exit(EXIT_CODES[result.status])
