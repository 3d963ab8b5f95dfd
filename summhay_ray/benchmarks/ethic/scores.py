"""What an ETHIC run's rows come to: both readings of every answer, means with intervals by document, and the paper's analyses.

Part of the ethic folder; pure. A question that was not answered has no score and stays in `n_expected`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmark import Tables, mean_interval
from summhay_ray.benchmarks.ethic import release, scoring
from summhay_ray.benchmarks.ethic.records import LOOKUP
from summhay_ray.benchmarks.ethic.tables import ANSWERS, RATINGS, EthicAnswer, SectionRating
from summhay_ray.metrics import Resampling, with_holm

CELL = ("task", "domain", "model")
BUCKETS = (
    (16_384, "up to 16K"),
    (32_768, "up to 32K"),
    (65_536, "up to 64K"),
    (131_072, "up to 128K"),
    (math.inf, "beyond 128K"),
)
"""Tokens of the prompt; the paper does not say its own (Figure 4)."""
PLACES = 5
"""Fifths of a context, for where a section stands (Figure 5)."""
LOWEST = 1.0
"""What a section without a summary is rated."""
_MOST_PAIRS = 45
_CLASS_OF_ERROR = {
    "refusal": "refused",
    "content_filter": "refused",
    "empty_answer": "empty",
    "context_window": "over_length",
}
_SAMPLE = {
    **dict.fromkeys(("item_id", "model", "task", "domain", "record", "document", "answer", "bucket"), pl.String),
    **dict.fromkeys(("score", "score_release", "precision", "recall", "chance", "copied"), pl.Float64),
    **dict.fromkeys(("tokens", "missing", "n_sections"), pl.Int64),
    "truncated": pl.Boolean,
}


@dataclass(frozen=True, slots=True)
class How:
    """How answers are read."""

    reasoning: str
    judge: str
    seed: int


def score(tables: Tables, how: How) -> dict[str, pl.DataFrame]:
    """Table -> its rows: samples, tasks, overall, outcomes, lengths, coverage, positions, differences, summaries."""
    items = tables["items"]
    samples = pl.DataFrame(list(_samples(tables, how)), schema=_SAMPLE, orient="row")
    ratings = tables[RATINGS.name]
    return {
        "samples": samples,
        "tasks": tasks(samples, items, how.seed),
        "overall": overall(samples, items, how.seed),
        "outcomes": samples.group_by(*CELL, "answer").agg(pl.len().cast(pl.Int64).alias("n")).sort(*CELL, "answer"),
        "lengths": by_length(samples, how.seed),
        "low_high": low_high(samples, how.seed),
        "positions": positions(samples, ratings, how),
        "differences": differences(samples, how.seed),
        "summaries": summaries(samples, ratings),
    }


def _samples(tables: Tables, how: How) -> Iterator[dict[str, Any]]:
    answers = {row.item_id: row for row in ANSWERS.records(tables[ANSWERS.name])}
    raw = {row["key"]: row for row in tables["raw_answers"].select("key", "text", "finish_reason").iter_rows(named=True)}
    rated: dict[str, list[SectionRating]] = {}
    for rating in RATINGS.records(tables[RATINGS.name]):
        if rating.judge == how.judge:
            rated.setdefault(rating.item_id, []).append(rating)
    errors = {
        row["item_id"]: row["error"]
        for row in tables["failures"].iter_rows(named=True)
        if row["stage"] == "answer" or row["item_id"] not in answers
    }
    for item in tables["items"].iter_rows(named=True):
        row = answers.get(item["item_id"])
        head = {name: item[name] for name in ("item_id", "model", "task", "domain", "document")}
        yield {**dict.fromkeys(_SAMPLE), **head, **_sample(item, row, raw, rated, errors, how)}


def _sample(
    item: Mapping[str, Any],
    row: EthicAnswer | None,
    raw: Mapping[str, Mapping[str, Any]],
    rated: Mapping[str, Sequence[SectionRating]],
    errors: Mapping[str, str],
    how: How,
) -> dict[str, Any]:
    record = item["item_id"].rpartition("/")[2]
    if row is None:
        error = errors.get(item["item_id"])
        kind = "open" if error is None else _CLASS_OF_ERROR.get(error, "failed")
        # The scripts write a refusal as FAILED, and score an empty answer as any other.
        stands_for = {"refused": release.FAILED, "empty": ""}.get(kind)
        found = {"record": record, "answer": kind}
        if (
            stands_for is not None
            and item["task"] in ("Recalling", "Attributing", LOOKUP)
            or kind == "empty"
            and item["task"] == "Organizing"
        ):
            found["score_release"] = 0.0
        return found
    told = {
        "record": row.record,
        "tokens": row.tokens,
        "bucket": next(name for most, name in BUCKETS if row.tokens <= most),
        "truncated": row.truncated,
        "n_sections": len(row.sections),
    }
    if row.outcome != "answered":
        zero = LOWEST if row.task == "Summarizing" else 0.0
        scores = {"score": zero, "score_release": zero} if row.outcome == "zero" else {}
        return {**told, "answer": "over_length", **scores}
    answer = raw[row.key]
    text = scoring.without_reasoning(answer["text"]) if how.reasoning == "strip" else answer["text"]
    figures, unparsed = _figures(row, text, rated.get(row.item_id, ()))
    kind = "cut" if answer["finish_reason"] == "length" else "unparsed" if unparsed else "answered"
    return {**told, **figures, "answer": kind}


def _figures(row: EthicAnswer, text: str, rated: Sequence[SectionRating]) -> tuple[dict[str, Any], bool]:
    """Both readings of an answer, and whether there was nothing to read."""
    if row.task == "Summarizing":
        return _summarized(row, text, rated)
    if row.task == "Organizing":
        read, gold = scoring.order(text), row.gold[0]
        numbers = scoring.numbers_of(gold)
        found: dict[str, Any] = {"score": scoring.lcs(read.items, numbers)[1], "chance": scoring.chance(len(numbers))}
        if text != release.FAILED:
            found["score_release"] = release.organizing(text, gold)[1]
        return found, read.unparsed
    if row.task == "Attributing":
        read = scoring.attributed(text)
        strict, released = scoring.overlap(read, scoring.gold_ids(row.gold)), release.attributing(text, row.gold)
    else:
        read = scoring.items(text)
        strict, released = scoring.overlap(read, scoring.gold_items(row.gold)), release.recalling(text, row.gold)
    told = {"score": float(strict.f1), "precision": float(strict.precision), "recall": float(strict.recall)}
    return {**told, "score_release": float(released.f1)}, read.unparsed


def _summarized(row: EthicAnswer, text: str, rated: Sequence[SectionRating]) -> tuple[dict[str, Any], bool]:
    said = scoring.sections(text)
    missing = [number for number in row.sections if not said.get(number)]
    by_section: dict[int, list[SectionRating]] = {}
    for rating in rated:
        by_section.setdefault(rating.section, []).append(rating)
    values = [LOWEST] * len(missing) + [math.fsum(one.value for one in found) / len(found) for found in by_section.values()]
    # A section whose ratings all failed has no figure, and so has the sample: the others do not stand for it.
    lost = any(said.get(number) and number not in by_section for number in row.sections)
    lengths = dict(zip(row.sections, row.section_tokens, strict=True))
    copied = [found[0].summary_tokens / max(1, lengths[number]) for number, found in by_section.items()]
    exact = {int(header.split()[1][:-1]) for header in release.bodies(text, row.domain)}
    counted = [one for number, found in by_section.items() if number in exact for one in found]
    figures: dict[str, Any] = {
        "score": None if lost else scoring.mean(values),
        "missing": len(missing),
        "copied": scoring.mean(copied),
        # Their sums are divided by a third of all answers, criterion by criterion, and averaged: the mean of all answers.
        "score_release": scoring.mean(one.released for one in counted),
    }
    return figures, not said


def tasks(samples: pl.DataFrame, items: pl.DataFrame, seed: int) -> pl.DataFrame:
    """A row for each task, domain and model: our score with its interval over documents, the release's, the chance level."""
    found = mean_interval(samples, "score", CELL, expected=items, seed=seed, cluster="document")
    beside = samples.group_by(*CELL).agg(
        pl.col("score_release", "chance").mean(), pl.col("score_release").count().alias("n_release")
    )
    return found.join(beside, on=CELL, how="left").with_columns(
        (pl.col("score") - pl.col("score_release")).alias("difference"), pl.col("n_release").cast(pl.Int64)
    )


def overall(samples: pl.DataFrame, items: pl.DataFrame, seed: int) -> pl.DataFrame:
    """A row for each task and model: the mean of all samples, as the release has it, and that of the domains' means (`macro`)."""
    found = mean_interval(samples, "score", ("task", "model"), expected=items, seed=seed, cluster="document")
    domains = samples.group_by(*CELL).agg(pl.col("score").mean())
    macro = domains.group_by("task", "model").agg(pl.col("score").mean().alias("macro"))
    released = samples.group_by("task", "model").agg(pl.col("score_release").mean(), pl.col("chance").mean())
    return found.join(macro, on=("task", "model"), how="left").join(released, on=("task", "model"), how="left")


def by_length(samples: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Scores by the length of the prompt (Figure 4)."""
    known = samples.filter(pl.col("bucket").is_not_null())
    order = pl.Enum([name for _, name in BUCKETS])
    found = mean_interval(known, "score", ("task", "model", "bucket"), expected=known, seed=seed, cluster="document")
    return found.sort("task", "model", pl.col("bucket").cast(order))


def low_high(samples: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Recalling from one section (low coverage) and from the whole context (high) on the same documents (Figure 3)."""
    rows = []
    for (model,), found in samples.filter(pl.col("score").is_not_null()).group_by("model", maintain_order=True):
        means = found.group_by("task", "document").agg(pl.col("score").mean())
        low, high = (means.filter(pl.col("task") == task).select("document", "score") for task in (LOOKUP, "Recalling"))
        both = low.join(high, on="document", suffix="_high").sort("document")
        if both.is_empty():
            continue
        found_difference = Resampling(both["document"].to_list(), seed).difference(
            both["score"].to_numpy(), both["score_high"].to_numpy()
        )
        assert found_difference is not None
        names = ("difference", "p")
        told = {
            "low": found_difference.a,
            "high": found_difference.b,
            **{name: getattr(found_difference, name) for name in names},
        }
        ends = {"difference_low": found_difference.low, "difference_high": found_difference.high}
        rows.append({"model": model, **told, **ends, "n": found_difference.n_queries})
    figures = ("low", "high", "difference", "p", "difference_low", "difference_high")
    return pl.DataFrame(rows, schema={"model": pl.String, **dict.fromkeys(figures, pl.Float64), "n": pl.Int64})


def positions(samples: pl.DataFrame, ratings: pl.DataFrame, how: How) -> pl.DataFrame:
    """Ratings of sections by where they stand, and by the prompt's length (Figure 5); sections without a summary are not here."""
    own = ratings.filter(pl.col("judge") == how.judge).join(
        samples.select("item_id", "model", "document", "bucket"), on="item_id"
    )
    if own.is_empty():
        empty = {"shown": pl.String, "fifth": pl.Int64, "score": pl.Float64, "off_mean": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(schema=empty)
    fifth = (pl.col("place") * PLACES).floor().clip(0, PLACES - 1).cast(pl.Int64) + 1
    placed = own.with_columns(fifth.alias("fifth"))
    means = placed.group_by("item_id", "model", "document", "bucket", "fifth", "section").agg(
        pl.col("value").mean().alias("score")
    )
    found = mean_interval(means, "score", ("model", "bucket", "fifth"), seed=how.seed, cluster="document")
    level = means.group_by("model").agg(pl.col("score").mean().alias("level"))
    shown = pl.concat_str("model", "bucket", separator=", ").alias("shown")
    off = (pl.col("score") - pl.col("level")).alias("off_mean")
    columns = ("shown", "fifth", "score", "score_low", "score_high", "off_mean", "n")
    return found.join(level, on="model").with_columns(shown, off).select(*columns).sort("shown", "fifth")


def differences(samples: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Paired differences of two models on the records that both answered, by task; intervals and tests over documents."""
    rows = []
    for (task,), found in samples.group_by("task", maintain_order=True):
        wide = found.with_columns(pl.concat_str("domain", "record", separator="/").alias("_key")).pivot(
            "model", index=("_key", "document"), values="score"
        )
        models = [name for name in wide.columns if name not in ("_key", "document") and wide[name].count()]
        resampling = Resampling(wide["document"].to_list(), seed)
        pairs = list(itertools.islice(itertools.combinations(models, 2), _MOST_PAIRS))
        kept = [
            (a, b, resampling.difference(*(wide[one].cast(pl.Float64).fill_null(math.nan).to_numpy() for one in (a, b))))
            for a, b in pairs
        ]
        there = [(a, b, one) for a, b, one in kept if one is not None]
        corrected = with_holm([one for _, _, one in there])
        for (a, b, _), one in zip(there, corrected, strict=True):
            told = asdict(one)
            figures = {name: told[name] for name in ("difference", "p", "p_holm")}
            rows.append(
                {
                    "task": task,
                    "model": a,
                    "other": b,
                    **figures,
                    "difference_low": one.low,
                    "difference_high": one.high,
                    "n": one.n_queries,
                }
            )
    names = ("difference", "p", "p_holm", "difference_low", "difference_high")
    schema = {**dict.fromkeys(("task", "model", "other"), pl.String), **dict.fromkeys(names, pl.Float64), "n": pl.Int64}
    return pl.DataFrame(rows, schema=schema).sort("task", "model", "other")


def summaries(samples: pl.DataFrame, ratings: pl.DataFrame) -> pl.DataFrame:
    """Of Summarizing: each judge's means by criterion, the mass outside the scale, sections without a summary, and how long a
    summary is beside its section: near 1 it is a copy, which no criterion punishes."""
    own = ratings.join(samples.select("item_id", "model", "domain"), on="item_id")
    means = own.group_by("judge", "model", "domain", "criterion").agg(pl.col("value").mean())
    schema = dict.fromkeys(("judge", "model", "domain"), pl.String)
    wide = (
        means.pivot("criterion", index=("judge", "model", "domain"), values="value")
        if means.height
        else pl.DataFrame(schema=schema)
    )
    wide = wide.with_columns(
        [pl.lit(None, dtype=pl.Float64).alias(name) for name in release.CRITERIA if name not in wide.columns]
    )
    mass = own.group_by("judge", "model", "domain").agg((1 - pl.col("mass")).mean().alias("outside"))
    counted = (
        samples.filter(pl.col("task") == "Summarizing")
        .group_by("model", "domain")
        .agg(
            (pl.col("missing").sum() / pl.col("n_sections").sum()).alias("missing"),
            pl.col("copied").mean(),
            pl.len().cast(pl.Int64).alias("n"),
        )
    )
    keys = ("judge", "model", "domain")
    found = wide.join(mass, on=keys, how="left").join(counted, on=("model", "domain"), how="left")
    return found.select(*keys, *release.CRITERIA, "outside", "missing", "copied", "n").sort(*keys)
