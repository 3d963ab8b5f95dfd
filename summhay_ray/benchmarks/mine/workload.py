"""The workload of mining: its single item is the folder, which becomes a haystack."""

import asyncio
import difflib
import functools
import json
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Inputs,
    Item,
    Queue,
    Rows,
    RunStore,
    Section,
    Stage,
    Store,
    Table,
    Tables,
)
from summhay_ray.benchmarks.mine.asking import CUT, AskedSteps
from summhay_ray.benchmarks.mine.carrying import carry_over
from summhay_ray.benchmarks.mine.files import check_files, write_haystack
from summhay_ray.benchmarks.mine.spec import MineSpec
from summhay_ray.benchmarks.summhay.haystacks.metadata import source_bytes
from summhay_ray.benchmarks.summhay.haystacks.reviews import reviews_of
from summhay_ray.benchmarks.summhay.haystacks.sources import STORE
from summhay_ray.errors import SpecError, StoreError, UserError
from summhay_ray.haystack import few_documents
from summhay_ray.mine import (
    LARGEST_FOLDER,
    MINING_REVISION,
    USUAL,
    Mined,
    Mining,
    ReadText,
    Source,
    Step,
    Unread,
    group_insights,
    haystack_json,
    kept_insights,
    language_of,
    read_folder,
    text_read,
)
from summhay_ray.outcome import Failed
from summhay_ray.synth import absent_subjects, absent_subtopics

FEW_INSIGHTS = 30
"""If a run has at least this many documents but finds fewer insights, a note explains why."""
SHOWN = 20
"""Number of insights that a run prints."""
SHORTEST = 4
"""Minimum length of an id prefix by which an insight can be found."""
_CALLS_A_DOCUMENT = 4
"""Computing a document (15 ms) takes as long as this many calls."""
MODELS = "A model finds more: add --set models.claim=MODEL --set models.group=MODEL --budget USD"
DOCUMENTS = "documents.json"
"""The name under which a run stores the documents that it read."""


@dataclass(frozen=True, slots=True)
class MinedInsight:
    """A row of table `mined`: an insight that recurs."""

    insight_id: Annotated[str, "identifier, unique within the haystack"]
    rank: Annotated[int, "from 1, the most certain"]
    confidence: Annotated[float, "0 to 1: how certainly its documents state it, times how specific it is"]
    insight: Annotated[str, "the insight as one statement"]
    subtopic: Annotated[str, "the subtopic that it belongs to"]
    query: Annotated[str, "the query of the subtopic"]
    documents: Annotated[int, "number of documents that state it"]
    unsure: Annotated[int, "number of these that comparing words left uncertain and no model checked"]
    opposites: Annotated[tuple[str, ...], "ids of the insights that state the opposite"]


@dataclass(frozen=True, slots=True)
class MinedEvidence:
    """A row of table `mined_evidence`: a document that states an insight."""

    insight_id: Annotated[str, "the insight"]
    document_id: Annotated[str, "the document: its path in the folder"]
    score: Annotated[float, "share of the insight's core in the evidence, 0 to 1"]
    by: Annotated[str, "who decided: words, or the model that was asked"]
    key: Annotated[str, "the raw answer that decided; empty for words"]
    evidence: Annotated[str, "the sentences of the document that state it"]


@dataclass(frozen=True, slots=True)
class MinedHaystack:
    """A row of table `mined_haystack`: the resulting haystack."""

    digest: Annotated[str, "sha256 of its released JSON in the store"]
    name: Annotated[str, "name of the haystack"]
    documents: Annotated[int, "number of documents read"]
    subtopics: Annotated[int, "number of its subtopics, each with a query"]
    insights: Annotated[int, "number of its insights"]
    unsure: Annotated[int, "number of uncertain pairs of an insight and a document"]
    notes: Annotated[tuple[str, ...], "notes for people, such as equal documents or another language"]


MINED = Table("mined", MinedInsight, ("insight_id",))
EVIDENCE = Table("mined_evidence", MinedEvidence, ("insight_id", "document_id"), texts=("evidence",))
HAYSTACK = Table("mined_haystack", MinedHaystack, ("digest",))


class KeptSteps:
    """Stores the results of mining steps until the run has its haystack."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._files, self._folder = store.files, f"runs/{run_id}/blocks"

    def __call__(self, step: Step, make: Callable[[], bytes]) -> bytes:
        """Return the stored result of a step. An actor of the run may have stored it, or the run itself before it was killed. If
        no result is stored, compute and store it."""
        try:
            return self._files.read(self._file(step), is_large=True)
        except FileNotFoundError:
            content = make()
            self._files.create(self._file(step), content)
            return content

    def forget(self, mining: Mining) -> None:
        """Delete the results of all steps."""
        for step in (*mining.reading, *mining.comparing):
            self._files.delete(self._file(step))

    def _file(self, step: Step) -> str:
        return f"{self._folder}/{step.name}-{step.begin}"


class Mine(Benchmark[MineSpec]):
    """Makes a haystack from a folder. Each step is free or asks a model."""

    kind = "mine"
    stages = (
        Stage("claim", output_tokens=600, example="[]"),
        Stage("group", output_tokens=30, example="[]"),
        Stage("check", output_tokens=120, example='{"1": ""}'),
        Stage("insight", output_tokens=50, example="An insight."),
        Stage("query", output_tokens=30, example="What do the documents say?"),
    )
    tables = (MINED, EVIDENCE, HAYSTACK)
    counted = Counted("folders", prefix="m")

    def __init__(self, spec: MineSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        if not inputs.settled:
            inputs.give(DOCUMENTS, _read(spec, inputs))
        held = json.loads(inputs.read(DOCUMENTS))
        self.name: str = held["name"]
        self._sources = [Source(*row) for row in held["documents"]]
        self._unread = [Unread(*row) for row in held["unread"]]
        # If a model groups insights, keep those found in two documents: the model may join them with others.
        self._least = 2 if spec.models.group else spec.min_documents

    @functools.cached_property
    def _kept(self) -> KeptSteps:
        assert self.inputs.store is not None
        return KeptSteps(self.inputs.store, self.run_id)

    @functools.cached_property
    def _mining(self) -> Mining:
        return Mining(self._sources, self._least, keep=self._kept)

    def identity(self) -> Any:
        """See `Workload`. A later version may find other insights in the same documents."""
        return {**super().identity(), "mining": MINING_REVISION}

    def queues(self) -> Mapping[str, Queue]:
        """See `Workload`. Returns one queue, which all models share."""
        return {"": Queue(tuple(self.models.settings()), computes=not self.spec.models.by_step())}

    def items(self) -> Iterator[Item]:
        """See `Workload`. Yields one item, the folder."""
        sizes = {"documents": len(self._sources), "unread": len(self._unread)}
        yield Item(self.name, data=sizes, size=_CALLS_A_DOCUMENT * len(self._sources))

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """See `Workload`. Returns the haystack's rows, and records a failure for each file that cannot be read."""
        models = self.spec.models.by_step()
        if ask.planning and not models:
            return {}
        # `plan` reports unreadable files as warnings: the haystack is made anyway.
        for unread in () if ask.planning else self._unread:
            ask.fail("read", Failed(unread.error, f"{unread.document_id} {unread.message}"))
        asking = AskedSteps(self.spec.models, self._sources, ask)
        claims = await asking.claims() if "claim" in models else {}
        if ask.over_budget:
            # Stop here: the next steps would see only some of the claims now, and all of them after a resume.
            return {}
        mining = Mining(self._sources, self._least, claims, None if ask.planning else self._kept)
        mined = await asyncio.to_thread(mining.mined)
        least = (self.spec.min_documents or USUAL) if "group" in models else mining.least
        if "group" in models:
            mined = await asking.join_same(mined, least)
        if not mined:
            n_copies = len(mining.copies)
            equal = f" ({n_copies} of them are equal to an earlier one, and count once)" if n_copies else ""
            what = f"nothing recurs in {least} of the {len(self._sources)} documents{equal}"
            if mining.commonplaces:
                what += f" but in words that very many of them have: {_cut(mining.commonplaces)}"
            mend = "lower min_documents, or give more that overlap"
            if mining.boilerplate:
                what += f"; what most of them say in the same words counts as boilerplate: {_cut(mining.boilerplate)}"
                mend += "; add documents that do not say it"
            return self._nothing(ask, "group", f"{what}; {mend}{'' if 'claim' in models else f'. {MODELS}'}")
        if "check" in models:
            mined = await asking.check_uncertain(mined, least)
        if not mined:
            return self._nothing(
                ask, "check", f"by the check model's word, no {least} documents say the same; lower min_documents"
            )
        if "insight" in models:
            mined = await asking.reword(mined)
        topic = self.spec.topic or self.name
        documents = [[evidence.document for evidence in one.evidence] for one in mined]
        texts = [source.text for source in self._sources]
        grouped = await asyncio.to_thread(group_insights, [one.text for one in mined], topic, documents, texts)
        if "query" in models:
            grouped = await asking.asked_for(grouped, mined)
        notes = _notes(self._sources, mining, mined, models)
        absent, lacking = await asyncio.to_thread(self._absent, topic, [(one.text, one.query) for one in grouped])
        notes += lacking
        made: dict[str, Any] = {
            "run": self.run_id,
            "models": {step: model.label for step, model in models.items()},
            "notes": notes,
        }
        made["min_documents"] = least
        raw = haystack_json(self._sources, mined, grouped, topic, made, absent)
        return {} if ask.planning else await asyncio.to_thread(self._rows, raw, mined, notes)

    def text_read(self, document_id: str) -> ReadText:
        """Return the text that was read from a document. Raises UserError if the folder has no document with this id."""
        found = text_read(self._sources, document_id)
        if found is None:
            near = difflib.get_close_matches(document_id, [one.document_id for one in self._sources], 1, 0.3)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UserError(f"{document_id!r} is not a document of the folder{hint}")
        return found

    def _absent(self, topic: str, asked: Sequence[tuple[str, str]]) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the subtopics that no document covers, and notes about them for people. `asked`: the other subtopics."""
        if not (wanted := self.spec.absent):
            return [], []
        texts = [source.text for source in self._sources]
        if language_of(texts) != "english":
            return [], ["no query is made about what no document says: its subjects are English, and the documents are not"]
        subjects = absent_subjects(texts, wanted, topic)
        few = f" (of {wanted} wanted: the documents speak of all others that are known)" if len(subjects) < wanted else ""
        listed = f"no document has a word of {', '.join(subjects)}" if subjects else "none is left"
        return absent_subtopics(subjects, asked), [f"{len(subjects)} queries are about what no document says{few}: {listed}"]

    def _nothing(self, ask: Ask, stage: str, why: str) -> Rows:
        ask.fail(stage, Failed("nothing_recurs", why))
        if not ask.planning:
            self._kept.forget(self._mining)
        return {}

    def _rows(self, raw: dict[str, Any], mined: Sequence[Mined], notes: Sequence[str]) -> Rows:
        assert self.inputs.store is not None
        digest = self.inputs.store.put_object("haystack", source_bytes(raw))
        carry_over(RunStore(self.inputs.store, self.run_id), raw)
        self._kept.forget(self._mining)
        of = {one["insight_id"]: subtopic for subtopic in raw["subtopics"] for one in subtopic["insights"]}
        insights, evidence, doubts = [], [], 0
        for one, kept in zip(mined, kept_insights(raw), strict=True):
            unsure = sum(not found.sure for found in one.evidence)
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
                name = self._sources[found.document].document_id
                evidence.append(MinedEvidence(kept["insight_id"], name, found.score, found.by, found.key, found.text))
        asked = sum(not subtopic.get("absent") for subtopic in raw["subtopics"])
        sizes = (len(self._sources), asked, len(mined), doubts)
        return {
            "mined": insights,
            "mined_evidence": evidence,
            "mined_haystack": [MinedHaystack(digest, self.name, *sizes, tuple(notes))],
        }

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
        if made.is_empty():
            return ()
        notes = [note for row in made.iter_rows(named=True) for note in row["notes"]]
        text = (
            "The most certain first. n: documents that state the insight; unsure: those with only some of its words. "
            "Real prose varies more than a model's: read the doubts (--review) before you trust the last ones."
        )
        insights = scores["insights"]
        texts = [textwrap.shorten(text, 2 * CUT, placeholder=" …") for text in insights["insight"].head(SHOWN)]
        brief = insights.head(SHOWN).select("rank", pl.Series("insight", texts, pl.String), "confidence", "n", "unsure")
        surest = Section(
            f"The {brief.height} surest of {insights.height} insights that recur", text, brief, notes=notes, name="surest"
        )
        every = Section("All insights", table=insights, more=True, name="insights")
        return [surest, every, Section("Subtopics and their queries", table=scores["subtopics"], more=True, name="subtopics")]

    def entries(self, store: Store, path: str) -> list[str]:
        """Return the most recently accepted haystack, as an entry for another spec. Raises SpecError if there is none yet."""
        if store.files.exists(f"runs/{self.run_id}/run.json"):
            run = store.run(self.run_id)
            if digest := latest_digest(run):
                return [f"{STORE}{digest}/{self.name}.json"]
        raise SpecError(f"its haystack is not in the store {store.uri!r}; make it first: summhay run {path} --store {store.uri}")

    def computations(self, items: Sequence[Item], actors: int = 1) -> Sequence[Mapping[str, Any]]:
        """See `Workload`. Returns the parts that read all blocks of documents, then those that compare them. If a model
        states the claims, blocks are only read."""
        steps = [*self._mining.reading, *(() if self.spec.models.claim else self._mining.comparing)]
        return [asdict(step) for step in steps] if len(self._mining.reading) > 1 else []

    def compute(self, part: Mapping[str, Any]) -> Mapping[str, float]:
        """See `Workload`. Computes one step of one block."""
        began = time.perf_counter()
        self._mining.do(Step(**part))
        return {"compute_s": time.perf_counter() - began}

    def warnings(self) -> Sequence[str]:
        """See `Workload`. Warns about unreadable files."""
        unread = self._unread
        if not unread:
            return ()
        what = "1 file or row" if len(unread) == 1 else f"{len(unread)} files or rows"
        rest = f"the haystack is made of the other {len(self._sources)} documents"
        return [f"{what} cannot be read, and {rest}: {unread[0].document_id} {unread[0].message}"]

    def details(self, scores: Tables) -> Mapping[str, Any]:
        """See `Workload`. Returns the haystack's sizes; they are null without a haystack."""
        made = next(scores["haystack"].iter_rows(named=True), None) or {}
        sizes = {name: made.get(name) for name in ("documents", "insights", "subtopics", "unsure")}
        return {"path": None, **sizes, "notes": list(made.get("notes", ()))}

    def explain(self, run: RunStore, key: str, compat: Any = "default") -> dict[str, Any]:
        """See `Workload`. `key` may also be an insight's id, or INSIGHT_ID/DOCUMENT_ID, which explains why the document
        counts for the insight."""
        insight_id, _, document_id = key.partition("/")
        found = _insight(run, insight_id)
        if found is None:
            return super().explain(run, key, compat)
        near = [{**one, "by": f"nobody: {one['by']} come near it"} for one in found["doubtful"]]
        rows = [one for one in (*found["evidence"], *near) if one["document_id"] == document_id] or found["evidence"]
        if document_id and rows is found["evidence"]:
            raise StoreError(f"{document_id!r} is not a document of insight {found['insight_id']}, and does not come near it")
        keys = {one["key"] for one in rows if one["key"]}
        calls = super().explain(run, self.name, compat)["calls"] if keys else []
        data = {name: found[name] for name in ("insight", "rank", "confidence", "opposites")}
        return {
            "run": run.run_id,
            "kind": self.kind,
            "item": {"id": found["insight_id"], "queue": "", "data": data},
            "rows": {"mined_evidence": rows},
            "calls": [call for call in calls if call["key"] in keys],
        }

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes the haystack as released JSON."""
        path = folder / f"{self.name}.json"
        folder.mkdir(parents=True, exist_ok=True)
        check_files(path)
        write_haystack(haystack_of(run), path)
        return [path]

    @classmethod
    def objects(cls, run: RunStore) -> Iterable[tuple[str, str]]:
        """See `Workload`. Yields the documents that were read, and the haystacks made from them."""
        yield from super().objects(run)
        yield from (("haystack", row.digest) for row in HAYSTACK.records(run.table(HAYSTACK.name)))
        # A sheet may have been written from any state of the review.
        reviews = reviews_of(run)
        yield from (("haystack", body["digest"]) for number in reviews.numbers() if (body := reviews.read(number)))


def latest_digest(run: RunStore, reviewed: bool = True) -> str:
    """Return the digest of the run's haystack; with `reviewed`, that of the version that a person last accepted. Empty
    without a haystack."""
    if reviewed and (newest := reviews_of(run).newest()):
        return str(newest[1]["digest"])
    rows = HAYSTACK.records(run.table(HAYSTACK.name))
    return str(rows[0].digest) if rows else ""


def haystack_of(run: RunStore, reviewed: bool = True) -> dict[str, Any]:
    """Return the run's haystack as released JSON. Raises StoreError if it has none."""
    digest = latest_digest(run, reviewed)
    if not digest:
        raise StoreError(f"{run.run_id} has no haystack; summhay failures {run.run_id} says why")
    raw: dict[str, Any] = json.loads(run.store.get_object("haystack", digest))
    return raw


def _insight(run: RunStore, insight_id: str) -> dict[str, Any] | None:
    """Return the insight whose id has this prefix: as a person last accepted it, or as found if that person removed it. None
    if there is no such insight."""
    for reviewed in (True, False) if len(insight_id) >= SHORTEST and latest_digest(run) else ():
        found = [one for one in kept_insights(haystack_of(run, reviewed)) if one["insight_id"].startswith(insight_id)]
        if len(found) == 1:
            return found[0]
    return None


def _read(spec: MineSpec, inputs: Inputs) -> bytes:
    """Return the folder's documents and unreadable files, in the form that the run stores. Raises SpecError if too few
    documents are readable for anything to recur."""
    folder = inputs.path(spec.folder)
    if not folder.is_dir():
        raise SpecError(f"spec: folder: {spec.folder!r} is a file; give the folder that holds the documents")
    sources, unread = read_folder(folder, spec.part_tokens)
    if (n_characters := sum(len(one.text) for one in sources)) > LARGEST_FOLDER:
        problem = f"{spec.folder!r} has {n_characters / 1e6:.0f} million characters, more than {LARGEST_FOLDER // 10**6}"
        raise SpecError(f"spec: folder: {problem}, which take about 2 GB of memory; mine its parts one by one")
    if len(sources) < (least := spec.min_documents or 2):
        few = f"{len(sources)} documents with text" if len(sources) != 1 else "1 document with text"
        lost = f" ({len(unread)} cannot be read, such as {unread[0].document_id!r}, which {unread[0].message})" if unread else ""
        problem = f"{spec.folder!r} has {few}{lost}; insights recur in at least {least} (min_documents)"
        raise SpecError(f"spec: folder: {problem}; add documents")
    name = "".join(char if char.isalnum() or char in "-_" else "_" for char in folder.resolve().name) or "documents"
    held = {
        "name": name,
        "documents": [[*asdict(one).values()] for one in sources],
        "unread": [[*asdict(one).values()] for one in unread],
    }
    return source_bytes(held)


def _cut(sentences: Sequence[str]) -> str:
    """Return the number of sentences, and the first of them."""
    return f"{len(sentences)} {'sentence' if len(sentences) == 1 else 'sentences'}, such as {sentences[0][:CUT]!r}"


def _why_few(mining: Mining) -> str:
    """Explain why few statements that resemble each other became insights."""
    if not mining.n_similar:
        return ""
    n = mining.n_incomplete()
    form = f" ({n} of them without a subject or a verb, or understood only with the lines before)" if n else ""
    similar = f"Statements that resemble one of another document: {mining.n_similar}{form}"
    return f"{similar}; most others say something else about the same. "


def _notes(sources: Sequence[Source], mining: Mining, mined: Sequence[Mined], models: Collection[str]) -> list[str]:
    """Return notes about the documents for people. `models`: the steps that ask a model."""
    notes = []
    n_insights = len(mined)
    if mining.left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in mining.left_out.most_common())
        notes.append(f"lines that are not prose are left out ({counts}); --show-text DOCUMENT shows those of a document")
    if mining.boilerplate:
        notes.append(f"boilerplate, which many documents have, is left out: {_cut(mining.boilerplate)}")
    if mining.commonplaces:
        notes.append(f"what recurs in words that very many documents have is left out: {_cut(mining.commonplaces)}")
    if copies := mining.copies:
        later, earlier = copies[0]
        such = f"{sources[later].document_id} is equal to {sources[earlier].document_id}"
        equal = f"{len(copies)} documents are" if len(copies) > 1 else "1 document is"
        notes.append(f"{equal} equal to an earlier one, and equal documents count once for recurrence: {such}")
    if n_insights < FEW_INSIGHTS <= len(sources):
        few = f"few findings recur: {n_insights} in {len(sources)} documents, which mostly report different things"
        notes.append(few if "claim" in models else f"{few}. {_why_few(mining)}{MODELS}")
    if few := few_documents(n_insights, sum(len(one.evidence) for one in mined)):
        notes.append(few)
    if mining.relaxed:
        notes.append(
            f"few insights are in {USUAL} documents, so those of 2 are taken, too; min_documents: {USUAL} leaves them out"
        )
    if mining.language != "english" and "check" not in models:
        what = "in another script" if mining.language == "other" else "in another language than English"
        notes.append(f"the documents seem to be {what}: words alone are less sure there; name a model as models.check")
    return notes
