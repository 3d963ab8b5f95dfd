"""Pure functions that compute scores from ratings: correlation with human scores, difference from the full document, choice
of a method."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from summhay_ray.benchmark import ByQuery, Tables
from summhay_ray.benchmarks.extract_evaluate.agreement import agreement
from summhay_ray.benchmarks.extract_evaluate.choice import SMALL, Cell, choose, front
from summhay_ray.benchmarks.extract_evaluate.spec import CUT, FULL
from summhay_ray.metrics import COEFFICIENTS, Bootstrap, Correlations, between_means, correlations, mean_within
from summhay_ray.outcome import MICROS

PAIR = ("dataset", "doc_id", "system_id")
"""The columns that identify a source and one summary of it."""
TASK = ("dataset", "criterion", "rater")
"""The columns that identify a task, which is one table of the paper."""
BINS = 10
"""Number of equal parts of a source, for the positions of extracted sentences."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the scores, which are not part of the run's identity."""

    seed: int
    resamples: int
    splits: int
    price_per_mtok: float
    failed_as: float | None = None
    """The rating to use for a malformed answer; None leaves it out. Failed calls are always left out."""


@dataclass(frozen=True)
class Column:
    """The ratings of one cell (method and budget), in the task's order of pairs."""

    method: str
    budget: int
    ratings: Sequence[float | None]
    found: Correlations
    drawn: Mapping[str, Any]
    """Coefficient -> its values in the resamples."""
    usd: float | None
    prompt_tokens: float | None

    @property
    def place(self) -> dict[str, Any]:
        return {"method": self.method, "budget": self.budget}

    @property
    def cell(self) -> Cell:
        """The cell in the form that `choose` expects: its budget is None for the full document."""
        return Cell(self.method, self.budget or None, self.found.pearson, self.found.spearman, self.usd)


@dataclass(frozen=True)
class Task:
    """All ratings of one dataset by one rater for one criterion."""

    names: Mapping[str, str]
    documents: Sequence[str]
    systems: Sequence[str]
    human: Sequence[float | None]
    columns: Sequence[Column]
    boot: Bootstrap | None
    """None without human scores."""
    scored: Sequence[int]
    """Positions of the pairs with a human score; the bootstrap covers only these."""

    def of(self, method: str) -> Column | None:
        """Return the column of a full-document method (FULL or CUT), or None if the run has none."""
        return next((column for column in self.columns if column.method == method), None)


def measured(tables: Tables, settings: Settings) -> Tables:
    tasks = list(_tasks(tables, settings))
    tokens = pl.col("tokens")
    figures = [tokens.mean().alias("mean"), *(tokens.quantile(q, "linear").alias(f"q{100 * q:.0f}") for q in (0.25, 0.75))]
    over = (tokens > pl.col("budget")).sum().cast(pl.Int64).alias("over_budget")
    counts = [over, (tokens == 0).sum().cast(pl.Int64).alias("empty"), pl.len().cast(pl.Int64).alias("n")]
    return {
        "correlations": _frame([row for task in tasks for row in _correlations(task)], CORRELATIONS),
        "differences": _frame([row for task in tasks for row in _differences(task)], DIFFERENCES),
        "agreement": _frame([row for task in tasks for row in _agreement(task)], AGREEMENT),
        "levels": _frame([row for task in tasks for row in _levels(task)], LEVELS),
        "choices": _frame([row for task in tasks for row in _choices(task, settings)], CHOICES),
        "metrics": _frame(list(_metrics(tables, settings)), METRICS),
        "lengths": tables["extracts"]
        .group_by("dataset", "method", "budget")
        .agg(*figures, *counts)
        .sort("dataset", "method", "budget"),
        "positions": _positions(tables["extracts"]),
    }


def by_query(tables: Tables) -> ByQuery:
    """Return two figures per system and criterion. Systems are METHOD@BUDGET_RATER or, for the full document, METHOD_RATER.

    One figure is the Pearson correlation with people within a document, if people scored it; its query is the document. The
    other is the rating; its query is the summary.
    """
    at = pl.when(pl.col("budget") > 0).then(pl.concat_str(pl.lit("@"), "budget")).otherwise(pl.lit(""))
    rated = tables["extract_ratings"].with_columns(
        pl.concat_str("method", at, pl.lit("_"), "rater").alias("system"),
        pl.concat_str("dataset", "doc_id", separator="/").alias("cluster"),
    )
    rated = rated.join(tables["human_scores"], on=[*PAIR, "criterion"], how="left")
    parts = []
    for (criterion,), rows in rated.group_by("criterion", maintain_order=True):
        within = [
            (*names, mean_within(own["rating"].to_list(), own["score"].to_list(), [0] * own.height)[0].pearson)
            for names, own in rows.drop_nulls("score").group_by("system", "cluster", maintain_order=True)
        ]
        figure = f"{criterion}: Pearson"
        frame = pl.DataFrame(within, schema={"system": pl.String, "cluster": pl.String, figure: pl.Float64}, orient="row")
        parts.append(frame.with_columns(query=pl.col("cluster")))
        ratings = rows.select("system", "cluster", pl.concat_str("cluster", "system_id", separator="/").alias("query"), "rating")
        parts.append(ratings.rename({"rating": f"{criterion}: rating"}))
    if not parts:
        return ByQuery(pl.DataFrame(schema=dict.fromkeys(("system", "cluster", "query", "rating"), pl.String)))
    keys = ["system", "cluster", "query"]
    whole = pl.concat(parts, how="diagonal")
    figures = [name for name in whole.columns if name not in keys and whole[name].count()]
    scores = whole.group_by(keys, maintain_order=True).agg(pl.col(figures).drop_nulls().first())
    # Equal ratings have no correlation.
    return ByQuery(scores, {}, "document", may_lack=[name for name in figures if name.endswith(": Pearson")])


_NAMES = dict.fromkeys(TASK, pl.String)
_CELL = {"method": pl.String, "budget": pl.Int64}
_COUNTS = {"n": pl.Int64, "n_expected": pl.Int64}
_FIGURES = {f"{name}{end}": pl.Float64 for name in COEFFICIENTS for end in ("", "_low", "_high")}
CORRELATIONS = {
    **_NAMES,
    **_CELL,
    **_FIGURES,
    "usd": pl.Float64,
    "prompt_tokens": pl.Float64,
    "on_front": pl.Boolean,
    "documents": pl.Int64,
    **_COUNTS,
    "reason": pl.String,
}
DIFFERENCES = {**_NAMES, **_CELL, "against": pl.String, "level": pl.String, **_FIGURES, "n": pl.Int64}
AGREEMENT = {
    **_NAMES,
    **_CELL,
    "pearson": pl.Float64,
    "concordance": pl.Float64,
    "same": pl.Float64,
    "difference": pl.Float64,
    "usd": pl.Float64,
    "spared": pl.Float64,
    "n": pl.Int64,
}
LEVELS = {**_NAMES, **_CELL, "level": pl.String, **_FIGURES, **_COUNTS, "reason": pl.String}
CHOICES = {
    **_NAMES,
    "choice": pl.String,
    **_CELL,
    **{f"{name}{end}": pl.Float64 for name in ("pearson", "spearman") for end in ("", "_low", "_high")},
    "usd": pl.Float64,
    "share": pl.Float64,
    "n": pl.Int64,
}
METRICS = {"dataset": pl.String, "criterion": pl.String, "metric": pl.String, **_FIGURES, **_COUNTS, "reason": pl.String}
Schema = Mapping[str, Any]


def _frame(rows: Sequence[Mapping[str, Any]], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=dict(schema), orient="row")


# --- ratings by task -----------------------------------------------------------------------------------------------------


def _tasks(tables: Tables, settings: Settings) -> Iterator[Task]:
    """Yield the tasks. A task has every item, joined with its rating, if any, and with the human score of its summary."""
    key = [*PAIR, "method", "budget", "criterion", "rater"]
    columns = [*key, "rating", "prompt_tokens", "usd_micros"]
    malformed = tables["failures"].filter(pl.col("kind") == "malformed")["item_id"].unique()
    items = tables["items"].select(*key, malformed=pl.col("item_id").is_in(malformed.implode()))
    given = items.join(tables["extract_ratings"].select(columns), on=key, how="left", maintain_order="left")
    given = given.join(tables["human_scores"], on=[*PAIR, "criterion"], how="left", maintain_order="left")
    for names, rows in given.group_by(TASK, maintain_order=True):
        yield _task(dict(zip(TASK, map(str, names), strict=True)), rows, settings)


def _task(names: Mapping[str, str], rows: pl.DataFrame, settings: Settings) -> Task:
    places = rows.unique(PAIR, keep="first", maintain_order=True)
    pairs = places.select("doc_id", "system_id", "score")
    documents, systems, human = (pairs[name].to_list() for name in pairs.columns)
    scored = [place for place, score in enumerate(human) if score is not None]
    boot = None
    if scored:
        at = [documents[place] for place in scored]
        boot = Bootstrap.over([human[place] for place in scored], at, settings.seed, settings.resamples)
    paid = bool(rows["usd_micros"].fill_null(0).sum())
    columns = []
    for (method, budget), asked in rows.group_by("method", "budget", maintain_order=True):
        # In an unfinished run, some cells may lack pairs that others have.
        cell = places.select(PAIR).join(asked, on=PAIR, how="left", maintain_order="left")
        answers = zip(cell["rating"].to_list(), cell["malformed"].to_list(), strict=True)
        ratings = [settings.failed_as if rating is None and malformed else rating for rating, malformed in answers]
        drawn = boot.of([ratings[place] for place in scored]) if boot else {}
        tokens = _mean(cell["prompt_tokens"])
        usd = _mean(cell["usd_micros"]) if paid else tokens
        if usd is not None:
            usd = usd / MICROS if paid else usd * settings.price_per_mtok / MICROS
        unscored = Correlations(None, None, None, "the data has no scores of people for this criterion")
        correlated = correlations(ratings, human) if scored else unscored
        columns.append(Column(str(method), int(str(budget)), ratings, correlated, drawn, usd, tokens))
    return Task(names, documents, systems, human, columns, boot, scored)


def _mean(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_list()
    return math.fsum(known) / len(known) if known else None


# --- correlations --------------------------------------------------------------------------------------------------------


def _correlations(task: Task) -> Iterator[dict[str, Any]]:
    """Yield one row per cell (Tables 3 and 4)."""
    known = [column for column in task.columns if column.found.pearson is not None and column.found.spearman is not None]
    on_front = {(cell.method, cell.budget or 0) for cell in front([column.cell for column in known])}
    for column in task.columns:
        row = {**task.names, **column.place, **_figures(column.found, column.drawn, task.boot)}
        there = {document for document, rating in zip(task.documents, column.ratings, strict=True) if rating is not None}
        yield {
            **row,
            "usd": column.usd,
            "prompt_tokens": column.prompt_tokens,
            "on_front": (column.method, column.budget) in on_front,
            "documents": len(there),
            "n": column.found.n if task.boot else sum(rating is not None for rating in column.ratings),
            # If only some pairs have human scores, the rest are not counted as missing.
            "n_expected": len(task.scored) if task.boot else len(column.ratings),
            "reason": column.found.reason,
        }


def _figures(correlated: Correlations, drawn: Mapping[str, Any], boot: Bootstrap | None) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    for name in COEFFICIENTS:
        value = getattr(correlated, name)
        low, high = (boot.interval(drawn[name]) if boot and value is not None else None) or (None, None)
        row |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return row


def _differences(task: Task) -> Iterator[dict[str, Any]]:
    """Yield each cell's correlation minus that of FULL, and of CUT, on the same pairs and resamples, at each level."""
    for against in filter(None, map(task.of, (FULL, CUT))):
        for column in task.columns:
            if column is against or not task.boot:
                continue
            both = [a is not None and b is not None for a, b in zip(column.ratings, against.ratings, strict=True)]
            mine, other = ([r if there else None for r, there in zip(c.ratings, both, strict=True)] for c in (column, against))
            for level, first, second in zip(LEVEL_NAMES, _at_levels(task, mine), _at_levels(task, other), strict=True):
                row: dict[str, Any] = {**task.names, **column.place, "against": against.method, "level": level, "n": first.n}
                for name in COEFFICIENTS:
                    a, b = getattr(first.found, name), getattr(second.found, name)
                    if a is not None and b is not None:
                        low, high = task.boot.interval(first.drawn[name] - second.drawn[name]) or (None, None)
                        row |= {name: a - b, f"{name}_low": low, f"{name}_high": high}
                # If Pearson is undefined, write a row for the first level only.
                if level == LEVEL_NAMES[0] or "pearson" in row:
                    yield row


def _agreement(task: Task) -> Iterator[dict[str, Any]]:
    """Yield the agreement of each cell's ratings with those from the full document, and the share of its dollars that the
    cell saves."""
    full = task.of(FULL)
    for column in task.columns if full is not None else ():
        if column is full or full is None:
            continue
        both = [(a, b) for a, b in zip(full.ratings, column.ratings, strict=True) if a is not None and b is not None]
        agreed = agreement([a for a, _ in both], [b for _, b in both])
        spared = 1 - column.usd / full.usd if column.usd is not None and full.usd else None
        yield {**task.names, **column.place, **asdict(agreed), "usd": column.usd, "spared": spared}


def _levels(task: Task) -> Iterator[dict[str, Any]]:
    """Yield correlations within documents (mean) and between the systems' means. The paper has only pooled correlations."""
    for column in task.columns if task.boot else ():
        for level, at in list(zip(LEVEL_NAMES, _at_levels(task, column.ratings), strict=True))[1:]:
            figures = _figures(at.found, at.drawn, task.boot)
            counts = {"n": at.n, "n_expected": at.n_expected, "reason": at.found.reason}
            yield {**task.names, **column.place, "level": level, **figures, **counts}


LEVEL_NAMES = ("pooled", "within documents", "between systems")


@dataclass(frozen=True)
class AtLevel:
    """The correlations of one cell at one level."""

    found: Correlations
    drawn: Mapping[str, Any]
    """Coefficient -> its values in the resamples."""
    n: int
    """The number of pairs, documents or systems (by level) behind the figure."""
    n_expected: int


def _at_levels(task: Task, ratings: Sequence[float | None]) -> Sequence[AtLevel]:
    """Return the correlations of ratings at each of `LEVEL_NAMES`. Ratings are in the task's order of pairs. The task needs a
    bootstrap."""
    assert task.boot is not None
    given, human = ([of[place] for place in task.scored] for of in (ratings, task.human))
    documents, systems = ([of[place] for place in task.scored] for of in (task.documents, task.systems))
    pooled = correlations(given, human)
    within, n = mean_within(given, human, documents)
    between = between_means(given, human, systems)
    return (
        AtLevel(pooled, task.boot.of(given), pooled.n, len(human)),
        AtLevel(within, task.boot.within(given, documents), n, len(set(documents))),
        AtLevel(between, task.boot.between(given, systems), between.n, len(set(systems))),
    )


def _choices(task: Task, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the rows of Table 2: the source, whole (FULL) and as the paper's code cuts it (CUT); the cells that the paper's rule
    chooses; and the same again, chosen on one half of the documents and measured on the other."""
    if task.boot is None:
        return
    by_place = {(column.method, column.budget): column for column in task.columns}
    for name in (FULL, CUT):
        if (column := task.of(name)) is not None:
            yield _choice_row(task, name, column)
    best, small = choose([column.cell for column in task.columns])
    for name, cell in (("best", best), (f"best up to {SMALL} tokens", small)):
        if cell is not None:
            yield _choice_row(task, name, by_place[cell.method, cell.budget or 0])
    if best is not None and settings.splits and task.boot.n_clusters >= 4:
        yield from _held_out(task, settings)


def _choice_row(task: Task, name: str, column: Column) -> dict[str, Any]:
    figures = _figures(column.found, column.drawn, task.boot)
    return {**task.names, "choice": name, **column.place, **figures, "usd": column.usd, "n": column.found.n}


def _held_out(task: Task, settings: Settings) -> Iterator[dict[str, Any]]:
    """Choose on one half of the documents and measure on the other. Yields the mean over all splits, and the range of the
    middle 95 %."""
    documents = [task.documents[place] for place in task.scored]
    human = [score for score in task.human if score is not None]
    halves = Bootstrap.halves(human, documents, settings.seed, settings.splits)
    extracts = [column for column in task.columns if column.budget]
    fulls = [column for column in task.columns if not column.budget]
    figures = {
        id(column): [half.of([column.ratings[place] for place in task.scored]) for half in halves]
        for column in (*extracts, *fulls)
    }

    def sums(column: Column) -> NDArray[np.float64]:
        first = figures[id(column)][0]
        both: NDArray[np.float64] = first["pearson"] + first["spearman"]
        return np.where(np.isfinite(both), both, -np.inf)

    for name, choice in (
        ("best", extracts),
        (f"best up to {SMALL} tokens", [column for column in extracts if column.budget <= SMALL]),
    ):
        if not choice:
            continue
        on_first = np.stack([sums(column) for column in choice])
        picked = on_first.argmax(axis=0)
        some = np.isfinite(on_first.max(axis=0))
        held = {c: np.array([figures[id(choice[p])][1][c][s] for s, p in enumerate(picked)])[some] for c in _PAPERS}
        often, times = (
            Counter(int(p) for p, ok in zip(picked, some, strict=True) if ok).most_common(1)[0] if some.any() else (0, 0)
        )
        usd = [choice[int(p)].usd for p in picked]
        place = choice[often].place
        yield {
            **task.names,
            "choice": f"{name}, held out",
            **place,
            **_mean_and_range(held),
            "usd": None if None in usd else math.fsum(filter(None, usd)) / len(usd),
            "share": times / len(picked),
            "n": len(human),
        }
    for column in fulls:
        yield {
            **task.names,
            "choice": f"{column.method}, held out",
            **column.place,
            **_mean_and_range({c: figures[id(column)][1][c] for c in _PAPERS}),
            "usd": column.usd,
            "n": len(human),
        }


_PAPERS = ("pearson", "spearman")
"""The coefficients that the paper reports and uses for its choice."""


def _mean_and_range(values: Mapping[str, NDArray[np.float64]]) -> dict[str, float | None]:
    """Return the mean over the splits, and the range of the middle 95 % of them."""
    row: dict[str, float | None] = {}
    for name, drawn in values.items():
        kept = drawn[np.isfinite(drawn)]
        ends = [float(end) for end in np.quantile(kept, (0.025, 0.975))] if len(kept) else [None, None]
        row |= {name: float(kept.mean()) if len(kept) else None, f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return row


# --- metrics, lengths, positions -----------------------------------------------------------------------------------------


def _metrics(tables: Tables, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the baselines of Table 2, by dataset and criterion."""
    both = tables["human_scores"].join(tables["metric_scores"], on=PAIR, how="inner", suffix="_of_metric")
    for (dataset, criterion, metric), rows in both.sort(*PAIR).group_by("dataset", "criterion", "metric", maintain_order=True):
        ratings, human = rows["score_of_metric"].to_list(), rows["score"].to_list()
        boot = Bootstrap.over(human, rows["doc_id"].to_list(), settings.seed, settings.resamples)
        correlated = correlations(ratings, human)
        names = {"dataset": dataset, "criterion": criterion, "metric": metric}
        figures = _figures(correlated, boot.of(ratings), boot)
        yield {**names, **figures, "n": correlated.n, "n_expected": len(human), "reason": correlated.reason}


def _positions(extracts: pl.DataFrame) -> pl.DataFrame:
    """Return Figure 2: the share of extracted sentences in each tenth of the source. Every extract has the same weight. The
    budget is the largest of at most 1024 tokens, else the smallest."""
    budgets = sorted(set(extracts["budget"].to_list()))
    budget = max([limit for limit in budgets if limit <= SMALL], default=budgets[0] if budgets else SMALL)
    chosen = extracts.filter((pl.col("budget") == budget) & (pl.col("index").list.len() > 0))
    rows = []
    for (dataset, method), some in chosen.group_by("dataset", "method", maintain_order=True):
        shares = [0.0] * BINS
        for index, n_sentences in some.select("index", "n_sentences").iter_rows():
            for number in index:
                shares[number * BINS // n_sentences] += 1 / len(index)
        rows += [
            {"dataset": dataset, "method": method, "budget": budget, "part": part, "share": share / some.height, "n": some.height}
            for part, share in enumerate(shares, 1)
        ]
    schema = {"dataset": pl.String, "method": pl.String, "budget": pl.Int64, "part": pl.Int64, "share": pl.Float64, "n": pl.Int64}
    return _frame(rows, schema).sort("dataset", "method", "part")
