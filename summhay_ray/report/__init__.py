"""Reports: tables for the terminal, and pages, figures and files. For cli and api; imports the engine, metrics and store."""

from summhay_ray.report.bench import BENCH_LEGEND, bench_tables
from summhay_ray.report.compare import compare_tables, compared_systems_tables, comparison_legend, rejudge_table, verdict_lines
from summhay_ray.report.explained import amiss_table, answers_table, documents_table, kinds_table
from summhay_ray.report.failed import failure_blocks, failures_table
from summhay_ray.report.layout import Fitted, fitted, folded
from summhay_ray.report.make import Report, report
from summhay_ray.report.money import extracts_spare, minutes, plan_table, usage_table
from summhay_ray.report.plan import BOUNDS_LEGEND
from summhay_ray.report.sections import markdown, shown
from summhay_ray.report.serve import serve_report
from summhay_ray.report.synth import (
    AUDITED_LEGEND,
    VERIFIED_LEGEND,
    audited_tables,
    bounds_table,
    failed_table,
    made_table,
    otherwise_table,
    verified_table,
)
from summhay_ray.report.tables import LEGEND, TextTable, bias_lines, names_line, position_table, runs_table, score_tables

__all__ = [
    "AUDITED_LEGEND",
    "BENCH_LEGEND",
    "BOUNDS_LEGEND",
    "LEGEND",
    "VERIFIED_LEGEND",
    "Fitted",
    "Report",
    "TextTable",
    "amiss_table",
    "answers_table",
    "audited_tables",
    "bench_tables",
    "bias_lines",
    "bounds_table",
    "compare_tables",
    "compared_systems_tables",
    "comparison_legend",
    "documents_table",
    "extracts_spare",
    "failed_table",
    "failure_blocks",
    "failures_table",
    "fitted",
    "folded",
    "kinds_table",
    "made_table",
    "markdown",
    "minutes",
    "names_line",
    "otherwise_table",
    "plan_table",
    "position_table",
    "rejudge_table",
    "report",
    "runs_table",
    "score_tables",
    "serve_report",
    "shown",
    "usage_table",
    "verdict_lines",
    "verified_table",
]
