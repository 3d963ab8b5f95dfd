"""Where something in a synthesis comes from: a haystack, a document, an answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.explain import SHORTEST_KEY
from summhay_ray.benchmarks.summhay.sources import read_source
from summhay_ray.benchmarks.summhay.tables import rows_of
from summhay_ray.benchmarks.synth.made import Made, made_by
from summhay_ray.benchmarks.synth.replayed import answers_of_document, prompt_of, told
from summhay_ray.benchmarks.synth.topic import synthesis_of
from summhay_ray.benchmarks.synth.topics import stored_topics
from summhay_ray.haystack import ReleasedFile
from summhay_ray.llm import RawAnswer
from summhay_ray.outcome import MICROS
from summhay_ray.store import RunStore, StoreError
from summhay_ray.synth import Topic

CHECK = "check"
"""The task of an answer that a check names, and that no input tells of."""
NAMED = 8
"""So many haystacks are named in an error."""
_SIZES = ("tokens", "words", "calls", "checks", "checks_by_model", "corrections")
_ROUND_OF = {
    "document_copy": ["kind"],
    "subtopic_distinct": ["kind", "subject"],
    "insight_distinct": ["kind", "subject"],
    "query_leak": ["kind", "subject"],
}
"""Kinds that have no row of what is not there any more -> the columns by which rounds are counted: the last one says it all."""
_MADE_OF = ("seed", "license", "shape", "difficulty", "models", "conflicts", "offline_writer")


@dataclass(frozen=True, slots=True)
class _Named:
    """What a key names: a topic's cell, and of it a document or an answer."""

    cell_id: str
    document_id: str = ""
    answer: str = ""


def explain_synth(run: RunStore, key: str) -> dict[str, Any]:
    """From a haystack (its name, haystack_id or cell), one of its documents, `NAME/DOCUMENT_ID`, or an answer (its key).

    Ids and keys may be cut to their beginning. A haystack shows its sizes and its checks by kind, a document what was planned
    and found in it, an answer its prompt and the checks that stand on it. Raises StoreError as `explain` does.
    """
    topics, made = dict(stored_topics(run.store, run.record)), made_by(run)
    named = _find(run, key, topics, made)
    cell_id = named.cell_id
    source = read_source(run.store, made[cell_id].source()) if cell_id in made else None
    checks = run.table("checks", [cell_id])
    raw: dict[str, RawAnswer] = {one.key: one for one in rows_of(run, "raw_answers", [cell_id])}
    found: dict[str, Any] = {
        "run": run.run_id,
        "cell_id": cell_id,
        "topic": asdict(topics[cell_id]),
        "haystack": _haystack(made[cell_id], source) if source else None,
        "checks": [],
        "checks_by_kind": [],
        "amiss": [],
        "documents": [],
        "document": None,
        "raw_answer": None,
        "prompt": None,
        "answers": len(raw),
        "failures": run.table("failures", [cell_id]).to_dicts(),
    }
    texts = _texts(source)
    if named.answer:
        shown = _told(checks.filter(pl.col("key") == named.answer), texts)
        prompt = prompt_of(run, topics[cell_id], raw, named.answer)
        return {**found, "checks": shown, "raw_answer": asdict(raw[named.answer]), "prompt": prompt}
    if named.document_id:
        shown = _told(checks.filter(pl.col("subject") == named.document_id), texts)
        return {**found, "checks": shown, "document": _document(run, topics[cell_id], named.document_id, (source, shown, raw))}
    return {
        **found,
        "checks_by_kind": _by_kind(checks),
        "amiss": _told(_amiss(checks, _ids(source)), texts),
        "documents": _documents(source) if source else [],
    }


def _find(run: RunStore, key: str, topics: Mapping[str, Topic], made: Mapping[str, Made]) -> _Named:
    haystack, slash, document_id = key.partition("/")
    hits = {_Named(cell) for cell, topic in topics.items() if topic.name == haystack}
    if not hits and len(haystack) >= SHORTEST_KEY:
        hits = {_Named(one.cell_id) for one in made.values() if one.haystack_id.startswith(haystack)}
        hits |= {_Named(cell) for cell in topics if cell.startswith(haystack)}
        hits |= set() if slash else set(_answers(run, topics, key))
    if not hits:
        names = [topic.name for topic in topics.values()]
        known = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
        if len(key) < SHORTEST_KEY:
            raise StoreError(
                f"key {key!r} is too short for a cell_id or an answer's key, and no haystack of run {run.run_id} has that name; "
                f"it has: {known}"
            )
        raise StoreError(f"run {run.run_id} has no cell or answer {key!r}, and no haystack of that name; it has: {known}")
    if len(hits) > 1:
        raise StoreError(f"{len(hits)} cells or answers of run {run.run_id} begin with {key!r}; give more of it")
    [found] = hits
    return _Named(found.cell_id, document_id) if slash else found


def _answers(run: RunStore, topics: Mapping[str, Topic], key: str) -> Iterator[_Named]:
    for cell in topics:
        for answer in run.table("raw_answers", [cell]).filter(pl.col("key").str.starts_with(key))["key"].to_list():
            yield _Named(cell, answer=answer)


def _haystack(made: Made, source: ReleasedFile) -> dict[str, Any]:
    told, haystack = synthesis_of(source), source.haystack
    return {
        "name": made.name,
        "haystack_id": made.haystack_id,
        "entry": made.entry,
        "domain": haystack.domain,
        "documents": len(haystack.documents),
        "subtopics": len(haystack.subtopics),
        "distractors": len(told["distractors"]),
        "insights": len(haystack.insights),
        **{name: int(told[name]) for name in _SIZES},
        "usd": told["usd_micros"] / MICROS,
        **{name: told[name] for name in _MADE_OF},
    }


def _by_kind(checks: pl.DataFrame) -> list[dict[str, Any]]:
    """A row for each kind: how many were made (`n`), by whom, and how many found another thing than was expected."""
    rows: dict[str, dict[str, Any]] = {}
    for check in checks.sort("position").iter_rows(named=True):
        row = rows.setdefault(check["kind"], {"kind": check["kind"], "n": 0, "unexpected": 0, "by": {}})
        row["n"] += 1
        row["unexpected"] += check["expected"] != check["found"]
        row["by"][check["by"]] = row["by"].get(check["by"], 0) + 1
    return list(rows.values())


def _amiss(checks: pl.DataFrame, held: Collection[str]) -> pl.DataFrame:
    """The checks that found another thing than was expected, and that stand at the end: no later one takes them back.

    `held`: ids of all that the haystack holds, and nothing is told of anything else; empty where there is no haystack. A chapter
    is no text of its own any more once its document is checked.
    """
    last = checks.sort("position").unique(["kind", "subject", "object"], keep="last", maintain_order=True)
    for kind, looked_through in _ROUND_OF.items():
        last = last.filter((pl.col("kind") != kind) | (pl.col("round") == pl.col("round").max().over(looked_through)))
    checked = last.filter(pl.col("kind") == "document_insight")["subject"].unique().to_list()
    last = last.filter((pl.col("kind") != "chapter_insight") | ~pl.col("subject").is_in(checked))
    if held:
        last = last.filter(*(pl.col(place).is_in(["", *held]) for place in ("subject", "object")))
    return last.filter(pl.col("expected") != pl.col("found"))


def _ids(source: ReleasedFile | None) -> list[str]:
    """Of all that a haystack holds; empty where there is none."""
    return [*_texts(source), *(one["document_id"] for one in source.raw["documents"])] if source else []


def _texts(source: ReleasedFile | None) -> dict[str, str]:
    """Id -> words of the insights and subtopics of a haystack, those that distract among them."""
    if source is None:
        return {}
    texts = {one.insight_id: one.text for one in source.haystack.insights}
    texts |= {one.subtopic_id: one.text for one in source.haystack.subtopics}
    for subtopic in synthesis_of(source).get("distractors", []):
        texts[subtopic["subtopic_id"]] = subtopic["subtopic"]
        texts |= {one["insight_id"]: one["insight"] for one in subtopic["insights"]}
    return texts


def _told(checks: pl.DataFrame, texts: Mapping[str, str]) -> list[dict[str, Any]]:
    """Checks, with the words of what they are about where the haystack holds them."""
    return [
        {**check, **{f"{place}_text": texts[check[place]] for place in ("subject", "object") if check[place] in texts}}
        for check in checks.sort("position").iter_rows(named=True)
    ]


def _documents(source: ReleasedFile) -> list[dict[str, Any]]:
    """A row for each document; its insights are those that are asked about and those that distract."""
    return [_described(one, source) for one in source.raw["documents"]]


def _described(document: Mapping[str, Any], source: ReleasedFile) -> dict[str, Any]:
    known = document["document_id"]
    metadata = document.get("document_metadata") or {}
    distracting = [
        insight["insight_id"]
        for subtopic in synthesis_of(source).get("distractors", [])
        for insight in subtopic["insights"]
        if known in insight["documents"]
    ]
    return {
        "document_id": known,
        "words": len(document["document_text"].split()),
        "insights": list(document["insights_included"]),
        "distractors": distracting,
        **{name: metadata.get(name) for name in ("writer", "date", "refers_to", "corrections")},
    }


def _document(
    run: RunStore,
    topic: Topic,
    document_id: str,
    kept: tuple[ReleasedFile | None, list[dict[str, Any]], Mapping[str, RawAnswer]],
) -> dict[str, Any]:
    """One document: its text, what was planned and what was found in it, and the answers that it stands on."""
    source, checks, raw = kept
    if source is None:
        raise StoreError(
            f"topic {topic.name!r} of run {run.run_id} gave no haystack, so it has no documents; see explain without it"
        )
    documents = source.raw["documents"]
    places = {one["document_id"]: place for place, one in enumerate(documents)}
    if document_id not in places:
        ids = [*places]
        raise StoreError(f"haystack {topic.name} has no document {document_id!r}; it has {len(ids)}, {ids[0]} to {ids[-1]}")
    document, number = documents[places[document_id]], places[document_id] + 1
    answers = answers_of_document(run, topic, raw, number)
    known = {one["key"] for one in answers}
    keys = dict.fromkeys(check["key"] for check in checks if check["key"] not in known)
    return {
        **_described(document, source),
        "number": number,
        "text": document["document_text"],
        "plan": _plan(checks),
        "answers": [*answers, *told(raw, CHECK, [key for key in keys if key in raw])],
    }


def _plan(checks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The insights that were planned or found in a document, as its last check of each says."""
    last = {check["object"]: check for check in checks if check["kind"] == "document_insight"}
    return [
        {
            "insight_id": check["object"],
            "insight": check.get("object_text", ""),
            "planned": check["expected"] == "yes",
            "found": check["found"] == "yes",
            **{name: check[name] for name in ("round", "by", "score", "evidence", "key")},
        }
        for check in last.values()
        if "yes" in (check["expected"], check["found"])
    ]
