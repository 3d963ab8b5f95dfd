"""The gold documents of a run's haystacks as columns: those of every insight, and those of every query."""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Iterable

import polars as pl

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import HaystackMetadata

_PLACE = ["haystack_id", "insight_id"]


def gold_by_insight(metadata: Iterable[HaystackMetadata]) -> pl.DataFrame:
    """haystack_id, insight_id, and `documents`: the numbers of the documents that contain the insight, sorted; null: unknown."""
    import numpy as np

    haystacks: list[str] = []
    insights: list[str] = []
    known: list[bool] = []
    counts, numbers = array("q"), array("q")
    for haystack in metadata:
        marks = json.loads(haystack.marks)
        haystacks += [haystack.haystack_id] * len(marks)
        insights += marks
        known += [documents is not None for documents in marks.values()]
        counts.extend(len(documents or ()) for documents in marks.values())
        # As Python lists, the numbers of all haystacks would take ten times the memory, and polars would copy each separately.
        numbers.extend(itertools.chain(*filter(None, marks.values())))
    rows = pl.DataFrame({"haystack_id": haystacks, "insight_id": insights}, schema=dict.fromkeys(_PLACE, pl.String))
    owners = np.repeat(np.arange(len(insights), dtype=np.uint32), counts)
    lists = pl.DataFrame({"row": owners, "documents": np.frombuffer(numbers, np.int64)})
    lists = lists.group_by("row", maintain_order=True).agg("documents")
    marked = rows.with_row_index("row").join(lists, on="row", how="left", maintain_order="left")
    return marked.select(*_PLACE, pl.when(pl.Series(known, dtype=pl.Boolean)).then(pl.col("documents").fill_null([])))


def nuggets_of(metadata: Iterable[HaystackMetadata]) -> pl.DataFrame:
    """haystack_id, subtopic_id, insight_id and importance (vital, okay or other) of every nugget; see `metrics.nugget_scores`."""
    rows: list[tuple[str, str, str, str]] = []
    for haystack in metadata:
        # Insights are listed query by query.
        queries = (one.subtopic_id for one, n in zip(haystack.subtopics, haystack.n_insights, strict=True) for _ in range(n))
        nuggets = json.loads(haystack.importance or "{}").items()
        rows += [(haystack.haystack_id, query, *nugget) for query, nugget in zip(queries, nuggets, strict=False)]
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("haystack_id", "subtopic_id", "insight_id", "importance"), pl.String), orient="row"
    )


def gold_by_query(run: RunStore, gold: pl.DataFrame) -> pl.DataFrame:
    """haystack_id, subtopic_id, and `documents`: the sorted numbers of those that contain any insight of the subtopic.

    `gold`: `gold_by_insight` of the run's haystacks. Empty if no document has any; a subtopic without insights has no row.
    """
    asked = ["haystack_id", "subtopic_id"]
    documents = pl.col("documents").explode().drop_nulls().unique().sort()
    # A haystack's insights are all in one piece.
    pieces = (piece.join(gold, on=_PLACE) for piece in run.pieces("insights", [*asked, "insight_id"]))
    return pl.concat([marked.group_by(asked, maintain_order=True).agg(documents) for marked in pieces])
