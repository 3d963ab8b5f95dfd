"""The figures of a run's systems, and its spec, in the form in which they are published."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import polars as pl

from summhay_ray.report import ReportedRun, names_and_figures

_NAMES = ("model", "retriever", "ordering")
_PRIVATE = ("api_base", "api_key_env", "endpoint_url")
"""Fields of a spec with the address of a service, or with the name of its key."""
FIGURES = pl.Schema(
    {
        "system": pl.String,
        "model": pl.String,
        "retriever": pl.String,  # empty if the system has none; likewise `ordering`
        "ordering": pl.String,
        "task": pl.String,  # the part of the benchmark, empty for all of it
        "figure": pl.String,
        "unit": pl.String,  # with %, the value is a fraction
        "value": pl.Float64,
        "low": pl.Float64,  # the 95 % interval; null where none is known
        "high": pl.Float64,
        "floor": pl.Float64,  # the value, counting every missing answer as 0
        "n": pl.Int64,
        "n_expected": pl.Int64,
        "rank": pl.Int64,
        "usd": pl.Float64,  # dollars per query
    }
)
"""The columns of `figures_of`."""


def figures_of(reported: ReportedRun) -> pl.DataFrame:
    """Return a row with the figures of each system: columns FIGURES. Empty if no model has a figure.

    The figures are those of the leaderboard. For a benchmark without one, they come from the tables that count expected
    answers.
    """
    compared = reported.comparison
    if compared is not None:
        parts = [
            standing.select(
                pl.col("label").alias("system"),
                *_NAMES,
                *(
                    pl.lit(text).alias(name)
                    for name, text in (("task", ""), ("figure", figure), ("unit", compared.units[figure]))
                ),
                pl.col("mean").alias("value"),
                *("low", "high", "floor", "n", "n_expected", "rank", "usd"),
            )
            for figure, standing in compared.standings.items()
        ]
        return pl.concat(parts).cast(FIGURES).drop_nulls("value")
    found = []
    for section in reported.sections:
        if section.table is None or not {"model", "n_expected"} <= {*section.table.columns}:
            continue
        names, figures = names_and_figures(section)
        for row in section.table.iter_rows(named=True):
            system = {name: str(row.get(name) or "") for name in _NAMES}
            others = [str(row[name]) for name in names if name not in _NAMES and row[name]]
            for figure in figures:
                if isinstance(row[figure], float) and f"{figure}_floor" in row:
                    ends = {end: row.get(f"{figure}_{end}") for end in ("low", "high", "floor")}
                    counts = {"n": row.get("n"), "n_expected": row["n_expected"], "rank": None, "usd": None}
                    about = {"system": " + ".join(filter(None, system.values())), "task": "/".join([section.slug, *others])}
                    unit = section.units.get(figure, "")
                    found.append({**system, **about, "figure": figure, "unit": unit, "value": row[figure], **ends, **counts})
    return pl.DataFrame(found, schema=FIGURES, orient="row").drop_nulls("value")


def public_spec(value: Any) -> Any:
    """Return a spec without empty fields, and without fields that are private to where it ran: addresses, key names, folders."""
    if isinstance(value, Mapping):
        pairs = ((name, public_spec(inner)) for name, inner in value.items() if name not in _PRIVATE)
        return {name: inner for name, inner in pairs if inner not in (None, "", {}, [])}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [public_spec(inner) for inner in value]
    return PurePath(value).name if isinstance(value, str) and value.startswith(("/", "~", "..")) else value
