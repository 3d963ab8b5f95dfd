"""The paper's tables from a run: coverage, citation and joint by model and retriever (Table 2), by ordering (Table 3), and so
on.

Each table is a section of the run's report, next to sections that the paper lacks: cost, failures, agreement of judges.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray.benchmark import Chart, RunStore, Section
from summhay_ray.benchmarks.panels import panel_figures, panels_section
from summhay_ray.benchmarks.retrieval import retrieval_section
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata, gold_by_query, insights_with_gold, stored_metadata
from summhay_ray.benchmarks.summhay.results.compare import against_ideal, mean_costs
from summhay_ray.benchmarks.summhay.results.judges import all_rows, judge_of_record, judged_pieces, judges_of
from summhay_ray.benchmarks.summhay.results.other_figures import claims_section, nuggets_section
from summhay_ray.benchmarks.summhay.results.scores import ORACLES, ScoreResult
from summhay_ray.comparison import ENDS
from summhay_ray.metrics import FEWEST, FEWEST_UNITS, WEIGHTINGS, Z_95, SystemScore, column_place, pearson, rank_agreement
from summhay_ray.outcome import MICROS
from summhay_ray.records import COVERAGE_VALUE, column_of
from summhay_ray.sections import Pivot

PEOPLE = "People (paper)"
PEOPLE_ROW = {"retriever": "oracle", "coverage": 0.745, "citation": 0.739, "joint": 0.561, "words": 29.7}
"""Human performance (paper, Table 2): two annotators, ten summaries, in the oracle setting."""
FIGURES = ("coverage", "citation", "joint")
BULLETS = {"words": "words_per_bullet"}
"""Columns of the results that describe bullets -> field of `SystemScore`."""
ENDS_OF = ("_low", "_high", "_reason", "_floor")
_BINS = ((1, 2), (3, 5), (6, 10), (11, 20), (21, None))
"""Ranges of the number of documents that contain an insight."""
_FLOORED = ("coverage", "coverage_floor", "joint", "joint_floor")
_ORDERINGS = ("top", "middle", "random", "given", "bottom")


def sections(result: ScoreResult, judge: str = "") -> list[Section]:
    """Return all sections of a run (which may be in progress), except those that compare its systems. `judge`: the judge of
    record, if not the run's own."""
    run = result.stored
    scored = [name for name in result.biases if any(system.n_scored for system in _systems_by(result, name))]
    if not scored:
        return []
    best = judge_of_record(run, judge)
    listed = [best, *(name for name in scored if name != best)]
    metadata = stored_metadata(run.store, run.record)
    # The paper's figures are no reference for other documents and queries.
    of_paper = all(haystack.of_paper for haystack in metadata)
    results = [_results(result, name, more=name != best, of_paper=of_paper) for name in listed]
    bias, *agreement = _judges(run, result)
    if best not in scored:
        note = f"Nothing is scored by {best} yet. For another judge's figures, give --judge NAME."
        return [bias, replace(results[0], notes=[note]), *results[1:], *agreement]
    costs = {system: (usd, tokens) for system, usd, tokens in mean_costs(run).iter_rows()}
    raw, by = f", raw ({_bias(result, best)}), judged by {best}", f", judged by {best}"
    made = [
        (raw, _release(result, best)),
        (by, nuggets_section(result.by_query, best)),
        *([(raw, _people(result, best))] if of_paper else []),
        (by, _corrected(result, best)),
        *((raw, section) for section in _cost(costs, result, best)),
        (raw, _retrieval(run, result, best, metadata)),
        (by, _lost(result, best)),
        (raw, _position(result, best)),
        *((raw, section) for section in _breakdowns(run, result, best, metadata)),
        (raw, _citations(result, best)),
    ]
    # Keep the slug of the shorter title.
    named = [
        replace(section, title=f"{section.title}{head}", name=section.name or section.title)
        for head, section in made
        if section is not None
    ]
    claims = claims_section(result.by_query, best)
    rankings = []
    if result.retrieval is not None:
        # The rows are rankings. A column `retriever` would link them to the samples of a retriever.
        ranked = retrieval_section(result.retrieval, None)
        assert ranked.table is not None
        rankings = [replace(ranked, table=ranked.table.rename({"retriever": "ranking"}), name="rankings")]
    return [bias, *results, *([claims] if claims else []), *named, *rankings, *agreement]


def brief_sections(result: ScoreResult, ranked: bool) -> list[Section]:
    """Return the sections for a terminal: how much is scored so far, the results (unless a leaderboard shows them), and
    claims."""
    claims = claims_section(result.by_query, result.judge)
    scored = any(system.n_scored for system in result.by_query if system.judge == result.judge)
    nothing = f"Nothing is scored: 0 of {sum(system.n_expected for system in result.by_query):,} insights"
    sections = [Section(said) for said in [result.so_far or ("" if scored else nothing)] if said]
    if scored and not ranked:
        sections.append(replace(_results(result, result.judge, more=False, of_paper=False), notes=()))
    return [*sections, *([claims] if claims else [])]


def _systems_by(result: ScoreResult, judge: str) -> list[SystemScore]:
    """Return the systems by one judge, with equal weight for each query."""
    return [system for system in result.by_query if system.judge == judge]


def _interval(system: SystemScore, name: str, column: str = "") -> dict[str, float | str | None]:
    """Return a figure's value, interval, floor, and the reason if it is missing. `column`: the name of its column, if not the
    figure's."""
    column, (low, high) = column or name, system.ci.get(name, (None, None))
    ends = {f"{column}_low": low, f"{column}_high": high, f"{column}_reason": system.ci_reasons.get(name)}
    return {column: getattr(system, name), **ends, f"{column}_floor": system.floor(name)}


def _bias(result: ScoreResult, judge: str) -> str:
    """Return the judge's bias against people, for a title."""
    bias = result.biases.get(judge)
    return "bias unknown" if bias is None else f"bias {100 * bias.mean:+.1f} ±{100 * Z_95 * bias.se:.1f} points"


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _results(result: ScoreResult, judge: str, more: bool, of_paper: bool) -> Section:
    """Return coverage, citation and joint by one judge (paper, Table 2). `more`: this is not the judge of record. `of_paper`:
    the haystacks are the paper's, so the paper's human figures are shown."""
    silent = any(system.missing for system in _systems_by(result, judge))
    rows: list[dict[str, Any]] = [
        {
            "model": system.model,
            "retriever": system.column,
            **{name: part for figure in FIGURES for name, part in _interval(system, figure).items()},
            **{column: getattr(system, name) for column, name in BULLETS.items()},
            **({"missing": system.missing} if silent else {}),
            "n": system.n_scored,
            "n_expected": system.n_expected,
        }
        for system in _systems_by(result, judge)
    ]
    if of_paper:
        rows.append({**dict.fromkeys(rows[0]), "model": PEOPLE, **PEOPLE_ROW})
    rows.sort(key=lambda row: (row["model"] == PEOPLE, row["model"], column_place(row["retriever"])))
    over = "further haystacks" if len(result.haystacks) >= FEWEST_UNITS else "further queries of these haystacks only"
    text = (
        f"{WEIGHTINGS['queries'].capitalize()} in this table and in all that rank or compare. Coverage, citation and joint by "
        f"summarizer and retriever, in per cent, with 95 % intervals for {over}; words: per bullet."
    )
    if of_paper:
        text += (
            " The last row is people's performance in the paper, with the oracle's documents and up to two hours per summary "
            "(Figure 3); insights weigh the same there. Their citations: precision 78.8, recall 82.4 (Table 7)."
        )
    reasons = [pl.col(f"{figure}_reason").cast(pl.String) for figure in FIGURES]
    frame = _frame(rows).with_columns(pl.col(*FIGURES, *BULLETS).cast(pl.Float64), *reasons)
    rest = (*BULLETS, "missing") if silent else tuple(BULLETS)
    pivot = Pivot("model", "retriever", FIGURES, rest, reference=(PEOPLE,))
    chart = Chart.bar("model", "joint", "retriever")
    name = f"results {judge}" if more else "results"
    title, units = (
        f"Results, raw ({_bias(result, judge)}), judged by {judge}",
        dict.fromkeys((*FIGURES, *rest[len(BULLETS) :]), "%"),
    )
    notes = [result.so_far] if result.so_far and not more else []
    return Section(title, text, frame, units, chart, pivot, name, notes=notes, more=more, higher_is_better=FIGURES)


def _release(result: ScoreResult, judge: str) -> Section:
    """Return the release's own table (paper, Table 2)."""
    own = [system for system in result.systems if system.judge == judge]
    rows = [
        {
            "model": system.model,
            "retriever": system.column,
            **{figure: getattr(system, figure) for figure in FIGURES},
            "n": system.n_scored,
            "n_expected": system.n_expected,
        }
        for system in sorted(own, key=lambda system: (system.model, column_place(system.column)))
    ]
    text = (
        f"{WEIGHTINGS['insights'].capitalize()}, as in the paper's Table 2 and the release's script. Nothing is ranked by these."
    )
    frame = _frame(rows).with_columns(pl.col(*FIGURES).cast(pl.Float64))
    return Section(
        "As the release computes it", text, frame, dict.fromkeys(FIGURES, "%"), name="release", higher_is_better=FIGURES
    )


def _people(result: ScoreResult, judge: str) -> Section:
    """Return what the paper reports in Figure 3, next to the best systems of the run."""
    scored = [system for system in _systems_by(result, judge) if system.joint is not None and not system.incomplete]
    best = sorted(scored, key=lambda system: (-(system.floor("joint") or 0.0), system.system))[:5]
    reached = {figure: PEOPLE_ROW[figure] for figure in FIGURES}
    rows: list[dict[str, Any]] = [{"model": PEOPLE, "retriever": "oracle", "minutes": "80 to 120", **reached, "n": 10}]
    rows += [
        {
            "model": system.model,
            "retriever": system.column,
            "minutes": "",
            **{figure: getattr(system, figure) for figure in FIGURES},
            "n": system.n_scored,
        }
        for system in best
    ]
    text = (
        "Figure 3 of the paper draws how two people's coverage and citation grew over sessions of up to two hours, measured "
        "every ten minutes: rapidly in the first 90 minutes, and slower in the last 30. It prints no values along the curve, so "
        "none is drawn here: the first row is where it ends (n: summaries), the others are the best systems (n: insights)."
    )
    return Section("People over their reading time (Figure 3)", text, _frame(rows), dict.fromkeys(FIGURES, "%"), name="people")


def _cost(spent: Mapping[str, tuple[float, float]], result: ScoreResult, judge: str) -> Iterator[Section]:
    """Yield cost against quality, in dollars and in tokens. `spent`: system -> micro-dollars and tokens of a summary."""
    rows = [
        {
            "system": system.label,
            "model": system.model,
            "dollars a query": spent[system.system][0] / MICROS,
            "tokens a query": spent[system.system][1],
            **_interval(system, "joint"),
            "n": system.n_scored,
            "n_expected": system.n_expected,
        }
        for system in _systems_by(result, judge)
        if system.system in spent
    ]
    if not rows:
        why = "These summaries were not made here: what they cost is not known."
        yield Section("Cost and quality", why, name="cost_quality")
        return
    # If no model costs anything, tokens are the cost.
    costs = [cost for cost in ("dollars a query", "tokens a query") if any(row[cost] for row in rows)]
    for title, cost in zip(("Cost and quality", "Tokens and quality"), costs, strict=False):
        text = f"Mean {cost} for its summary, against joint. The line is the Pareto front: systems that no other beats in both."
        frame = _frame(rows).select(pl.exclude(*({"dollars a query", "tokens a query"} - {cost})))
        yield Section(
            title, text, frame, {"joint": "%"}, Chart.scatter(cost, "joint", "model", front=True), name=title.replace(" and", "")
        )


def _retrieval(run: RunStore, result: ScoreResult, judge: str, metadata: Sequence[HaystackMetadata]) -> Section | None:
    """Return recall and precision of the contexts against joint."""
    wanted = {row[:2]: set(row[2]) for row in gold_by_query(run, metadata).iter_rows()}
    by_system: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for piece in run.pieces("contexts"):
        for row in piece.iter_rows(named=True):
            needed, shown = wanted.get((row["haystack_id"], row["subtopic_id"]), set()), set(row["numbers"])
            if needed and shown:
                right = len(needed & shown)
                by_system.setdefault((row["retriever"], row["ordering"]), []).append((right / len(needed), right / len(shown)))
    scores = _systems_by(result, judge)
    rows = []
    for (retriever, ordering), shares in sorted(by_system.items()):
        own = [
            score.joint
            for score in scores
            if (score.retriever, score.ordering) == (retriever, ordering) and score.joint is not None and not score.incomplete
        ]
        rows.append(
            {
                "retriever": column_of(retriever, ordering),
                "recall": sum(share[0] for share in shares) / len(shares),
                "precision": sum(share[1] for share in shares) / len(shares),
                "joint": sum(own) / len(own) if own else None,
                "n": len(shares),
            }
        )
    if not rows:
        return None
    text = (
        "Recall: the share of the documents with a query's insights that the context shows. Precision: the share of the shown "
        "documents that have such an insight. Both are over queries; joint is the mean of the complete systems with it."
    )
    text += "".join(f" {correlation_text(name, rows)}" for name in ("recall", "precision"))
    units = dict.fromkeys(("recall", "precision", "joint"), "%")
    return Section(
        "Retrieval and joint", text, _frame(rows), units, Chart.scatter("recall", "joint", "retriever"), name="retrieval"
    )


def _lost(result: ScoreResult, judge: str) -> Section | None:
    """Return the cost of retrieval errors for each model and strategy: ODSum's Table 5, extended to joint and citations."""
    systems = {system.system: system for system in _systems_by(result, judge)}
    retrievers = {system.retriever for system in systems.values()} - {*ORACLES, "full", "released/full"}
    compared = against_ideal(result, judge, ORACLES, sorted(retrievers))
    if compared is None:
        return None
    rows: dict[str, dict[str, Any]] = {}
    for pair in compared.table.iter_rows(named=True):
        other, figure = systems[pair["system_b"]], pair["figure"]
        row = rows.setdefault(other.system, {"model": other.model, "retriever": other.column, "n": pair["n_queries"]})
        row |= {figure: pair["a"], **{f"{figure} lost{end}": pair[name] for end, name in ENDS.items()}}
        # A summary without a covered insight has no citations to score.
        if figure == "citation":
            row["n of citation"] = pair["n_queries"]
    text = (
        "The oracle's figure, and the loss when the same model and strategy see a retriever's documents instead: the mean "
        "difference per query, over queries answered in both settings (asked by ODSum, Table 5). The 95 % intervals of a figure "
        f"hold the truth together, for {next(iter(compared.about.values()))}."
    )
    units = {name: "%" for figure in FIGURES for name in (figure, f"{figure} lost")}
    frame = _frame(sorted(rows.values(), key=lambda row: (row["model"], row["retriever"])))
    return Section("What retrieval's errors cost", text, frame, units, name="lost", notes=compared.warnings)


def correlation_text(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Describe the correlation of a column with joint over the rows that have both. Empty for fewer than three rows, or if a
    column is constant."""
    pairs = [(row[name], row["joint"]) for row in rows if row["joint"] is not None]
    if len(pairs) < 3:
        return ""
    first, second = zip(*pairs, strict=True)
    linear, ranked = pearson(first, second), rank_agreement(first, second).spearman
    if linear is None or ranked is None:
        return ""
    return f"Over the {len(pairs)} rows, {name} and joint correlate with Pearson's r {linear:.3f}, Spearman's {ranked:.3f}."


def _position(result: ScoreResult, judge: str) -> Section | None:
    """Return joint by the position of the relevant documents (paper, Table 3)."""
    sensitivity = {effect.model: effect.sensitivity for effect in result.position if effect.judge == judge}
    rows = [
        {
            "model": system.model,
            "ordering": system.ordering,
            **_interval(system, "joint"),
            "sensitivity": sensitivity.get(system.model),
            "n": system.n_scored,
            "n_expected": system.n_expected,
        }
        for system in _systems_by(result, judge)
        if system.retriever == "full"
    ]
    if len({row["ordering"] for row in rows}) < 2:
        return None
    orderings = {str(row["ordering"]) for row in rows}
    ordered = pl.Enum([*(name for name in _ORDERINGS if name in orderings), *sorted(orderings - set(_ORDERINGS))])
    frame = _frame(rows).with_columns(pl.col("ordering").cast(ordered), pl.col("sensitivity").cast(pl.Float64))
    frame = frame.sort("ordering", "model").with_columns(pl.col("ordering").cast(pl.String))
    text = (
        "Joint when a model sees the whole haystack, by the position of the query's documents (paper, Table 3). Sensitivity: the "
        "larger difference of top and bottom from random order or, without it, from the haystack's own order (given)."
    )
    chart = Chart.line("ordering", "joint", "model")
    return Section(
        "Position sensitivity",
        text,
        frame,
        {"joint": "%", "sensitivity": "points"},
        chart,
        Pivot("model", "ordering", ("joint",), ("sensitivity",)),
        "position",
        higher_is_better=("joint",),
    )


def _breakdowns(run: RunStore, result: ScoreResult, judge: str, metadata: Sequence[HaystackMetadata]) -> Iterator[Section]:
    """Yield coverage by the number of documents that contain an insight, by haystack, and by subtopic."""
    counts = _by_documents(run, result, judge, metadata)
    if counts.height:
        labels = [f"{low}" if low == high else f"{low} or more" if high is None else f"{low} to {high}" for low, high in _BINS]
        counted = counts.with_columns(pl.col("bin").replace_strict(dict(enumerate(labels))).alias("documents"))
        yield Section(
            "Coverage by how many documents hold the insight",
            "Coverage of the insights that this many documents contain: the mean over queries, then over retrievers. If all "
            "models share some retrievers, only these count.",
            counted.select("model", "documents", *_FLOORED, "n", "n_expected"),
            {"coverage": "%", "joint": "%"},
            Chart.line("documents", "coverage", "model"),
            Pivot("model", "documents", ("coverage", "joint")),
            "frequency",
            higher_is_better=("coverage", "joint"),
        )
    if len(result.haystacks) > 1:
        haystacks = [
            {
                "model": system.model,
                "retriever": system.column,
                "haystack": name,
                **_interval(system, "coverage"),
                **_interval(system, "joint"),
                "n": system.n_scored,
                "n_expected": system.n_expected,
            }
            for name, systems in result.haystacks_by_query.items()
            for system in systems
            if system.judge == judge
        ]
        yield Section(
            "Coverage by haystack",
            "Coverage and joint of each system in each haystack.",
            _frame(haystacks),
            {"coverage": "%", "joint": "%"},
            name="haystacks",
        )
    if section := _by_subtopic(result, judge, metadata):
        yield section


def _by_subtopic(result: ScoreResult, judge: str, metadata: Sequence[HaystackMetadata]) -> Section | None:
    """Return the mean coverage of each subtopic, next to that of the best system."""
    best = max(_systems_by(result, judge), key=lambda system: (not system.incomplete, system.floor("joint") or 0.0))
    names = {haystack.haystack_id: haystack.name for haystack in metadata}
    topics = {
        (haystack.haystack_id, topic.subtopic_id): topic.name or topic.text
        for haystack in metadata
        for topic in haystack.subtopics
    }
    by_query = (
        result.queries.filter(pl.col("judge") == judge)
        .group_by("haystack_id", "subtopic_id")
        .agg(
            pl.col("coverage", "joint").mean(),
            pl.col("coverage").filter(pl.col("system") == best.system).first().alias("best"),
            pl.col("n").sum().cast(pl.Int64),
        )
    )
    rows = [
        {
            "haystack": names.get(row["haystack_id"], row["haystack_id"]),
            "subtopic": topics.get((row["haystack_id"], row["subtopic_id"]), row["subtopic_id"]),
            "coverage": row["coverage"],
            "joint": row["joint"],
            f"coverage of {best.label}": row["best"],
            "n": row["n"],
        }
        for row in by_query.sort("haystack_id", "coverage", "subtopic_id").iter_rows(named=True)
    ]
    if not rows:
        return None
    units = dict.fromkeys(("coverage", "joint", f"coverage of {best.label}"), "%")
    text = f"Means over all systems, the hardest subtopic of a haystack first, next to {best.label}, the best by joint."
    chart = Chart.bar("subtopic", "coverage", "haystack")
    return Section("Coverage by subtopic", text, _frame(rows), units, chart, name="subtopics")


def _by_documents(run: RunStore, result: ScoreResult, judge: str, metadata: Sequence[HaystackMetadata]) -> pl.DataFrame:
    """Return one row per model and bin of `_BINS`: the means, their floors and n. Only one piece of the scores is in memory at
    a time.

    A mean is taken over the queries of each retriever and ordering first, and then over these pairs. If some pairs lack a query,
    it thus does not give the others more weight.
    """
    place, edge = ["haystack_id", "subtopic_id"], pl.lit(0)
    for number, (low, _) in enumerate(_BINS):
        edge = pl.when(pl.col("gold").list.len() >= low).then(number).otherwise(edge)
    insights = pl.concat(insights_with_gold(run, metadata))
    held = insights.rename({"documents": "gold"}).filter(pl.col("gold").list.len() > 0).with_columns(bin=edge)
    sizes = held.group_by(*place, "bin").agg(size=pl.len().cast(pl.Int64))
    in_query = insights.group_by(place).agg(whole=pl.len())
    # Number of times a system was asked about a query: its expected insights divided by the query's.
    asked = result.expected.filter(pl.col("judge") == judge).join(in_query, on=place)
    asked = asked.with_columns(n_expected=pl.col("n_expected") // pl.col("whole")).join(sizes, on=place)
    due = asked.select(
        "system", "retriever", "ordering", "model", *place, "bin", n_expected=pl.col("n_expected") * pl.col("size")
    )
    parts = []
    for summaries, scores in judged_pieces(run, "scores", [judged for judged in judges_of(run) if judged.judge == judge]):
        rows = scores.filter(pl.col("gold").list.len() > 0).select("cell_id", "coverage", "joint", bin=edge)
        rows = rows.join(summaries.select("cell_id", "system", *place), on="cell_id")
        parts.append(rows.group_by("system", *place, "bin").agg(pl.col("coverage", "joint").sum(), n=pl.len().cast(pl.Int64)))
    summed = pl.concat(parts).group_by("system", *place, "bin").agg(pl.col("coverage", "joint", "n").sum())
    cells = due.join(summed, on=["system", *place, "bin"], how="left").with_columns(pl.col("n").fill_null(0))
    columns = cells.group_by("retriever", "ordering").agg(models=pl.col("model").n_unique())
    shared = columns.filter(pl.col("models") == cells["model"].n_unique()).select("retriever", "ordering")
    cells = cells.join(shared, on=["retriever", "ordering"]) if shared.height else cells
    means = [(pl.col(name) / pl.col("n")).fill_nan(None).mean().alias(name) for name in _FLOORED[::2]]
    means += [(pl.col(name).fill_null(0.0) / pl.col("n_expected")).mean().alias(f"{name}_floor") for name in _FLOORED[::2]]
    by_column = cells.group_by("model", "bin", "retriever", "ordering").agg(*means, pl.col("n", "n_expected").sum())
    whole = by_column.group_by("model", "bin").agg(pl.col(_FLOORED).mean(), pl.col("n", "n_expected").sum())
    return whole.filter(pl.col("n") > 0).sort("model", "bin")


def _citations(result: ScoreResult, judge: str) -> Section | None:
    """Return citation precision and recall (paper, Table 7)."""
    rows = [
        {
            "model": system.model,
            "retriever": system.column,
            "precision": system.citation_precision,
            "recall": system.citation_recall,
            "citation": system.citation,
            "n": system.n_covered,
            "n_expected": system.n_covered + max(0, system.n_expected - system.n_scored),
        }
        for system in _systems_by(result, judge)
        if system.citation is not None
    ]
    if not rows:
        return None
    text = (
        "Precision: the share of the documents cited by a bullet that contain the insight. Recall: the share of the documents "
        "with the insight that are cited (paper, Table 7)."
    )
    units = dict.fromkeys(("precision", "recall", "citation"), "%")
    chart = Chart.scatter("recall", "precision", "retriever")
    return Section("Citation precision against recall", text, _frame(rows), units, chart, name="citations")


def _corrected(result: ScoreResult, judge: str) -> Section | None:
    """Return raw figures next to those without the judge's bias and those corrected by people's labels. None without any
    correction."""
    rows = []
    for system in _systems_by(result, judge):
        if system.labels is None and (result.n_labels or system.coverage_corrected is None):
            continue
        row: dict[str, Any] = {"system": system.label}
        for figure in ("joint", "coverage"):
            row |= {figure: getattr(system, figure), **_interval(system, f"{figure}_corrected", f"{figure} without bias")}
            row |= _interval(system, f"{figure}_labelled", f"{figure} by labels")
        n = {"n": system.n_scored, "n_expected": system.n_expected} if system.labels is None else {"n": system.labels.n}
        rows.append(row | n)
    if not rows and not result.n_labels:
        return None
    if result.labelled_mean:
        row = {"system": "mean of all systems, pooled labels"}
        for figure, one in result.labelled_mean.items():
            row |= {f"{figure} by labels": one.value, f"{figure} by labels_low": one.low, f"{figure} by labels_high": one.high}
        rows.append({**row, "n": result.n_labels})
    text = "Without bias: after subtracting the judge's bias, as measured on other annotations."
    by_labels = (
        "What people would say of all judgments, as estimated from the labels of some and the judge's scores of all (prediction-"
        f"powered inference, Angelopoulos et al. 2023). A system is corrected by its own labels if it has {FEWEST} or more: a "
        "judge errs differently on different systems. The mean of all systems pools all labels; its interval is for the "
        "judgments at hand. "
    )
    frame = _frame(rows)
    frame = frame.select(name for name in frame.columns if frame[name].null_count() < frame.height)
    figures = [name for name in frame.columns if name.startswith(("joint", "coverage")) and not name.endswith(ENDS_OF)]
    title, name = "Corrected for the judge's bias", "corrected"
    if result.n_labels:
        text, name = by_labels + text, "labels"
        title = f"Corrected by {result.n_labels} labels of people, each system by its own"
    labelled = [name for name in figures if name.endswith("by labels")]
    return Section(title, text, frame, dict.fromkeys(figures, "%"), name=name, tab="judge", higher_is_better=labelled)


def _judges(run: RunStore, result: ScoreResult) -> Iterator[Section]:
    """Yield the known bias of each judge relative to people, and the agreement of the judges."""
    rows = []
    for judge, bias in result.biases.items():
        mine = [system for system in _systems_by(result, judge) if system.coverage is not None]
        n = sum(system.n_scored for system in mine)
        mean = sum(system.coverage or 0.0 for system in mine) / len(mine) if mine else None
        known = {"bias": bias.mean if bias else None, "bias ±": Z_95 * bias.se if bias else None}
        source = bias.source if bias else "nobody has measured it: summhay judge-bench does"
        rows.append({"judge": judge, "coverage": mean, **known, "measured on": source, "n": n})
    text = (
        "All figures are raw unless a title says otherwise. Bias is how far a judge's coverage lies above people's, in points "
        "(paper, Table 6); coverage: the mean of the systems."
    )
    frame = _frame(rows).with_columns(pl.col("coverage", "bias", "bias ±").cast(pl.Float64))
    yield Section(
        "Judges and their bias", text, frame, {"coverage": "%", "bias": "points", "bias ±": "points"}, name="judges", tab="judge"
    )
    if len(result.biases) > 1:
        yield from _agreement(run)
    yield from panels_section(
        panel_figures(all_rows(run, "votes"), ("judge", "panel"), ("cell_id", "position"), "coverage", COVERAGE_VALUE)
    )


def _agreement(run: RunStore) -> Iterator[Section]:
    """Yield the agreement of each pair of judges. Sums are accumulated piece by piece, so that memory stays bounded."""
    judges = judges_of(run)
    pairs = list(itertools.combinations(sorted(judge.judge for judge in judges), 2))
    x, y = pl.col("coverage"), pl.col("coverage_2")
    linked = pl.col("bullet").is_not_null() & pl.col("bullet_2").is_not_null()
    sums = {
        "n": pl.len(),
        "x": x.sum(),
        "y": y.sum(),
        "xx": (x * x).sum(),
        "yy": (y * y).sum(),
        "xy": (x * y).sum(),
        "same": (x == y).sum(),
        "linked": linked.sum(),
        "same_bullet": (linked & (pl.col("bullet") == pl.col("bullet_2"))).sum(),
    }
    parts: dict[tuple[str, str], list[pl.DataFrame]] = {pair: [] for pair in pairs}
    for _, scores in judged_pieces(run, "scores", judges):
        by_judge = scores.select("cell_id", "insight_id", "judge", "coverage", "bullet").partition_by("judge", as_dict=True)
        for first, second in pairs:
            if (first,) in by_judge and (second,) in by_judge:
                both = by_judge[first,].join(by_judge[second,], on=("cell_id", "insight_id"), suffix="_2")
                parts[first, second].append(both.select(value.alias(name) for name, value in sums.items()))
    rows = []
    for (first, second), frames in parts.items():
        total = {} if not frames else pl.concat(frames).sum().row(0, named=True)
        if n := total.get("n", 0):
            spread = math.sqrt((n * total["xx"] - total["x"] ** 2) * (n * total["yy"] - total["y"] ** 2))
            rows.append(
                {
                    "judge": first,
                    "other judge": second,
                    "correlation": (n * total["xy"] - total["x"] * total["y"]) / spread if spread else None,
                    "same label": total["same"] / n,
                    "same bullet": total["same_bullet"] / total["linked"] if total["linked"] else None,
                    "coverage less the other's": (total["x"] - total["y"]) / n,
                    "n": n,
                }
            )
    if rows:
        text = "On the insights that both judges scored; the viewer lists the summaries on which judges disagree."
        units = {**dict.fromkeys(("same label", "same bullet"), "%"), "coverage less the other's": "points"}
        yield Section("Agreement of the judges", text, _frame(rows), units, name="agreement", tab="judge")
