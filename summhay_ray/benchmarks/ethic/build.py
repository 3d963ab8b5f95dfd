"""ETHIC's tasks built from documents of one's own (paper, section 3.2 and 3.3): a run whose items are documents and collections.

Labels are asked of a model chunk by chunk, with the very prompt of the task, and put together without duplicates; `labels:
speakers` takes them from a transcript's turns instead. What an offline labeler labels is as good as its rules: a sheet for
people is exported beside the records. The same spec and seed give the same records.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from pydantic import BeforeValidator, Field, model_validator

from summhay_ray.benchmark import (
    Ask,
    Benchmark,
    Counted,
    Inputs,
    Item,
    Model,
    ModelSpec,
    Rows,
    Section,
    Spec,
    SpecError,
    Stage,
    Strict,
    Table,
    Tables,
    Text,
    Unreadable,
    system,
    user,
)
from summhay_ray.benchmarks.ethic import prompts, scoring, sources
from summhay_ray.benchmarks.ethic.data import RECORDS, jsonl
from summhay_ray.benchmarks.ethic.records import LOOKUP
from summhay_ray.errors import UserError
from summhay_ray.local_models import check_model
from summhay_ray.store import RunStore
from summhay_ray.text import chunks, citations, count_tokens, first_tokens, quoted, turns, unquoted

TOKENIZER = "cl100k_base"
_MARK, _TARGET = "[CITATION]", "[TARGET CITATION]"
TITLES = frozenset({"mr", "mrs", "ms", "dr", "the", "hon", "am", "mp"})
_SHEET = ("domain", "document", "chunk", "text", "labels", "a person's labels")


class TextSource(Strict):
    """Single documents."""

    path: Text = Field(description="a .txt or .jsonl file, or a folder of them")
    domain: Text = Field(default="Books", description="what tables call it; Books and Debates are the paper's")
    labels: Literal["labeler", "speakers"] = Field(
        default="labeler",
        description="labeler: asked chunk by chunk; speakers: the names before the colons of a transcript's turns",
    )
    most_documents: int | None = Field(default=None, ge=1, description="of those that are long enough, drawn by the seed")
    least_tokens: int = Field(default=0, ge=0, description="shorter documents are left out")
    most_tokens: int | None = Field(default=None, ge=100, description="of longer ones the beginning is taken")


class CollectionSource(Strict):
    """Collections of documents that share some with each other."""

    path: Text = Field(description="a haystack (JSON, sample/news), or collections (JSON lines)")
    domain: Text = Field(default="Medicine", description="what tables call it; Medicine and Law are the paper's")
    labels: Literal["labeler", "none"] = Field(default="labeler", description="of Recalling: how many people; none: no such task")
    most_documents: int | None = Field(default=None, ge=2, description="of a collection, drawn by the seed")


class CitedSource(Strict):
    """Decisions, each with others that cite it."""

    path: Text = Field(description="JSON lines: id, title, citation, summary, citing (a list of texts)")
    domain: Text = Field(default="Law", description="what tables call it")


def _source(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class EthicBuildSpec(Spec):
    """Documents, and who labels them."""

    kind: str = Field(default="ethic_build", description="the benchmark")
    texts: list[Annotated[TextSource, BeforeValidator(_source)]] = Field(default=[], description="single documents")
    collections: list[Annotated[CollectionSource, BeforeValidator(_source)]] = Field(
        default=[], description="documents of several reviews, for Attributing"
    )
    cited: list[Annotated[CitedSource, BeforeValidator(_source)]] = Field(
        default=[], description="decisions and those that cite them, for Attributing by citation marks"
    )
    labeler: Model = Field(default=ModelSpec(model="offline/names"), description="names what a chunk holds, for Recalling")
    summarizer: Model = Field(default=ModelSpec(model="offline/support"), description="summarizes chunks, for Organizing")
    tasks: list[Literal["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"]] = Field(
        default=["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"], description="which tasks are built"
    )
    chunk_tokens: int = Field(default=1024, ge=32, description="the longest chunk, which is also a section")

    @model_validator(mode="after")
    def _some_source(self) -> EthicBuildSpec:
        if not (self.texts or self.collections or self.cited):
            raise ValueError("texts, collections, cited: name at least one source")
        return self


@dataclass(frozen=True, slots=True)
class EthicRecord:
    """A record that was built."""

    task: Annotated[str, "Recalling, Summarizing, Organizing, Attributing or Lookup"]
    domain: Annotated[str, "as the spec names the source's"]
    record: Annotated[str, "ID"]
    document: Annotated[str, "source document"]
    context: Annotated[str, "what is read"]
    system: Annotated[str, "system message"]
    user: Annotated[str, "the whole prompt"]
    answer: Annotated[tuple[str, ...], "labels; of Organizing the order, of Summarizing nothing"]
    meta: Annotated[str, "JSON: sha256 of the source, chunk borders in characters, labeler, prompt hash, seed, tokens"]


@dataclass(frozen=True, slots=True)
class ChunkLabels:
    """What the labeler said of one chunk, for people to check."""

    domain: Annotated[str, "as the spec names the source's"]
    document: Annotated[str, "source document"]
    chunk: Annotated[int, "its number, from 1"]
    text: Annotated[str, "the chunk"]
    labels: Annotated[tuple[str, ...], "what it holds, by the labeler"]


MADE = Table(RECORDS, EthicRecord, ("task", "domain", "record"))
LABELS = Table("ethic_labels", ChunkLabels, ("domain", "document", "chunk"))


class EthicBuild(Benchmark[EthicBuildSpec]):
    """One set of records."""

    kind = "ethic_build"
    prefix = "c"
    stages = (Stage("label", output_tokens=60, example="None"), Stage("summarize", output_tokens=150, example="A summary."))
    tables = (MADE, LABELS)
    counted = Counted("documents", MADE.name)

    def __init__(self, spec: EthicBuildSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        for one in (spec.labeler, spec.summarizer):
            check_model(one.model)

    def identity(self) -> Any:
        """See `Workload`: with the sources' content and the wording of the prompts."""
        _ = self._texts, self._collections, self._cited
        return {**super().identity(), "prompts": prompts.prompt_hash()}

    @functools.cached_property
    def _texts(self) -> Sequence[tuple[TextSource, sources.Text]]:
        return [(source, text) for source in self.spec.texts for text in self._drawn(source)]

    def _drawn(self, source: TextSource) -> Sequence[sources.Text]:
        found = sources.read_texts(source.path, self.inputs)
        if source.least_tokens:
            found = [one for one in found if count_tokens(one.text) >= source.least_tokens]
        if source.most_documents is not None and len(found) > source.most_documents:
            kept = set(self._random(source.path).sample(range(len(found)), source.most_documents))
            found = [one for place, one in enumerate(found) if place in kept]
        if not found:
            raise SpecError(f"spec: texts: {source.path!r} has no document of {source.least_tokens} tokens; lower least_tokens")
        return found

    @functools.cached_property
    def _collections(self) -> Sequence[tuple[CollectionSource, sources.Collection]]:
        return [(source, one) for source in self.spec.collections for one in sources.read_collections(source.path, self.inputs)]

    @functools.cached_property
    def _cited(self) -> Sequence[tuple[CitedSource, sources.Cited]]:
        return [(source, one) for source in self.spec.cited for one in sources.read_cited(source.path, self.inputs)]

    def _random(self, *names: str) -> random.Random:
        return random.Random(json.dumps([self.spec.seed, *names]))

    def items(self) -> Iterator[Item]:
        """A document or a collection each. Raises SpecError where two of one domain have one name."""
        sources: Mapping[str, Sequence[tuple[Any, Any]]] = {
            "text": self._texts,
            "collection": self._collections,
            "cited": self._cited,
        }
        seen = set()
        for kind, found in sources.items():
            for place, (source, one) in enumerate(found):
                if (name := f"{source.domain}/{one.name}") in seen:
                    raise SpecError(
                        f"spec: {source.path!r}: {one.name!r} is there twice in {source.domain}; write another domain"
                    )
                seen.add(name)
                yield Item(name, data={"kind": kind, "place": place, "domain": source.domain})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """The records of a document, and the labels of its chunks."""
        if item.data["kind"] == "text":
            source, text = self._texts[item.data["place"]]
            return await self._of_text(source, text, ask)
        if item.data["kind"] == "cited":
            return {MADE.name: self._of_cited(*self._cited[item.data["place"]])}
        collected, one = self._collections[item.data["place"]]
        return await self._of_collection(collected, one, ask)

    async def _of_text(self, source: TextSource, text: sources.Text, ask: Ask) -> Rows:
        whole = text.text.strip() if source.most_tokens is None else first_tokens(text.text.strip(), source.most_tokens)
        borders = chunks(whole, self.spec.chunk_tokens)
        parts = [whole[begin:end] for begin, end in borders]
        context = "\n\n".join(f"<Section {number}>\n{part}" for number, part in enumerate(parts, start=1))
        meta = self._meta(text.sha256, context, chunk_tokens=self.spec.chunk_tokens, chunks=[list(one) for one in borders])
        records, labels = [], []
        what = "speakers" if source.labels == "speakers" else source.domain if source.domain in prompts.RECALLING else "Books"
        labeled = {"labeler": what} if what == "speakers" else self._by("labeler", self.spec.labeler)

        def record(task: str, prompt: str, answer: Sequence[str], **more: Any) -> EthicRecord:
            told = json.dumps({**meta, **more}, sort_keys=True)
            name = f"{source.domain}/{text.name}"
            return EthicRecord(task, source.domain, text.name, name, context, prompts.SYSTEM, prompt, tuple(answer), told)

        if {"Recalling", LOOKUP} & set(self.spec.tasks):
            found = [_speakers(part) for part in parts] if what == "speakers" else await self._labels(parts, what, ask)
            labels = [
                ChunkLabels(source.domain, text.name, place, *one) for place, one in enumerate(zip(parts, found, strict=True), 1)
            ]
            every = _speakers(whole) if what == "speakers" else tuple(dict.fromkeys(one for listed in found for one in listed))
            if "Recalling" in self.spec.tasks:
                records.append(record("Recalling", prompts.recalling(context, what), every or ("None",), **labeled))
            if LOOKUP in self.spec.tasks and any(found):
                number = self._random("lookup", text.name).choice([place for place, one in enumerate(found, start=1) if one])
                prompt = prompts.lookup(context, what, number)
                records.append(record(LOOKUP, prompt, found[number - 1], section=number, **labeled))
        if "Summarizing" in self.spec.tasks:
            records.append(record("Summarizing", prompts.summarizing(context, len(parts)), ()))
        if "Organizing" in self.spec.tasks and len(parts) > 1:
            options = [await self._summary(part, ask) for part in parts]
            order = list(range(len(parts)))
            self._random("order", text.name).shuffle(order)
            shown = [options[place] for place in order]
            gold = ", ".join(f"[{order.index(place) + 1}]" for place in range(len(parts)))
            told = self._by("summarizer", self.spec.summarizer)
            records.append(record("Organizing", prompts.organizing(context, shown), (gold,), order=order, **told))
        return {MADE.name: records, LABELS.name: labels}

    async def _of_collection(self, source: CollectionSource, one: sources.Collection, ask: Ask) -> Rows:
        documents = dict(one.documents)
        if source.most_documents is not None and len(documents) > source.most_documents:
            kept = sorted(self._random("documents", one.name).sample(sorted(documents), source.most_documents))
            documents = {number: documents[number] for number in kept}
        context = "\n\n".join(f"[{number}]\n{text.strip()}" for number, text in documents.items())
        meta = self._meta(one.sha256, context, documents=list(documents))
        records, labels = [], []

        def record(task: str, prompt: str, answer: Sequence[str], **more: Any) -> EthicRecord:
            told = json.dumps({**meta, **more}, sort_keys=True)
            name = f"{source.domain}/{one.name}"
            return EthicRecord(task, source.domain, one.name, name, context, prompts.SYSTEM, prompt, tuple(answer), told)

        if "Recalling" in self.spec.tasks and source.labels == "labeler":
            texts = list(documents.values())
            found = await self._labels(texts, "Medicine", ask)
            labels = [
                ChunkLabels(source.domain, one.name, place, *each) for place, each in enumerate(zip(texts, found, strict=True), 1)
            ]
            every = tuple(dict.fromkeys(label for listed in found for label in listed)) or ("None",)
            labeled = self._by("labeler", self.spec.labeler)
            records.append(record("Recalling", prompts.recalling(context, "Medicine"), every, **labeled))
        if "Attributing" in self.spec.tasks and (other := self._other(one, documents)) is not None:
            shared = [f"[{number}]" for number in one.common(other, documents)]
            prompt = prompts.attributing(context, other.background)
            records.append(record("Attributing", prompt, shared or ["None"], background_of=other.name))
        return {MADE.name: records, LABELS.name: labels}

    def _of_cited(self, source: CitedSource, one: sources.Cited) -> list[EthicRecord]:
        """Segments in which every citation is one mark; gold: those in which some of the marks stood for the decision.

        Raises SpecError where its title is left in a segment: that would give the answer away.
        """
        segments, gold, borders = [], [], []
        for text in one.citing:
            marked = _marked(text, one)
            borders.append(chunks(marked, self.spec.chunk_tokens))
            for begin, end in borders[-1]:
                segments.append(marked[begin:end].replace(_TARGET, _MARK))
                if _TARGET in marked[begin:end]:
                    gold.append(f"Segment {len(segments)}")
        if leak := next((place for place, text in enumerate(segments, start=1) if one.title in text), None):
            raise SpecError(f"spec: cited: {one.name}: segment {leak} still names {one.title!r}; give its title as it is cited")
        context = "\n\n".join(f"<Segment {number}>\n{text}" for number, text in enumerate(segments, start=1))
        cut = {"chunk_tokens": self.spec.chunk_tokens, "chunks": borders, "segments": len(segments)}
        meta = json.dumps(self._meta(one.sha256, context, **cut), sort_keys=True)
        name, prompt = f"{source.domain}/{one.name}", prompts.attributing_law(context, f"{one.title}\n{one.summary}")
        head = ("Attributing", source.domain, one.name, name, context, prompts.SYSTEM, prompt)
        return [EthicRecord(*head, tuple(gold) or ("None",), meta)] if "Attributing" in self.spec.tasks and segments else []

    def _other(self, one: sources.Collection, shown: Iterable[int]) -> sources.Collection | None:
        """The collection with the most documents in common, or, where none has any, one that the seed draws."""
        others = [other for _, other in self._collections if other is not one]
        if not others:
            return None
        common = [len(one.common(other, shown)) for other in others]
        if max(common):
            return others[common.index(max(common))]
        return self._random("background", one.name).choice(others)

    async def _labels(self, parts: Sequence[str], what: str, ask: Ask) -> list[tuple[str, ...]]:
        """Of each chunk its labels; none where the labeler says None."""
        found = []
        for part in parts:
            question = [system(prompts.SYSTEM), user(prompts.recalling(part, what))]
            reply = await ask("label", question, model=self.spec.labeler, prompt_hash=prompts.prompt_hash())
            read = scoring.items(scoring.without_reasoning(reply.text))
            if read.unparsed:
                raise Unreadable(reply, "a list, or None")
            found.append(tuple(one for one in read.items if one != scoring.NONE))
        return found

    async def _summary(self, part: str, ask: Ask) -> str:
        question = [system(prompts.SYSTEM), user(prompts.chunk_summary(part))]
        reply = await ask("summarize", question, model=self.spec.summarizer, prompt_hash=prompts.prompt_hash())
        return " ".join(scoring.without_reasoning(reply.text).split())

    def _meta(self, sha256: str, context: str, **cut: Any) -> dict[str, Any]:
        """`cut`: how the source became the context: borders of chunks in characters (of citing texts, as they are marked, a list
        each), or numbers of documents."""
        return {
            "source_sha256": sha256,
            **cut,
            "prompt_hash": prompts.prompt_hash(),
            "seed": self.spec.seed,
            "tokens": count_tokens(context),
            "tokenizer": TOKENIZER,
        }

    def _by(self, role: str, model: ModelSpec) -> dict[str, Any]:
        """Who labeled or summarized, how it was sampled, and at which revision where it is a local one."""
        revision = self.revision_of(model.model).get("extra_body", {})
        return {
            role: model.model,
            f"{role}_sampling": model.sampling(),
            **{f"{role}_{name}": one for name, one in revision.items()},
        }

    def score(self, tables: Tables) -> Tables:
        """How many records there are, and how long they are."""
        made = tables[MADE.name].with_columns(
            pl.col("meta").map_elements(lambda meta: json.loads(meta)["tokens"], return_dtype=pl.Int64).alias("tokens"),
            pl.col("answer").list.len().alias("labels"),
        )
        counted = made.group_by("task", "domain").agg(
            pl.col("tokens").mean(), pl.col("labels").cast(pl.Float64).mean(), pl.len().cast(pl.Int64).alias("n")
        )
        return {"made": counted.sort("task", "domain")}

    def report(self, scores: Tables) -> Sequence[Section]:
        """What was built."""
        text = "tokens: of the context, cl100k. labels: of Recalling, Lookup and Attributing."
        return [Section("Records", text=text, table=scores["made"])]

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: `records.jsonl` in the release's fields, and `audit.csv`, a sheet for people."""
        rows, labels = run.table(MADE.name), run.table(LABELS.name)
        written = {folder / "records.jsonl": jsonl(rows.to_dicts()), folder / "audit.csv": sheet(labels, self.spec.seed)}
        for path in written:
            if path.exists():
                raise UserError(f"{path} exists; give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in written.items():
            path.write_bytes(content)
        return list(written)


def _marked(text: str, one: sources.Cited) -> str:
    """The text with a mark for each citation, that of the decision another than those of all others."""
    names = [re.escape(name) for name in (one.title, one.citation) if name]
    own = re.compile("|".join(names))
    parts, end = [], 0
    spans = sorted({*citations(text), *(found.span() for found in own.finditer(text))}, key=lambda span: (span[0], -span[1]))
    for begin, stop in spans:
        if begin < end:
            continue
        parts += [text[end:begin], _TARGET if own.search(text, begin, stop) else _MARK]
        end = stop
    return "".join([*parts, text[end:]])


def _speakers(text: str) -> tuple[str, ...]:
    """The single words of the names of those who speak, as they are compared."""
    words = (scoring.same(word).strip(".,'") for name in turns(text) for word in name.split())
    return tuple(dict.fromkeys(word for word in words if len(word) > 1 and word not in TITLES))


def sheet(labels: pl.DataFrame, seed: int, a_domain: int = 100) -> bytes:
    """A sheet (CSV) of chunks and their labels, at most so many a domain, for a person to write the right labels beside them."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_SHEET)
    for (domain,), found in sorted(labels.group_by("domain")):
        rows = found.sort("document", "chunk").to_dicts()
        kept = sorted(random.Random(json.dumps([seed, str(domain)])).sample(range(len(rows)), min(a_domain, len(rows))))
        for row in (rows[place] for place in kept):
            told = (row["domain"], row["document"], str(row["chunk"]), row["text"], ", ".join(row["labels"]) or "None", "")
            writer.writerow(map(quoted, told))
    return out.getvalue().encode("utf-8")


def read_label_sheet(path: Path) -> dict[str, dict[str, float | int | None]]:
    """Domain -> mean F1 of the labels against a person's, of the rows that a person filled in (paper, Table B). Raises
    UserError."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); give the audit.csv that `summhay export` wrote, filled in") from error
    if not rows or set(_SHEET) - set(rows[0]):
        raise UserError(f"{path} is no such sheet; its columns are {', '.join(_SHEET)}")
    found: dict[str, list[float]] = {}
    for row in rows:
        if (person := row[_SHEET[-1]] or "").strip():
            scores = found.setdefault(unquoted(row["domain"]), [])
            scores.append(scoring.recalling(unquoted(row["labels"]), scoring.items(unquoted(person)).items).f1)
    return {domain: {"f1": scoring.mean(values), "n": len(values)} for domain, values in found.items()}
