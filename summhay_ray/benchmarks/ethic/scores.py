"""Score an ETHIC run: both readings of every answer, means with intervals over documents, and the paper's analyses.

A question without an answer has no score, but counts in `n_expected`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import ByQuery, Tables, mean_interval
from summhay_ray.benchmarks.ethic import lenient_metrics, release_metrics
from summhay_ray.benchmarks.ethic.records import LOOKUP
from summhay_ray.benchmarks.ethic.tables import ANSWERS, RATINGS, EthicAnswer, SectionRating
from summhay_ray.benchmarks.rating import sample_counts
from summhay_ray.metrics import Observed, Paired

CELL = ("task", "domain", "model")
BUCKETS = (
    (16_384, "up to 16K"),
    (32_768, "up to 32K"),
    (65_536, "up to 64K"),
    (131_072, "up to 128K"),
    (math.inf, "beyond 128K"),
)
"""(maximum number of tokens in the prompt, name). The paper does not state the limits of its buckets (Figure 4)."""
UNKNOWN = "unknown"
"""The bucket of prompts that were never built."""
PLACES = 5
"""Number of equal parts of a context, for the position of a section (Figure 5)."""
LOWEST = 1.0
SCALE = (LOWEST, 5.0)
"""The range of ratings. A section without a summary gets the lowest."""
_CLASS_OF_ERROR = {
    "refusal": "refused",
    "content_filter": "refused",
    "empty_answer": "empty",
    "context_window": "over_length",
}
_SAMPLE: Mapping[str, Any] = {
    **dict.fromkeys(("item_id", "model", "task", "domain", "record", "document", "answer", "bucket"), pl.String),
    **dict.fromkeys(("score", "score_release", "precision", "recall", "chance", "copied"), pl.Float64),
    **dict.fromkeys(("tokens", "missing", "n_sections"), pl.Int64),
    "truncated": pl.Boolean,
    "missing_places": pl.List(pl.Float64),
}


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """Settings of the scores. `reasoning`: strip or keep. `judge`: label of the judge whose ratings are used."""

    reasoning: str
    judge: str
    seed: int


def score(tables: Tables, how: ScoreSettings) -> dict[str, pl.DataFrame]:
    """Return the tables samples, tasks, overall, outcomes, lengths, low_high, positions and summaries."""
    items = tables["items"]
    samples = _samples(tables, how)
    ratings = tables[RATINGS.name]
    # Overall is the mean of all samples, as in the release. `macro` is the mean of the domains' means.
    domains = samples.group_by(*CELL).agg(pl.col("score").mean())
    macro = domains.group_by("task", "model").agg(pl.col("score").mean().alias("macro"))
    overall = _both_readings(samples, ("task", "model"), items).join(macro, on=("task", "model"), how="left")
    # Group by prompt length (Figure 4). A failure counts in the bucket of its prompt, or in `unknown` if the length is unknown.
    known = samples.with_columns(pl.col("bucket").fill_null(UNKNOWN))
    buckets = pl.col("bucket").cast(pl.Enum([*(name for _, name in BUCKETS), UNKNOWN]))
    return {
        "samples": samples,
        "tasks": _both_readings(samples, CELL, items),
        "overall": overall,
        "outcomes": samples.group_by(*CELL, "answer").agg(pl.len().cast(pl.Int64).alias("n")).sort(*CELL, "answer"),
        "lengths": _means(known, ("task", "model", "bucket"), known).sort("task", "model", buckets),
        "low_high": low_high(samples, how.seed),
        "positions": positions(samples, ratings, how),
        "summaries": summaries(samples, ratings, how),
    }


def by_query(tables: Tables, how: ScoreSettings) -> ByQuery:
    """Return each model's score on each record, with one column per task. Summarizing is from 1 to 5, the other tasks are
    fractions."""
    samples = _samples(tables, how)
    names = sorted(samples.filter(pl.col("score").is_not_null())["task"].unique())
    tasks = {task: pl.when(pl.col("task") == task).then("score") for task in names}
    query = pl.concat_str("task", "domain", "record", separator="/")
    units = {task: "" if task == "Summarizing" else "%" for task in names}
    asked = samples.select(system="model", cluster="document", query=query, figure="task")
    scores = samples.filter(pl.col("score").is_not_null()).select(system="model", cluster="document", query=query, **tasks)
    return ByQuery(scores, units, "document", asked)


def _samples(tables: Tables, how: ScoreSettings) -> pl.DataFrame:
    answers = {row.item_id: row for row in ANSWERS.records(tables[ANSWERS.name])}
    raw = {row["key"]: row for row in tables["raw_answers"].select("key", "text", "finish_reason").iter_rows(named=True)}
    rated: dict[str, list[SectionRating]] = {}
    for rating in RATINGS.records(tables[RATINGS.name]):
        if rating.judge == how.judge:
            rated.setdefault(rating.item_id, []).append(rating)
    errors = {
        row["item_id"]: row["error"]
        for row in tables["failures"].iter_rows(named=True)
        if row["stage"] in ("answer", "") or row["item_id"] not in answers
    }
    samples = []
    for item in tables["items"].iter_rows(named=True):
        item_id = item["item_id"]
        error = errors.get(item_id)
        unanswered = "open" if error is None else _CLASS_OF_ERROR.get(error, "failed")
        sample: Mapping[str, Any] = {"record": item_id.rpartition("/")[2], "answer": unanswered}
        if row := answers.get(item_id):
            answer = raw[row.key] if row.outcome == "answered" else None
            sample = _sample(row, unanswered, answer, rated.get(item_id, ()), how.reasoning)
        head = {name: item[name] for name in ("item_id", "model", "task", "domain", "document")}
        samples.append({**dict.fromkeys(_SAMPLE), **head, **sample})
    return pl.DataFrame(samples, schema=dict(_SAMPLE), orient="row")


def _sample(
    row: EthicAnswer, unanswered: str, answer: Mapping[str, Any] | None, rated: Sequence[SectionRating], reasoning: str
) -> dict[str, Any]:
    """Return the figures of one answer. `unanswered`: why the model did not answer. `answer`: its raw answer, if it did."""
    facts = {
        "record": row.record,
        "tokens": row.tokens,
        "bucket": next(name for most, name in BUCKETS if row.tokens <= most),
        "truncated": row.truncated,
        "n_sections": len(row.sections),
    }
    if row.task == "Organizing":
        facts["chance"] = lenient_metrics.chance(len(lenient_metrics.numbers_of(row.gold[0])))
    if row.outcome == "failed":
        # The scripts record a refusal as FAILED, and score an empty answer like any other.
        text = {"refused": release_metrics.FAILED, "empty": ""}.get(unanswered)
        released = None if text is None or row.task == "Summarizing" else _released(row, text)
        return {**facts, "answer": unanswered, "score_release": released}
    if answer is None:
        zero = LOWEST if row.task == "Summarizing" else 0.0
        scores = {"score": zero, "score_release": zero} if row.outcome == "zero" else {}
        return {**facts, "answer": "over_length", **scores}
    text = lenient_metrics.remove_reasoning(answer["text"]) if reasoning == "strip" else answer["text"]
    if row.task == "Summarizing":
        figures, unparsed = _summarized(row, text, rated)
    else:
        figures, unparsed = _figures(row, text)
        # The scripts score the whole answer, including the reasoning.
        figures["score_release"] = _released(row, answer["text"])
    kind = "cut" if answer["finish_reason"] == "length" else "unparsed" if unparsed else "answered"
    return {**facts, **figures, "answer": kind}


def _released(row: EthicAnswer, text: str) -> float | None:
    if row.task == "Organizing":
        return None if text == release_metrics.FAILED else float(release_metrics.organizing(text, row.gold[0])[1])
    score = release_metrics.attributing if row.task == "Attributing" else release_metrics.recalling
    return float(score(text, row.gold).f1)


def _figures(row: EthicAnswer, text: str) -> tuple[dict[str, Any], bool]:
    """Return (figures by our reading of an answer, whether it is unparsed). An unparsed answer has no figures."""
    if row.task == "Organizing":
        read = lenient_metrics.order(text)
        figures: dict[str, Any] = {"score": lenient_metrics.order_score(read, lenient_metrics.numbers_of(row.gold[0]))}
    else:
        attributing = row.task == "Attributing"
        gold = lenient_metrics.gold_ids(row.gold) if attributing else lenient_metrics.gold_items(row.gold)
        read = lenient_metrics.core_ids(text) if attributing else lenient_metrics.items(text, gold)
        both = lenient_metrics.overlap(read, gold)
        figures = {"score": float(both.f1), "precision": float(both.precision), "recall": float(both.recall)}
    return figures if read else {}, not read


def _summarized(row: EthicAnswer, text: str, rated: Sequence[SectionRating]) -> tuple[dict[str, Any], bool]:
    # The scripts divide the sum of each of the three criteria by a third of the number of all answers, and average the results.
    # That equals the mean of all answers.
    released = lenient_metrics.mean(rating.released for rating in rated if rating.reading != "ours")
    if not text.strip():
        return {"score_release": released}, True
    said = lenient_metrics.summaries(text)
    missing = [number for number in row.sections if not said.get(number)]
    by_section: dict[int, list[float]] = {}
    lengths = {}
    for rating in rated:
        if rating.reading != "release" and rating.value is not None:
            by_section.setdefault(int(rating.section), []).append(rating.value)
            lengths[int(rating.section)] = rating.summary_tokens
    values = [LOWEST] * len(missing) + [math.fsum(ratings) / len(ratings) for ratings in by_section.values()]
    # If all ratings of a section failed, the sample has no score: the other sections alone would shift it.
    lost = any(said.get(number) and number not in by_section for number in row.sections)
    whole = dict(zip(row.sections, row.section_tokens, strict=True))
    figures: dict[str, Any] = {
        "score": None if lost else lenient_metrics.mean(values),
        "missing": len(missing),
        "missing_places": [row.sections.index(number) / max(1, len(row.sections) - 1) for number in missing],
        "copied": lenient_metrics.mean(length / max(1, whole[number]) for number, length in lengths.items()),
        "score_release": released,
    }
    return figures, not said


def _means(samples: pl.DataFrame, by: Sequence[str], items: pl.DataFrame) -> pl.DataFrame:
    """Return `mean_interval` of the scores over documents. Summarizing has ratings, the other tasks have fractions."""
    rated = pl.col("task") == "Summarizing"
    parts = [
        mean_interval(samples.filter(of), "score", by, expected=items.filter(of), cluster="document", bounds=bounds)
        for of, bounds in ((rated, SCALE), (~rated, (0.0, 1.0)))
    ]
    return pl.concat(parts).sort(by)


def _both_readings(samples: pl.DataFrame, by: Sequence[str], items: pl.DataFrame) -> pl.DataFrame:
    """Return one row per group: our score with its interval, the release's score with its n, their difference on samples that
    have both (`n_both`), and the chance level."""
    difference = pl.col("score") - pl.col("score_release")
    released = samples.group_by(*by).agg(
        pl.col("score_release").mean(),
        pl.col("score_release").count().cast(pl.Int64).alias("n_release"),
        difference.mean().alias("difference"),
        difference.count().cast(pl.Int64).alias("n_both"),
        pl.col("chance").mean(),
    )
    return _means(samples, by, items).join(released, on=by, how="left")


def low_high(samples: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Compare Recalling from one section (low coverage) with Recalling from the whole context (high coverage), on the same
    documents (Figure 3)."""
    rows = []
    for (model,), found in samples.filter(pl.col("score").is_not_null()).group_by("model", maintain_order=True):
        means = found.group_by("task", "document").agg(pl.col("score").mean())
        low, high = (means.filter(pl.col("task") == task).select("document", "score") for task in (LOOKUP, "Recalling"))
        both = low.join(high, on="document", suffix="_high").sort("document")
        if both.is_empty():
            continue
        values = both.select("score", "score_high").to_numpy()
        [paired] = Paired(both["document"].to_list()).differences(Observed.whole(values), [(0, 1)]).to_dicts()
        ends = {"difference_low": paired["low"], "difference_high": paired["high"]}
        given = {"low": paired["a"], "high": paired["b"], "difference": paired["difference"], "p": paired["p"]}
        rows.append({"model": model, **given, **ends, "n": paired["n_queries"]})
    figures = ("low", "high", "difference", "p", "difference_low", "difference_high")
    return pl.DataFrame(rows, schema={"model": pl.String, **dict.fromkeys(figures, pl.Float64), "n": pl.Int64})


def positions(samples: pl.DataFrame, ratings: pl.DataFrame, how: ScoreSettings) -> pl.DataFrame:
    """Return scores of sections by position and prompt length (Figure 5). A section without a summary gets the lowest score,
    as in the task's score; `missing` is the share of such sections."""
    own = ratings.filter((pl.col("judge") == how.judge) & (pl.col("reading") != "release") & pl.col("value").is_not_null())
    rated = own.group_by("item_id", "section", "place").agg(pl.col("value").mean().alias("score"))
    left_out = samples.select("item_id", pl.col("missing_places").alias("place")).explode("place").drop_nulls()
    both = pl.concat(
        [
            rated.select("item_id", "place", "score", pl.lit(0.0).alias("missing")),
            left_out.select("item_id", "place", pl.lit(LOWEST).alias("score"), pl.lit(1.0).alias("missing")),
        ]
    ).join(samples.select("item_id", "model", "document", "bucket"), on="item_id")
    if both.is_empty():
        figures = dict.fromkeys(("score", "off_mean", "missing"), pl.Float64)
        return pl.DataFrame(schema={"shown": pl.String, "fifth": pl.Int64, **figures, "n": pl.Int64})
    fifth = (pl.col("place") * PLACES).floor().clip(0, PLACES - 1).cast(pl.Int64) + 1
    placed, cell = both.with_columns(fifth.alias("fifth")), ("model", "bucket", "fifth")
    means = mean_interval(placed, "score", cell, cluster="document", bounds=SCALE)
    level = placed.group_by("model").agg(pl.col("score").mean().alias("level"))
    missing = placed.group_by(*cell).agg(pl.col("missing").mean())
    shown = pl.concat_str("model", "bucket", separator=", ").alias("shown")
    off = (pl.col("score") - pl.col("level")).alias("off_mean")
    columns = ("shown", "fifth", "score", "score_low", "score_high", "score_reason", "off_mean", "missing", "n")
    joined = means.join(level, on="model").join(missing, on=cell)
    return joined.with_columns(shown, off).select(*columns).sort("shown", "fifth")


def summaries(samples: pl.DataFrame, ratings: pl.DataFrame, how: ScoreSettings) -> pl.DataFrame:
    """Return the figures of Summarizing by judge, model and domain: the mean rating per criterion; `outside`, the probability
    mass outside the scale; `missing`, the share of sections without a summary; and `copied`, the ratio of summary to section
    length. A ratio near 1 shows a copy, which no criterion penalizes. `n`: answers. `samples`: see `sample_counts`."""
    keys, cell = ("judge", "model", "domain"), ("model", "domain")
    own = ratings.filter(pl.col("reading") != "release").join(samples.select("item_id", *cell), on="item_id")
    means = own.group_by(*keys).agg(
        *(pl.col("value").filter(pl.col("criterion") == name).mean().alias(name) for name in release_metrics.CRITERIA),
        (1 - pl.col("mass")).mean().alias("outside"),
    )
    counted = (
        samples.filter(pl.col("task") == "Summarizing")
        .group_by(*cell)
        .agg(
            (pl.col("missing").sum() / pl.col("n_sections").filter(pl.col("missing").is_not_null()).sum()).alias("missing"),
            pl.col("copied").mean(),
            pl.col("missing").count().cast(pl.Int64).alias("n"),
            pl.len().cast(pl.Int64).alias("n_expected"),
        )
    )
    # A model that omits all sections has no ratings, but still gets a row.
    judges = pl.DataFrame({"judge": sorted({how.judge, *ratings["judge"]})}, schema={"judge": pl.String})
    rows = counted.join(judges, how="cross").join(means, on=keys, how="left")
    rows = rows.join(sample_counts(own, keys), on=keys, how="left")
    columns = (*keys, *release_metrics.CRITERIA, "outside", "missing", "copied", "n", "n_expected", "samples", "samples_expected")
    return rows.with_columns(pl.col("missing").fill_nan(None)).select(*columns).sort(*keys)
