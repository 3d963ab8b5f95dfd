"""The report sections of an ETHIC run: its scores, the paper's tables with the paper's rows next to ours, and breakdowns, such as
by length of the prompt."""

import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import polars as pl

from summhay_ray.benchmark import Chart, Section, Tables
from summhay_ray.benchmarks.ethic.records import COUNTS, LOOKUP

_TASKS = ("Recalling", "Summarizing", "Organizing", "Attributing")
_UNITS = "Recalling and Attributing: F1, %. Summarizing: 1 to 5. Organizing: longest common subsequence, %."
_COUNTS = ("n", "n_release", "n_both", "n_expected")
_READINGS = {"score_release": "ours, as the scripts score", "score": "ours, as we read"}
"""Score column -> name of our row in the paper's tables. The paper's own rows are scored by the scripts."""
_SIZES = {"score": "n", "score_release": "n_release"}


def sections(scores: Tables) -> Iterator[Section]:
    """Yield the report's sections. Some are empty, such as those of tasks that the run does not have."""
    share = scores["tasks"].filter(pl.col("task") != "Summarizing")
    columns = ["task", "domain", "model", "score", "score_low", "score_high", "score_reason", "score_floor"]
    columns += ["score_release", "difference"]
    yield Section(
        "Tasks",
        text="score: by our reading of the answers, over n. score_release: by the authors' scripts, mistakes included, over "
        "n_release. difference: score minus score_release, over n_both. chance: the score of a random order.",
        table=share.select(*columns, "chance", *_COUNTS),
        units=dict.fromkeys(("score", "score_release", "difference", "chance"), "%"),
        higher_is_better=("score", "score_release"),
    )
    yield Section(
        "Summarizing",
        text="Ratings from 1 to 5. A section without a summary counts as 1 in our score, and not at all in the release's.",
        table=scores["tasks"].filter(pl.col("task") == "Summarizing").select(*columns, *_COUNTS),
        higher_is_better=("score", "score_release"),
    )
    notes = (
        "The paper's rows are the scripts' scores on the paper's data, by its judge. Only our rows scored as the scripts do, on "
        "the released records, compare with them.",
        "paper, from Table A: the means of Table A's domains, weighted by their records. They contradict some of Table 3, "
        "such as its Attributing.",
    )
    yield Section("Table 3", text=_UNITS, table=table_3(scores["overall"]), notes=notes)
    names = _published()["columns"]
    n = sum(sum(domains.values()) for domains in COUNTS.values())
    paper = [
        {"model": model, "from": "paper", **dict(zip(names, values, strict=True)), "n": n}
        for model, values in _published()["domains"].items()
    ]
    column = pl.concat_str("task", "domain", separator="/").alias("column")
    yield Section(
        "Table A",
        text=f"By domain. {_UNITS}",
        table=_typed([*_own_rows(scores["tasks"].with_columns(column), names), *paper], names),
        more=True,
    )
    yield Section(
        "What became of the answers",
        text="cut: at max_tokens. unparsed: no readable answer. over_length: the prompt exceeds the model's window.",
        table=scores["outcomes"],
    )
    yield Section(
        "Low and high coverage",
        text=f"On the same documents: {LOOKUP} asks for the names of one section (low), Recalling for those of all (high).",
        table=scores["low_high"],
        units=dict.fromkeys(("low", "high", "difference"), "%"),
    )
    yield Section(
        "By length of the prompt",
        text="The paper does not state the ends of its buckets; ours are powers of two. Summarizing is in points from 1 to 5.",
        table=scores["lengths"],
        more=True,
    )
    yield Section(
        "Ratings by the section's place",
        text="By model and length of the prompt. fifth: 1 is the context's beginning. off_mean: score minus the model's mean. "
        "A section without a summary counts as 1; missing is the share of such sections.",
        table=scores["positions"],
        units={"missing": "%"},
        chart=Chart.matrix(x="fifth", y="shown", figure="off_mean"),
        more=True,
    )
    yield Section(
        "Summaries",
        text="con, faith, rel: mean ratings. outside: probability outside the scale. missing: sections without a summary. "
        "copied: length of the summary relative to its section; near 1 it is a copy, which no criterion penalizes. samples: "
        "answers of the judge that could be read, of samples_expected that were asked for; empty where log probabilities rate.",
        table=scores["summaries"],
        more=True,
    )


def _published() -> dict[str, Any]:
    text = resources.files("summhay_ray.benchmarks.ethic").joinpath("published.json").read_text(encoding="utf-8")
    published: dict[str, Any] = json.loads(text)
    return published


def table_3(overall: pl.DataFrame) -> pl.DataFrame:
    """Return Table 3: our models in both readings, then the paper's rows, as printed and as computed from Table A. `n`:
    scored records (all records for the paper)."""
    rows = list(_own_rows(overall.with_columns(pl.col("task").alias("column")), _TASKS))
    published, n = _published(), sum(sum(domains.values()) for domains in COUNTS.values())
    for model, values in published["overall"].items():
        rows.append({"model": model, "from": "paper", **dict(zip(_TASKS, values, strict=True)), "n": n})
        by_domain = dict(zip(published["columns"], published["domains"][model], strict=True))
        means = {
            task: sum(by_domain[f"{task}/{domain}"] * size for domain, size in COUNTS[task].items()) / sum(COUNTS[task].values())
            for task in _TASKS
        }
        rows.append({"model": model, "from": "paper, from Table A", **means, "n": n})
    return _typed(rows, _TASKS)


def _own_rows(scores: pl.DataFrame, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield two rows per model, one per reading. The value in `column` is the name (one of `names`) under which a score is
    shown."""
    kept = scores.filter(pl.col("column").is_in(names))
    for (model,), rows in kept.group_by("model", maintain_order=True):
        for value, reading in _READINGS.items():
            row: dict[str, Any] = {"model": model, "from": reading, **dict.fromkeys(names), "n": int(rows[_SIZES[value]].sum())}
            for column, score in rows.select("column", value).iter_rows():
                row[column] = None if score is None else score * (1 if column.startswith("Summarizing") else 100)
            yield row


def _typed(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"model": pl.String, "from": pl.String, **dict.fromkeys(names, pl.Float64), "n": pl.Int64})
