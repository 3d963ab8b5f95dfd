"""Prints results: one JSON document on stdout, or tables for people. Modules for tables are imported on first use."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from summhay_ray.errors import printable
from summhay_ray.outcome import MICROS

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

    from summhay_ray.benchmarks.summhay import ScoreResult
    from summhay_ray.engine import Results, RunResult, Section
    from summhay_ray.report import TextTable

PLAIN_WIDTH = 100
"""Width, in columns, of piped tables and of prose."""
PROMPT_SHOWN = 1500
BOARD_ROWS = 10
"""Maximum number of systems of a leaderboard on one screen."""


def console() -> Console:
    """Return the console for tables on stdout. It is as wide as the terminal, or `PLAIN_WIDTH` if stdout is not a terminal."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def document(content: Mapping[str, Any]) -> None:
    """Print a command's one JSON document."""
    sys.stdout.write(json.dumps(content, ensure_ascii=True, allow_nan=False) + "\n")


def note(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(printable(text, "\n\t") + "\n")


SUMMARIES_WANTED = "no summaries are in it: name it in a spec (summhay init), haystacks: [{}], then summhay run SPEC"
"""The hint for a haystack that has no summaries."""


def warn(warnings: Iterable[str]) -> None:
    """Print a result's warnings on stderr, one per line."""
    for warning in warnings:
        note(f"warning: {warning}")


def print_line(text: str) -> None:
    """Print a line on stdout, among the results."""
    sys.stdout.write(printable(text) + "\n")


def prose(text: str) -> None:
    """Print text in lines of at most PLAIN_WIDTH characters. Words are not broken, so that names and commands can be copied."""
    width = min(console().width, PLAIN_WIDTH)
    for line in printable(text, "\n\t").split("\n"):
        sys.stdout.write(textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) + "\n")


def tables(grids: Iterable[TextTable]) -> None:
    """Print tables as wide as the terminal. If a table is wider, a line below it names the omitted columns."""
    from rich.table import Table
    from rich.text import Text

    from summhay_ray.report import fit_table, fold_text

    out = console()
    for grid in grids:
        rows = tuple(tuple(map(printable, row)) for row in grid.rows)
        part = fit_table(
            replace(grid, title=printable(grid.title), columns=tuple(map(printable, grid.columns)), rows=rows), out.width
        )
        if part.grid.title.strip():
            prose(part.grid.title.strip())
        table = Table(header_style="bold")
        for index, (column, width) in enumerate(zip(part.grid.columns, part.widths, strict=True)):
            justify: JustifyMethod = "left" if index < grid.heads else "right"
            table.add_column(Text(fold_text(column, width)), justify=justify, width=width, overflow="fold")
        for row in part.grid.rows:
            table.add_row(*(Text(fold_text(cell, width)) for cell, width in zip(row, part.widths, strict=True)))
        out.print(table)
        if part.left_out:
            prose(f"Left out at {out.width} columns: {', '.join(part.left_out)}; --json has all")


def sections(found: Iterable[Section], more: bool = False) -> None:
    """Print a benchmark's sections: title, text, table and notes. Sections marked `more` are printed only if `more` is set."""
    from summhay_ray.report import notes, section_table

    for section in found:
        if section.more and not more:
            continue
        for text in filter(None, (section.title, section.text)):
            prose(text)
        tables(filter(None, [section_table(section, None if more else BOARD_ROWS)]))
        for line in notes(section):
            prose(line)
        sys.stdout.write("\n")


def show_scores(run: str, store: str | None, results: Results | ScoreResult, everything: bool) -> None:
    """Print the results of a run of any kind: the decision and the leaderboard if its systems can be ranked, then its sections.

    `everything`: print all systems and all sections.
    """
    from summhay_ray import api
    from summhay_ray.benchmarks.summhay import ScoreResult, brief_sections, report_sections
    from summhay_ray.comparison import decision_section, leaderboard_section

    scores = results if isinstance(results, ScoreResult) else results.scores
    compared = api.leaderboard(run, store, scores)
    if compared is not None:
        sections([decision_section(compared), leaderboard_section(compared)], everything)
    if not isinstance(results, ScoreResult) and not isinstance(scores, ScoreResult):
        sections(results.sections, everything)
    elif everything:
        sections(report_sections(scores, scores.judge), everything)
    else:
        sections(brief_sections(scores, compared is not None))
    if compared is not None and not everything:
        print_line(f"All systems, figures and more: summhay score {run} --all{store_option(api.store_uri(store))}")


def end_lines(result: RunResult, head: tuple[str, str], unit: str, store: str, go_on: str) -> list[tuple[str, object]]:
    """Return the lines for `facts` about how a command ended.

    `head`: name and id of the run; `unit`: the word for its cells; `go_on`: the command that resumes it.
    """
    from summhay_ray.report import dollars_line

    cells, calls, left = result.cells, result.calls, result.left
    pairs: list[tuple[str, object]] = [
        head,
        ("status", result.status),
        (unit, f"{cells['done']} done, {cells['failed']} with failures, of {cells['total']}"),
        ("failures", counts_text(result.failures) or "none"),
        ("calls", f"{calls['made']} made, {calls['reused']} reused"),
        ("dollars", dollars_line(result.usd)),
        ("seconds", result.seconds),
        *([("computed", computing_line(result.computing))] if result.computing else []),
        ("store", store),
        *((f"stopped {model}", why) for model, why in result.stopped_models.items()),
    ]
    if left:
        again = result.status in ("limited", "waiting")
        how = go_on.removesuffix(" --budget MORE") + ", every stored answer is reused" if again else go_on
        pairs.append(("left", remaining_lines(left, unit, how)))
    if result.batches:
        pairs.append(("batches", batches_line(result.batches)))
    if most := result.commonest_failure:
        where = f"{most['stage']}: " if most["stage"] else ""
        # The reason for stopping a model has already been printed.
        why = "" if any(most["message"] in reason for reason in result.stopped_models.values()) else f": {most['message']}"
        when = "in an earlier start; not tried again yet: " if most.get("earlier") else ""
        pairs.append(("failed most", f"{when}{most['count']:,} times {where}{most['error']}{why}"))
    pairs += [("note", line) for line in result.results.notes]
    if result.took_over:
        pairs.append(("took over", f"from the process that ran it before ({result.took_over}); that one has stopped"))
    if cells["done"] or cells["failed"]:
        pairs.append(("tables", f"{store.rstrip('/')}/runs/{result.run}/tables (Parquet)"))
    if cells["failed"]:
        pairs.append(("look at", f"summhay failures {result.run}{store_option(store)}"))
    if result.example:
        where = store_option(store)
        pairs.append(("next", f"summhay report {result.run} --out report{where}"))
        pairs.append(("next", f"summhay explain {result.run} {shlex.quote(result.example)}{where}"))
    return pairs


def batches_line(batches: Mapping[str, Any]) -> str:
    """Return the numbers of a run's batches, in words."""
    line = f"{batches['submitted']:,} submitted, {batches['done']:,} done"
    if batches["in_progress"]:
        line += f", {batches['in_progress']:,} in progress with {batches['requests']:,} requests, the oldest since "
        line += f"{batches['oldest'][:16].replace('T', ' ')} UTC"
    return line


def counts_text(numbers: Mapping[str, int]) -> str:
    """Return a mapping of names to numbers, in words."""
    return ", ".join(f"{count:,} {name}" for name, count in numbers.items())


def computing_line(pool: Mapping[str, float]) -> str:
    """Return a line about a run's actors for local models: their number, and the time to start, load and compute; see
    `Pools.took`."""
    n, texts, tokens = (int(pool.get(name, 0)) for name in ("actors", "texts", "tokens"))
    load, compute = pool.get("load_s", 0.0), pool.get("compute_s", 0.0)
    work = f"models loaded in {load:.1f} s, {texts:,} texts of {tokens:,} tokens in {compute:.1f} s"
    if not texts and not load:
        work = f"{compute:.1f} s of computing"
    return f"{n} actors started in {pool['start_s']:.1f} s; {work}" + (" (summed over actors)" if n > 1 else "")


def store_option(store: str) -> str:
    """Return the `--store` option to append to a printed command; empty for the default store."""
    from summhay_ray import api

    return "" if store == api.store_uri() else f" --store {shlex.quote(store)}"


def remaining_lines(left: Mapping[str, Any], unit: str, go_on: str) -> str:
    """Return the remaining work, its cost, and the command that resumes it."""
    parts = [f"{left['cells']:,} {unit}"]
    if left["usd"] is not None:
        expected, most = (f"{left['usd'][name]:,.{2 if left['usd']['max'] >= 1 else 6}f}" for name in ("expected", "max"))
        parts += [f"{left['calls']:,} calls", f"about ${expected}", f"at most ${most}"]
    return f"{', '.join(parts)}; go on with{go_on}"


def facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, one pair per line."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        counts = ", ".join(f"{part} {one}" for part, one in value.items()) if isinstance(value, Mapping) else None
        shown = round(value, 4) if isinstance(value, float) else counts or value
        sys.stdout.write(f"{printable(name).ljust(width)}  {printable(str(shown))}\n")


def read_lines(read: Mapping[str, Any]) -> None:
    """Print the text that is read from a document: title and date, then a line for each statement and each omission."""
    facts([(name, read[name]) for name in ("title", "date") if read[name]])
    lines = [(one["line"], "" if one["kind"] == "sentence" else one["kind"], one["text"]) for one in read["kept"]]
    lines += [(one["line"], f"left out: {one['reason']}", one["text"]) for one in read["left_out"]]
    for line, mark, text in sorted(lines, key=lambda one: one[0]):
        sys.stdout.write(f"{line:>5}  {mark.ljust(26)}  {printable(text)}\n")


def answer(row: Mapping[str, Any]) -> None:
    """Print an answer with its prompt."""
    raw, prompt = row.get("raw_answer"), row.get("prompt")
    if prompt:
        # Show the beginning and the end, which contain the instructions.
        end = PROMPT_SHOWN // 3
        left_out = f"[... {len(prompt)} characters; --json has all ...]"
        whole = len(prompt) <= PROMPT_SHOWN
        part("prompt", prompt if whole else f"{prompt[: PROMPT_SHOWN - end]}\n{left_out}\n{prompt[-end:]}")
    elif raw:
        part("prompt", "this version of summhay_ray asks with another prompt, so that it cannot be shown")
    if raw:
        price = f"{raw['usd_micros'] / MICROS:.6f} dollars"
        tokens = f"{raw['input_tokens']} tokens in ({raw['cached_tokens']} cached), {raw['output_tokens']} out"
        origin = f" at {raw['origin']}" if raw.get("origin") else ""
        part(f"answer of {raw['model']}{origin}, key {raw['key']}, {raw['finish_reason']}, {tokens}, {price}", raw["text"])


def part(title: str, text: str | None) -> None:
    """Print a text under a title."""
    sys.stdout.write(f"\n--- {printable(title)}\n" + printable(text or "", "\n\t") + "\n")


def show_result(result: RunResult, store: str, command: str, everything: bool) -> None:
    """Print the results of a run, by kind, and how it ended. `command`: the command that repeats the run; empty for a rejudge."""
    if result.kind == "synth":
        from summhay_ray.cli.record_tables import made_tables

        tables(made_tables(result.scores.haystacks, result.scores.failed))
    else:
        show_scores(result.run, store, result.results, everything)
    if result.kind == "rejudge":
        for choice in result.scores.choices:
            paid = left = of = ""
            if choice.by_budget:
                paid = f", at most ${choice.usd_max:.6f} and about ${choice.usd_expected:.6f}: what the budget pays for"
            if choice.uncertainty_left is not None:
                left = f"; the others keep a mean uncertainty of {choice.uncertainty_left:.3f}"
            if choice.uncertainty_asked is not None:
                of = f" (mean uncertainty {choice.uncertainty_asked:.3f})"
            print_line(f"{choice.judge} asks about {choice.n_asked:,} of {choice.n:,} insights{of}{paid}{left}")
    head = ("run", result.run) if command else ("rejudge", f"{result.run} of {result.scores.of}")
    go_on = f": {command}{store_option(store)} --budget MORE" if command else " the same command and a larger --budget"
    written = result.results.details.get("files", ()) if result.kind in ("synth", "mine") else ()
    facts([*end_lines(result, head, result.unit, store, go_on), *(("written", path) for path in written)])
