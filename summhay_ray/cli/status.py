"""`summhay status`, `runs`, `stop`, `release` and `failures`: inspect and stop runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from summhay_ray.cli.shared_options import FAILED, HashesOption, JsonOption, RunArgument, StoreOption

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from summhay_ray.engine import StatusResult

COMMANDS = {"synth": "summhay synth SPEC", "rejudge": "summhay rejudge RUN ..."}
"""Kind -> the command that starts its runs, unless that is `summhay run SPEC`."""


def status(run: RunArgument, store: StoreOption = None, everything: HashesOption = False, as_json: JsonOption = False) -> None:
    """Show a run's progress, its cost beside the plan, and its scores, during the run or after.

    Missing and damaged files are listed, one line each; the exit code is then 1.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts, tables
    from summhay_ray.report import usage_table

    result = api.status(run, store)
    if as_json:
        document(result.to_json())
    else:
        facts(status_facts(result, everything))
        table = usage_table(result.usage)
        tables([table] if table else [])
        if result.cells["done"] and not result.problems:
            _show_scores(result.run, store)
    if result.problems:
        raise typer.Exit(FAILED)


def _show_scores(run: str, store: str | None) -> None:
    """Print the first table of the run's results."""
    from summhay_ray import api
    from summhay_ray.cli.show import say, sections, starred
    from summhay_ray.report import score_lines, score_tables

    results = api.results(run, store)
    systems = getattr(results.scores, "by_query", None)
    if systems is None:
        sections(results.sections[:1])
    elif any(system.n_scored for system in systems):
        for line in score_lines(results.scores, more=False):
            say(line)
        starred(score_tables(systems, more=False))


def stop(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Stop a run, also one started in another shell or on another machine; the same command resumes it."""
    from summhay_ray import api
    from summhay_ray.cli.show import document, say

    driver = api.stop(run, store)
    if as_json:
        document({"run": api.full_id(run, store), "stopped": driver})
    else:
        say(f"stopped, {driver}; the command that started it resumes it")


def release(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Free a run's uncertain money, which a kill left in doubt, so that the run may spend it.

    Look at the provider's bill first: what these calls did cost then comes on top of the budget.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document, facts
    from summhay_ray.report import dollars_line

    result = api.release(run, store)
    if as_json:
        document(result.to_json())
        return
    released = f"{result.released:.6f} dollars" if result.released else "nothing: no money of this run is uncertain"
    facts([("run", result.run), ("released", released), ("dollars", dollars_line(result.usd))])


def runs(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the runs of a store: name, status, dollars spent, reserved and uncertain, size."""
    from dataclasses import asdict

    from summhay_ray import api
    from summhay_ray.cli.show import document, say, tables
    from summhay_ray.report import runs_table

    entries = [asdict(entry) for entry in api.runs(store)]
    if as_json:
        document({"runs": entries})
    elif entries:
        tables([runs_table(entries)])
    else:
        say(f"no run in {api.store_uri(store)}; make one: summhay run SPEC")


def status_facts(result: StatusResult, everything: bool = False) -> list[tuple[str, str]]:
    """(name, value) for each line of the status. `everything`: include the hashes of the tables."""
    from summhay_ray.cli.show import counted
    from summhay_ray.llm import ExcessTotals
    from summhay_ray.report import dollars_line

    cells, unit = result.cells, result.unit
    pairs = [
        ("run", f"{result.run} ({result.kind}: {result.name})"),
        ("status", f"{result.status} {result.driver}".rstrip()),
        ("began", f"{result.began[:16].replace('T', ' ')} UTC"),
        (unit, f"{cells['done']} done, {cells['failed']} with failures, of {cells['total']}"),
        ("failures", counted(result.failures) or "none"),
        ("dollars", dollars_line(result.usd)),
    ]
    pairs += [(f"{'stopped' if one['stopped'] else 'claimed'} {one['model']}", str(ExcessTotals(**one))) for one in result.claims]
    if result.left is not None:
        pairs.append(("left to do", _left(result, unit)))
    if result.finish_reasons:
        pairs.append(("cut or unfinished", f"{counted(result.finish_reasons)} of the answers"))
    shown = result.tables if everything else {}
    return [
        *pairs[:3],
        *(("warning", line) for line in result.warnings),
        *(("problem", line) for line in result.problems),
        *pairs[3:],
        ("store format", str(result.store_format)),
        *((f"table {name}", f"{table['rows']} rows, sha256 {table['sha256'][:12]}") for name, table in shown.items()),
    ]


def _left(result: StatusResult, unit: str) -> str:
    """Remaining work, its possible cost, and how to resume."""
    left = dict(result.left or {})
    usd, cells, calls, most = (left.get(name) for name in ("usd", "cells", "calls", "max_calls"))
    parts = [f"{cells} {unit}", *([] if calls in (None, most) else [f"about {calls} calls"])]
    parts += [] if most is None else [f"at most {most} calls"]
    parts += [
        f"{usd[name]:.4f} dollars {word}" for name, word in (("expected", "expected"), ("max", "at most")) if usd and name in usd
    ]
    again = f"go on with: {COMMANDS.get(result.kind, 'summhay run SPEC')}"
    how = {"running": "", "budget": f"; {again} --budget MORE"}.get(result.status, f"; {again}, every stored answer is reused")
    return ", ".join(parts) + how


def failures(run: RunArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List every failure of a run: what, where, why, and what it cost.

    One line each, or several if the terminal is too narrow. `summhay explain RUN KEY` shows details of a key or a cell.
    """
    from summhay_ray import api
    from summhay_ray.cli.show import document

    run, rows = api.full_id(run, store), api.failures(run, store)
    if as_json:
        document({"run": run, "failures": rows})
    else:
        _list(run, rows)


def _list(run: str, rows: Sequence[Mapping[str, Any]]) -> None:
    from summhay_ray.cli.show import console, lines, say
    from summhay_ray.report import failure_blocks, failures_table

    table, width = failures_table(run, rows), console().width
    widest = sum(2 + max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)) if rows else 0
    if not sys.stdout.isatty() or widest <= width:
        lines(table)
        return
    for line in failure_blocks(run, rows, width):
        say(line)
