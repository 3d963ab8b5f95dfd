"""The sections of an ODSum run's report, laid out as the paper's Tables 2 to 5, and the attribution of the texts."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from summhay_ray.benchmark import Chart, Section, Tables
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.benchmarks.odsum.scores import NAMES, OWN_N, SYSTEM
from summhay_ray.benchmarks.retrieval import retrieval_section

SHOWN = ("rouge1", "rouge2", "rougeL", *OWN_N)
"""The metrics in the paper's tables."""
_ENDS = ("", "_low", "_high", "_reason", "_floor")
GEVAL = "G-EVAL is on its scale of 1 to 5, each query counting once; the paper's figures of 0 to 100 fit (rating - 1) / 4 x 100."


def sections(scores: Tables, collection: Collection, token_budget: int | None = None) -> list[Section]:
    """Return the report's sections. Those that the run does not measure are left out."""
    retrieval, summaries, lost, ratings = (scores[name] for name in ("retrieval", "summaries", "robustness", "ratings"))
    listed = []
    if retrieval.height:
        # The rows at the token budget have the layout of SummHay's table.
        at_budget = retrieval_section(retrieval.filter(pl.col("k").is_null()), token_budget)
        listed = [_retrieval(retrieval), replace(at_budget, title="Retrieval, at the token budget", more=True)]
    measured = [name for name in SHOWN if summaries.height and summaries[name].count()]
    if summaries.height:
        listed.append(_summaries(summaries, measured))
    if lost.height:
        listed.append(_loss_section(lost, measured))
    if measured and summaries["retriever"].count():
        listed.append(_paper_section(summaries, measured))
    if ratings.height:
        figures = ("rating", "rating_low", "rating_high", "rating_reason", "rating_floor", "pooled")
        several = ["rater"] if ratings["rater"].n_unique() > 1 else []
        listed.append(
            Section(
                "G-EVAL by criterion",
                text="Rating: each query counts once, with its best reference or the mean over references, as the spec says. "
                "Pooled: the mean over all readable answers, as in the release; empty where ratings are weighed by log "
                "probabilities. Queries with a failed rating are in neither. samples: answers that could be read, of "
                "samples_expected that were asked for.",
                table=ratings.select(*SYSTEM, *several, "criterion", "n", "n_expected", *figures, "samples", "samples_expected"),
                more=True,
            )
        )
    counts = f"{len(collection.documents)} documents, {len(collection.queries)} queries."
    listed.append(Section("The collection", text=f"{counts} {collection.attribution}".strip(), notes=collection.warnings))
    return listed


def _retrieval(frame: pl.DataFrame) -> Section:
    named = {"f1": "F1", "precision": "P", "ndcg": "nDCG", "ap": "AP"}
    shown = [name for name in ("precision", "f1", "recall", "ndcg", "ap") if frame[name].count()]
    columns = [f"{figure}{end}" for figure in shown for end in _ENDS]
    renamed = {f"{figure}{end}": f"{to}{end}" for figure, to in named.items() if figure in shown for end in _ENDS}
    table = frame.filter(pl.col("k").is_not_null()).select("retriever", "k", "n", "n_expected", *columns).rename(renamed)
    return Section(
        "Retrieval, by documents retrieved",
        text='The layout of Table 2. Its "R@K" is the mean over queries of F1; recall has a column of its own.',
        table=table,
        units=dict.fromkeys([named.get(figure, figure) for figure in shown], "%"),
        # Nothing can be measured if every retriever fails or no gold document is known.
        chart=Chart.line(x="k", y="F1", series="retriever") if "f1" in shown else None,
    )


def _summaries(frame: pl.DataFrame, measured: Sequence[str]) -> Section:
    columns = [f"{metric}{end}" for metric in measured for end in _ENDS]
    # A metric with fewer scores than the rest (after failed ratings, for example) gets its own n column.
    fewer = {metric: f"n_{metric}" for metric in OWN_N if metric in measured and (frame[f"n_{metric}"] < frame["n_scored"]).any()}
    own_n = [pl.col(counted).alias(f"n of {NAMES[metric]}") for metric, counted in fewer.items()]
    table = frame.select("model", "strategy", "retriever", "k", pl.col("n_scored").alias("n"), "n_expected", *own_n, *columns)
    table = table.rename({f"{metric}{end}": f"{NAMES[metric]}{end}" for metric in measured for end in _ENDS})
    return Section(
        "Summaries",
        text="Means over the n scored summaries of n_expected; failed and empty answers are left out."
        + (f" {GEVAL}" if "geval" in measured else ""),
        table=table,
        units={NAMES[metric]: "%" for metric in measured if not metric.startswith("geval")},
        higher_is_better=[NAMES[metric] for metric in measured],
    )


def _loss_section(frame: pl.DataFrame, measured: Sequence[str]) -> Section:
    """Return the layout of Table 5: for each metric, the oracle's value, and the loss with a retriever's documents."""
    index = ["model", "strategy", "k", "retriever"]
    parts = []
    for metric in measured:
        part = frame.filter(pl.col("metric") == metric)
        name = NAMES[metric]
        parts.append(
            part.select(
                *index,
                pl.col("n").alias(f"n of {metric}"),
                pl.col("oracle").alias(name),
                pl.col("lost").alias(f"{name} lost"),
                pl.col("lost_low").alias(f"{name} lost_low"),
                pl.col("lost_high").alias(f"{name} lost_high"),
                pl.col("lost_reason").alias(f"{name} lost_reason"),
            )
        )
    table = parts[0]
    for part in parts[1:]:
        table = table.join(part, on=index, how="full", coalesce=True, nulls_equal=True)
    counted = [f"n of {metric}" for metric in measured]
    table = table.with_columns(pl.max_horizontal(counted).alias("n"))
    # A metric with fewer values than the rest gets its own n column.
    fewer = [name for name in counted if (table[name].fill_null(0) < table["n"]).any()]
    figures = [name for name in table.columns if name not in (*index, "n", *counted)]
    named = [name for name in figures if not name.endswith(("_low", "_high", "_reason"))]
    return Section(
        "What retrieval's errors cost",
        text="The layout of Table 5: the figure with the oracle's documents (all gold ones), and the loss when the same model "
        "and strategy see the retriever's instead: the mean difference per query, over queries answered in both settings, with "
        "its 95 % interval.",
        table=table.select(*index, "n", *(pl.col(name).alias(f"n of {NAMES[name[5:]]}") for name in fewer), *figures),
        units={name: "%" for name in named if not name.startswith(NAMES["geval"])},
    )


def _paper_section(summaries: pl.DataFrame, measured: Sequence[str]) -> Section:
    """Return the layout of Tables 3 and 4: one row per retriever, with ROUGE-2, BERTScore and G-EVAL of each model."""
    own, rows = summaries.filter(pl.col("retriever").is_not_null()), ["strategy", "k", "retriever"]
    metrics = [name for name in ("rouge2", *OWN_N) if name in measured]
    least = pl.min_horizontal(*("n_rouge" if name == "rouge2" else f"n_{name}" for name in metrics)).min()
    counts = least.alias("n"), pl.col("n_expected").max()
    table = own.group_by(rows, maintain_order=True).agg(*counts)
    for model in own["model"].unique(maintain_order=True):
        named = (pl.col(name).alias(f"{model}: {NAMES[name]}") for name in metrics)
        table = table.join(own.filter(pl.col("model") == model).select(*rows, *named), on=rows, how="left", nulls_equal=True)
    units = {name: "%" for name in table.columns if ": " in name and NAMES["geval"] not in name}
    text = "One row per retriever and k; n is that of the model and metric with the fewest scored summaries."
    return Section("As in Tables 3 and 4, by model", text=text, table=table, units=units, more=True)
