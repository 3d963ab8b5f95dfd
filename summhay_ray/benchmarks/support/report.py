"""Figures and report sections of support judging, computed from its tables. Pure functions that make no call."""

from collections.abc import Sequence

import polars as pl

from summhay_ray.benchmark import ByQuery, Section, Tables
from summhay_ray.benchmarks.panels import panel_figures, panels_section
from summhay_ray.benchmarks.support.judging import VALUES
from summhay_ray.benchmarks.support.tables import BULLETS, SUPPORTS, VOTES
from summhay_ray.citations import SUPPORT_JUDGE, SUPPORTED
from summhay_ray.metrics import mean_interval

SHOWN = 20
"""Number of rows in the lists of examples."""
CUT = 160
LONG_WORDS = 1000
"""A bullet with at least this many words is taken to contain more than one claim, so a verdict on it means little."""
_QUERY = "query"
_NAMES = ("system", "label")
_SYSTEM = pl.col("label").alias("system")
"""The columns that name a system."""
_ANSWER = ("haystack_id", "query_id", "system")
GRADES = {"supported": 1.0, "partly": 0.5, "not": 0.0}
"""TREC RAG's weights of full, partial and no support."""
WEIGHTED = ("weighted_precision", "weighted_recall")


def scores(tables: Tables) -> Tables:
    """Return `systems`, the figures of each system; `unsupported` and `uncited`, examples for a person to inspect; `flaws`,
    counts; and `panels`, the agreement of panel members."""
    supports, bullets, items = (_with_query(tables[name]) for name in (SUPPORTS.name, BULLETS.name, "items"))
    bullets = bullets.join(items.select(*_NAMES).unique(), on="system", how="left")
    cited = supports.filter("cited").with_columns(
        pl.when(pl.col("value").is_not_null()).then(pl.col("verdict") == name).alias(name) for name in ("supported", "partly")
    )
    expected = items.select("system", n=pl.col("citations")).filter(pl.col("n") > 0)
    expected = expected.select(pl.col("system").repeat_by("n").explode())
    claims = bullets.filter(~pl.col("heading")).with_columns(
        bullets_supported=pl.when(pl.col("supported") > 0)
        .then(True)
        .when((pl.col("supported") == 0) & ~((pl.col("cited") == 0) & pl.col("other_language")))
        .then(False)
    )
    # A system without any citation (perhaps it was not asked to cite) has no share, rather than a share of zero.
    cites = (pl.col("cited").sum() + pl.col("out_of_range").list.len().sum()).over("system") > 0
    claims = claims.with_columns(bullets_supported=pl.when(cites).then(pl.col("bullets_supported")))
    said = pl.when(~pl.col("other_language")).then((pl.col("supported").fill_null(0) > 0) | (pl.col("uncited") > 0))
    claims = claims.with_columns(said=said)
    shares = mean_interval(cited, "supported", "system", expected, _QUERY)
    partly = mean_interval(cited, "partly", "system", None, _QUERY).drop("n")
    per_bullet = mean_interval(claims, "bullets_supported", "system", None, _QUERY).rename({"n": "n_bullets"})
    anywhere = mean_interval(claims, "said", "system", None, _QUERY).drop("n")
    lost = claims.group_by("system").agg(
        without=(pl.col("bullets_supported") == False).sum(),  # noqa: E712
        no_citation=(pl.col("cited") == 0).sum(),
        uncited=pl.col("uncited").sum(),
    )
    systems = items.select(*_NAMES).unique().sort("system")
    weighted = [mean_interval(of, name, "system", None, _QUERY) for name, of in _weighted(cited, bullets).items()]
    weighted[1] = weighted[1].rename({"n": "n_answers"})
    for frame in (shares, partly, per_bullet, anywhere, lost, weighted[0].drop("n"), weighted[1]):
        systems = systems.join(frame, on="system", how="left")
    counts = pl.col("n", "n_expected", "n_bullets", "n_answers", "without", "no_citation", "uncited").fill_null(0)
    systems = systems.with_columns(counts).sort(["supported", "system"], descending=[True, False], nulls_last=True)
    place = ("label", "query_id", "bullet")
    unsupported = claims.filter(pl.col("bullets_supported") == False).select(*place, "cited", pl.col("text").str.head(CUT))  # noqa: E712
    uncited = supports.filter(~pl.col("cited") & (pl.col("value") >= SUPPORTED)).sort(
        "value", *place, descending=[True, *[False] * 3]
    )
    uncited = uncited.select(*place, "document_id", pl.col("evidence").str.head(CUT), "value", n=pl.lit(1, pl.Int64))
    lists = {"unsupported": unsupported, "uncited": uncited, "flaws": _flaws(bullets, items)}
    of = ("haystack_id", "query_id", "system", "bullet", "document_id")
    return {"systems": systems, **lists, "panels": panel_figures(tables[VOTES.name], ("panel",), of, "verdict", VALUES)}


def _weighted(cited: pl.DataFrame, bullets: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the figures of WEIGHTED per answer, as in TREC RAG (Thakur et al., arXiv:2504.15205). Precision is the mean
    grade of the judged citations. Recall is the mean over sentences, headings included, of the best grade of each; a sentence
    without a citation has grade 0."""
    keys = (*_ANSWER, _QUERY)
    grades = cited.select(*keys, "bullet", grade=pl.col("verdict").replace_strict(GRADES, default=None, return_dtype=pl.Float64))
    best = grades.group_by(*keys, "bullet").agg(best=pl.col("grade").max(), unknown=pl.col("grade").is_null().any())
    grade = (
        pl.when(pl.col("cited") == 0).then(0.0).when(~pl.col("unknown") | (pl.col("best") == max(GRADES.values()))).then("best")
    )
    sentences = bullets.join(best, on=(*keys, "bullet"), how="left").select(*keys, grade=grade)
    return {
        name: of.group_by(keys, maintain_order=True).agg(pl.col("grade").mean().alias(name))
        for name, of in zip(WEIGHTED, (grades, sentences), strict=True)
    }


def _with_query(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a column that identifies the query of a haystack: answers to the same query depend on each other."""
    if frame.is_empty() and "haystack_id" not in frame.columns:
        return frame
    return frame.with_columns(pl.concat_str("haystack_id", "query_id", separator="/").alias(_QUERY))


def _flaws(bullets: pl.DataFrame, items: pl.DataFrame) -> pl.DataFrame:
    counts = {
        "bullets": bullets.height,
        "answers without a bullet": (items["bullets"] == 0).sum(),
        "headings, which are not claims": bullets["heading"].sum(),
        "bullets that cite no document": bullets.filter((pl.col("cited") == 0) & ~pl.col("heading")).height,
        "citations of numbers that no document has": bullets["out_of_range"].list.len().sum(),
        "citations of documents that the system was not shown": bullets["not_shown"].list.len().sum(),
        "ranges such as [3-7], read as every document in them": bullets["ranges"].sum(),
        "citations by id": bullets["by_id"].sum(),
        "citations by an id that no document has": bullets["unreadable"].list.len().sum(),
        "bullets in another language than the documents": bullets["other_language"].sum(),
        f"bullets of {LONG_WORDS:,} words or more, which are not a single claim": (bullets["words"] >= LONG_WORDS).sum(),
    }
    return pl.DataFrame({"what": list(counts), "count": [int(n or 0) for n in counts.values()]})


def sections(scored: Tables, judge: str, unread: Sequence[str]) -> list[Section]:
    systems = scored["systems"]
    free = "" if judge == SUPPORT_JUDGE else f" Documents that are not cited are judged by {SUPPORT_JUDGE} alone."
    flaws = {row["what"]: row["count"] for row in scored["flaws"].iter_rows(named=True) if row["count"]}
    notes = [f"{count:,} {what}" for what, count in flaws.items() if what != "bullets"]
    notes += [f"not read: {one}" for one in unread]
    shown = [_SYSTEM, *_columns("supported"), "n", "n_expected", "supported_floor"]
    main = Section(
        f"Citations that are supported, by {judge}",
        f"Share of the cited documents that say what the bullet says (value from {SUPPORTED:g}). Intervals (95 %) are over "
        f"queries. There is no gold here: the judge decides.{free}",
        systems.select(shown),
        {"supported": "%"},
        notes=notes,
        name="supported",
        higher_is_better=("supported",),
    )
    by_bullet = systems.select(
        _SYSTEM,
        *_columns("bullets_supported"),
        *_columns("said"),
        pl.col("n_bullets").alias("n"),
        "without",
        "no_citation",
        "uncited",
    )
    bullets = Section(
        f"Bullets with support, by {judge}",
        "bullets_supported: bullets that at least one cited document supports; said: bullets that any document supports, by the "
        "free judge; without: bullets that no cited document supports; no_citation: bullets that cite nothing; uncited: "
        "documents that support a bullet that does not cite them.",
        by_bullet,
        {"bullets_supported": "%", "said": "%"},
        name="bullets",
        higher_is_better=("bullets_supported", "said"),
    )
    weighted = Section(
        f"Weighted citation precision and recall, by {judge}",
        "As TREC RAG defines them: a citation is worth 1 if the document supports the sentence, 0.5 if in part, 0 if not. "
        "Precision is the mean over an answer's citations, recall over its sentences, by the best citation of each; a sentence "
        "that cites no document counts 0. Both are means over answers (n).",
        systems.select(_SYSTEM, *(column for name in WEIGHTED for column in _columns(name)), pl.col("n_answers").alias("n")),
        dict.fromkeys(WEIGHTED, "%"),
        name="weighted",
        higher_is_better=WEIGHTED,
    )
    found = [main, bullets, weighted]
    partly = systems.select(_SYSTEM, *_columns("partly"), "n")
    found += [
        Section("Citations that are supported in part", "", partly, {"partly": "%"}, more=True, name="partly"),
        *panels_section(scored["panels"]),
        _examples_section("Bullets without support", scored["unsupported"], "unsupported"),
        _examples_section("Documents that say it and are not cited", scored["uncited"], "uncited"),
        Section("What is wrong with bullets and citations", table=scored["flaws"], more=True, name="flaws"),
    ]
    return found


def recited_section(counts: pl.DataFrame, source: str) -> Section:
    """Return a section with the changes of a repair: citations before and after, by system."""
    text = (
        f"The summaries are those of {source}; the free judge dropped citations that do not say the bullet, and added documents "
        "that do. It is post-processing that any system could have, so compare a repaired system with repaired systems only."
    )
    shown = counts.select(_SYSTEM, pl.exclude(*_NAMES))
    return Section("Citations before and after the repair", text, shown, name="recited")


def _columns(name: str) -> tuple[str, ...]:
    return name, f"{name}_low", f"{name}_high", f"{name}_reason"


def _examples_section(title: str, frame: pl.DataFrame, name: str) -> Section:
    head = f"{title}: {min(SHOWN, frame.height)} of {frame.height:,} shown"
    return Section(head, "All of them are in the tables.", frame.head(SHOWN).rename({"label": "system"}), more=True, name=name)


def by_query(tables: Tables) -> ByQuery:
    """Return the share of supported citations of each system on each query, for comparisons."""
    cited = _with_query(tables[SUPPORTS.name]).filter("cited")
    found = cited.group_by("system", pl.col("haystack_id").alias("cluster"), _QUERY).agg(
        supported=pl.when(pl.col("value").is_not_null()).then(pl.col("verdict") == "supported").cast(pl.Float64).mean()
    )
    items = _with_query(tables["items"])
    expected = items.filter(pl.col("citations") > 0).select("system", pl.col("haystack_id").alias("cluster"), _QUERY).unique()
    labels = dict(items.select(*_NAMES).iter_rows())
    return ByQuery(found.sort("system", _QUERY), {"supported": "%"}, "haystack", expected, labels=labels)
