"""Reports: tables for the terminal, and pages, figures and files. For cli and api; imports the engine, metrics and store.

The modules that make and serve pages are imported on first use: every command prints tables, few make a page.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from summhay_ray.report.failures import failure_blocks, failures_table
from summhay_ray.report.judge_bench import BENCH_LEGEND, bench_tables
from summhay_ray.report.layout import fitted, folded
from summhay_ray.report.money import dollars_line, extracts_spare, minutes, plan_table, usage_table
from summhay_ray.report.sections import markdown, section_table, shown
from summhay_ray.report.synth import (
    AUDITED_LEGEND,
    BOUNDS_LEGEND,
    VERIFIED_LEGEND,
    amiss_table,
    answers_table,
    audited_tables,
    bounds_table,
    documents_table,
    failed_table,
    kinds_table,
    made_table,
    otherwise_table,
    verified_table,
)
from summhay_ray.report.terminal_tables import (
    TextTable,
    bias_lines,
    label_lines,
    names_line,
    position_table,
    rejudge_table,
    release_table,
    runs_table,
    score_lines,
    score_tables,
    table_legends,
)

if TYPE_CHECKING:
    from summhay_ray.report.make import Report, report
    from summhay_ray.report.serve import serve_report

_PAGES = {"Report": "make", "report": "make", "serve_report": "serve"}
"""Name -> the module that makes or serves pages and defines it."""

__all__ = [
    "AUDITED_LEGEND",
    "BENCH_LEGEND",
    "BOUNDS_LEGEND",
    "VERIFIED_LEGEND",
    "Report",
    "TextTable",
    "amiss_table",
    "answers_table",
    "audited_tables",
    "bench_tables",
    "bias_lines",
    "bounds_table",
    "documents_table",
    "dollars_line",
    "extracts_spare",
    "failed_table",
    "failure_blocks",
    "failures_table",
    "fitted",
    "folded",
    "kinds_table",
    "label_lines",
    "made_table",
    "markdown",
    "minutes",
    "names_line",
    "otherwise_table",
    "plan_table",
    "position_table",
    "rejudge_table",
    "release_table",
    "report",
    "runs_table",
    "score_lines",
    "score_tables",
    "section_table",
    "serve_report",
    "shown",
    "table_legends",
    "usage_table",
    "verified_table",
]


def __getattr__(name: str) -> Any:
    if name not in _PAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PAGES[name]}"), name)
