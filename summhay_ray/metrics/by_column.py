"""Vectorized scoring of many judgments (section 4.1). Part of the metrics room.

`coverage.score_summary` defines the score of a judgment; this module computes the same figures for a million of them. Unusual
judgments (an unknown label, a bullet that does not exist) are left to that function, and citations with anything but digits,
commas and spaces to `citations.extract_citations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from summhay_ray.metrics.citations import Compat, extract_citations
from summhay_ray.metrics.coverage import bullet_index
from summhay_ray.records import COVERAGE_VALUE

if TYPE_CHECKING:
    import polars as pl

_NUMBER = "[0-9]{1,18}"
_PLAIN_BRACKET = rf"\[{_NUMBER}(?:, ?{_NUMBER})*\]"
_OTHER_BRACKET = "[［【〔］】〕]"
_WORD = r"[^\s\x1c-\x1f]+"
_PLACE = ["haystack_id", "insight_id"]


def score_columns(
    summaries: pl.DataFrame, judgments: pl.DataFrame, gold: pl.DataFrame, compat: Compat = "default"
) -> tuple[pl.DataFrame, pl.Series]:
    """The scores of the judgments, and the rows of `summaries` that must be scored by `score_summary` instead.

    `summaries`: cell_id (unique), haystack_id, bullets. `judgments`: cell_id, judge, insight_id, coverage, bullet_id, those of
    one cell together, in order. `gold`: haystack_id, insight_id, documents (distinct numbers), one row per insight.
    The scores have one row per judgment: `summary` and `judgment` (row numbers in the given frames, from 0), coverage, joint,
    and citation_precision, citation_recall and citation_f1 (null where the insight is not covered). They leave out all
    judgments of a summary with an unusual judgment (the second result), and judgments of cells without a summary.
    """
    import polars as pl

    rows = _judged(summaries, judgments, gold, compat)
    odd = rows.filter("odd")["summary"].unique().sort()
    plain = rows.filter(~pl.col("summary").is_in(odd.implode())) if len(odd) else rows
    covered = plain.filter(pl.col("coverage") > 0)
    named = covered.select(pl.col("bullet").unique())
    bullets = named.with_columns(text=_all_bullets(summaries).gather(named["bullet"]))
    shares = _shares(covered, _cited(bullets, compat), gold["documents"])
    scored = plain.select("summary", "judgment", "coverage").join(shares, on="judgment", how="left", maintain_order="left")
    return scored.with_columns(joint=pl.col("coverage") * pl.col("citation_f1").fill_null(0.0)), odd


def words_per_bullet(summaries: pl.Series | Sequence[Sequence[str]]) -> pl.Series:
    """Words (separated by white space) per bullet of each summary (appendix A.3); null without bullets."""
    import polars as pl

    bullets = pl.Series(summaries, dtype=pl.List(pl.String))
    words = bullets.list.eval(pl.element().str.count_matches(_WORD)).list.sum()
    return words / bullets.list.len().replace(0, None)


def _judged(summaries: pl.DataFrame, judgments: pl.DataFrame, gold: pl.DataFrame, compat: Compat) -> pl.DataFrame:
    """A row a judgment: `summary`, `judgment`, `insight` (row of `gold`), `coverage`, `bullet` (its place among the bullets of
    all summaries), and `odd`: whether it is out of the ordinary."""
    import polars as pl

    known = gold.select(_PLACE).with_row_index("insight")
    kinds = {name: pl.Enum(known[name].unique().sort()) for name in _PLACE}
    known = known.with_columns(pl.col(name).cast(kind) for name, kind in kinds.items())
    count = summaries["bullets"].list.len().cast(pl.Int64)
    first = count.cum_sum().shift(1, fill_value=0)
    owners = summaries.select("cell_id", pl.col("haystack_id").cast(kinds["haystack_id"], strict=False), count=count, first=first)
    cell = judgments["cell_id"].rle_id()
    heads = judgments.select("cell_id").filter(cell.is_first_distinct())
    heads = heads.join(owners.with_row_index("summary"), on="cell_id", how="left", maintain_order="left").drop("cell_id")
    indices = {text: bullet_index(text, compat) for text in judgments["bullet_id"].unique().to_list()}
    rows = judgments.select(
        pl.col("judge").cast(pl.Enum(judgments["judge"].unique().sort())).to_physical().cast(pl.Int64),
        pl.col("insight_id").cast(kinds["insight_id"], strict=False),
        pl.col("coverage").replace_strict(COVERAGE_VALUE, default=None, return_dtype=pl.Float64),
        pl.col("bullet_id").replace_strict(indices, default=None, return_dtype=pl.Int64).alias("index"),
    )
    rows = pl.concat([rows, heads[cell]], how="horizontal").with_row_index("judgment").filter(pl.col("summary").is_not_null())
    rows = rows.join(known, on=_PLACE, how="left", maintain_order="left")
    odd = pl.col("insight").is_null()
    if compat == "release":
        rows = rows.with_columns(pl.col("coverage").fill_null(0.0))
    else:
        judges = pl.col("judge").max() + 1
        asked = (pl.col("summary").cast(pl.Int64) * judges + pl.col("judge")) * len(known) + pl.col("insight")
        odd |= pl.col("coverage").is_null() | ~asked.is_first_distinct()
    index, bullets = pl.col("index"), pl.col("count")
    odd |= (pl.col("coverage") > 0) & ~((index >= -bullets) & (index < bullets)).fill_null(False)
    place = pl.col("first") + pl.when(index < 0).then(index + bullets).otherwise(index)
    return rows.select("summary", "judgment", "insight", "coverage", bullet=place, odd=odd.fill_null(True))


def _all_bullets(summaries: pl.DataFrame) -> pl.Series:
    """The bullets of all summaries, concatenated."""
    bullets = summaries["bullets"]
    # Whether exploding an empty list gives a null depends on the version of polars.
    return bullets.filter(bullets.list.len() > 0).explode()


def _cited(bullets: pl.DataFrame, compat: Compat) -> pl.DataFrame:
    """`bullet`, `text` -> `bullet`, `cited`: the numbers, each once, that `citations.extract_citations` finds."""
    import polars as pl

    text, groups = pl.col("text"), pl.col("groups")
    found = bullets.with_columns(groups=text.str.extract_all(_PLAIN_BRACKET))
    brackets = [text.str.count_matches(sign, literal=True) == groups.list.len() for sign in "[]"]
    is_plain = found.select(pl.all_horizontal(*brackets, ~text.str.contains(_OTHER_BRACKET))).to_series()
    plain, others = found.filter(is_plain), found.filter(~is_plain)
    inside = plain["groups"].list.join("").str.replace_many({"][": ",", "[": "", "]": "", " ": ""}, leftmost=True)
    numbers = inside.str.split(",").cast(pl.List(pl.Int64), strict=False).list.drop_nulls().list.unique()
    read = pl.Series([list(extract_citations(text, compat)) for text in others["text"]], dtype=numbers.dtype)
    return pl.concat([plain.select("bullet", cited=numbers), others.select("bullet", cited=read)])


def _shares(covered: pl.DataFrame, cited: pl.DataFrame, documents: pl.Series) -> pl.DataFrame:
    """`citations.citation_scores` of each covered insight, by `judgment`."""
    import polars as pl

    rows = covered.select("judgment", "bullet", gold=documents.gather(covered["insight"]))
    rows = rows.join(cited, on="bullet", how="left", maintain_order="left")
    gold, right = pl.col("gold"), pl.col("right")
    precision, recall = pl.col("citation_precision"), pl.col("citation_recall")
    counts = rows.select(
        "judgment",
        right=pl.col("cited").list.set_intersection("gold").list.len(),
        cited=pl.col("cited").list.len(),
        gold=gold.list.len(),
    )
    shares = counts.with_columns(
        citation_precision=pl.when(pl.col("cited") > 0).then(right / pl.col("cited")).otherwise(0.0),
        citation_recall=pl.when(gold > 0).then(right / gold).otherwise(0.0),
    )
    f1 = pl.when(right > 0).then(2 * precision * recall / (precision + recall)).otherwise(0.0)
    return shares.select("judgment", "citation_precision", "citation_recall", citation_f1=f1)
