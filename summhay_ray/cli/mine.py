"""`summhay mine`: makes a haystack from a folder of documents, and accepts people's decisions about it."""

from __future__ import annotations

import itertools
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from summhay_ray.cli.run import carry_out
from summhay_ray.cli.shared_options import JsonOption, StoreOption, with_options
from summhay_ray.run_options import StartOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from summhay_ray.benchmarks.mine import GoldPair


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
    as_json: JsonOption = False,
    **options: Unpack[StartOptions],
) -> None:
    """Make a haystack of a folder of documents: insights that recur, with every document that says each, and queries; or resume.

    Free, without a model, unless `--set models.check=MODEL` (or insight, query) names one. To use it in a run, give
    `haystacks: [mine.json]`, or the spec. Exit codes: 0 done, 3 stopped at the budget, 4 finished, with files not read.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, read_lines

    if bool(folder) == (accept is not None):
        raise typer.BadParameter("give a FOLDER to mine, or --accept SHEET.csv to take over a person's review")
    if check is not None and (accept is not None or not folder.lower().endswith(".json") or out or options.get("overrides")):
        raise typer.BadParameter("--check takes the file of a haystack: mine first, then summhay mine HAYSTACK.json --check 20")
    if accept is not None:
        _show(api.accept(accept, out, store, replace_review=replace), as_json)
    elif check is not None:
        _show(_check(folder, check, review, store), as_json)
    elif show_text is not None:
        overrides, untrusted = options.get("overrides", ()), options.get("untrusted", False)
        read = api.show_text(folder, show_text, store, overrides=overrides, untrusted=untrusted)
        document(read) if as_json else read_lines(read)
    else:
        words = [*(["--out", out] if out else []), *(["--review", review] if review else []), *["--replace"] * replace]
        words += [] if absent is None else ["--absent", str(absent)]
        start = partial(api.mine, folder, out, store, review=review, replace_review=replace, absent=absent)
        carry_out(start, ["mine", folder, *words], store, options, as_json)


def _show(found: Mapping[str, Any], as_json: bool) -> None:
    """Print the effect of a person's answers."""
    from summhay_ray.cli.show import document, facts

    if as_json:
        document(found)
        return
    listed = [(name, value if isinstance(value, list) else [value]) for name, value in found.items() if value is not None]
    facts([(name, one) for name, values in listed for one in values])


def _check(haystack: str, n: int, sheet: str | None, store: str | None) -> dict[str, Any]:
    """Ask a person on stdin about pairs of a haystack, or write them as a sheet if stdin is not interactive."""
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
