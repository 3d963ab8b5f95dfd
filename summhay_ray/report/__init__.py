"""Reports: sections as text, pages, figures and files. For cli and api; imports the engine, metrics and store.

The modules that make and serve pages are imported on first use: every command prints tables, but few make a page.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from summhay_ray.report.sections import TextTable, dollars_line, fit_table, fold_text, markdown, notes, section_table

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
"""Name -> the module that defines it. These modules make or serve pages."""

__all__ = [
    "Report",
    "ReportedRun",
    "TextTable",
    "dollars_line",
    "fit_table",
    "fold_text",
    "hashes",
    "markdown",
    "names_and_figures",
    "notes",
    "report",
    "reported_run",
    "results_json",
    "section_table",
    "serve_report",
    "versions",
]


def __getattr__(name: str) -> Any:
    if name not in _PAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PAGES[name]}"), name)
