"""`summhay judge-bench`: measures how well judges agree with people, and their bias."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summhay_ray.cli.shared_options import EXIT_CODES, JsonOption, StoreOption, UntrustedOption
from summhay_ray.errors import UserError

if TYPE_CHECKING:
    from summhay_ray.benchmarks.judge_bench import BenchResult

FITTED = frozenset(
    {
        "5837ed0b3dc0cf917df56e2e9e7d2a621373fca0000bb098fb454032bc1ce8b3",
        "e0bada72fa32c63642b7d24a9b159e80fb0be78d0fac5d077f8d9002f1333937",
    }
)
"""sha256 of the topics on which the shipped parameters of the offline judge (`judge/offline_judge.json`) were fitted."""


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
    store: StoreOption = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Dollar limit for these judges on this file, over all invocations; default the spec's.", min=0),
    ] = None,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Fit offline on the file's other topics, if ours was fitted on this file.")
    ] = False,
    out: Annotated[str | None, typer.Option(help="Write the measured biases to this file, for score --bias.")] = None,
    untrusted: UntrustedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Measure judges against people: correlation, linking, dollars (Table 1), and bias (Table 6).

    A file of JSON lines with claim, references and label measures support judges: AUC and balanced accuracy, by source.

    Exit codes: 0 done, 3 stopped at the budget, 4 finished with judgments missing.
    """
    from summhay_ray import api
    from summhay_ray.benchmarks.support import agreement_section, holds_labels
    from summhay_ray.cli.show import document, note, say, sections, show_agreement

    names = [*(judge or ()), *(more or ())]
    if Path(file).is_file() and holds_labels(Path(file)):
        if out or held_out:
            raise UserError(
                f"{file}: is a file of labelled claims, which has no {'--out' if out else '--held-out'}; leave that out"
            )
        rows = api.bench_support_judges(file, names, store, budget, spec=spec, untrusted=untrusted)
        if as_json:
            document({"judges": [row.to_json() for row in rows]})
        else:
            sections([agreement_section(rows)])
        raise typer.Exit(max(EXIT_CODES[row.status] for row in rows))
    if out:
        _check_out(Path(out), Path(file))
    result = api.judge_bench(file, names, store, budget, spec=spec, held_out=held_out, untrusted=untrusted)
    for line in _notes(result, not held_out and _in_sample(Path(file), [row.judge for row in result.judges])):
        note(line)
    if as_json:
        document(result.to_json())
    else:
        show_agreement(result)
        say(f"{result.n_insights} insights in {result.n_summaries} summaries; {result.calls['made']} calls made")
    if out:
        _write(Path(out), result.biases())
    raise typer.Exit(EXIT_CODES[result.status])


def _notes(result: BenchResult, in_sample: bool) -> Iterator[str]:
    """Notes on stderr about the tables. `in_sample`: the offline judge was fitted on this file."""
    if in_sample:
        yield "offline was fitted on the topics of this very file: its figures and bias here are too good; give --held-out"
    yield from (f"{row.judge}: judgments are missing: {row.missing}" for row in result.judges if row.failures)
    yield from result.notes
    if left := result.left:
        calls = "" if left["calls"] is None else f", {left['calls']:,} calls, at most ${left['usd']['max']:,.6f}"
        remaining = f"{left['judgments']:,} judgments{calls}"
        yield f"stopped at the budget; left: {remaining}; go on with the same command and a larger --budget"


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


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror}); nothing is asked again for another one") from error


def _in_sample(file: Path, judges: list[str]) -> bool:
    """Whether the offline judge, alone or in a blend or cascade, was measured only on topics that it was fitted on."""
    from summhay_ray.judge import bench

    if not any("offline" in judge for judge in judges):
        return False
    topics = {summary.topic for summary in bench.load_summaries(file)}
    return {hashlib.sha256(topic.encode("utf-8")).hexdigest() for topic in topics} <= FITTED
