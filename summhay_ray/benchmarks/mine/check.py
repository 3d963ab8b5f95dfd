"""Sheets of (insight, document) pairs that a person confirms or rejects, to measure how much of a mined haystack's gold is
right."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.errors import UserError
from summhay_ray.judge import rate
from summhay_ray.metrics import mean_interval
from summhay_ray.mine import CHECK, Row, check_columns, check_new_sheet, kept_insights, write_cells

PAIRS = ("insight_id", "document", "insight", "evidence", "right")
"""Columns of the sheet of pairs. A person fills in the last one."""
_YES, _NO = ("yes", "y", "x", "1", "true"), ("no", "n", "0", "false")
_CUT = 1500
"""Characters of a document to show if none of its sentences is named."""


@dataclass(frozen=True, slots=True)
class GoldPair:
    """An insight and one of its gold documents, with the sentences that state it."""

    insight_id: str
    document_id: str
    insight: str
    evidence: str


def draw_pairs(raw: Mapping[str, Any], n: int, seed: int = 0) -> list[GoldPair]:
    """Draw `n` unchecked gold pairs at random. Raises UserError if there are none."""
    texts = {document["document_id"]: document["document_text"] for document in raw["documents"]}
    seen = {(pair["insight_id"], pair["document_id"]) for pair in _kept(raw)}
    pairs = [
        GoldPair(one["insight_id"], held["document_id"], one["insight"], held["text"] or texts[held["document_id"]][:_CUT])
        for one in kept_insights(raw)
        for held in one["evidence"]
        if (one["insight_id"], held["document_id"]) not in seen
    ]
    if not pairs:
        raise UserError(f"all {len(seen)} pairs of an insight and a document are checked already; there is nothing to ask")
    return random.Random(f"{seed} {len(seen)}").sample(pairs, min(n, len(pairs)))


def write_pairs(pairs: Sequence[GoldPair], path: Path) -> None:
    """Write the sheet of pairs. Raises UserError if the file exists or has an unknown suffix."""
    check_new_sheet(path)
    rows = [dict(zip(PAIRS, (one.insight_id, one.document_id, one.insight, one.evidence, ""), strict=True)) for one in pairs]
    write_cells(path, PAIRS, rows)


def read_pairs(columns: Sequence[str], rows: Sequence[Row], raw: Mapping[str, Any], file: str) -> dict[tuple[str, str], bool]:
    """Read the sheet: (insight, document) -> whether a person confirmed the pair. Rows without an answer are skipped.

    Raises UserError, with row and column, for an invalid answer, or for a pair that is not in this haystack.
    """
    check_columns(file, PAIRS, columns, rows)
    insights = {one["insight_id"]: one for one in kept_insights(raw)}
    answers: dict[tuple[str, str], bool] = {}
    for row in rows:
        insight = insights.get(row.text("insight_id"))
        if insight is None:
            raise row.wrong("insight_id", f"{row.text('id')!r} is not an insight of this haystack; leave the ids as written")
        held = {one["document_id"]: one for one in insight["evidence"] if row.holds("document", one["document_id"])}
        if not held:
            raise row.wrong("document", f"{row.text('document')!r} is not a document of this insight; leave it as written")
        if not row.holds("insight", insight["insight"]):
            raise row.wrong("insight", "cannot be changed here; change it in a review (summhay mine --review)")
        [(document_id, evidence)] = held.items()
        if evidence["text"] and not row.holds("evidence", evidence["text"]):
            raise row.wrong("evidence", "cannot be changed: it is what the document says")
        said = row.text("right").lower()
        if said not in (*_YES, *_NO, ""):
            raise row.wrong("right", f"expected yes or no, found {row.text('right')!r}")
        if said:
            answers[insight["insight_id"], document_id] = said in _YES
    if not answers:
        raise UserError(f"{file}: no row has yes or no in the column right; nothing is checked")
    return answers


def _kept(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((raw["topic_metadata"]["mine"].get(CHECK) or {}).get("pairs", ()))


def with_answers(raw: Mapping[str, Any], answers: Mapping[tuple[str, str], bool]) -> dict[str, Any]:
    """Return the haystack with a person's answers, and with what the answers say about its gold and the free judge.

    Answers remain valid when a review changes the pairs: they sample the gold as it was found.
    """
    texts = {
        (one["insight_id"], held["document_id"]): (one["insight"], held["text"])
        for one in kept_insights(raw)
        for held in one["evidence"]
    }
    pairs = {(pair["insight_id"], pair["document_id"]): pair for pair in _kept(raw)}
    for (insight_id, document_id), right in answers.items():
        insight, words = texts[insight_id, document_id]
        judged = rate([insight], [words], together=False)[0].coverage != "NO_COVERAGE" if words else None
        pairs[insight_id, document_id] = {
            "insight_id": insight_id,
            "document_id": document_id,
            "right": right,
            "judged": judged,
        }
    rows = pl.DataFrame({"right": [pair["right"] for pair in pairs.values()], "of": ["gold"] * len(pairs)})
    found = mean_interval(rows, "right", "of").row(0, named=True)
    judged_pairs = [pair for pair in pairs.values() if pair["judged"] is not None]
    check = {
        "checked": len(pairs),
        "right": sum(pair["right"] for pair in pairs.values()),
        "low": found["right_low"],
        "high": found["right_high"],
        "judged": len(judged_pairs),
        "agreed": sum(pair["judged"] == pair["right"] for pair in judged_pairs),
        "pairs": [*pairs.values()],
    }
    metadata = raw["topic_metadata"]
    return {**raw, "topic_metadata": {**metadata, "mine": {**metadata["mine"], CHECK: check}}}
