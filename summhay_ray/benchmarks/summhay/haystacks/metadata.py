"""The tables of runs on haystacks, and the metadata of a haystack: what a run needs to know of it, except its documents.

The metadata exists for runs of many haystacks. To list, plan and score 18,000 cells of 1,000 haystacks, a run needs every
haystack's queries, numbers of insights and gold documents, but no document text. This takes some 4 KiB per haystack, while a
source takes some 550 KB. The store keeps the metadata with the run, because a score or a report would need 10 s to read 1,000
sources. The run's tables cannot replace it: they are written after the cells are listed, and lack `warnings` and `released`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import polars as pl
from typing_extensions import TypedDict

from summhay_ray import records
from summhay_ray.benchmark import RawAnswer, RunStore, Store, Table
from summhay_ray.haystack import RELEASED_RETRIEVERS, HaystackFacts, ReleasedFile, facts_of, read_released
from summhay_ray.records import NUGGET_WEIGHTS, OTHER, Gold, Subtopic

_STORED = "outlines"
"""The kind of the store's object that holds a run's metadata, and the field of the run's record with its digest."""
DOCUMENTS_OF_PAPER = 100
"""Number of documents in each haystack of the paper."""
_PLACE = ("haystack_id", "position")
_INSIGHT = ["haystack_id", "insight_id"]


@dataclass(frozen=True, slots=True)
class HaystackMetadata:
    """What a run needs to know of a haystack, except its documents and the texts of its insights."""

    haystack_id: str
    name: str
    domain: str
    n_documents: int
    n_insights: tuple[int, ...]
    """Number of insights of each subtopic, in the order of `subtopics`."""
    released: tuple[str, ...]
    """Sorted names of the retrievers whose released scores the source holds."""
    warnings: tuple[str, ...]
    digest: str
    """sha256 (hex) of the source as stored (`source_bytes`)."""
    packed: bytes
    """Subtopics, gold documents and importance as compressed JSON, which takes a tenth of the memory."""
    by_grammar: bool = False
    """Whether the source says that `offline/writer` wrote its prose."""
    facts: HaystackFacts | None = None
    """The facts about a mined haystack that were known when the run began."""

    @property
    def of_paper(self) -> bool:
        """Whether this is one of the paper's haystacks: only on those can a run be compared with the paper's figures.

        Only their files have 100 documents and the scores of all of the release's retrievers.
        """
        return self.n_documents == DOCUMENTS_OF_PAPER and {*RELEASED_RETRIEVERS} <= {*self.released}

    @property
    def subtopics(self) -> tuple[Subtopic, ...]:
        """See `Haystack.subtopics`. They are unpacked at each use."""
        listed = enumerate(self.contents["subtopics"])
        return tuple(Subtopic(haystack_id=self.haystack_id, position=position, **subtopic) for position, subtopic in listed)

    @property
    def contents(self) -> dict[str, Any]:
        """`packed` as JSON, unpacked at each use.

        - `subtopics`
        - `gold`: insight -> sorted numbers of documents, or null
        - `importance`: insight -> vital, okay or other; empty for a haystack whose insights are not nuggets
        """
        unpacked: dict[str, Any] = json.loads(zlib.decompress(self.packed))
        return unpacked

    @property
    def gold(self) -> Gold:
        """See `Haystack.gold`."""
        gold = self.contents["gold"].items()
        return {insight_id: None if numbers is None else frozenset(numbers) for insight_id, numbers in gold}

    def to_json(self) -> dict[str, Any]:
        """Return the metadata as JSON."""
        content = {item.name: getattr(self, item.name) for item in fields(self)}
        facts = None if self.facts is None else asdict(self.facts)
        return {**content, "packed": self.contents, "facts": facts}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> HaystackMetadata:
        """Read what `to_json` wrote. Raises KeyError or TypeError for anything else."""
        listed = {name: tuple(written[name]) for name in ("n_insights", "released", "warnings")}
        facts = None if written["facts"] is None else HaystackFacts(**written["facts"])
        return cls(**{**written, **listed, "packed": _pack(**written["packed"]), "facts": facts})


def metadata_of(source: ReleasedFile) -> HaystackMetadata:
    """Return the metadata of the haystack in a source."""
    haystack, synthesis = source.haystack, (source.raw.get("topic_metadata") or {}).get("synthesis")
    words = NUGGET_WEIGHTS["weighted"]
    importance = {one.insight_id: one.importance if one.importance in words else OTHER for one in haystack.insights}
    weighed = haystack.nuggets or any(one.importance for one in haystack.insights)
    gold = {insight_id: None if numbers is None else sorted(numbers) for insight_id, numbers in haystack.gold.items()}
    subtopics = [
        {name: value for name, value in asdict(subtopic).items() if name not in _PLACE} for subtopic in haystack.subtopics
    ]
    return HaystackMetadata(
        haystack_id=haystack.haystack_id,
        name=haystack.name,
        domain=haystack.domain,
        n_documents=len(haystack.documents),
        n_insights=tuple(len(haystack.insights_of(subtopic.subtopic_id)) for subtopic in haystack.subtopics),
        released=tuple(sorted({name for scores in haystack.released_scores.values() for name in scores})),
        warnings=source.warnings,
        digest=hashlib.sha256(source_bytes(source.raw)).hexdigest(),
        packed=_pack(subtopics, gold, importance if weighed else {}),
        by_grammar=isinstance(synthesis, dict) and synthesis.get("offline_writer") is True,
        facts=facts_of(source.raw),
    )


def _pack(subtopics: Sequence[Any], gold: Mapping[str, Any], importance: Mapping[str, str]) -> bytes:
    text = json.dumps({"subtopics": subtopics, "gold": gold, "importance": importance}, separators=(",", ":"))
    return zlib.compress(text.encode("ascii"))


def source_bytes(raw: Mapping[str, Any]) -> bytes:
    """Return a source as the store keeps it: its JSON without spaces, with all fields in their order."""
    return json.dumps(raw, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_source(store: Store, entry: Mapping[str, str]) -> ReleasedFile:
    """Read the source to which an entry of a run's record refers."""
    return read_released(store.get_object("haystack", entry["object"]), entry["name"])


def keep_metadata(store: Store, metadata: Sequence[HaystackMetadata]) -> dict[str, Any]:
    """Put the metadata into the store as one object. Returns the fields of a run's record that refer to it and to the sources."""
    text = b"\n".join(json.dumps(one.to_json(), separators=(",", ":")).encode("ascii") for one in metadata)
    entries = [{"haystack_id": one.haystack_id, "name": one.name, "object": one.digest} for one in metadata]
    return {"haystacks": entries, _STORED: store.put_object(_STORED, text)}


class HaystackEntry(TypedDict):
    """An entry of the field `haystacks` of a run's record: the location of a source."""

    haystack_id: str
    name: str
    object: str


FIELDS_OF_HAYSTACKS: Mapping[str, Any] = {"haystacks": list[HaystackEntry], _STORED: str | None}
"""The types of the fields that `keep_metadata` returned; see `Workload.record_fields`."""


def fields_of_haystacks(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that `keep_metadata` returned, from a run's record, for the record of another run on the same
    haystacks."""
    return {name: record[name] for name in ("haystacks", _STORED) if name in record}


def objects_of_haystacks(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (kind, digest) of the store's objects in these fields: the metadata, if stored, and the sources."""
    if _STORED in record:
        yield _STORED, record[_STORED]
    yield from (("haystack", entry["object"]) for entry in record["haystacks"])


def stored_metadata(store: Store, record: Mapping[str, Any]) -> Sequence[HaystackMetadata]:
    """Return the metadata of a stored run's haystacks, in the run's order. If another version of the program stored it, it is
    made again from the sources, one at a time."""
    if _STORED in record:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            lines = io.BytesIO(store.get_object(_STORED, record[_STORED]))
            return tuple(HaystackMetadata.from_json(json.loads(line)) for line in lines)
    return tuple(metadata_of(read_source(store, entry)) for entry in record["haystacks"])


def gold_by_insight(metadata: Iterable[HaystackMetadata]) -> pl.DataFrame:
    """Return haystack_id, insight_id, and `documents`: the sorted numbers of the documents that contain the insight; null if
    unknown."""
    schema: dict[str, Any] = {**dict.fromkeys(_INSIGHT, pl.String), "documents": pl.List(pl.Int64)}
    rows = [(one.haystack_id, *mark) for one in metadata for mark in one.contents["gold"].items()]
    return pl.DataFrame(rows, schema=schema, orient="row")


def nuggets_of(metadata: Iterable[HaystackMetadata]) -> pl.DataFrame:
    """Return haystack_id, subtopic_id, insight_id and importance (vital, okay or other) of every nugget; see
    `metrics.nugget_scores`."""
    rows: list[tuple[str, str, str, str]] = []
    for haystack in metadata:
        # Insights are listed query by query.
        queries = (one.subtopic_id for one, n in zip(haystack.subtopics, haystack.n_insights, strict=True) for _ in range(n))
        nuggets = haystack.contents["importance"].items()
        rows += [(haystack.haystack_id, query, *nugget) for query, nugget in zip(queries, nuggets, strict=False)]
    return pl.DataFrame(
        rows, schema=dict.fromkeys(("haystack_id", "subtopic_id", "insight_id", "importance"), pl.String), orient="row"
    )


def insights_with_gold(run: RunStore, metadata: Sequence[HaystackMetadata]) -> Iterator[pl.DataFrame]:
    """Yield the run's insights in pieces, without their texts, with the `documents` of `gold_by_insight`."""
    by_id = {one.haystack_id: one for one in metadata}
    for piece in run.pieces("insights", ["haystack_id", "subtopic_id", "insight_id"]):
        gold = gold_by_insight(by_id[one] for one in piece["haystack_id"].unique())
        yield piece.select("haystack_id", "subtopic_id", "insight_id").join(gold, on=_INSIGHT)


def gold_by_query(run: RunStore, metadata: Sequence[HaystackMetadata]) -> pl.DataFrame:
    """Return haystack_id, subtopic_id, and `documents`: the sorted numbers of the documents that contain any insight of the
    subtopic.

    The list is empty if no document contains any. A subtopic without insights has no row.
    """
    documents = pl.col("documents").explode().drop_nulls().unique().sort()
    # All insights of a haystack are in the same piece.
    queries = (
        piece.group_by("haystack_id", "subtopic_id", maintain_order=True).agg(documents)
        for piece in insights_with_gold(run, metadata)
    )
    return pl.concat(queries)


TABLES = (
    # The parts of a haystack are separate tables. Released scores, and the importance of nuggets, stay in the source.
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
"""The stage under which the store lists haystacks."""

BY_NAME = {table.name: table for table in (*TABLES, Table("raw_answers", RawAnswer, ("key",)))}


def rows_of(run: RunStore, name: str, cells: Sequence[str] | None = None) -> list[Any]:
    """Return the rows of a table as records. `cells`: only the rows of these cells."""
    if cells is None or "cell_id" not in run.declared[name].schema.names:
        return BY_NAME[name].records(run.table(name, cells))
    return BY_NAME[name].records(run.table(name).filter(pl.col("cell_id").is_in(cells)))


def haystack_rows(source: ReleasedFile) -> dict[str, list[Any]]:
    """Map each table name to the rows of one haystack."""
    haystack = source.haystack
    return {
        "haystacks": [haystack],
        "subtopics": list(haystack.subtopics),
        "insights": list(haystack.insights),
        "documents": list(haystack.documents),
    }
