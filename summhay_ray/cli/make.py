"""The commands that make and check haystacks and specs: `import`, `init`, `mine`, `audit` and `verify`."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

import summhay_ray
from summhay_ray.cli.run import carry_out
from summhay_ray.cli.shared_options import DONE, PARTIAL, JsonOption, RunArgument, StoreOption, with_options
from summhay_ray.cli.show import (
    SUMMARIES_WANTED,
    document,
    facts,
    note,
    print_line,
    prose,
    read_lines,
    store_option,
    tables,
    warn,
)
from summhay_ray.errors import UserError
from summhay_ray.run_options import StartOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from summhay_ray.benchmarks.mine import GoldPair
    from summhay_ray.benchmarks.odsum import CollectionImport
    from summhay_ray.benchmarks.summhay import ImportResult


WIDTH = 46
"""The column in which comments begin."""


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

    where = store_option(api.store_uri(store))
    result: CollectionImport | ImportResult
    if len(files) == 1 and Path(files[0]).is_dir():
        result = kept = summhay_ray.import_collection(files[0], store)
        further = f"in a spec: kind: odsum, corpus: {kept.corpus}; then summhay run SPEC{where}"
    else:
        result = made = summhay_ray.import_released(files, store)
        further = f"summhay score {made.run}{where}" if made.summaries else SUMMARIES_WANTED.format(files[0])
    warn(result.warnings)
    if as_json:
        document(result.to_json())
    else:
        facts([*result.to_json().items(), ("next", further)])


def init(
    kind: Annotated[
        str, typer.Argument(help="The kind of benchmark, or module:Class of your own benchmark.", metavar="[KIND]")
    ] = "summhay",
    out: Annotated[str, typer.Option("--out", help="The file to write; default KIND.yaml. An existing file is kept.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Write a commented starter spec.

    The spec of summhay, synth, ethic, ethic_build and extract_evaluate runs as it is, without a key. The spec of any other kind
    has every field; those that must be filled in come first.
    """

    path = Path(out or f"{kind.partition(':')[2].lower() or kind}.yaml")
    text = starter(kind)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} exists; give another file: --out FILE") from None
    if as_json:
        document({"kind": kind, "file": str(path)})
    else:
        facts([("written", path), ("next", f"summhay plan {path}; summhay run {path}")])


def starter(kind: str) -> str:
    """Return the text of a kind's starter spec. Raise UnknownName, SpecError."""
    from importlib import resources

    from pydantic import TypeAdapter

    from summhay_ray.engine import FILL_IN, find, spec_class_of

    benchmark = find(kind)
    if benchmark.imported:
        raise UserError(f"kind {kind!r} is made by summhay {kind}: it has no spec; see summhay {kind} --help")
    written = resources.files("summhay_ray.cli").joinpath("starters", f"{kind}.yaml")
    if written.is_file():
        return written.read_text("utf-8")
    fields = {name: field for name, field in spec_class_of(benchmark).model_fields.items() if name not in ("kind", "name")}
    required, optional = list[str](), list[str]()
    for name, field in fields.items():
        if field.is_required():
            text = f"{name}: {f'[{FILL_IN}]' if 'list' in str(field.annotation) else FILL_IN}"
        else:
            value: Any = field.get_default(call_default_factory=True)
            plain = TypeAdapter(Any).dump_python(value, mode="json", exclude_defaults=True)
            # `exclude_defaults` would empty a list whose entries are all default.
            plain = TypeAdapter(Any).dump_python(value, mode="json") if plain == [{}] else plain
            text = f"# {name}: {json.dumps(plain, ensure_ascii=False)}"
        line = f"{text:<{WIDTH}}  # {field.description}" if field.description else text
        (required if field.is_required() else optional).append(line)
    lines = [f"# {(benchmark.__doc__ or kind).strip().splitlines()[0]}", f"kind: {kind}", "name: mine"]
    lines += ["", "# To be filled in:", *required] if required else []
    return "\n".join([*lines, "", "# Optional, with their defaults:", *optional]) + "\n"


@with_options
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
    out: Annotated[str | None, typer.Option("--out", help="The file for the haystack, as released JSON.")] = None,
    review: Annotated[
        str | None,
        typer.Option("--review", help="A sheet to write (.csv or .xlsx) on which a person edits everything; and an HTML page."),
    ] = None,
    absent: Annotated[
        int | None, typer.Option("--absent", help="Number of queries to add about subjects that no document mentions.", min=0)
    ] = None,
    accept: Annotated[str | None, typer.Option("--accept", help="A sheet that a person has filled in.")] = None,
    show_text: Annotated[
        str | None,
        typer.Option(
            "--show-text",
            help="Only show the text that is read from this document, and the omitted parts with the reason.",
            metavar="DOCUMENT",
        ),
    ] = None,
    check: Annotated[
        int | None,
        typer.Option(
            "--check", help="Ask whether this many pairs of insight and document are right; with --review, on a sheet.", min=1
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Write to --out even if it has a person's work; decisions that apply are kept.")
    ] = False,
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Make a haystack from a folder of documents: recurring insights, the documents that state each, and queries; or resume.

    It is free and uses no model, unless `--set models.check=MODEL` (or insight, query) names one. To use the haystack in a run,
    give `haystacks: [mine.json]`, or the spec. Exit codes: 0 done, 3 stopped at the budget, 4 finished, but some files could not
    be read.
    """

    if bool(folder) == (accept is not None):
        raise typer.BadParameter("give a FOLDER to mine, or --accept SHEET.csv to take over a person's review")
    if check is not None and (accept is not None or not folder.lower().endswith(".json") or out or options.get("overrides")):
        raise typer.BadParameter("--check takes the file of a haystack: mine first, then summhay mine HAYSTACK.json --check 20")
    if accept is not None:
        _show(summhay_ray.accept(accept, out, store, replace_review=replace), as_json)
    elif check is not None:
        _show(_check(folder, check, review, store), as_json)
    elif show_text is not None:
        overrides, untrusted = options.get("overrides", ()), options.get("untrusted", False)
        read = summhay_ray.show_text(folder, show_text, store, overrides=overrides, untrusted=untrusted)
        document(read) if as_json else read_lines(read)
    else:
        words = [*(["--out", out] if out else []), *(["--review", review] if review else []), *["--replace"] * replace]
        words += [] if absent is None else ["--absent", str(absent)]
        start = partial(summhay_ray.mine, folder, out, store, review=review, replace_review=replace, absent=absent)
        carry_out(start, ["mine", folder, *words], store, options, as_json)


def _show(found: Mapping[str, Any], as_json: bool) -> None:
    """Print the effect of a person's answers."""

    if as_json:
        document(found)
        return
    listed = [(name, value if isinstance(value, list) else [value]) for name, value in found.items() if value is not None]
    facts([(name, one) for name, values in listed for one in values])


def _check(haystack: str, n: int, sheet: str | None, store: str | None) -> dict[str, Any]:
    """Ask a person on stdin about pairs of a haystack. If stdin is not interactive, write the pairs as a sheet instead."""

    first = "" if sheet is not None or sys.stdin.isatty() else sys.stdin.readline()
    if sheet is None and not first and not sys.stdin.isatty():
        sheet = f"{haystack[: -len('.json')]}-pairs.csv"
    if sheet is not None:
        found = summhay_ray.check_pairs(haystack, n, store, sheet=sheet)
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

    return summhay_ray.check_pairs(haystack, n, store, ask=ask)


def audit(
    run: RunArgument,
    store: StoreOption = None,
    out: Annotated[str | None, typer.Option("--out", help="A CSV file to write: a sample for a person to label.")] = None,
    labels: Annotated[str | None, typer.Option(help="The sheet that a person has labelled.")] = None,
    insights: Annotated[int, typer.Option(help="Number of insights to assign to subtopics.", min=0)] = 100,
    documents: Annotated[int, typer.Option(help="Number of documents in which to look for insights.", min=0)] = 10,
    haystacks: Annotated[int, typer.Option(help="Maximum number of haystacks to sample from.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The random seed of the sample.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Check the annotations of a run's haystacks against a person's labels (the paper's Tables 4 and 5).

    --out writes the sheet, which does not reveal the expected answers; --labels reads it back.
    """
    from summhay_ray.cli.record_tables import AUDITED_LEGEND, audited_tables

    if out and not insights and not documents:
        raise typer.BadParameter("a sheet without rows asks nothing; give --insights or --documents more than 0")

    if (out is None) == (labels is None):
        raise typer.BadParameter("give --out FILE to write the sheet, or --labels FILE to read it back")
    if out is not None:
        sizes = {"insights": insights, "documents": documents, "haystacks": haystacks, "seed": seed}
        found = summhay_ray.audit(run, out, store, **sizes)
    else:
        found = summhay_ray.audited(run, str(labels), store)
    if as_json:
        document(found)
    elif out is not None:
        facts([*found.items(), ("then", f"fill in the column `answer`, and: summhay audit {run} --labels {out}")])
    else:
        tables(audited_tables(found))
        prose(AUDITED_LEGEND)


def verify(
    files: Annotated[list[str], typer.Argument(help="Haystacks as released JSON files.", metavar="FILE.json...")],
    out: Annotated[str | None, typer.Option("--out", help="A CSV file to write: every check, with its evidence.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check haystack files against their own annotations, as `synth` does, but without a model.

    It checks that subtopics and insights are distinct, that insights fit their subtopics (assigned blind), and that queries
    reveal no insight. It also checks which insights each document has, and that no document is a near-copy. A check is sure if it
    is based on numbers, names and dates, or on equal texts. Unsure checks are counted separately. Exit codes: 0 all checks
    confirm the file, 4 some do not, or are unsure.
    """
    from summhay_ray.cli.record_tables import VERIFIED_LEGEND, verified_tables

    # Ray prints messages on stdout, which is reserved for results.
    with contextlib.redirect_stdout(sys.stderr):
        verified = summhay_ray.verify(files, out)
    if as_json:
        document({"files": [file.to_json() for file in verified]})
    else:
        for file in verified:
            print_line(file.file)
            tables(table for table in verified_tables(file) if table.rows)
        prose(VERIFIED_LEGEND)
        facts([("written", out)] if out else [])
    raise typer.Exit(PARTIAL if any(file.mismatches for file in verified) else DONE)
