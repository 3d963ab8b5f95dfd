"""The workload of mining: one item, the folder, which becomes a haystack."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import polars as pl

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Failed,
    Inputs,
    Item,
    NoReply,
    Queue,
    Rows,
    Section,
    SpecError,
    Stage,
    Table,
    Tables,
    Unreadable,
    read_json,
)
from summhay_ray.benchmarks.mine import prompts
from summhay_ray.benchmarks.mine.spec import MineSpec
from summhay_ray.benchmarks.summhay.export import released_text
from summhay_ray.benchmarks.summhay.sources import STORE, source_bytes
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.mine import (
    Evidence,
    Grouped,
    Mined,
    Source,
    Unread,
    group_insights,
    haystack_json,
    kept_insights,
    language_of,
    read_folder,
)
from summhay_ray.mine import mine as mine_documents
from summhay_ray.store import Chain, RunStore, Store, StoreError
from summhay_ray.synth import is_quoted, leak

SHOWN, CUT = 20, 80
"""Insights that a run prints, and the characters of each."""
DOCUMENTS = "documents.json"
"""The name under which the run keeps what was read of the folder."""


@dataclass(frozen=True, slots=True)
class MinedInsight:
    """A row of table `mined`: an insight that recurs."""

    insight_id: Annotated[str, "identifier, unique within the haystack"]
    rank: Annotated[int, "from 1, the surest"]
    confidence: Annotated[float, "0 to 1: how surely its documents say it, times how specific it is"]
    insight: Annotated[str, "the insight as one statement"]
    subtopic: Annotated[str, "the subtopic that it is asked for with"]
    query: Annotated[str, "the query of the subtopic"]
    documents: Annotated[int, "documents that say it"]
    unsure: Annotated[int, "of these, those that the free path is not sure of, and no model was asked about"]
    opposites: Annotated[tuple[str, ...], "ids of the insights that state the opposite"]


@dataclass(frozen=True, slots=True)
class MinedEvidence:
    """A row of table `mined_evidence`: a document that says an insight."""

    insight_id: Annotated[str, "the insight"]
    document_id: Annotated[str, "the document: its path in the folder"]
    score: Annotated[float, "share of the insight's core in the evidence, 0 to 1"]
    by: Annotated[str, "words, or the model that was asked"]
    evidence: Annotated[str, "the sentences of the document that say it"]


@dataclass(frozen=True, slots=True)
class MinedHaystack:
    """A row of table `mined_haystack`: what the run has made."""

    digest: Annotated[str, "sha256 of its released JSON in the store"]
    name: Annotated[str, "name of the haystack"]
    documents: Annotated[int, "documents that were read"]
    subtopics: Annotated[int, "its subtopics, each with a query"]
    insights: Annotated[int, "its insights"]
    unsure: Annotated[int, "pairs of insight and document that nobody is sure of"]
    notes: Annotated[tuple[str, ...], "what a person should know: equal documents, another language"]


MINED = Table("mined", MinedInsight, ("insight_id",))
EVIDENCE = Table("mined_evidence", MinedEvidence, ("insight_id", "document_id"))
HAYSTACK = Table("mined_haystack", MinedHaystack, ("digest",))


class Mine(Benchmark[MineSpec]):
    """The folder is read, mined and written as a haystack; each step is free, or asks a model."""

    kind = "mine"
    prefix = "m"
    stages = (
        Stage("check", output_tokens=120, example='{"1": ""}'),
        Stage("insight", output_tokens=50, example="An insight."),
        Stage("query", output_tokens=30, example="What do the documents say?"),
    )
    tables = (MINED, EVIDENCE, HAYSTACK)
    counted = Counted("folders")

    def __init__(self, spec: MineSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        self.store: Store | None = None
        if not inputs.settled:
            inputs.give(DOCUMENTS, _read(spec, inputs))
        held = json.loads(inputs.read(DOCUMENTS))
        self.folder_name: str = held["name"]
        self.sources = [Source(*row) for row in held["documents"]]
        self.unread = [Unread(*row) for row in held["unread"]]

    @classmethod
    def from_record(cls, store: Store, record: Mapping[str, Any]) -> Mine:
        """See `Workload`."""
        workload: Mine = super().from_record(store, record)  # type: ignore[assignment]
        workload.store = store
        return workload

    def open(self, store: Store) -> RunStore:
        """See `Workload`."""
        self.store = store
        return super().open(store)

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`: what was read, and the haystacks that were made of it."""
        yield from super().objects(run)
        yield from (("haystack", row.digest) for row in HAYSTACK.records(run.table(HAYSTACK.name)))
        if newest := reviews_of(run).newest():
            yield "haystack", newest[1]["digest"]

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`: one queue, of all models."""
        return {"": Queue(tuple(self.settings()), computes=not self.spec.models.used())}

    def items(self) -> Iterator[Item]:
        """See `Workload`: the folder."""
        yield Item(self.name, data={"documents": len(self.sources), "unread": len(self.unread)})

    @property
    def name(self) -> str:
        """The haystack's name."""
        return self.folder_name

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`: the haystack's rows, and a failure for each file that cannot be read."""
        for unread in self.unread:
            ask.fail("read", Failed(unread.error, f"{unread.document_id} {unread.message}"))
        models = self.spec.models.used()
        if ask.planning and not models:
            return {}
        mined, copies = await asyncio.to_thread(mine_documents, self.sources, self.spec.min_documents)
        if not mined:
            least = self.spec.min_documents
            why = (
                f"nothing recurs in {least} of the {len(self.sources)} documents; lower min_documents, or give more that overlap"
            )
            ask.fail("group", Failed("nothing_recurs", why))
            return {}
        asked: set[tuple[int, int]] = set()
        if "check" in models:
            mined, asked = await self._checked(mined, ask)
        if not mined:
            why = f"by the check model's word, no {self.spec.min_documents} documents say the same; lower min_documents"
            ask.fail("check", Failed("nothing_recurs", why))
            return {}
        if "insight" in models:
            mined = await self._worded(mined, ask)
        topic = self.spec.topic or self.folder_name
        grouped = await asyncio.to_thread(group_insights, [one.text for one in mined], topic)
        if "query" in models:
            grouped = await self._asked_for(grouped, mined, ask)
        notes = _notes(self.sources, copies, "check" in models)
        made: dict[str, Any] = {
            "run": self.run_id,
            "models": {step: model.label for step, model in models.items()},
            "notes": notes,
        }
        made |= {"min_documents": self.spec.min_documents, "reviewed": {"seen": 0, "of": len(mined), "struck": 0}}
        raw = haystack_json(self.sources, mined, grouped, topic, made)
        return {} if ask.planning else await asyncio.to_thread(self._rows, raw, mined, asked, notes)

    def _rows(self, raw: dict[str, Any], mined: Sequence[Mined], asked: set[tuple[int, int]], notes: Sequence[str]) -> Rows:
        assert self.store is not None
        digest = self.store.put_object("haystack", source_bytes(raw))
        of = {one["insight_id"]: subtopic for subtopic in raw["subtopics"] for one in subtopic["insights"]}
        model = self.spec.models.check.label if self.spec.models.check else ""
        insights, evidence, doubts = [], [], 0
        for place, (one, kept) in enumerate(zip(mined, kept_insights(raw), strict=True)):
            unsure = sum(not found.sure and (place, found.document) not in asked for found in one.evidence)
            doubts += unsure
            subtopic = of[kept["insight_id"]]
            insights.append(
                MinedInsight(
                    insight_id=kept["insight_id"],
                    rank=kept["rank"],
                    confidence=kept["confidence"],
                    insight=kept["insight"],
                    subtopic=subtopic["subtopic"],
                    query=subtopic["query"],
                    documents=len(one.evidence),
                    unsure=unsure,
                    opposites=tuple(kept["opposites"]),
                )
            )
            for found in one.evidence:
                by = model if (place, found.document) in asked else "words"
                name = self.sources[found.document].document_id
                evidence.append(MinedEvidence(kept["insight_id"], name, found.score, by, found.text))
        sizes = (len(self.sources), len(raw["subtopics"]), len(mined), doubts)
        return {
            "mined": insights,
            "mined_evidence": evidence,
            "mined_haystack": [MinedHaystack(digest, self.name, *sizes, tuple(notes))],
        }

    async def _checked(self, mined: Sequence[Mined], ask: Ask) -> tuple[list[Mined], set[tuple[int, int]]]:
        """The insights after the check model has read what the free path is unsure of; and the pairs that it decided."""
        unsure: dict[int, list[int]] = {}
        for place, one in enumerate(mined):
            for found in (*(found for found in one.evidence if not found.sure), *one.doubtful):
                unsure.setdefault(found.document, []).append(place)
        decided: dict[tuple[int, int], str | None] = {}

        async def read(document: int, places: Sequence[int]) -> None:
            text, listed = self.sources[document].text, [mined[place].text for place in places]
            try:
                reply = await ask("check", prompts.check(text, listed), model=self.spec.models.check)
                numbers = [str(number) for number in range(1, len(places) + 1)]
                said = read_json(reply, *numbers)
                if not all(isinstance(said[number], str) for number in numbers):
                    raise Unreadable(reply, "a string for each number")
                for number, place in zip(numbers, places, strict=True):
                    words = said[number].strip()
                    # Words that the document does not have decide nothing: the pair stays as unsure as it was.
                    if not words or is_quoted(words, text):
                        decided[place, document] = words or None
            except NoReply as none:
                ask.record(none)

        await asyncio.gather(*(read(document, places) for document, places in sorted(unsure.items())))
        if ask.planning:
            return list(mined), set()
        checked = []
        for place, one in enumerate(mined):
            both = sorted((*one.evidence, *one.doubtful), key=lambda found: found.document)
            kept = [self._decided(found, decided.get((place, found.document), ""), found in one.evidence) for found in both]
            evidence = tuple(found for found in kept if found is not None)
            doubtful = tuple(found for found in one.doubtful if (place, found.document) not in decided)
            checked.append(replace(one, evidence=evidence, doubtful=doubtful))
        enough = [place for place, one in enumerate(checked) if len(one.evidence) >= self.spec.min_documents]
        number = {place: position for position, place in enumerate(enough)}
        kept_ones = [
            replace(checked[place], opposites=tuple(number[other] for other in checked[place].opposites if other in number))
            for place in enough
        ]
        return kept_ones, {(number[place], document) for place, document in decided if place in number}

    @staticmethod
    def _decided(found: Evidence, words: str | None, evident: bool) -> Evidence | None:
        """The evidence by the model's word: a quotation, None for "does not say it", or empty where it was not asked."""
        if words == "":
            return found if evident else None
        return None if words is None else replace(found, text=words)

    async def _worded(self, mined: Sequence[Mined], ask: Ask) -> list[Mined]:
        async def word(one: Mined) -> Mined:
            try:
                shown = [found.text for found in sorted(one.evidence, key=lambda found: -found.score)[:5]]
                reply = await ask("insight", prompts.insight(shown), model=self.spec.models.insight)
                if not (text := " ".join(reply.text.split())):
                    raise Unreadable(reply, "one sentence")
                return replace(one, text=text)
            except NoReply as none:
                ask.record(none)
                return one

        worded = await asyncio.gather(*map(word, mined))
        texts: set[str] = set()
        kept = []
        for old, new in zip(mined, worded, strict=True):
            # Two insights that a model words alike keep their own sentences: their ids are hashes of the texts.
            kept.append(old if new.text in texts else new)
            texts.add(new.text)
        return kept

    async def _asked_for(self, grouped: Sequence[Grouped], mined: Sequence[Mined], ask: Ask) -> list[Grouped]:
        async def word(group: Grouped) -> Grouped:
            try:
                listed = [mined[place].text for place in group.places]
                reply = await ask("query", prompts.query(group.text, listed), model=self.spec.models.query)
                query = " ".join(reply.text.split())
                if not query:
                    raise Unreadable(reply, "one question")
                if any(leak(query, text, group.text).found for text in listed):
                    raise Unreadable(reply, "a question that gives none of its insights away")
                return replace(group, query=query)
            except NoReply as none:
                ask.record(none)
                return group

        return list(await asyncio.gather(*map(word, grouped)))

    # --- results ------------------------------------------------------------------------------------------------------

    def score(self, tables: Tables) -> Tables:
        """See `Workload`."""
        mined = tables["mined"].sort("rank")
        insights = mined.select("rank", "confidence", "unsure", "insight_id", "insight", n="documents")
        subtopics = mined.group_by("subtopic", "query", maintain_order=True).agg(insights=pl.len())
        return {"insights": insights, "subtopics": subtopics, "haystack": tables["mined_haystack"]}

    def report(self, scores: Tables) -> Sequence[Section]:
        """See `Workload`."""
        made = scores["haystack"]
        notes = [note for row in made.iter_rows(named=True) for note in row["notes"]]
        text = (
            "The surest first; n: documents that say it, of which unsure ones rest on some of its words. Real prose varies more "
            "than a model's: read the doubts (--review) before you trust the last ones."
        )
        insights = scores["insights"]
        brief = insights.head(SHOWN).select("rank", "confidence", "n", "unsure", pl.col("insight").str.head(CUT))
        surest = Section(
            f"The {brief.height} surest of {insights.height} insights that recur", text, brief, notes=notes, name="surest"
        )
        every = Section("All insights", table=insights, more=True, name="insights")
        return [surest, every, Section("Subtopics and their queries", table=scores["subtopics"], more=True, name="subtopics")]

    def details(self, scores: Tables) -> Mapping[str, Any]:
        """See `Workload`: the sizes of the haystack, null if there is none."""
        made = next(scores["haystack"].iter_rows(named=True), None) or {}
        sizes = {name: made.get(name) for name in ("documents", "insights", "subtopics", "unsure")}
        return {"path": None, **sizes, "notes": list(made.get("notes", ()))}

    def explain(self, run: RunStore, key: str, compat: Any = "default") -> dict[str, Any]:
        """See `Workload`. `key` may also be an insight's id, or INSIGHT_ID/DOCUMENT_ID: why is it a document of this insight?"""
        insight_id, _, document_id = key.partition("/")
        insight = run.table(MINED.name).filter(pl.col("insight_id").str.starts_with(insight_id))
        if len(insight_id) < 4 or insight.height != 1:
            return super().explain(run, key, compat)
        row = insight.row(0, named=True)
        evidence = run.table(EVIDENCE.name).filter(pl.col("insight_id") == row["insight_id"])
        if document_id:
            evidence = evidence.filter(pl.col("document_id") == document_id)
        return {"run": run.run_id, "item": self.name, "insight": row, "evidence": evidence.to_dicts()}

    def entries(self, store: Store, path: str) -> list[str]:
        """The haystack, as last accepted, as an entry for another spec. Raises SpecError if it is not made yet."""
        if store.files.exists(f"runs/{self.run_id}/run.json"):
            run = store.run(self.run_id)
            if digest := latest_digest(run):
                return [f"{STORE}{digest}/{self.name}.json"]
        raise SpecError(f"its haystack is not in the store {store.uri!r}; make it first: summhay run {path} --store {store.uri}")

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: as released JSON."""
        path = folder / f"{self.name}.json"
        folder.mkdir(parents=True, exist_ok=True)
        write_mined(run, path)
        return [path]


def reviews_of(run: RunStore) -> Chain:
    """The haystacks that a person has accepted, the newest last."""
    return Chain(run.store.files, f"runs/{run.run_id}/reviews", "delete it and those after it, and accept the sheet again")


def latest_digest(run: RunStore, reviewed: bool = True) -> str:
    """The digest of the run's haystack; `reviewed`: as a person last accepted it. Empty if there is none yet."""
    if reviewed and (newest := reviews_of(run).newest()):
        return str(newest[1]["digest"])
    rows = HAYSTACK.records(run.table(HAYSTACK.name))
    return str(rows[0].digest) if rows else ""


def haystack_of(run: RunStore, reviewed: bool = True) -> dict[str, Any]:
    """The run's haystack as released JSON. Raises StoreError if it has none."""
    digest = latest_digest(run, reviewed)
    if not digest:
        raise StoreError(f"{run.run_id} has no haystack; summhay failures {run.run_id} says why")
    raw: dict[str, Any] = json.loads(run.store.get_object("haystack", digest))
    return raw


def write_mined(run: RunStore, path: Path) -> None:
    """Write the run's haystack. Raises UserError if another file of this name exists."""
    text = released_text(haystack_of(run))
    if path.exists() and not _mined(path):
        raise UserError(f"{path} exists and is no mined haystack; give another file")
    path.write_text(text, encoding="utf-8")


def _mined(path: Path) -> bool:
    """Whether the file is an earlier haystack of this command, which may be replaced."""
    try:
        return "mine" in json.loads(read_file(path))["topic_metadata"]
    except (OSError, UserError, ValueError, KeyError, TypeError, RecursionError):
        return False


def _read(spec: MineSpec, inputs: Inputs) -> bytes:
    """The folder's documents and what could not be read, as the run keeps them. Raises SpecError where nothing can recur."""
    folder = inputs.path(spec.folder)
    if not folder.is_dir():
        raise SpecError(f"spec: folder: {spec.folder!r} is a file; give the folder that holds the documents")
    sources, unread = read_folder(folder, spec.part_tokens)
    if len(sources) < spec.min_documents:
        few = f"{len(sources)} documents with text" if len(sources) != 1 else "1 document with text"
        lost = f" ({len(unread)} cannot be read, such as {unread[0].document_id!r}, which {unread[0].message})" if unread else ""
        problem = f"{spec.folder!r} has {few}{lost}; insights recur in at least {spec.min_documents} (min_documents)"
        raise SpecError(f"spec: folder: {problem}; add documents")
    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in folder.resolve().name) or "documents"
    held = {
        "name": name,
        "documents": [[*asdict(one).values()] for one in sources],
        "unread": [[*asdict(one).values()] for one in unread],
    }
    return source_bytes(held)


def _notes(sources: Sequence[Source], copies: Sequence[tuple[int, int]], checked: bool) -> list[str]:
    """What a person should know about the documents."""
    notes = []
    if copies:
        later, earlier = copies[0]
        such = f"{sources[later].document_id} is equal to {sources[earlier].document_id}"
        notes.append(f"{len(copies)} documents are equal to an earlier one, and count once for recurrence: {such}")
    language = language_of([source.text for source in sources])
    if language != "english" and not checked:
        what = "in another script" if language == "other" else "in another language than English"
        notes.append(f"the documents seem to be {what}: words alone are less sure there; name a model as models.check")
    return notes
