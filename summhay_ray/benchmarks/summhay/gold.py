"""The gold documents of a run's haystacks as columns: those of every insight, and those of every query."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.sources import Outline
from summhay_ray.store import RunStore

_GOLD: dict[str, Any] = {"haystack_id": pl.String, "insight_id": pl.String, "documents": pl.List(pl.Int64)}


def gold_by_insight(outlines: Iterable[Outline]) -> pl.DataFrame:
    """haystack_id, insight_id, and `documents`: the numbers of the documents that contain the insight, sorted."""
    frames = [pl.DataFrame(schema=_GOLD)]
    # A haystack at a time: as Python lists, the numbers take ten times the memory.
    for outline in outlines:
        marks = json.loads(outline.marks)
        columns = [outline.haystack_id] * len(marks), list(marks), list(marks.values())
        frames.append(pl.DataFrame(columns, schema=_GOLD, orient="col"))
    return pl.concat(frames)


def gold_by_query(run: RunStore, gold: pl.DataFrame) -> pl.DataFrame:
    """haystack_id, subtopic_id, and `documents`: the sorted numbers of those that contain any insight of the subtopic.

    `gold`: `gold_by_insight` of the run's outlines. Empty where no document has any; a subtopic without insights has no row.
    """
    asked = ["haystack_id", "subtopic_id"]
    documents = pl.col("documents").explode().drop_nulls().unique().sort()
    # A haystack's insights are all in one piece.
    pieces = (piece.join(gold, on=["haystack_id", "insight_id"]) for piece in run.pieces("insights", [*asked, "insight_id"]))
    return pl.concat([marked.group_by(asked, maintain_order=True).agg(documents) for marked in pieces])
