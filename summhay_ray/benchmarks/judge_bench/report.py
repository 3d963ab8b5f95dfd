"""The report's sections of a judge bench: agreement and bias (paper, Tables 1 and 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from summhay_ray.benchmark import Section
from summhay_ray.benchmarks.judge_bench.result import BenchRow


def sections(judges: Sequence[BenchRow]) -> list[Section]:
    """The sections: a row for each judge."""
    return [_agreement(judges), _bias(judges)] if judges else []


def _agreement(judges: Sequence[BenchRow]) -> Section:
    rows = []
    for judge in judges:
        figures = judge.figures
        correlation, linking = (interval or (None, None) for interval in (figures.correlation_ci, figures.linking_ci))
        rows.append(
            {
                "judge": judge.judge,
                "correlation": figures.correlation,
                **dict(zip(("correlation_low", "correlation_high"), correlation, strict=True)),
                "correlation of labels": figures.correlation_labels,
                "kappa": figures.kappa,
                "alpha": figures.alpha,
                "same bullet": figures.linking_accuracy,
                **dict(zip(("same bullet_low", "same bullet_high"), linking, strict=True)),
                "n of bullets": figures.linking_n,
                "dollars for 200": judge.usd_per_200,
                "dollars are": judge.usd_source or "not known",
                **_counts(judge),
            }
        )
    text = (
        "How far each judge agrees with people (paper, Table 1). Correlation: of its coverage with people's, over insights, and "
        "of its labels alone. Kappa: Cohen's; alpha: Krippendorff's for ordinal data, both of the labels. Same bullet: how often "
        "both name the same bullet, where both name one. Dollars for 200: to judge 200 such summaries."
    )
    better = ("correlation", "correlation of labels", "kappa", "alpha", "same bullet")
    return Section("Agreement with people", text, _frame(rows), {"same bullet": "%"}, name="agreement", higher_is_better=better)


def _bias(judges: Sequence[BenchRow]) -> Section:
    names = sorted({name for judge in judges for name in judge.figures.bias})
    rows = [
        {
            "judge": judge.judge,
            **{name: judge.figures.bias.get(name) for name in names},
            "mean": judge.figures.bias_mean,
            "length and coverage": judge.figures.length_score_corr,
            "length and bias": judge.figures.length_delta_corr,
            **_counts(judge),
        }
        for judge in judges
    ]
    text = (
        "How far a judge's coverage lies above people's, in points, by who wrote the summary (paper, Table 6), and the mean over "
        "these. Length and ...: correlation of the words a bullet with the judge's coverage, and with its bias."
    )
    return Section("Bias against people", text, _frame(rows), dict.fromkeys((*names, "mean"), "points"), name="bias")


def _counts(judge: BenchRow) -> dict[str, int]:
    return {"n": judge.figures.n_scored, "n_expected": judge.figures.n_expected}


def _frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)
