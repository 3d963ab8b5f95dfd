"""Further figures of a run's systems, next to coverage, citation and joint: unfounded claims, nuggets, rankings of documents.

If no document answers a query, an answer that claims anything is invented (`absent_answers`). A bullet is unsupported if the
judge links it to no insight and `summhay support` finds no document that supports it. This module reads those verdicts and
makes none. Rankings are measured against the gold documents of the haystacks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from summhay_ray.benchmark import RunStore, Section
from summhay_ray.benchmarks.retrieval import Retrieved, retrieval_table, retriever_label
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME, HaystackMetadata, gold_by_query
from summhay_ray.benchmarks.summhay.results.judges import all_rows
from summhay_ray.benchmarks.summhay.spec import SummhaySpec
from summhay_ray.errors import UserError
from summhay_ray.judge import parse_name
from summhay_ray.metrics import NUGGET_SCORES, SystemScore

BULLETS = "support_bullets"
"""The table of a support run with a row for each bullet."""
PLACE = ("haystack_id", "subtopic_id")
"""The columns that identify a query."""
_NUMBERED = pl.when(pl.col("repeat") > 0).then(pl.format("{}#{}", "system", "repeat")).otherwise("system")
"""A system as a support run names it."""


def absent_queries(metadata: Sequence[HaystackMetadata]) -> pl.DataFrame:
    """Return the queries that no document answers: haystack_id and subtopic_id."""
    queries = [(one.haystack_id, topic.subtopic_id) for one in metadata for topic in one.subtopics if topic.absent]
    return pl.DataFrame(queries, schema=dict.fromkeys(PLACE, pl.String), orient="row")


class Claims:
    """The figures of a run's systems, over all haystacks or in one of them."""

    def __init__(self, run: RunStore, absent: pl.DataFrame, supports: Sequence[RunStore], repeats: Mapping[str, int]) -> None:
        """`absent`: see `absent_queries`. `supports`: the support runs of its summaries. `repeats`: key of a system -> how often
        it answers each query."""
        self._absent, self._repeats = absent, repeats
        summaries = run.table("summaries", columns=["cell_id", *PLACE, "system", "repeat"])
        answers = all_rows(run, "absent_answers") if self._absent.height else BY_NAME["absent_answers"].frame(())
        self._answers = answers.join(summaries, on="cell_id")
        self._bullets = (
            _unsupported_bullets(run, supports, summaries.join(self._absent, on=PLACE, how="anti")) if supports else None
        )

    def add_to(self, scores: Iterable[SystemScore], haystack_id: str = "") -> list[SystemScore]:
        """Add these figures to the scores. `haystack_id`: limits the figures to one haystack."""
        within = pl.lit(True) if not haystack_id else pl.col("haystack_id") == haystack_id
        n_queries = self._absent.filter(within).height
        answers = self._answers.filter(within).group_by("system", "judge").agg((pl.col("invents") >= 0.5).mean(), n=pl.len())
        invented = {row[:2]: row[2:] for row in answers.select("system", "judge", "invents", "n").iter_rows()}
        unsupported: dict[tuple[str, str], tuple[float, int]] = {}
        if self._bullets is not None:
            bullets = self._bullets.filter(within).group_by("system", "judge").agg(pl.col("unsupported").mean(), n=pl.len())
            unsupported = {row[:2]: row[2:] for row in bullets.select("system", "judge", "unsupported", "n").iter_rows()}
        found = []
        for score in scores:
            share, n = invented.get((score.system, score.judge), (None, 0))
            bare, n_bullets = unsupported.get((score.system, score.judge), (None, 0))
            expected = self._repeats.get(score.system, 0) * n_queries
            absent = {"invented": share, "n_absent": n, "n_absent_expected": expected}
            found.append(replace(score, **absent, unsupported_bullets=bare, n_bullets=n_bullets))
        return found


def _unsupported_bullets(run: RunStore, supports: Sequence[RunStore], summaries: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each bullet and judge: haystack_id, system, judge, and whether the bullet is `unsupported`. If several
    support runs judged an answer, the newest counts. Headings, and bullets that could not be judged, are left out."""
    place = ["haystack_id", "query_id", "system", "bullet"]
    known = pl.concat(
        [
            support.table(BULLETS, columns=[*place, "heading", "supported", "uncited", "other_language"]).with_columns(age=age)
            for age, support in enumerate(reversed(supports))
        ]
    )
    newest = pl.col("age") == pl.col("age").min().over("haystack_id", "query_id", "system")
    judged = known.filter(newest & ~pl.col("heading") & ~pl.col("other_language") & pl.col("supported").is_not_null())
    named = summaries.with_columns(called=_NUMBERED)
    bullets = judged.rename({"system": "called", "query_id": "subtopic_id"}).join(named, on=[*PLACE, "called"])
    scores = all_rows(run, "scores").select("cell_id", "judge", "bullet")
    linked = scores.drop_nulls("bullet").unique().with_columns(linked=True)
    found = bullets.join(scores.select("cell_id", "judge").unique(), on="cell_id")
    found = found.with_columns(pl.col("bullet").cast(pl.Int64)).join(
        linked.with_columns(pl.col("bullet").cast(pl.Int64)), on=["cell_id", "judge", "bullet"], how="left"
    )
    bare = pl.col("linked").is_null() & (pl.col("supported") == 0) & (pl.col("uncited") == 0)
    return found.select("haystack_id", "system", "judge", unsupported=bare)


def claims_section(systems: Sequence[SystemScore], judge: str) -> Section | None:
    """Return these figures next to joint, by one judge. None without any."""
    own = [one for one in systems if one.judge == judge]
    absent, bullets = (any(getattr(one, name) for one in own) for name in ("n_absent_expected", "n_bullets"))
    if not absent and not bullets:
        return None
    rows = [
        {
            "system": one.label,
            "joint": one.joint,
            "n": one.n_scored,
            "n_expected": one.n_expected,
            **({"invented": one.invented, "answers": one.n_absent, "answers expected": one.n_absent_expected} if absent else {}),
            **({"unsupported bullets": one.unsupported_bullets, "bullets": one.n_bullets} if bullets else {}),
        }
        for one in own
    ]
    text = []
    if absent:
        text.append("Invented: among answers to queries that no document answers, the share that claim anything.")
        if _is_code(judge):
            text.append("For this judge, its model decides that, not its class: offline/judge, unless the spec names another.")
    if bullets:
        text.append("Unsupported bullets: the share that is linked to no insight and supported by no document (summhay support).")
    text.append("Coverage, citation and joint count neither. n: insights of joint.")
    figures: list[str] = [name for name in ("joint", "invented", "unsupported bullets") if name in rows[0]]
    frame = pl.DataFrame(rows, infer_schema_length=None, schema_overrides={name: pl.Float64() for name in figures})
    return Section(
        f"Claims without ground, judged by {judge}",
        " ".join(text),
        frame,
        dict.fromkeys(figures, "%"),
        name="claims",
        higher_is_better=("joint",),
    )


def _is_code(judge: str) -> bool:
    """Return whether a judge's label is a `module:Class`, or contains one."""
    try:
        return any(leaf.kind == "code" for leaf in parse_name(judge).leaves())
    except UserError:
        return False


def nuggets_section(systems: Sequence[SystemScore], judge: str) -> Section | None:
    """Return the nugget scores of the systems by one judge, as in TREC RAG. None without nuggets."""
    rows = [
        {
            "model": system.model,
            "retriever": system.column,
            **{name: system.nuggets[name] for name in NUGGET_SCORES},
            **{f"{name}_floor": system.nuggets[f"{name}_floor"] for name in NUGGET_SCORES},
            **{
                f"{name}{end}": system.ci.get(f"nuggets_{name}", (None, None))[place]
                for name in NUGGET_SCORES
                for place, end in enumerate(("_low", "_high"))
            },
            **{f"{name}_reason": system.ci_reasons.get(f"nuggets_{name}") for name in NUGGET_SCORES},
            "n": system.nuggets["n_queries"],
            "n_expected": system.nuggets["n_queries_expected"],
        }
        for system in systems
        if system.judge == judge and system.nuggets is not None
    ]
    if not rows:
        return None
    text = (
        "Scores of the TREC RAG track (AutoNuggetizer), in per cent: a nugget counts 1 where it is covered and 0.5 where it is "
        "partially covered, which strict scores do not count. A query's score is the mean over its nuggets: all of them, the "
        "vital ones, or weighted (vital 1, okay 0.5); these are means over queries (n), with 95 % intervals."
    )
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(NUGGET_SCORES).cast(pl.Float64))
    return Section(
        "Nugget scores", text, frame, dict.fromkeys(NUGGET_SCORES, "%"), name="nuggets", higher_is_better=NUGGET_SCORES
    )


def retrieval_of(run: RunStore, metadata: Sequence[HaystackMetadata], expected: pl.DataFrame) -> pl.DataFrame | None:
    """Return one row per retriever and k, and one row per retriever for the documents within the token budget. None for a run
    without rankings.

    `expected`: a row for each system and each query that it was asked, with the columns `PLACE` and `retriever`.
    """
    spec = run.record.get("spec", {})
    if not spec.get("retrievers"):
        return None
    contexts = run.table("contexts")
    shown = contexts.select("haystack_id", "subtopic_id", "retriever", "n_tokens", n_shown=pl.col("numbers").list.len())
    shown = shown.unique(["haystack_id", "subtopic_id", "retriever"], maintain_order=True)
    whole = set(contexts.filter(pl.col("ordering") != "given")["retriever"]) | {"full"}
    ks = spec.get("k", [])
    # A query that no document answers has nothing to find.
    absent = absent_queries(metadata)
    asked_of = expected.select("retriever", *PLACE).unique().group_by("retriever").agg(pl.len())
    n_queries = {str(retriever): n for retriever, n in asked_of.iter_rows()}
    # A retriever such as `none` shows no document, so there is nothing to measure.
    empty = set(shown["retriever"]) - set(shown.filter(pl.col("n_shown") > 0)["retriever"])
    labels = map(retriever_label, SummhaySpec.model_validate(spec).retrievers)
    names = sorted(label for label in labels if label not in empty and label in n_queries)
    if not names:
        return None
    shown = shown.filter(pl.col("retriever").is_in(names)).join(absent, on=PLACE, how="anti", maintain_order="left")
    gold = gold_by_query(run, metadata)
    asked = shown.join(gold, on=["haystack_id", "subtopic_id"], how="left", maintain_order="left")
    retrieved = _read_rankings(run, asked, whole, max(ks, default=0))
    return retrieval_table(retrieved, ks, {name: n_queries[name] for name in names}, whole)


def _read_rankings(run: RunStore, asked: pl.DataFrame, whole: set[str], deepest: int) -> Iterator[Retrieved]:
    """Yield the rankings of the run, measured against gold. `asked`: haystack_id, subtopic_id, retriever, n_shown, n_tokens,
    and the gold `documents` (null without insights)."""
    keys = ["haystack_id", "subtopic_id", "retriever"]
    # A haystack's rows are all in one piece, in the order of the ranks.
    for piece in run.pieces("rankings", [*keys, "rank", "number"]):
        ranked = piece.join(asked.select(*keys, "n_shown"), on=keys, maintain_order="left")
        kept = ranked.filter(pl.col("rank") <= pl.max_horizontal("n_shown", pl.lit(deepest)))
        queries = kept.group_by(keys, maintain_order=True).agg(pl.col("number").cast(pl.String))
        for row in queries.join(asked, on=keys, maintain_order="left").iter_rows(named=True):
            yield Retrieved(
                retriever=row["retriever"],
                query=f"{row['haystack_id']}/{row['subtopic_id']}",
                document_ids=row["number"],
                gold={str(number): 1.0 for number in row["documents"] or ()},
                shown=row["n_shown"],
                tokens=row["n_tokens"],
                ordered=row["retriever"] not in whole,
            )
