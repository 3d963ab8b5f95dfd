"""Vectorized scoring of many judgments (section 4.1). Part of the metrics room.

`figures` in `coverage_citation_joint.py` defines the figures; this module counts what they are made of for a million judgments at
once. Unusual judgments (an unknown label, a bullet that does not exist) are left to `score_summary` there, and citations in
any other form than a bracket of digits, commas and spaces to `extract_citations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from summhay_ray.metrics.citation_parsing import OTHER_CITATION, Compat, extract_citations
from summhay_ray.metrics.coverage_citation_joint import CITATION_VALUES, bullet_index, figures
from summhay_ray.records import COVERAGE_VALUE

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

_NUMBER = "[0-9]{1,18}"
_PLAIN_BRACKET = rf"^({_NUMBER}(?:, ?{_NUMBER})*)\][^\]]*$"
"""What follows an opening bracket, where the bracket holds numbers only and no other bracket is closed after it."""
_WORD = r"[^\s\x1c-\x1f]+"
_WIDE_SPACE = r"[\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
"""White space that is not ASCII."""
_PLACE = ["haystack_id", "insight_id"]


def score_columns(
    summaries: pl.DataFrame, judgments: pl.DataFrame, gold: pl.DataFrame, compat: Compat = "default"
) -> tuple[pl.DataFrame, pl.Series]:
    """The scores of the judgments, and the rows of `summaries` that must be scored by `score_summary` instead.

    `summaries`: cell_id (unique), haystack_id, bullets. `judgments`: cell_id, judge, insight_id, coverage, bullet_id, those of
    one cell together, in order. `gold`: haystack_id, insight_id, documents (distinct numbers; null: unknown), a row per insight.
    The scores have one row per judgment: `summary` and `judgment` (row numbers in the given frames, from 0), and its `figures`
    (those of citations null where the insight is not covered; joint, too, where its documents are unknown). They leave out all
    judgments of a summary with an unusual judgment (the second result), and judgments of cells without a summary.
    """
    import polars as pl

    rows = _judged(summaries, judgments, gold, compat)
    odd = rows.filter("odd")["summary"].unique().sort()
    plain = rows.filter(~pl.col("summary").is_in(odd.implode())) if len(odd) else rows
    bullets = _all_bullets(summaries["bullets"])
    covered = pl.col("coverage") > 0
    counts = _counts(plain.select("insight", bullet=pl.when(covered).then("bullet")), bullets, gold["documents"], compat)
    values = pl.DataFrame(figures(plain["coverage"].to_numpy(), *counts)).cast(pl.Float64)
    scored = pl.concat([plain.select("summary", "judgment"), values], how="horizontal")
    known = gold["documents"].is_not_null().gather(plain["insight"])
    shown = pl.when(covered & known).then(pl.col(CITATION_VALUES)).name.keep()
    return scored.with_columns(shown, pl.when(known).then("joint").alias("joint")), odd


def words_per_bullet(summaries: pl.Series | Sequence[Sequence[str]]) -> pl.Series:
    """Words (separated by white space) per bullet of each summary (appendix A.3); null without bullets."""
    import polars as pl

    bullets = pl.Series(summaries, dtype=pl.List(pl.String))
    count = bullets.list.len().cast(pl.Int64)
    before, ends = pl.concat([pl.Series([0]), _words(_all_bullets(bullets)).cum_sum()]), count.cum_sum()
    return (before.gather(ends) - before.gather(ends - count)) / count.replace(0, None)


def _words(texts: pl.Series) -> pl.Series:
    """The words of each text, counted in the bytes of all texts at once unless a text has white space that is not ASCII."""
    import numpy as np
    import polars as pl

    arrow = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = arrow.buffers()
    starts = np.frombuffer(offsets, np.int64)[arrow.offset : arrow.offset + len(texts)]
    codes = np.frombuffer(content, np.uint8)
    # \x1c to space, and \t to \r; a code below the first of them becomes a large one.
    blank = (codes - np.uint8(0x1C) <= 4) | (codes - np.uint8(0x09) <= 4)
    begins = ~blank
    begins[1:] &= blank[:-1]
    size = texts.str.len_bytes().to_numpy()
    firsts = starts[size > 0]
    begins[firsts] = ~blank[firsts]
    words = np.zeros(len(texts), np.int64)
    words[size > 0] = np.add.reduceat(begins, firsts, dtype=np.int32)
    others = np.flatnonzero(size != texts.str.len_chars().to_numpy())
    others = others[texts.gather(others).str.contains(_WIDE_SPACE).to_numpy()]
    words[others] = texts.gather(others).str.count_matches(_WORD).to_numpy()
    return pl.Series(words)


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


def _all_bullets(bullets: pl.Series) -> pl.Series:
    """The bullets of all summaries, concatenated."""
    # Whether exploding an empty list gives a null depends on the version of polars.
    return bullets.filter(bullets.list.len() > 0).explode()


def _counts(named: pl.DataFrame, bullets: pl.Series, documents: pl.Series, compat: Compat) -> tuple[NDArray[np.int64], ...]:
    """`right`, `cited` and `gold` of `figures` for each judgment.

    `named`: `bullet` (null for none) and `insight` of each judgment, as rows of `bullets` and `documents`. Sets of numbers are
    compared 64 documents at a time, as the bits of an integer.
    """
    import numpy as np
    import polars as pl

    places = named["bullet"].drop_nulls().unique().sort()
    cited = _cited(pl.DataFrame({"set": places, "text": bullets.gather(places)}), compat)
    gold = pl.DataFrame({"number": documents}).with_row_index("set").explode("number").drop_nulls()
    # Judgments that name no bullet have the empty one after the last.
    bullet, insight = named["bullet"].fill_null(len(bullets)).to_numpy(), named["insight"].to_numpy()
    right, n_cited = np.zeros(len(named), np.int64), np.zeros(len(bullets) + 1, np.int64)
    end = int(gold["number"].to_numpy().max(initial=0)) // 64 + 1
    for word in range(end):
        marks, wanted = _marks(cited, word, len(bullets) + 1), _marks(gold, word, len(documents))
        n_cited += np.bitwise_count(marks)
        right += np.bitwise_count(marks[bullet] & wanted[insight])
    beyond = cited.filter(pl.col("number") >= end * 64).unique()
    n_cited += np.bincount(beyond["set"], minlength=len(n_cited))
    n_gold = documents.list.len().fill_null(0).to_numpy()
    return right, n_cited[bullet], n_gold[insight]


def _marks(sets: pl.DataFrame, word: int, count: int) -> NDArray[np.uint64]:
    """For each of `count` sets, given by `set` and `number`: bit i is 1 if it has the number 64 * word + i."""
    import numpy as np

    marks = np.zeros(count, np.uint64)
    numbers = sets["number"].to_numpy()
    here = numbers >> 6 == word
    np.bitwise_or.at(marks, sets["set"].to_numpy()[here], np.uint64(1) << (numbers[here] & 63).astype(np.uint64))
    return marks


def _cited(bullets: pl.DataFrame, compat: Compat) -> pl.DataFrame:
    """`set`, `text` -> `set`, `number`: a row for each number that `extract_citations` finds; some may come twice."""
    import polars as pl

    text, inside = pl.col("text"), pl.col("inside")
    # What follows the first bracket; most often it is short, and `1][2]` is read as `1,2]`.
    rest = text.str.splitn("[", 2).struct.field("field_1").str.replace_all("][", ",", literal=True)
    brackets = bullets.select("set", inside=rest.str.split("[")).drop_nulls().explode("inside")
    brackets = brackets.with_columns(inside.str.extract(_PLAIN_BRACKET).str.replace_all(" ", "", literal=True))
    unread = [brackets.filter(inside.is_null())["set"], bullets.filter(text.str.contains(OTHER_CITATION))["set"]]
    others = bullets.filter(pl.col("set").is_in(pl.concat(unread).implode()))
    plain = brackets.filter(~pl.col("set").is_in(others["set"].implode()))
    numbers = plain.select("set", number=inside.str.split(",")).explode("number").cast({"number": pl.Int64})
    read = pl.Series([list(extract_citations(text, compat)) for text in others["text"]], dtype=pl.List(pl.Int64))
    return pl.concat([numbers, others.select("set", number=read).explode("number").drop_nulls()])
