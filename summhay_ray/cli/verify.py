"""`summhay verify`: checks the annotations of haystack files without a model. Part of the cli room."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from summhay_ray.cli.options import DONE, PARTIAL, JsonOption


def verify(
    files: Annotated[list[str], typer.Argument(help="Haystacks as released JSON files.", metavar="FILE.json...")],
    out: Annotated[str | None, typer.Option("--out", help="A CSV file to write: every check, with its evidence.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check haystack files against their own annotations, as `synth` does, but without a model.

    Checks that subtopics and insights are distinct, that insights fit their subtopics (assigned blind), that queries give no
    insight away, which insights each document has, and that no document is a near-copy. Exit codes: 0 no mismatch, 4 mismatches.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, lines, say, tables
    from summhay_ray.report import VERIFIED_LEGEND, otherwise_table, verified_table

    # Ray prints messages on stdout, which is reserved for results.
    with contextlib.redirect_stdout(sys.stderr):
        verified = api.verify(files, out)
    if as_json:
        document({"files": [file.to_json() for file in verified]})
    else:
        for file in verified:
            say(file.file)
            tables([verified_table(file)])
            if file.mismatches:
                lines(otherwise_table(file))
        say(VERIFIED_LEGEND)
        facts([("written", out)] if out else [])
    raise typer.Exit(PARTIAL if any(file.mismatches for file in verified) else DONE)
