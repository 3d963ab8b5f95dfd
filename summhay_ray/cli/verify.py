"""`summhay verify`: a haystack file's truth, checked without a model. Part of the cli room."""

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
    """Hold haystack files against what they say of themselves, as `synth` does with its own, but without a model.

    Subtopics and insights are held apart, insights assigned blind, queries searched for what they give away, documents for
    every insight of the topic and for near-copies. Exit codes: 0 all is as stated, 4 some is otherwise.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, lines, say, tables
    from summhay_ray.report import VERIFIED_LEGEND, otherwise_table, verified_table

    # Ray tells of itself on stdout, which is for results alone.
    with contextlib.redirect_stdout(sys.stderr):
        found = api.verify(files, out)
    if as_json:
        document({"files": [one.to_json() for one in found]})
    else:
        for one in found:
            say(one.file)
            tables([verified_table(one)])
            if one.mismatches:
                lines(otherwise_table(one))
        say(VERIFIED_LEGEND)
        facts([("written", out)] if out else [])
    raise typer.Exit(PARTIAL if any(one.mismatches for one in found) else DONE)
