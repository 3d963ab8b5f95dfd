"""Prints the results of runs, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from summhay_ray.benchmarks.rejudge import Choice, Rejudged
    from summhay_ray.benchmarks.summhay import ScoreResult
    from summhay_ray.benchmarks.synth import Haystacks
    from summhay_ray.engine import RunResult


def show_result(result: RunResult, store: str, command: str, everything: bool) -> None:
    from summhay_ray.cli.show import ended, facts, sections, show_agreement, store_option

    shows = {
        "summhay": lambda: show_scores(result.scores, store, everything, intervals=everything),
        "rejudge": lambda: _show_judges(result.scores),
        "synth": lambda: _show_made(result.scores),
        "judge_bench": lambda: show_agreement(result.scores),
    }
    shows.get(result.kind, lambda: sections(result.sections, everything))()
    head = ("run", result.run) if command else ("rejudge", f"{result.run} of {result.scores.of}")
    go_on = f": {command}{store_option(store)} --budget MORE" if command else " the same command and a larger --budget"
    written = result.results.details.get("files", ()) if result.kind in ("synth", "mine") else ()
    facts([*ended(result, head, result.unit, store, go_on), *(("written", path) for path in written)])


def show_scores(scores: ScoreResult, store: str, everything: bool, intervals: bool = True) -> None:
    """Print the scores of a SummHay run. `everything`: print all tables, not only joint. `intervals`: print the figures'
    intervals."""
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


def _show_judges(scores: Rejudged) -> None:
    """Print a table of the judges' results."""
    from summhay_ray.cli.show import say, starred
    from summhay_ray.report import rejudge_table

    starred([rejudge_table(scores)])
    for choice in scores.choices:
        say(_choice_line(choice))


def _choice_line(choice: Choice) -> str:
    """How many insights a cascade sends to its model, at what cost, and the uncertainty of the others."""
    paid = (
        f", at most ${choice.usd_max:.6f} and about ${choice.usd_expected:.6f}: what the budget pays for"
        if choice.by_budget
        else ""
    )
    given_up = "" if choice.uncertainty_left is None else f"; the others keep a mean uncertainty of {choice.uncertainty_left:.3f}"
    of = "" if choice.uncertainty_asked is None else f" (mean uncertainty {choice.uncertainty_asked:.3f})"
    return f"{choice.judge} asks about {choice.n_asked:,} of {choice.n:,} insights{of}{paid}{given_up}"


def _show_made(scores: Haystacks) -> None:
    """Print the finished haystacks, and the failed topics."""
    from summhay_ray.cli.show import tables
    from summhay_ray.report import failed_table, made_table

    made = [made_table(scores.haystacks)] if scores.haystacks else []
    tables([*made, *([failed_table(scores.failed)] if scores.failed else [])])
