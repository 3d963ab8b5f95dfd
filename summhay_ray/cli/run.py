"""`summhay run`, `retrieve`, `coverage`, `rejudge` and `synth`: the commands that make calls. Part of the cli room.

Each starts a run under a live display and prints its results. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from summhay_ray.cli.shared_options import (
    EXIT_CODES,
    AddressOption,
    AllOption,
    BudgetOption,
    CompatOption,
    ExecutorOption,
    JsonOption,
    LogLevelOption,
    RunArgument,
    SetOption,
    SpecArgument,
    StoreOption,
    UntrustedOption,
)

if TYPE_CHECKING:
    from summhay_ray.benchmarks.mine import GoldPair
    from summhay_ray.benchmarks.rejudge import Choice
    from summhay_ray.benchmarks.summhay import ScoreResult
    from summhay_ray.cli.progress import ProgressDisplay
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


def run(
    spec: SpecArgument,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    compat: CompatOption = "default",
    limit: Annotated[
        int | None, typer.Option("--limit", help="Answer only this many items, a fair sample; the run can be resumed.", min=1)
    ] = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run or resume the work of a spec of any kind.

    Exit codes: 0 done (or as far as --limit goes), 3 stopped at the budget, 4 finished with failures listed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.run(
            spec,
            store,
            budget,
            address,
            display,
            overrides=overrides or (),
            compat=compat,
            executor=executor,
            limit=limit,
            note=display.note,
            untrusted=untrusted,
        )

    _carry_out(start, f"reading {spec}", store, _again("run", spec, overrides, untrusted), as_json, everything)


def retrieve(
    spec: SpecArgument,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    trec: Annotated[str | None, typer.Option("--trec", help="A folder to write TREC's RETRIEVER.run and qrels to.")] = None,
    beir: Annotated[str | None, typer.Option("--beir", help="A folder to write each corpus to, as a BEIR folder.")] = None,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the documents with every retriever of a spec and measure the rankings; nothing is summarized.

    The spec needs no summarizers or judges; `k: [1, 5, 10]` sets the cutoffs of the metrics. Exit codes: 0 done, 3 stopped at the
    budget, 4 finished with failures listed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.specs.retrieve(
            spec,
            store,
            budget,
            address,
            display,
            overrides=overrides or (),
            executor=executor,
            note=display.note,
            untrusted=untrusted,
            trec=trec,
            beir=beir,
        )

    _carry_out(start, "starting", store, _again("retrieve", spec, overrides, untrusted), as_json)


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
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure information coverage: the share of a context's chunks that a question needs (ETHIC, appendix A).

    SPEC is the spec of any benchmark, or one of kind coverage. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.coverage(
            spec,
            evaluators or (),
            store,
            budget,
            display,
            sample=sample,
            chunk_tokens=chunk_tokens,
            overrides=overrides or (),
            address=address,
            executor=executor,
            note=display.note,
            untrusted=untrusted,
        )

    lengths = {"--sample": sample, "--chunk-tokens": chunk_tokens}
    words = [*_each("--evaluator", evaluators), *(word for name, n in lengths.items() if n for word in (name, str(n)))]
    _carry_out(start, "starting", store, _again("coverage", spec, overrides, untrusted, *words), as_json)


def rejudge(
    run: RunArgument,
    judges: JudgeOption = None,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    workers: Annotated[int | None, typer.Option(help="Worker actors; default one per CPU, at most 4.", min=1)] = None,
    spec: Annotated[str | None, typer.Option(help="A spec (YAML) with judges, and with endpoints and prices of models.")] = None,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Judge the stored summaries of a run again; the old judgments stay.

    The same command resumes. Without --judge, all judges of the spec are used. A cascade(offline,MODEL) without a share gets the
    largest share that --budget pays for. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.rejudge(
            run,
            judges or (),
            store,
            budget,
            display,
            address=address,
            spec=spec,
            overrides=[*(overrides or ()), *([f"workers={workers}"] if workers is not None else [])],
            executor=executor,
            note=display.note,
            untrusted=untrusted,
        )

    _carry_out(start, f"reading run {run}", store, "", as_json)


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
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    everything: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Judge whether the cited documents say what is cited for them, without gold; or resume.

    Free, without a model, unless --judge names one. Exit codes: 0 done, 3 stopped at the budget, 4 failures listed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.support(
            what,
            judge,
            store,
            budget,
            address,
            display,
            documents=documents,
            per=per,
            overrides=overrides or (),
            executor=executor,
            note=display.note,
            untrusted=untrusted,
        )

    words = [*(["--judge", judge] if judge else []), *(["--documents", documents] if documents else []), "--per", per]
    _carry_out(start, f"reading {what}", store, _again("support", what, overrides, untrusted, *words), as_json, everything)


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


def synth(
    spec: SynthArgument,
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    out: Annotated[str | None, typer.Option("--out", help="A folder to write the haystacks to, as released JSON files.")] = None,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make haystacks from topics (subtopics, insights, queries, documents, each verified), or resume.

    `summhay plan SPEC` shows calls and cost beforehand. To use the haystacks in a run, give `haystacks: [SPEC]` in its spec.
    Exit codes: 0 done, 3 stopped at the budget, 4 finished, with topics that failed.
    """
    from summhay_ray import api

    def start(display: ProgressDisplay) -> RunResult:
        return api.synth(
            spec,
            store,
            budget,
            address,
            display,
            overrides=overrides or (),
            out=out,
            executor=executor,
            note=display.note,
            untrusted=untrusted,
        )

    _carry_out(start, f"reading {spec}", store, _again("synth", spec, overrides, untrusted), as_json)


def mine(
    folder: Annotated[
        str,
        typer.Argument(
            help="A folder of documents, or a spec of kind mine (a YAML file). With --check, a mined haystack (JSON).",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = "",
    store: StoreOption = None,
    budget: BudgetOption = None,
    address: AddressOption = None,
    executor: ExecutorOption = None,
    out: Annotated[str | None, typer.Option("--out", help="The file for the haystack, as released JSON.")] = None,
    review: Annotated[
        str | None,
        typer.Option("--review", help="A sheet to write (.csv or .xlsx) on which a person edits everything; and an HTML page."),
    ] = None,
    absent: Annotated[
        int | None, typer.Option("--absent", help="How many queries to add about what no document says.", min=0)
    ] = None,
    accept: Annotated[str | None, typer.Option("--accept", help="A sheet that a person has filled in.")] = None,
    show_text: Annotated[
        str | None,
        typer.Option(
            "--show-text",
            help="Only show what is read of this document, and what is left out, with the reason.",
            metavar="DOCUMENT",
        ),
    ] = None,
    check: Annotated[
        int | None,
        typer.Option(
            "--check", help="Ask about this many pairs of insight and document: is it right? With --review, on a sheet.", min=1
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write to --out though it has a person's work; what still applies is kept.")
    ] = False,
    overrides: SetOption = None,
    untrusted: UntrustedOption = False,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a haystack of a folder of documents: insights that recur, with every document that says each, and queries; or resume.

    Free, without a model, unless `--set models.check=MODEL` (or insight, query) names one. To use it in a run, give
    `haystacks: [mine.json]`, or the spec. Exit codes: 0 done, 3 stopped at the budget, 4 finished, with files not read.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, read_lines

    if bool(folder) == (accept is not None):
        raise typer.BadParameter("give a FOLDER to mine, or --accept SHEET.csv to take over a person's review")
    if check is not None and (accept is not None or not folder.lower().endswith(".json") or out or overrides):
        raise typer.BadParameter("--check takes the file of a haystack: mine first, then summhay mine HAYSTACK.json --check 20")
    if accept is not None or check is not None:
        found = api.accept(accept, out, store, replace_review=replace) if accept else _check(folder, check or 0, review, store)
        if as_json:
            document(found)
            return
        listed = [(name, value if isinstance(value, list) else [value]) for name, value in found.items() if value is not None]
        facts([(name, one) for name, values in listed for one in values])
        return

    if show_text is not None:
        read = api.show_text(folder, show_text, store, overrides=overrides or (), untrusted=untrusted)
        document(read) if as_json else read_lines(read)
        return

    def start(display: ProgressDisplay) -> RunResult:
        return api.mine(
            folder,
            out,
            store,
            budget,
            address,
            display,
            review=review,
            replace_review=replace,
            absent=absent,
            overrides=overrides or (),
            executor=executor,
            note=display.note,
            untrusted=untrusted,
        )

    written = [*(["--out", out] if out else []), *(["--review", review] if review else []), *["--replace"] * replace]
    written += [] if absent is None else ["--absent", str(absent)]
    _carry_out(start, f"reading {folder}", store, _again("mine", folder, overrides, untrusted, *written), as_json)


def _check(haystack: str, n: int, sheet: str | None, store: str | None) -> dict[str, Any]:
    """Ask a person on stdin about pairs of a haystack, or write them as a sheet: also where nobody is there to answer."""
    from summhay_ray import api
    from summhay_ray.cli.show import note

    first = "" if sheet is not None or sys.stdin.isatty() else sys.stdin.readline()
    if sheet is None and not first and not sys.stdin.isatty():
        sheet = f"{haystack[: -len('.json')]}-pairs.csv"
    if sheet is not None:
        found = api.check_pairs(haystack, n, store, sheet=sheet)
        note(f"write yes or no into the column right of {sheet}, then: summhay mine --accept {sheet} --out {haystack}")
        return found
    answers = itertools.chain([first] if first else [], sys.stdin)
    ended = False

    def ask(number: int, of: int, pair: GoldPair) -> bool | None:
        nonlocal ended
        if ended:
            return None
        for line in (
            "",
            f"{number} of {of}. Does {pair.document_id} say so?",
            f"  {pair.insight}",
            f"  Its words: {pair.evidence}",
        ):
            note(line)
        while True:
            note("y (yes), n (no), s (skip), q (enough):")
            said = next(answers, "q").strip().lower()
            if said in ("y", "yes", "n", "no", "s", "skip", "q", "quit"):
                ended = said[0] == "q"
                return {"y": True, "n": False}.get(said[0])

    return api.check_pairs(haystack, n, store, ask=ask)


def _again(command: str, spec: str, overrides: Sequence[str] | None, untrusted: bool, *words: str) -> str:
    """The command that resumes a run, with every option that makes it this run."""
    return shlex.join(["summhay", command, spec, *words, *_each("--set", overrides), *["--untrusted"] * untrusted])


def _each(option: str, values: Iterable[object] | None) -> list[str]:
    """The option once for each value."""
    return [word for value in values or () for word in (option, str(value))]


def _carry_out(
    start: Callable[[ProgressDisplay], RunResult],
    first: str,
    store: str | None,
    command: str,
    as_json: bool,
    everything: bool = False,
) -> None:
    """Start a run, print its results, and exit with its code.

    `first`: shown until there is progress. `command`: the command that resumes the run, without its store; empty if it is
    the same one. `everything`: show all tables.
    """
    from summhay_ray import api
    from summhay_ray.cli.progress import ProgressDisplay
    from summhay_ray.cli.show import document

    # Own code may print, and stdout is reserved for results.
    with ProgressDisplay(first=first) as display, contextlib.redirect_stdout(sys.stderr):
        result = start(display)
    display.warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        _show(result, api.store_uri(store), command, everything)
    raise typer.Exit(EXIT_CODES[result.status])


def _show(result: RunResult, store: str, command: str, everything: bool) -> None:
    from summhay_ray.cli.show import ended, facts, sections, show_agreement, store_option

    shows = {
        "summhay": lambda: show_scores(result.scores, store, everything, intervals=everything),
        "rejudge": lambda: _show_judges(result),
        "synth": lambda: _show_made(result),
        "judge_bench": lambda: show_agreement(result.scores),
    }
    shows.get(result.kind, lambda: sections(result.sections, everything))()
    head = ("run", result.run) if command else ("rejudge", f"{result.run} of {result.of}")
    go_on = f": {command}{store_option(store)} --budget MORE" if command else " the same command and a larger --budget"
    written = result.results.details.get("files", ()) if result.kind in ("synth", "mine") else ()
    facts([*ended(result, head, result.unit, store, go_on), *(("written", path) for path in written)])


def show_scores(scores: ScoreResult, store: str, everything: bool, intervals: bool = True) -> None:
    """Print the scores of a SummHay run. `everything`: all tables, not only joint. `intervals`: with those of the figures."""
    from summhay_ray.benchmarks.retrieval import retrieval_section
    from summhay_ray.benchmarks.summhay import claims_section, decision_of, nuggets_section
    from summhay_ray.cli.show import say, sections, starred, store_option
    from summhay_ray.report import label_lines, names_line, position_table, release_table, score_lines, score_tables

    claims = claims_section(scores.by_query, scores.judge)
    if not any(system.n_scored for system in scores.by_query):
        sections([] if claims is None else [claims])
        say(scores.so_far or f"Nothing is scored: 0 of {sum(system.n_expected for system in scores.by_query):,} insights")
        return
    if (decision := decision_of(scores)) is not None:
        say(decision.text)
    for line in (*score_lines(scores, everything, intervals), *label_lines(scores)):
        say(line)
    sensitivity = position_table(scores.position) if everything else None
    grids = [*score_tables(scores.by_query, everything, intervals), *([sensitivity] if sensitivity else [])]
    starred([*grids, *([release_table(scores.systems)] if everything else [])])
    sections([] if claims is None else [claims])
    if everything:
        if names := names_line(scores.by_query):
            say(names)
        sections(filter(None, [nuggets_section(scores.by_query, scores.judge)]))
        if scores.retrieval is not None:
            sections([retrieval_section(scores.retrieval, None)])
    elif grids:
        say(f"Coverage, citations and more: summhay score {scores.run} --all{store_option(store)}")


def _show_judges(result: RunResult) -> None:
    """Print a table of the judges' results."""
    from summhay_ray.cli.show import say, starred
    from summhay_ray.report import rejudge_table

    starred([rejudge_table(result)])
    for choice in result.choices:
        say(_choice_line(choice))


def _choice_line(choice: Choice) -> str:
    """How many insights a cascade asks its model about, at what cost, and the uncertainty of the others."""
    paid = (
        f", at most ${choice.usd_max:.6f} and about ${choice.usd_expected:.6f}: what the budget pays for"
        if choice.by_budget
        else ""
    )
    given_up = "" if choice.uncertainty_left is None else f"; the others keep a mean uncertainty of {choice.uncertainty_left:.3f}"
    of = "" if choice.uncertainty_asked is None else f" (mean uncertainty {choice.uncertainty_asked:.3f})"
    return f"{choice.judge} asks about {choice.n_asked:,} of {choice.n:,} insights{of}{paid}{given_up}"


def _show_made(result: RunResult) -> None:
    """Print the haystacks that were made, and the topics that failed."""
    from summhay_ray.cli.show import tables
    from summhay_ray.report import failed_table, made_table

    made = [made_table(result.haystacks)] if result.haystacks else []
    tables([*made, *([failed_table(result.failed)] if result.failed else [])])
