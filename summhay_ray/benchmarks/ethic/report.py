"""What people are shown of an ETHIC run: the paper's tables with its own rows beside ours, and its figures. Part of the ethic
folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import polars as pl

from summhay_ray.benchmark import Chart, Section, Tables
from summhay_ray.benchmarks.ethic.records import COUNTS, LOOKUP

_TASKS = ("Recalling", "Summarizing", "Organizing", "Attributing")
_UNITS = "Recalling and Attributing: F1, %. Summarizing: 1 to 5. Organizing: longest common subsequence, %."
_OWN = "ours"


def tasks_json(tasks: pl.DataFrame) -> list[dict[str, Any]]:
    """A row for each task, domain and model, as the run's JSON document has it."""
    return [
        {
            **{name: row[name] for name in ("task", "domain", "model", "n_expected")},
            "n_scored": row["n"],
            "score": row["score"],
            "score_release": row["score_release"],
            "ci": None if row["score_low"] is None else [row["score_low"], row["score_high"]],
            "chance": row["chance"],
        }
        for row in tasks.iter_rows(named=True)
    ]


def sections(scores: Tables) -> list[Section]:
    """The report's sections."""
    return [one for one in _sections(scores) if one.table is not None and one.table.height]


def _sections(scores: Tables) -> Iterator[Section]:
    share = scores["tasks"].filter(pl.col("task") != "Summarizing")
    columns = ["task", "domain", "model", "score", "score_low", "score_high", "score_release", "difference"]
    yield Section(
        "Tasks",
        text="score: as we read answers. score_release: as the authors' scripts do, mistakes included. chance: what a random "
        "order scores.",
        table=share.select(*columns, "chance", "n", "n_expected"),
        units=dict.fromkeys(("score", "score_release", "difference", "chance"), "%"),
    )
    yield Section(
        "Summarizing",
        text="Rated from 1 to 5; a section without a summary has 1 in our score and is left out in the release's.",
        table=scores["tasks"].filter(pl.col("task") == "Summarizing").select(*columns, "n", "n_expected"),
    )
    yield Section("Table 3", text=_UNITS, table=table_3(scores["overall"]), notes=_notes())
    yield Section("Table A", text=f"By domain. {_UNITS}", table=table_a(scores["tasks"]), more=True)
    yield Section(
        "What became of the answers",
        text="cut: by the longest answer. unparsed: nothing to read as an answer. over_length: beyond the model's window.",
        table=scores["outcomes"],
    )
    yield Section(
        "Low and high coverage",
        text=f"{LOOKUP} asks for the names of one section (low), Recalling for those of all (high), of the same documents.",
        table=scores["low_high"],
        units=dict.fromkeys(("low", "high", "difference"), "%"),
    )
    yield Section(
        "By length of the prompt",
        text="The paper does not say where its buckets end; these end at powers of two. Summarizing is in points of 1 to 5.",
        table=scores["lengths"],
        more=True,
    )
    yield Section(
        "Ratings by the section's place",
        text="By model and length of the prompt. fifth: 1 is the context's beginning. off_mean: the rating less the mean. "
        "Sections without a summary are left out here.",
        table=scores["positions"],
        chart=Chart.matrix(x="fifth", y="shown", figure="off_mean"),
        more=True,
    )
    yield Section(
        "Summaries",
        text="con, faith, rel: means of the ratings. outside: probability beside the scale. missing: sections without a summary. "
        "copied: the summary's length beside its section's; near 1 it is a copy, and no criterion punishes that.",
        table=scores["summaries"],
        more=True,
    )
    yield Section(
        "Differences between models",
        text="Paired on the records that both answered; intervals and tests over documents, p_holm over all pairs of a task.",
        table=scores["differences"],
        more=True,
    )


def _published() -> dict[str, Any]:
    text = resources.files("summhay_ray.benchmarks.ethic").joinpath("published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _notes() -> Sequence[str]:
    return ("Rows of the paper are of its own data and judge: ours compare with them only on the released records.",)


def table_3(overall: pl.DataFrame) -> pl.DataFrame:
    """Table 3: a row for each of our models, then the paper's; n: our records."""
    rows = []
    for (model,), found in overall.group_by("model", maintain_order=True):
        row: dict[str, Any] = {
            "model": model,
            "from": _OWN,
            **dict.fromkeys(_TASKS),
            "n": int(found.filter(pl.col("task").is_in(_TASKS))["n"].sum()),
        }
        for task, value in found.select("task", "score").iter_rows():
            if task in _TASKS and value is not None:
                row[task] = value * (1 if task == "Summarizing" else 100)
        rows.append(row)
    for model, values in _published()["overall"].items():
        n = sum(sum(domains.values()) for domains in COUNTS.values())
        rows.append({"model": model, "from": "paper", **dict(zip(_TASKS, values, strict=True)), "n": n})
    return _typed(rows, _TASKS)


def table_a(tasks: pl.DataFrame) -> pl.DataFrame:
    """Table A: as Table 3, by domain; ours where the domain is one of the paper's."""
    names = _published()["columns"]
    rows: dict[str, dict[str, Any]] = {}
    for task, domain, model, value, n in tasks.select("task", "domain", "model", "score", "n").iter_rows():
        row = rows.setdefault(model, {"model": model, "from": _OWN, **dict.fromkeys(names), "n": 0})
        if f"{task}/{domain}" in names:
            row[f"{task}/{domain}"] = None if value is None else value * (1 if task == "Summarizing" else 100)
            row["n"] += n
    n = sum(sum(domains.values()) for domains in COUNTS.values())
    paper = [
        {"model": model, "from": "paper", **dict(zip(names, values, strict=True)), "n": n}
        for model, values in _published()["domains"].items()
    ]
    return _typed([*rows.values(), *paper], names)


def _typed(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"model": pl.String, "from": pl.String, **dict.fromkeys(names, pl.Float64), "n": pl.Int64})
