"""The tables of a SummHay run, which every other run on haystacks has too, and the rows of its haystacks.

Only a few haystacks are in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import polars as pl

from summhay_ray import records
from summhay_ray.benchmark import RawAnswer, RunStore, Table
from summhay_ray.haystack import ReleasedFile

TABLES = (
    # The parts of a haystack are tables of their own; released scores, and the importance of nuggets, stay in the source.
    Table("haystacks", records.Haystack, ("haystack_id",), ("documents", "subtopics", "insights", "released_scores", "nuggets")),
    Table("subtopics", records.Subtopic, ("haystack_id", "position")),
    Table("insights", records.Insight, ("haystack_id", "subtopic_id", "position"), ("importance",)),
    Table("documents", records.Document, ("haystack_id", "number"), texts=("text",)),
    Table("rankings", records.Ranking, ("haystack_id", "subtopic_id", "retriever", "rank")),
    Table("contexts", records.Context, ("context_id",)),
    Table("summaries", records.Summary, ("cell_id",)),
    Table("judgments", records.Judgment, ("cell_id", "judge", "position")),
    Table("votes", records.Vote, ("cell_id", "judge", "position", "panel", "member")),
    Table("scores", records.Score, ("cell_id", "judge", "position")),
    Table("absent_answers", records.AbsentAnswer, ("cell_id", "judge")),
    Table("checks", records.Check, ("cell_id", "position"), texts=("evidence",)),
    Table("failures", records.Failure, ("cell_id", "stage", "judge", "insight_id", "error", "message")),
)
"""Each table's name, row record, key columns and omitted fields. Every run on haystacks, of any kind, has all of these tables."""

STAGE = "haystack"
"""Stage under which the store lists haystacks."""
HAYSTACKS_A_BLOCK = 16

T = TypeVar("T")

BY_NAME = {table.name: table for table in (*TABLES, Table("raw_answers", RawAnswer, ("key",)))}


def rows_of(run: RunStore, name: str, cells: Sequence[str] | None = None) -> list[Any]:
    """The rows of a table as records; `cells`: only the rows of these cells."""
    if cells is None or "cell_id" not in run.declared[name].schema.names:
        return BY_NAME[name].records(run.table(name, cells))
    return BY_NAME[name].records(run.table(name).filter(pl.col("cell_id").is_in(cells)))


def blocks_of(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in groups of HAYSTACKS_A_BLOCK."""
    return (items[start : start + HAYSTACKS_A_BLOCK] for start in range(0, len(items), HAYSTACKS_A_BLOCK))


def haystack_rows(source: ReleasedFile) -> dict[str, list[Any]]:
    """Table name -> the rows of one haystack."""
    haystack = source.haystack
    return {
        "haystacks": [haystack],
        "subtopics": list(haystack.subtopics),
        "insights": list(haystack.insights),
        "documents": list(haystack.documents),
    }
