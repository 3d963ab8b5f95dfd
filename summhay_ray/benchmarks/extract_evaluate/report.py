"""The report sections of a run: Tables 2 to 5 and Figures 2, 3 and 8 of the paper, with intervals."""

from collections.abc import Iterator

import polars as pl

from summhay_ray.benchmark import Chart, Section, Tables
from summhay_ray.benchmarks.extract_evaluate.agreement import TEXT
from summhay_ray.benchmarks.extract_evaluate.measure import TASK

INTERVALS = "Intervals: 95 %, bootstrap over documents; all summaries of a document are drawn together."
CHOICES_TEXT = (
    "Best: the extract with the greatest Pearson + Spearman. It is chosen on the same pairs that are reported, as in the paper, "
    "which is optimistic. Held out: chosen on one half of the documents and measured on the other. The figure is the mean over "
    "many splits, with the range of the middle 95 % of them (not a confidence interval); the method shown is the one chosen most "
    "often, and share says how often."
)
SAMPLES_TEXT = " samples: answers that could be read, of samples_expected that the ratings asked for."
FULL_TEXT = (
    "full: the whole source. full-release: the source as the paper's code cuts it, to as many characters as there was room for "
    "tokens, so that only the beginning of a long source is left. The paper compares with full-release."
)


_BUDGET = pl.when(pl.col("budget") > 0).then(pl.col("budget"))
"""The budget; null for the full document."""


def sections(scores: Tables) -> Iterator[Section]:
    if scores["choices"].height:
        table = scores["choices"].with_columns(_BUDGET)
        units = {"usd": "$ a pair", "share": "%"}
        yield Section("Full document or extract", f"{FULL_TEXT} {CHOICES_TEXT} {INTERVALS}", table, units)
    if scores["metrics"].height:
        table = _without(scores["metrics"], "kendall")
        yield Section("Metrics next to the raters", INTERVALS, table)
    for names, rows in scores["correlations"].group_by(TASK, maintain_order=True):
        task = " · ".join(map(str, names))
        cells = rows.drop(TASK)
        if cells["pearson"].drop_nulls().is_empty():
            yield _unscored(task, cells)
            continue
        curve = cells.filter(pl.col("budget") > 0)
        # Kendall's tau-b is in the scores.
        shown = _only_several(_without(cells, "kendall")).with_columns(_BUDGET)
        shown = shown if any(cells["reason"].to_list()) else shown.drop("reason")
        yield Section(
            f"Correlation with people: {task}",
            f"Pooled over all pairs. {INTERVALS} On the front: no other cell is as cheap with a higher Pearson + Spearman."
            f"{SAMPLES_TEXT if 'samples' in shown.columns else ''}",
            shown,
            {"usd": "$ a pair"},
            more=True,
            higher_is_better=("pearson", "spearman"),
        )
        for name in ("pearson", "spearman") if curve.height > 1 else ():
            title = f"{name.capitalize()} by length: {task}"
            # Draw the full document as a horizontal line, as in the paper's figure.
            levels = cells.filter(pl.col("budget") == 0).drop("budget").join(curve.select("budget").unique(), how="cross")
            columns = ("method", "budget", name, f"{name}_low", f"{name}_high", "n", "n_expected")
            both = pl.concat(cells.select(columns) for cells in (levels.sort("method", "budget"), curve))
            yield Section(title, INTERVALS, both, chart=Chart.line("budget", name, "method"), more=True)
        priced = cells.filter(pl.col("usd").is_not_null() & pl.col("pearson").is_not_null())
        if priced.height > 1:
            text = "Every cell by its cost per pair. On the front: no other cell beats it in both cost and correlation."
            table = priced.select(
                "method", "budget", "usd", "pearson", "pearson_low", "pearson_high", "on_front", "n", "n_expected"
            )
            yield Section(
                f"Cost and correlation: {task}", text, table, chart=Chart.scatter("usd", "pearson", "method"), more=True
            )
    yield from _more(scores)


def _unscored(task: str, cells: pl.DataFrame) -> Section:
    reasons = sorted({reason for reason in cells["reason"].to_list() if reason})
    columns = ("method", "budget", "prompt_tokens", "usd", "n", "n_expected", "samples", "samples_expected")
    table = _only_several(cells.select(columns))
    text = f"No correlation: {'; '.join(reasons)}.{SAMPLES_TEXT if 'samples' in table.columns else ''}"
    return Section(f"Ratings: {task}", text, table, {"usd": "$ a pair"}, more=True)


def _more(scores: Tables) -> Iterator[Section]:
    differences = scores["differences"]
    if differences.height:
        text = "Every cell's correlation minus that of the full document (against), on the same pairs and resamples. " + INTERVALS
        yield Section("Difference from the full document", text, _without(differences, "kendall"), more=True)
    if scores["agreement"].height:
        text = f"Every cell's ratings compared with those from the full document. spared: share of its dollars saved. {TEXT}"
        units = {"usd": "$ a pair", "spared": "%", "same": "%"}
        yield Section("Agreement with the full document", text, scores["agreement"], units, more=True)
    if scores["levels"].height:
        text = (
            "Within documents: the correlation over a document's summaries, averaged over n documents. Two summaries give 1 "
            "or -1. A document whose ratings or scores are all equal does not count. Between systems: the correlation of means "
            f"of n systems; it needs at least three, since two always lie on a line. {INTERVALS}"
        )
        yield Section("Within documents and between systems", text, _without(scores["levels"], "kendall"), more=True)
    if scores["lengths"].height:
        text = "cl100k tokens of the extracts. over_budget: extracts longer than their budget, only with compat: release."
        yield Section("Lengths of the extracts", text, scores["lengths"], more=True)
    for (dataset, budget), rows in scores["positions"].group_by("dataset", "budget", maintain_order=True):
        yield Section(
            f"Where extracts of {budget} tokens come from: {dataset}",
            "Share of an extract's sentences in each tenth of its source (1 is the beginning), averaged over all extracts.",
            rows.drop("dataset", "budget"),
            {"share": "%"},
            Chart.line("part", "share", "method"),
            more=True,
        )


def _only_several(cells: pl.DataFrame) -> pl.DataFrame:
    """Drop the numbers of samples if no cell asked for more samples than it has ratings, since they say no more than `n` then. A
    rating from log probabilities has no samples."""
    several = (cells["samples_expected"] > cells["n"]).any()
    return cells if several else cells.drop("samples", "samples_expected")


def _without(table: pl.DataFrame, name: str) -> pl.DataFrame:
    return table.drop(name, f"{name}_low", f"{name}_high")
