"""Coverage, citation precision, recall and F1, and joint of each judged insight (section 4.1).

`figures` is their only definition. It takes the counts of one insight, or arrays with the counts of a million insights, which
`score_columns` makes with polars. `score_summary` handles unusual judgments (an unknown label, a bullet that does not
exist). `extract_citations` handles citations in any form other than a bracket of digits, commas and spaces.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from summhay_ray.metrics.citation_parsing import OTHER_CITATION, Compat, extract_citations
from summhay_ray.records import COVERAGE_VALUE, Failure, Gold, Judgment, Score

_SHOWN = 40
_FALLBACK = -1


def figures(coverage: Any, right: Any, cited: Any, gold: Any) -> dict[str, Any]:
    """Map each column of `scores` to the figure of a judged insight (section 4.1), or of many insights if all arguments are
    numpy arrays.

    Numbers of documents: `cited` are those that the bullet cites, `gold` those that contain the insight, `right` those in both.
    Precision is 0 without citations, recall is 0 without gold documents.
    """
    precision = right / (cited + (cited == 0))
    recall = right / (gold + (gold == 0))
    f1 = 2 * precision * recall / (precision + recall + (right == 0))
    return {
        "coverage": coverage,
        "citation_f1": f1,
        "citation_precision": precision,
        "citation_recall": recall,
        "joint": coverage * f1,
    }


VALUES = tuple(figures(0, 0, 0, 0))
CITATION_VALUES = tuple(name for name in VALUES if name.startswith("citation"))
"""Figures of covered insights only. They are null for other insights."""


def score_summary(
    judgments: Sequence[Judgment], bullets: Sequence[str], gold: Gold, compat: Compat = "default"
) -> list[Score | Failure]:
    """Return one row per judgment of one summary, in order. `gold`: the gold documents of the haystack's insights. By default
    a judge's second judgment of an insight is a Failure; the released script counts both."""
    rows: list[Score | Failure] = []
    seen: set[tuple[str, str]] = set()
    for judgment in judgments:
        judged = (judgment.judge, judgment.insight_id)
        if judgment.insight_id not in gold:
            rows.append(_failure(judgment, "unknown_insight", "the judged insight is not in the haystack"))
        elif compat == "default" and judged in seen:
            rows.append(_failure(judgment, "judged_twice", "the insight was judged before in this summary; the first counts"))
        else:
            rows.append(score_judgment(judgment, bullets, gold[judgment.insight_id], compat))
        seen.add(judged)
    return rows


def score_judgment(
    judgment: Judgment, bullets: Sequence[str], gold: frozenset[int] | None, compat: Compat = "default"
) -> Score | Failure:
    """Return coverage, citation scores and joint of one insight in one summary (section 4.1); without `gold`, only its
    coverage.

    By default a judgment is a Failure if its label is unknown, or if the insight is covered but the bullet id is not a number
    from 1 to the number of bullets. `release` follows the released script: an unknown label counts 0, and the bullet id is
    interpreted by Python's int() and list indexing (see `_released_index`).
    """
    value = COVERAGE_VALUE.get(judgment.coverage)
    if value is None and compat == "default":
        expected = " or ".join(COVERAGE_VALUE)
        return _failure(judgment, "unknown_coverage", f"the judge says {_short(judgment.coverage)}; expected {expected}")
    bullet, cited = None, tuple[int, ...]()
    if value:
        index = bullet_index(judgment.bullet_id, compat)
        if index is None or not -len(bullets) <= index < len(bullets):
            message = f"the judge names bullet {_short(judgment.bullet_id)}; the summary's bullets are 1 to {len(bullets)}"
            none = "an insight is covered by a summary without bullets"
            return _failure(judgment, "unusable_bullet", message if bullets else none)
        bullet, cited = index % len(bullets) + 1, extract_citations(bullets[index], compat)
    documents = gold or frozenset()
    values = figures(value or 0.0, len(documents.intersection(cited)), len(cited), len(documents))
    unknown = (*(CITATION_VALUES if bullet is None or gold is None else ()), *(("joint",) if gold is None else ()))
    return Score(
        cell_id=judgment.cell_id,
        judge=judgment.judge,
        insight_id=judgment.insight_id,
        position=judgment.position,
        bullet=bullet,
        cited=cited,
        gold=tuple(sorted(documents)),
        **{**values, **dict.fromkeys(unknown)},
    )


@functools.lru_cache(maxsize=1024)
def bullet_index(bullet_id: str, compat: Compat) -> int | None:
    """Return the index of the bullet that a judge names: from 0, or negative as in a Python list. None if the id is unusable."""
    if compat == "release":
        return _released_index(bullet_id)
    # The JSON must be an integer of at least 1, written as a number or as a string of digits.
    value = _json(bullet_id)
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) <= _SHOWN:
        value = int(value)
    return value - 1 if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _failure(judgment: Judgment, error: str, message: str) -> Failure:
    return Failure(
        cell_id=judgment.cell_id,
        stage="judge",
        judge=judgment.judge,
        insight_id=judgment.insight_id,
        kind="malformed",
        error=error,
        message=f"{message} (judgment {judgment.position + 1})",
        key=judgment.key,
        attempts=0,
        usd_micros=0,
    )


def _released_index(bullet_id: str) -> int | None:
    """Return the bullet's index as the released script computes it: int(id) - 1, where int(id) is -1 if Python cannot convert
    the id.

    Thus "NA", a list or null selects the second to last bullet, 0 the last one, 3.7 the third. None without an id, for which
    the script raises a KeyError.
    """
    if not bullet_id:
        return None
    try:
        return int(_json(bullet_id)) - 1
    except (ValueError, TypeError, OverflowError):
        return _FALLBACK - 1


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _short(text: str) -> str:
    """Return `text` as one line of ASCII, truncated."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


_NUMBER = "[0-9]{1,18}"
_PLAIN_BRACKET = rf"\[{_NUMBER}(?:, ?{_NUMBER})*\]"


def score_columns(
    summaries: pl.DataFrame, judgments: pl.DataFrame, gold: pl.DataFrame, compat: Compat = "default"
) -> tuple[pl.DataFrame, pl.Series]:
    """Return (the scores of the judgments, the rows of `summaries` that `score_summary` must score instead).

    `summaries`: cell_id (unique), haystack_id, bullets. `judgments`: cell_id, judge, insight_id, coverage, bullet_id, grouped
    by cell, in order. `gold`: haystack_id, insight_id, documents (distinct numbers; null: unknown), a row per insight.

    The scores have one row per judgment: `summary` and `judgment` (row numbers in the given frames, from 0), and its `figures`.
    Citation figures are null if the insight is not covered; joint is also null if the insight's documents are unknown. The
    scores leave out summaries with an unusual judgment (the second result) and judgments of cells without a summary.
    """
    indices = {text: bullet_index(text, compat) for text in judgments["bullet_id"].unique().to_list()}
    coverage = pl.col("coverage").replace_strict(COVERAGE_VALUE, default=None, return_dtype=pl.Float64)
    rows = judgments.select(
        pl.col("cell_id", "judge", "insight_id"),
        coverage=coverage.fill_null(0.0) if compat == "release" else coverage,
        index=pl.col("bullet_id").replace_strict(indices, default=None, return_dtype=pl.Int64),
    ).with_row_index("judgment")
    owners = summaries.select("cell_id", "haystack_id", "bullets").with_row_index("summary")
    rows = rows.join(owners, on="cell_id", maintain_order="left")
    marked = gold.join(rows, on=["haystack_id", "insight_id"], how="semi").with_columns(known=True)
    rows = rows.join(marked, on=["haystack_id", "insight_id"], how="left", maintain_order="left")
    covered = pl.col("coverage") > 0
    rows = rows.with_columns(bullet=pl.when(covered).then(pl.col("bullets").list.get(pl.col("index"), null_on_oob=True)))
    odd = pl.col("known").is_null() | (covered & pl.col("bullet").is_null())
    if compat != "release":
        odd |= pl.col("coverage").is_null() | ~pl.struct("summary", "judge", "insight_id").is_first_distinct()
    unusual = rows.filter(odd)["summary"].unique().sort()
    plain = rows.filter(~pl.col("summary").is_in(unusual.implode())).drop("bullets", "index")
    # The numbers that each bullet cites. Bullets with plain brackets are read together, others one by one.
    bullets = plain["bullet"]
    brackets = bullets.str.extract_all(_PLAIN_BRACKET)
    numbers = brackets.list.join(",").str.extract_all(_NUMBER).cast(pl.List(pl.Int64)).list.unique()
    other = bullets.str.contains(OTHER_CITATION) | (brackets.list.len() * 2 != bullets.str.count_matches(r"[\[\]]"))
    read = pl.Series([list(extract_citations(text, compat)) for text in bullets.filter(other)], dtype=numbers.dtype)
    source = pl.int_range(len(bullets), eager=True).scatter(other.arg_true(), range(len(bullets), len(bullets) + len(read)))
    cited, documents = pl.lit(pl.concat([numbers, read]).gather(source)), pl.col("documents")
    counts = plain.select(
        right=cited.list.set_intersection(documents).list.len(), cited=cited.list.len(), gold=documents.list.len()
    ).with_columns(pl.all().cast(pl.Int64).fill_null(0))
    values = pl.DataFrame(figures(plain["coverage"].to_numpy(), *counts.to_numpy().T)).cast(pl.Float64)
    places = plain.select("summary", "judgment", cites=covered & documents.is_not_null(), known=documents.is_not_null())
    citations = pl.when("cites").then(pl.col(CITATION_VALUES)).name.keep()
    scored = pl.concat([places, values], how="horizontal").with_columns(citations, joint=pl.when("known").then("joint"))
    return scored.drop("cites", "known"), unusual
