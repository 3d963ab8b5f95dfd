"""Scores of many judgments at once (section 4.1).

`figures` in `coverage_citation_joint.py` defines the figures; here polars counts their components. `score_summary` handles
unusual judgments (an unknown label, a bullet that does not exist), and `extract_citations` handles citations in any other form
than a bracket of digits, commas and spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from summhay_ray.metrics.citation_parsing import OTHER_CITATION, Compat, extract_citations
from summhay_ray.metrics.coverage_citation_joint import CITATION_VALUES, bullet_index, figures
from summhay_ray.records import COVERAGE_VALUE

if TYPE_CHECKING:
    import polars as pl

_NUMBER = "[0-9]{1,18}"
_PLAIN_BRACKET = rf"\[{_NUMBER}(?:, ?{_NUMBER})*\]"


def score_columns(
    summaries: pl.DataFrame, judgments: pl.DataFrame, gold: pl.DataFrame, compat: Compat = "default"
) -> tuple[pl.DataFrame, pl.Series]:
    """(The scores of the judgments, the rows of `summaries` that `score_summary` must score instead.)

    `summaries`: cell_id (unique), haystack_id, bullets. `judgments`: cell_id, judge, insight_id, coverage, bullet_id, grouped by
    cell, in order. `gold`: haystack_id, insight_id, documents (distinct numbers; null: unknown), a row per insight. The scores
    have one row per judgment: `summary` and `judgment` (row numbers in the given frames, from 0), and its `figures` (citation
    figures are null if the insight is not covered; joint is also null if its documents are unknown). The scores leave out
    summaries with an unusual judgment (the second result) and judgments of cells without a summary.
    """
    import polars as pl

    indices = {text: bullet_index(text, compat) for text in judgments["bullet_id"].unique().to_list()}
    coverage = pl.col("coverage").replace_strict(COVERAGE_VALUE, default=None, return_dtype=pl.Float64)
    rows = judgments.select(
        pl.col("cell_id", "judge", "insight_id"),
        coverage=coverage.fill_null(0.0) if compat == "release" else coverage,
        index=pl.col("bullet_id").replace_strict(indices, default=None, return_dtype=pl.Int64),
    ).with_row_index("judgment")
    owners = summaries.select("cell_id", "haystack_id", "bullets").with_row_index("summary")
    rows = rows.join(owners, on="cell_id", maintain_order="left")
    marked = gold.with_columns(known=True)
    rows = rows.join(marked, on=["haystack_id", "insight_id"], how="left", maintain_order="left")
    covered = pl.col("coverage") > 0
    rows = rows.with_columns(bullet=pl.when(covered).then(pl.col("bullets").list.get(pl.col("index"), null_on_oob=True)))
    odd = pl.col("known").is_null() | (covered & pl.col("bullet").is_null())
    if compat != "release":
        odd |= pl.col("coverage").is_null() | ~pl.struct("summary", "judge", "insight_id").is_first_distinct()
    unusual = rows.filter(odd)["summary"].unique().sort()
    plain = rows.filter(~pl.col("summary").is_in(unusual.implode())).drop("bullets", "index")
    cited, documents = pl.lit(_cited(plain["bullet"], compat)), pl.col("documents")
    counts = plain.select(
        right=cited.list.set_intersection(documents).list.len(), cited=cited.list.len(), gold=documents.list.len()
    ).with_columns(pl.all().cast(pl.Int64).fill_null(0))
    values = pl.DataFrame(figures(plain["coverage"].to_numpy(), *counts.to_numpy().T)).cast(pl.Float64)
    places = plain.select("summary", "judgment", cites=covered & documents.is_not_null(), known=documents.is_not_null())
    shown = pl.when("cites").then(pl.col(CITATION_VALUES)).name.keep()
    scored = pl.concat([places, values], how="horizontal").with_columns(shown, joint=pl.when("known").then("joint"))
    return scored.drop("cites", "known"), unusual


def _cited(bullets: pl.Series, compat: Compat) -> pl.Series:
    """The numbers that `extract_citations` finds in each bullet; null for null."""
    import polars as pl

    brackets = bullets.str.extract_all(_PLAIN_BRACKET)
    numbers = brackets.list.join(",").str.extract_all(_NUMBER).cast(pl.List(pl.Int64)).list.unique()
    other = bullets.str.contains(OTHER_CITATION) | (brackets.list.len() * 2 != bullets.str.count_matches(r"[\[\]]"))
    read = pl.Series([list(extract_citations(text, compat)) for text in bullets.filter(other)], dtype=numbers.dtype)
    places = pl.int_range(len(bullets), eager=True).scatter(other.arg_true(), range(len(bullets), len(bullets) + len(read)))
    return pl.concat([numbers, read]).gather(places)
