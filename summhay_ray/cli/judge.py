"""The commands about judgments: scores, comparisons, agreement of judges with people, labels."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import summhay_ray
from summhay_ray.cli import shared_options as shared
from summhay_ray.cli.show import document, facts, note, print_line, sections, show_scores, warn
from summhay_ray.errors import UserError

if TYPE_CHECKING:
    from summhay_ray.benchmarks.extract_evaluate import RaterComparison


FITTED = frozenset(
    {
        "5837ed0b3dc0cf917df56e2e9e7d2a621373fca0000bb098fb454032bc1ce8b3",
        "e0bada72fa32c63642b7d24a9b159e80fb0be78d0fac5d077f8d9002f1333937",
    }
)
"""The sha256 of the topics to which the shipped parameters of the offline judge (`judge/offline_judge.json`) were fitted."""


def score(
    run: shared.RunArgument,
    store: shared.StoreOption = None,
    compat: shared.CompatOption = "default",
    bias: Annotated[str | None, typer.Option(help="A file of judges' biases from judge-bench --out; it overrides ours.")] = None,
    judge: shared.JudgedOption = "",
    labels: shared.LabelsOption = None,
    everything: shared.AllOption = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Score a run's stored judgments again, without any call: first those of its own judge, then those of `rejudge`."""
    from summhay_ray import api
    from summhay_ray.engine import Results

    result = summhay_ray.score(run, store, compat, bias, judge, labels)
    if isinstance(result, Results):
        warn(result.warnings)
        if as_json:
            document({"run": api.full_id(run, store), **result.details})
        else:
            show_scores(api.full_id(run, store), store, result, everything)
        return
    if result.failures:
        note(f"{len(result.failures)} judgments cannot be used and are not scored; summhay failures {run} lists them")
    if as_json:
        document(result.to_json())
    else:
        show_scores(result.run, store, result, everything or bias is not None or labels is not None)


def _two_names(names: tuple[str, str] | None) -> tuple[str, str] | None:
    """Raise BadParameter if an option is in the place of the second name."""
    for name in names or ():
        if name.startswith("--"):
            raise typer.BadParameter(f"expected two names, A B; found the option {name} in the place of one")
    return names


def compare(
    run: shared.RunArgument,
    other: Annotated[
        str | None, typer.Argument(help="Another run: systems of the same name are compared.", metavar="[RUN_B]")
    ] = None,
    systems: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--systems",
            help="Two systems or patterns such as 'oracle_*'; A is in the first run.",
            metavar="A B",
            callback=_two_names,
        ),
    ] = None,
    judges: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--judges",
            help="Two of the run's judges; with two runs or --systems, those whose scores are used. For ratings: two raters.",
            metavar="A B",
            callback=_two_names,
        ),
    ] = None,
    judge: shared.JudgedOption = "",
    by: Annotated[
        Literal["retriever", "model"] | None,
        typer.Option(help="Compare retrievers, each averaged over the models, or models, each averaged over the retrievers."),
    ] = None,
    labels: shared.LabelsOption = None,
    rows: Annotated[int, typer.Option(help="Number of insights to list; the judges differ most on these.", min=0)] = 20,
    over: shared.OverOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every figure, system and pair, not just one screen.")] = False,
    store: shared.StoreOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Compare systems of one or two runs (which one to use? is a difference real?), or two judges on one run.

    For runs of any kind, it shows which system to use, the ranking, and paired differences per query, with intervals, tests, and
    how much more data would settle them. With one RUN, it compares every pair of its systems, or with --systems A B some of them;
    with RUN_A RUN_B, systems of the same name. Scores are by the run's own judge, unless --judge names another.

    RUN --judges A B compares two of the run's judges: on which insights they differ most, and how the ranking of the systems
    changes. For runs with ratings (Extract-then-Evaluate, ETHIC, ODSum's G-EVAL), --judges A B compares two raters of one run, or
    one rater from each of two runs.
    """
    from summhay_ray.benchmarks.rejudge import CompareResult
    from summhay_ray.comparison import SystemComparison, screen_sections

    result: CompareResult | RaterComparison | SystemComparison
    if judges is not None and other is None and systems is None and not judge and not labels and by is None:
        result = summhay_ray.compare(run, judges, store, rows)
    else:
        result = summhay_ray.compare_systems(
            run, other, systems or (), judges or (), store, judge=judge, over=over, by=by, labels=labels
        )
    if as_json:
        document(result.to_json())
        return
    if isinstance(result, SystemComparison):
        sections(screen_sections(result, everything), everything)
    else:
        sections(result.sections(), more=True)


def judge_bench(
    file: Annotated[
        str,
        typer.Argument(help="Annotated summaries, as SummHay released them; or labelled claims, as JSON lines.", metavar="FILE"),
    ],
    more: Annotated[list[str] | None, typer.Argument(help="More judges, named as for --judge.", metavar="NAME")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="Repeatable: offline, stored/KEY, a model, per_summary(MODEL), few_shot(MODEL), blend(JUDGE,offline), "
            "cascade(offline,JUDGE,0.1), panel(JUDGE,JUDGE,...), module:Class, or a label of the spec's judges. "
            "Default: the file's own and offline."
        ),
    ] = None,
    spec: Annotated[str | None, typer.Option(help="A spec whose judges give the endpoints and prices of models.")] = None,
    store: shared.StoreOption = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Dollar limit for these judges on this file, over all invocations; default the spec's.", min=0),
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Fit offline on the file's other topics, if ours was fitted on this file.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="Write the measured biases to this file, for score --bias.")] = None,
    untrusted: shared.UntrustedOption = False,
    as_json: shared.JsonOption = False,
) -> None:
    """Measure judges against people: correlation, linking, dollars (Table 1), and bias (Table 6).

    For support judges, the file has JSON lines with claim, references and label; the figures are AUC and balanced accuracy by
    source.

    Exit codes: 0 done, 3 stopped at the budget, 4 finished with judgments missing.
    """
    from summhay_ray.benchmarks.support import agreement_section, holds_labels

    names = [*(judge or ()), *(more or ())]
    if Path(file).is_file() and holds_labels(Path(file)):
        if out or held_out:
            raise UserError(
                f"{file}: is a file of labelled claims, which has no {'--out' if out else '--held-out'}; leave that out"
            )
        rows = summhay_ray.bench_support_judges(file, names, store, budget, spec=spec, untrusted=untrusted)
        if as_json:
            document({"judges": [row.to_json() for row in rows]})
        else:
            sections([agreement_section(rows)])
        raise typer.Exit(max(shared.EXIT_CODES[row.status] for row in rows))
    if out:
        _check_out(Path(out), Path(file))
    result = summhay_ray.judge_bench(file, names, store, budget, spec=spec, held_out=held_out, untrusted=untrusted)
    if not held_out and _in_sample(Path(file), [row.judge for row in result.judges]):
        note("offline was fitted on the topics of this very file: its figures and bias here are too good; give --held-out")
    for line in (*(f"{row.judge}: judgments are missing: {row.missing}" for row in result.judges if row.failures), *result.notes):
        note(line)
    if left := result.left:
        calls = "" if left["calls"] is None else f", {left['calls']:,} calls, at most ${left['usd']['max']:,.6f}"
        remaining = f"{left['judgments']:,} judgments{calls}"
        note(f"stopped at the budget; left: {remaining}; go on with the same command and a larger --budget")
    if as_json:
        document(result.to_json())
    else:
        sections(result.sections)
        print_line(f"{result.n_insights} insights in {result.n_summaries} summaries; {result.calls['made']} calls made")
    if out:
        try:
            Path(out).write_text(result.biases(), encoding="utf-8")
        except OSError as error:
            why = f"cannot be written ({error.strerror}); nothing is asked again for another one"
            raise UserError(f"--out {out}: {why}") from error
    raise typer.Exit(shared.EXIT_CODES[result.status])


def _check_out(out: Path, file: Path) -> None:
    """Raise UserError, before any call is made, if the biases cannot be written to `out`."""
    try:
        there = out.exists()
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}; name another file") from error
    if out.is_dir():
        raise UserError(f"--out {out}: that is a folder; name a file in it")
    if not out.absolute().parent.is_dir():
        raise UserError(f"--out {out}: its folder is not there; make it first")
    if there and file.exists() and out.samefile(file):
        raise UserError(f"--out {out}: those are the annotations themselves; name another file")
    if not os.access(out if there else out.absolute().parent, os.W_OK):
        raise UserError(f"--out {out}: it may not be written; name another file")


def _in_sample(file: Path, judges: list[str]) -> bool:
    """Whether the offline judge, alone or in a blend or cascade, was measured only on the topics to which it was fitted."""
    from summhay_ray.judge import bench

    if not any("offline" in judge for judge in judges):
        return False
    topics = {summary.topic for summary in bench.load_summaries(file)}
    return {hashlib.sha256(topic.encode("utf-8")).hexdigest() for topic in topics} <= FITTED


def label(
    run: shared.RunArgument,
    n: Annotated[int, typer.Option("--n", help="Judgments to label.", min=1)] = 30,
    out: Annotated[str, typer.Option("--out", help="The CSV file to write.")] = "labels.csv",
    judge: shared.JudgedOption = "",
    seed: Annotated[int, typer.Option(help="The random seed of the sample.")] = 0,
    store: shared.StoreOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Draw the most informative judgments into a sheet for people to label. score, report and compare take the sheet with
    --labels.

    The sample is stratified by system and by the judge's value. The sheet shows neither the system nor the judge's verdict.
    `audit`, in contrast, asks people about the truth of haystacks.
    """

    found = summhay_ray.label(run, n, out, store, judge=judge, seed=seed)
    if as_json:
        document(found)
        return
    fill = "write no, partial or full into the column coverage, and the bullet's number into bullet"
    facts([*found.items(), ("then", f"{fill}; then: summhay score {run} --labels {out}")])
