"""Part of the mine room: mined insights as a haystack in the released format, and a person's review of it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.mine.insights import UNSURE, WORDS, Evidence, Mined
from summhay_ray.mine.reading import Source
from summhay_ray.mine.subtopics import Grouped

COLUMNS = (
    *("run", "insight_id", "rank", "confidence", "doubts", "insight", "evidence", "documents"),
    *("keep", "reword", "merge_into", "add_documents"),
)
"""Columns of the review sheet; a person fills in the last four."""
_SHOWN = 5
"""Most windows of evidence in a row of the sheet."""
_SEPARATOR = " | "
PERSON = "a person"
"""Who decided about a document that a review adds."""
_YES, _NO = ("yes", "y", "x", "1"), ("no", "n", "0")


def haystack_json(
    sources: Sequence[Source],
    mined: Sequence[Mined],
    grouped: Sequence[Grouped],
    topic: str,
    made: Mapping[str, Any],
    absent: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The haystack in the released format. `made`: how it was made, for its metadata. `absent`: see `synth.absent_subtopics`."""
    ids = [_id(one.text) for one in mined]
    included: dict[int, list[str]] = {}
    for insight_id, one in zip(ids, mined, strict=True):
        for evidence in one.evidence:
            included.setdefault(evidence.document, []).append(insight_id)

    def insight(place: int) -> dict[str, Any]:
        one = mined[place]
        return {
            "insight_id": ids[place],
            "insight": one.text,
            "rank": place + 1,
            "confidence": one.confidence,
            "opposites": [ids[other] for other in one.opposites],
            "evidence": [_shown(sources, evidence) for evidence in one.evidence],
            "doubtful": [_shown(sources, evidence) for evidence in one.doubtful],
        }

    return {
        "topic_id": _id(topic),
        "topic": topic,
        "topic_metadata": {"domain": "generic", "mine": dict(made)},
        "subtopics": [
            {
                "subtopic_id": _id(f"{number} {group.text}"),
                "subtopic": group.text,
                "query": group.query,
                "insights": [insight(place) for place in group.places],
            }
            for number, group in enumerate(grouped)
        ]
        + [dict(one) for one in absent],
        "documents": [
            {"document_id": source.document_id, "document_text": source.text, "insights_included": included.get(place, [])}
            for place, source in enumerate(sources)
        ],
    }


def _shown(sources: Sequence[Source], evidence: Evidence) -> dict[str, Any]:
    shown = {"score": evidence.score, "by": evidence.by, "key": evidence.key, "text": evidence.text}
    return {"document_id": sources[evidence.document].document_id, **shown}


def _id(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


Kept = Mapping[str, Any]
"""An insight of a haystack's JSON."""


def kept_insights(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The insights of a mined haystack by rank."""
    return sorted((one for subtopic in raw["subtopics"] for one in subtopic["insights"]), key=lambda one: int(one["rank"]))


def doubts_first(raw: Mapping[str, Any], run: str) -> list[dict[str, str]]:
    """The rows of the review sheet: those with the most doubtful evidence first."""
    rows = []
    for one in kept_insights(raw):
        shown = sorted(one["evidence"], key=lambda evidence: float(evidence["score"]))
        unsure = [evidence for evidence in shown if evidence["by"] == WORDS and evidence["score"] < UNSURE]
        doubts = [f"{len(unsure)} of {len(shown)} documents are unsure"] if unsure else []
        doubts += [f"{len(one['doubtful'])} more documents come near it"] if one["doubtful"] else []
        doubts += [f"the opposite is said, too: {', '.join(one['opposites'])}"] if one["opposites"] else []
        weight = len(unsure) + len(one["doubtful"]) / 2 + 3 * len(one["opposites"])
        row = {
            "run": run,
            "insight_id": one["insight_id"],
            "rank": str(one["rank"]),
            "confidence": f"{one['confidence']:.2f}",
            "doubts": "; ".join(doubts),
            "insight": one["insight"],
            "evidence": "\n".join(f"{evidence['document_id']}: {evidence['text']}" for evidence in shown[:_SHOWN]),
            "documents": _SEPARATOR.join(evidence["document_id"] for evidence in one["evidence"]),
        }
        rows.append((-weight / (len(shown) or 1), int(one["rank"]), {**row, **dict.fromkeys(COLUMNS[8:], "")}))
    return [row for *_, row in sorted(rows, key=lambda entry: entry[:2])]


def accepted(raw: Mapping[str, Any], rows: Sequence[Mapping[str, str]], file: str) -> dict[str, Any]:
    """The haystack after a person's review. Raises UserError, which names the row and the column, for what cannot be read.

    Strikes (`keep`: no), rewords, merges into another insight, adds documents. A row in which a person wrote is a seen one.
    """
    made = copy.deepcopy(dict(raw))
    known = {one["insight_id"]: one for one in kept_insights(made)}
    texts = {document["document_id"]: document for document in made["documents"]}
    holders = {
        insight_id: {name for name, one in texts.items() if insight_id in one["insights_included"]} for insight_id in known
    }
    struck, seen = set[str](), set[str]()
    merges: dict[str, tuple[str, UserError]] = {}
    for number, row in enumerate(rows, start=2):
        insight_id = row["insight_id"].strip()
        keep, reword, into, more = (row.get(name, "").strip() for name in COLUMNS[8:])

        def wrong(column: str, what: str, number: int = number) -> UserError:
            return UserError(f"{file} row {number}, column {column}: {what}")

        if insight_id not in known:
            raise wrong("insight_id", f"{insight_id!r} is no insight of this run; leave the ids as written")
        if keep.lower() not in (*_YES, *_NO, ""):
            raise wrong("keep", f"expected yes or no, found {keep!r}")
        if into and (into not in known or into == insight_id):
            raise wrong("merge_into", f"{into!r} is no other insight of this run; give its insight_id")
        for name in filter(None, map(str.strip, more.replace("\n", _SEPARATOR).split("|"))):
            if name not in texts:
                raise wrong("add_documents", f"{name!r} is no document of this run; give its path in the folder")
            if name not in holders[insight_id]:
                holders[insight_id].add(name)
                known[insight_id]["evidence"].append({"document_id": name, "score": 1.0, "by": PERSON, "key": "", "text": ""})
        if keep or reword or into or more:
            seen.add(insight_id)
        if keep.lower() in _NO:
            struck.add(insight_id)
        if into:
            merges[insight_id] = into, wrong("merge_into", f"{into!r} is struck, or merged into this one; give one that stays")
            seen.add(into)
        if reword:
            known[insight_id]["insight"] = reword
    for insight_id, (into, error) in merges.items():
        passed = {insight_id}
        while into in merges and into not in passed:
            passed.add(into)
            into = merges[into][0]
        if into in passed or into in struck:
            raise error
        known[into]["evidence"] += [one for one in known[insight_id]["evidence"] if one["document_id"] not in holders[into]]
        holders[into] |= holders[insight_id]
    struck |= merges.keys()
    for name, document in texts.items():
        document["insights_included"] = [one for one in known if one not in struck and name in holders[one]]
    for one in known.values():
        one["reviewed"] = one["insight_id"] in seen
        one["opposites"] = [other for other in one["opposites"] if other not in struck]
    for subtopic in made["subtopics"]:
        subtopic["insights"] = [one for one in subtopic["insights"] if one["insight_id"] not in struck]
    made["subtopics"] = [subtopic for subtopic in made["subtopics"] if subtopic["insights"] or subtopic.get("absent")]
    if not any(subtopic["insights"] for subtopic in made["subtopics"]):
        raise UserError(f"{file}: every insight is struck; keep at least one")
    for rank, one in enumerate(kept_insights(made), start=1):
        one["rank"] = rank
    made["topic_metadata"]["mine"]["reviewed"] = {"seen": len(seen), "of": len(known), "struck": len(struck)}
    return made
