"""Reports: tables for the terminal, and pages, figures and files. For cli and api; imports the engine, metrics and store.

The modules that make and serve pages are imported on first use: every command prints tables, few make a page.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from summhay_ray.report.run_tables import (
    dollars_line,
    failure_blocks,
    failures_table,
    minutes,
    plan_table,
    runs_table,
    usage_table,
    ways_table,
)
from summhay_ray.report.sections import TextTable, board_table, fitted, folded, markdown, section_table, shown
from summhay_ray.report.synth import (
    AUDITED_LEGEND,
    BOUNDS_LEGEND,
    VERIFIED_LEGEND,
    answers_table,
    audited_tables,
    bounds_table,
    explained_tables,
    made_tables,
    verified_tables,
)
from summhay_ray.report.terminal_tables import (
    BENCH_LEGEND,
    bench_tables,
    names_line,
    rejudge_table,
    score_lines,
    score_tables,
    table_legends,
)

if TYPE_CHECKING:
    from summhay_ray.report.formats import names_and_figures, results_json
    from summhay_ray.report.make import Report, report
    from summhay_ray.report.run_sections import ReportedRun, hashes, reported_run, versions
    from summhay_ray.report.serve import serve_report

_PAGES = {
    **dict.fromkeys(("Report", "report"), "make"),
    "serve_report": "serve",
    **dict.fromkeys(("ReportedRun", "hashes", "reported_run", "versions"), "run_sections"),
    **dict.fromkeys(("names_and_figures", "results_json"), "formats"),
}
"""Name -> the module that makes or serves pages and defines it."""

__all__ = [
    "AUDITED_LEGEND",
    "BENCH_LEGEND",
    "BOUNDS_LEGEND",
    "VERIFIED_LEGEND",
    "Report",
    "ReportedRun",
    "TextTable",
    "answers_table",
    "audited_tables",
    "bench_tables",
    "board_table",
    "bounds_table",
    "dollars_line",
    "explained_tables",
    "failure_blocks",
    "failures_table",
    "fitted",
    "folded",
    "hashes",
    "made_tables",
    "markdown",
    "minutes",
    "names_and_figures",
    "names_line",
    "plan_table",
    "rejudge_table",
    "report",
    "reported_run",
    "results_json",
    "runs_table",
    "score_lines",
    "score_tables",
    "section_table",
    "serve_report",
    "shown",
    "table_legends",
    "usage_table",
    "verified_tables",
    "versions",
    "ways_table",
]


def __getattr__(name: str) -> Any:
    if name not in _PAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PAGES[name]}"), name)
