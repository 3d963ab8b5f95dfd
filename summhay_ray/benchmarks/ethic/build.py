"""Build ETHIC's tasks from your documents (paper, sections 3.2 and 3.3): a run whose items are documents and collections.

A model labels the text chunk by chunk with the prompt of the task, and the labels are merged without duplicates; `labels:
speakers` takes them from a transcript's turns instead. An offline labeler follows simple rules, so a sheet is exported with
the records for people to check. The same spec and seed give the same records."""

from __future__ import annotations

import csv
import functools
import io
import json
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    RunStore,
    Section,
    Spec,
    Stage,
    Strict,
    Table,
    Tables,
    Text,
    Unreadable,
    system,
    user,
)
from summhay_ray.benchmarks.ethic import lenient_metrics, prompts, sources
from summhay_ray.benchmarks.ethic.data import RECORDS, jsonl
from summhay_ray.benchmarks.ethic.records import LOOKUP
from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import read_file, write_new
from summhay_ray.local_models import check_models
from summhay_ray.text import BACK, chunks, citations, count_tokens, first_tokens, name_words, placed_turns, quoted, unquoted

TOKENIZER = "cl100k_base"
_MARK, _TARGET = "[CITATION]", "[TARGET CITATION]"
_OFFICE_WORDS = """
    board state states city town village county company corp bank people commonwealth government department commission
    commissioner school district university college hospital railway railroad stores secretary administration association union
    trust estate service services authority council committee republic crown king queen court agency bureau society club party
"""
_OFFICES = frozenset(_OFFICE_WORDS.split())
"""Words in parties' names that identify no one."""
_LEAST_NAME = 4
_SHEET = ("domain", "document", "chunk", "text", "labels", "a person's labels")
_QUESTION = re.compile(
    r"\bQuestion:[*_ \t]*(?P<question>\S.*?)\s*\n[\s*_]*Answer:[*_ \t]*(?P<answer>\S.*)\Z", re.DOTALL | re.IGNORECASE
)


class TextSource(Strict):
    """Single documents."""

    path: Text = Field(description="a .txt or .jsonl file, or a folder of them")
    domain: Text = Field(default="Books", description="its name in tables; Books and Debates are the paper's")
    labels: Literal["labeler", "speakers"] = Field(
        default="labeler",
        description="labeler: a model labels chunk by chunk; speakers: the names before the colons of a transcript's turns",
    )
    most_documents: int | None = Field(
        default=None, ge=1, description="draw at most this many of the documents that are long enough"
    )
    least_tokens: int = Field(default=0, ge=0, description="leave out documents with fewer tokens")
    most_tokens: int | None = Field(default=None, ge=100, description="keep this many tokens from the beginning of a document")


class CollectionSource(Strict):
    """Collections of documents that overlap."""

    path: Text = Field(description="a haystack (JSON, sample/news), or collections (JSON lines)")
    domain: Text = Field(default="Medicine", description="its name in tables; Medicine and Law are the paper's")
    labels: Literal["labeler", "none"] = Field(
        default="labeler", description="labeler: numbers of people, for Recalling; none: do not build Recalling"
    )
    most_documents: int | None = Field(default=None, ge=2, description="draw at most this many documents per collection")


class CitedSource(Strict):
    """Court decisions, each with texts that cite it."""

    path: Text = Field(description="JSON lines: id, title, citation, summary, citing (a list of texts)")
    domain: Text = Field(default="Law", description="its name in tables")
    marks: Literal["patterns", "labeler"] = Field(
        default="patterns",
        description="how citations of the decision are found: by its exact title and citation, or also by the labeler",
    )


def _source(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class EthicBuildSpec(Spec):
    """The documents, and the models that label, summarize and ask."""

    kind: str = Field(default="ethic_build", description="the benchmark")
    texts: list[Annotated[TextSource, BeforeValidator(_source)]] = Field(default=[], description="single documents")
    collections: list[Annotated[CollectionSource, BeforeValidator(_source)]] = Field(
        default=[], description="collections of documents of several reviews, for Attributing"
    )
    cited: list[Annotated[CitedSource, BeforeValidator(_source)]] = Field(
        default=[], description="decisions with texts that cite them, for Attributing by citation marks"
    )
    labeler: Model = Field(default=ModelSpec(model="offline/names"), description="the model that labels chunks, for Recalling")
    summarizer: Model = Field(
        default=ModelSpec(model="offline/support"), description="the model that summarizes chunks, for Organizing"
    )
    questioner: Model | None = Field(
        default=None,
        description="the model that writes Lookup's questions about one chunk; null: ask for the names in one section",
    )
    tasks: list[Literal["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"]] = Field(
        default=["Recalling", "Summarizing", "Organizing", "Attributing", "Lookup"], description="the tasks to build"
    )
    chunk_tokens: int = Field(
        default=1024, ge=32, description="maximum length of a chunk in cl100k tokens; a chunk is also a section"
    )

    @model_validator(mode="after")
    def _some_source(self) -> EthicBuildSpec:
        if not (self.texts or self.collections or self.cited):
            raise ValueError("texts, collections, cited: name at least one source")
        return self


@dataclass(frozen=True, slots=True)
class EthicRecord:
    """A built record."""

    task: Annotated[str, "Recalling, Summarizing, Organizing, Attributing or Lookup"]
    domain: Annotated[str, "domain of the source, from the spec"]
    record: Annotated[str, "ID"]
    document: Annotated[str, "source document"]
    context: Annotated[str, "the context"]
    system: Annotated[str, "system message"]
    user: Annotated[str, "the whole prompt"]
    answer: Annotated[tuple[str, ...], "labels; for Organizing the order, for Summarizing empty"]
    meta: Annotated[str, "JSON: sha256 of the source, chunk borders in characters, labeler, prompt hash, seed, tokens"]


@dataclass(frozen=True, slots=True)
class ChunkLabels:
    """The labels of one chunk, for people to check."""

    domain: Annotated[str, "domain of the source, from the spec"]
    document: Annotated[str, "source document"]
    task: Annotated[str, "Recalling; or Lookup: a model wrote a question about the chunk, and the labels are its answer"]
    chunk: Annotated[int, "number of the chunk, from 1"]
    text: Annotated[str, "the chunk"]
    labels: Annotated[tuple[str, ...], "what the chunk contains, by the labeler"]


@dataclass
class _Made:
    """The records and labels of one source, as they are built."""

    domain: str
    name: str
    context: str
    meta: Mapping[str, Any]
    tasks: Sequence[str]
    records: list[EthicRecord] = field(default_factory=list)
    labels: list[ChunkLabels] = field(default_factory=list)

    def add(self, task: str, prompt: str, answer: Sequence[str], context: str = "", **more: Any) -> None:
        """Add a record if its task is wanted. `context`: replaces the source's context. `more`: additional fields of meta."""
        if task in self.tasks:
            shown = context or self.context
            meta = json.dumps({**self.meta, "tokens": count_tokens(shown), **more}, sort_keys=True)
            head = (task, self.domain, self.name, f"{self.domain}/{self.name}", shown, prompts.SYSTEM, prompt)
            self.records.append(EthicRecord(*head, tuple(answer), meta))

    def label(self, parts: Sequence[str], labels: Sequence[Sequence[str]], first: int = 0) -> None:
        """Add the labels of chunks. `first`: number of the single chunk of a Lookup question; 0: all chunks, for Recalling."""
        task = LOOKUP if first else "Recalling"
        self.labels += [
            ChunkLabels(self.domain, self.name, task, number, part, tuple(chunk_labels))
            for number, (part, chunk_labels) in enumerate(zip(parts, labels, strict=True), start=first or 1)
        ]

    def rows(self) -> Rows:
        """The rows of both tables."""
        return {MADE.name: self.records, LABELS.name: self.labels}


MADE = Table(RECORDS, EthicRecord, ("task", "domain", "record"))
LABELS = Table("ethic_labels", ChunkLabels, ("domain", "document", "task", "chunk"))


class EthicBuild(Benchmark[EthicBuildSpec]):
    """Builds one set of records."""

    kind = "ethic_build"
    stages = (
        Stage("label", output_tokens=60, example="None"),
        Stage("question", output_tokens=40, example="Question: Who is named?\nAnswer: Anna"),
        Stage("summarize", output_tokens=150, example="A summary."),
    )
    tables = (MADE, LABELS)
    counted = Counted("documents", MADE.name, prefix="c")

    def __init__(self, spec: EthicBuildSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        check_models((entry.model for entry in spec.model_entries()), self.own_models, inputs.folder)

    def identity(self) -> Any:
        """See `Workload`. Includes the content of the sources and the hash of the prompts."""
        _ = self._texts, self._collections, self._cited
        return {**super().identity(), "prompts": prompts.prompt_hash()}

    @functools.cached_property
    def _texts(self) -> Sequence[tuple[TextSource, sources.Text]]:
        return [(source, text) for source in self.spec.texts for text in self._drawn(source)]

    def _drawn(self, source: TextSource) -> Sequence[sources.Text]:
        texts = sources.read_texts(source.path, self.inputs)
        if source.least_tokens:
            texts = [text for text in texts if count_tokens(text.text) >= source.least_tokens]
        if source.most_documents is not None and len(texts) > source.most_documents:
            kept = set(self._random("texts", source.domain).sample(range(len(texts)), source.most_documents))
            texts = [text for place, text in enumerate(texts) if place in kept]
        if not texts:
            raise SpecError(f"spec: texts: {source.path!r} has no document of {source.least_tokens} tokens; lower least_tokens")
        return texts

    @functools.cached_property
    def _collections(self) -> Sequence[tuple[CollectionSource, sources.Collection]]:
        return [
            (source, collection)
            for source in self.spec.collections
            for collection in sources.read_collections(source.path, self.inputs)
        ]

    @functools.cached_property
    def _cited(self) -> Sequence[tuple[CitedSource, sources.Cited]]:
        return [(source, decision) for source in self.spec.cited for decision in sources.read_cited(source.path, self.inputs)]

    def _random(self, *names: str) -> random.Random:
        return random.Random(json.dumps([self.spec.seed, *names]))

    def items(self) -> Iterator[Item]:
        """One item per document, collection or decision. Raises SpecError for two of one domain with the same name."""
        sources: Mapping[str, Sequence[tuple[Any, Any]]] = {
            "text": self._texts,
            "collection": self._collections,
            "cited": self._cited,
        }
        seen = set()
        for kind, entries in sources.items():
            for place, (source, document) in enumerate(entries):
                if (name := f"{source.domain}/{document.name}") in seen:
                    raise SpecError(
                        f"spec: {source.path!r}: {document.name!r} occurs twice in {source.domain}; write another domain"
                    )
                seen.add(name)
                yield Item(name, data={"kind": kind, "place": place, "domain": source.domain})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """The records of one source, and the labels of its chunks."""
        place: int = item.data["place"]
        if item.data["kind"] == "text":
            source, text = self._texts[place]
            return (await self._of_text(source, text, ask)).rows()
        if item.data["kind"] == "cited":
            cited, decision = self._cited[place]
            return (await self._of_cited(cited, decision, ask)).rows()
        collected, collection = self._collections[place]
        return (await self._of_collection(collected, collection, ask)).rows()

    async def _of_text(self, source: TextSource, text: sources.Text, ask: Ask) -> _Made:
        whole = text.text.strip() if source.most_tokens is None else first_tokens(text.text.strip(), source.most_tokens)
        borders = chunks(whole, self.spec.chunk_tokens)
        parts = [prompts.material(whole[begin:end]) for begin, end in borders]
        context = _headed("Section", parts)
        made = self._made(source.domain, text, context, chunk_tokens=self.spec.chunk_tokens, chunks=borders)
        what = "speakers" if source.labels == "speakers" else source.domain if source.domain in prompts.RECALLING else "Books"
        found: Sequence[Sequence[str]] = []
        labeled = {"labeler": what} if what == "speakers" else self._by("labeler", self.spec.labeler)
        if {"Recalling", LOOKUP} & set(self.spec.tasks):
            found = _speakers(whole, borders) if what == "speakers" else await self._labels(parts, what, ask)
            every = _united(found)
            made.label(parts, found)
            made.add("Recalling", prompts.recalling(context, what), every or ("None",), **labeled)
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._ask_of_one(made, parts, context, ask)
        elif LOOKUP in self.spec.tasks and any(found):
            number = self._random("lookup", text.name).choice([place for place, labels in enumerate(found, start=1) if labels])
            made.add(LOOKUP, prompts.lookup(context, what, number), found[number - 1], section=number, **labeled)
        made.add("Summarizing", prompts.summarizing(context, len(parts)), ())
        if "Organizing" in self.spec.tasks and len(parts) > 1:
            options = [await self._summary(part, ask) for part in parts]
            order = list(range(len(parts)))
            self._random("order", text.name).shuffle(order)
            shown = [options[place] for place in order]
            gold = ", ".join(f"[{order.index(place) + 1}]" for place in range(len(parts)))
            made_by = self._by("summarizer", self.spec.summarizer)
            made.add("Organizing", prompts.organizing(context, shown), (gold,), order=order, **made_by)
        return made

    async def _of_collection(self, source: CollectionSource, collection: sources.Collection, ask: Ask) -> _Made:
        documents = dict(collection.documents)
        if source.most_documents is not None and len(documents) > source.most_documents:
            kept = sorted(self._random("documents", collection.name).sample(sorted(documents), source.most_documents))
            documents = {number: documents[number] for number in kept}
        texts = [prompts.material(text.strip(), ids=True) for text in documents.values()]
        context = "\n\n".join(f"[{number}]\n{text}" for number, text in zip(documents, texts, strict=True))
        made = self._made(source.domain, collection, context, documents=list(documents))
        if "Recalling" in self.spec.tasks and source.labels == "labeler":
            await self._recalled(made, "Medicine", texts, context, ask)
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._ask_of_one(made, texts, context, ask)
        sections = _headed(_word(source.domain), texts)
        made.add("Summarizing", prompts.summarizing(sections, len(texts), _word(source.domain)), (), context=sections)
        if (other := self._other(collection, documents)) is not None:
            shared = [f"[{number}]" for number in collection.common(other, documents)]
            prompt = prompts.attributing(context, prompts.material(other.background, ids=True))
            made.add("Attributing", prompt, shared or ("None",), background_of=other.name)
        return made

    async def _of_cited(self, source: CitedSource, decision: sources.Cited, ask: Ask) -> _Made:
        """Recalling and Summarizing use the segments unchanged. For Attributing every citation is replaced by the same mark; the
        gold labels are the segments where a mark replaced a citation of the decision.
        """
        borders = [chunks(_unbroken(text), self.spec.chunk_tokens) for text in decision.citing]
        cuts = zip(decision.citing, borders, strict=True)
        parts = [prompts.material(text[begin:end]) for text, cut in cuts for begin, end in cut]
        word = _word(source.domain)
        context = _headed(word, parts)
        made = self._made(source.domain, decision, context, chunk_tokens=self.spec.chunk_tokens, chunks=borders)
        if "Recalling" in self.spec.tasks:
            await self._recalled(made, "Law", parts, context, ask)
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._ask_of_one(made, parts, context, ask)
        made.add("Summarizing", prompts.summarizing(context, len(parts), word), ())
        if "Attributing" in self.spec.tasks:
            target, marked_by = prompts.material(f"{decision.title}\n{decision.summary}"), {"marks": source.marks}
            forms: set[str] = set()
            if source.marks == "labeler":
                forms = await self._forms(parts, target, ask)
                marked_by = {**marked_by, **self._by("labeler", self.spec.labeler)}
            marked = [_marked(text, decision, forms) for text in decision.citing]
            cut = [chunks(text, self.spec.chunk_tokens) for text in marked]
            segments = [text[begin:end] for text, places in zip(marked, cut, strict=True) for begin, end in places]
            gold = [f"Segment {number}" for number, text in enumerate(segments, start=1) if _TARGET in text]
            segments = [prompts.material(text.replace(_TARGET, _MARK)) for text in segments]
            shown = _headed("Segment", segments)
            made.add(
                "Attributing", prompts.attributing_law(shown, target), gold or ("None",), context=shown, chunks=cut, **marked_by
            )
        return made

    async def _recalled(self, made: _Made, what: str, parts: Sequence[str], context: str, ask: Ask) -> None:
        labels = await self._labels(parts, what, ask)
        made.label(parts, labels)
        labeled = self._by("labeler", self.spec.labeler)
        made.add("Recalling", prompts.recalling(context, what), _united(labels) or ("None",), **labeled)

    async def _ask_of_one(self, made: _Made, parts: Sequence[str], context: str, ask: Ask) -> None:
        """Add a Lookup record: a model writes a question about one part, drawn by the seed; the record asks it of the whole."""
        assert self.spec.questioner is not None
        number = self._random("question", made.name).randrange(len(parts)) + 1
        asked = [system(prompts.SYSTEM), user(prompts.chunk_question(parts[number - 1]))]
        reply = await ask("question", asked, model=self.spec.questioner, prompt_hash=prompts.prompt_hash())
        written = _QUESTION.search(reply.text)
        answer = lenient_metrics.items(written["answer"]) if written else ()
        if written is None or not set(answer) - {lenient_metrics.NONE}:
            raise Unreadable(reply, "a line Question: and a line Answer: with what it names")
        made.label([parts[number - 1]], [answer], number)
        made_by = self._by("questioner", self.spec.questioner)
        question = " ".join(written["question"].split())
        made.add(LOOKUP, prompts.asked(context, question), answer, section=number, **made_by)

    async def _forms(self, parts: Sequence[str], target: str, ask: Ask) -> set[str]:
        """The forms in which a decision is cited: those that the labeler lists and that occur in the text."""
        forms: set[str] = set()
        for part in parts:
            question = [system(prompts.SYSTEM), user(prompts.chunk_citations(part, target))]
            reply = await ask("label", question, model=self.spec.labeler, prompt_hash=prompts.prompt_hash())
            listed = [line.strip().lstrip("-*").strip() for line in reply.text.splitlines()]
            if any(listed) and not any(
                label in part or label.casefold().strip(".") == lenient_metrics.NONE for label in listed if label
            ):
                raise Unreadable(reply, "citations as they stand in the text, or None")
            forms.update(
                label for label in listed if label and label in part and label.casefold().strip(".") != lenient_metrics.NONE
            )
        return forms

    def _other(self, collection: sources.Collection, shown: Iterable[int]) -> sources.Collection | None:
        """The collection that shares the most documents; one drawn by the seed if none shares any; None without others."""
        others = [other for _, other in self._collections if other is not collection]
        if not others:
            return None
        common = [len(collection.common(other, shown)) for other in others]
        if max(common):
            return others[common.index(max(common))]
        return self._random("background", collection.name).choice(others)

    async def _labels(self, parts: Sequence[str], what: str, ask: Ask) -> list[tuple[str, ...]]:
        """The labels of each chunk; empty if the labeler says None."""
        labels = []
        for part in parts:
            question = [system(prompts.SYSTEM), user(prompts.recalling(part, what))]
            reply = await ask("label", question, model=self.spec.labeler, prompt_hash=prompts.prompt_hash())
            read = lenient_metrics.items(reply.text)
            if not read:
                raise Unreadable(reply, "a list, or None")
            labels.append(tuple(label for label in read if label != lenient_metrics.NONE))
        return labels

    async def _summary(self, part: str, ask: Ask) -> str:
        question = [system(prompts.SYSTEM), user(prompts.chunk_summary(part))]
        reply = await ask("summarize", question, model=self.spec.summarizer, prompt_hash=prompts.prompt_hash())
        return " ".join(reply.text.split())

    def _made(self, domain: str, source: sources.Text | sources.Collection | sources.Cited, context: str, **cut: Any) -> _Made:
        """The empty `_Made` of a source. `cut`: how the source became the context: chunk borders in characters (one list per
        citing text), or document numbers."""
        meta = {
            "source_sha256": source.sha256,
            **cut,
            "prompt_hash": prompts.prompt_hash(),
            "seed": self.spec.seed,
            "tokenizer": TOKENIZER,
        }
        return _Made(domain, source.name, context, meta, self.spec.tasks)

    def _by(self, role: str, model: ModelSpec) -> dict[str, Any]:
        """The meta fields of a model in this role: name, sampling, and revision of a local model."""
        revision = self.models.revision(model.model).get("extra_body", {})
        return {
            role: model.model,
            f"{role}_sampling": model.sampling(),
            **{f"{role}_{name}": value for name, value in revision.items()},
        }

    def score(self, tables: Tables) -> Tables:
        """Table `made`: number, mean tokens and mean labels of the records, by task and domain."""
        made = tables[MADE.name].with_columns(
            pl.col("meta").map_elements(lambda meta: json.loads(meta)["tokens"], return_dtype=pl.Int64).alias("tokens"),
            pl.col("answer").list.len().alias("labels"),
        )
        counted = made.group_by("task", "domain").agg(
            pl.col("tokens").mean(), pl.col("labels").cast(pl.Float64).mean(), pl.len().cast(pl.Int64).alias("n")
        )
        return {"made": counted.sort("task", "domain")}

    def report(self, scores: Tables) -> Sequence[Section]:
        """The table of built records."""
        text = "tokens: mean cl100k tokens of a context. labels: mean labels of a record, for Recalling, Lookup and Attributing."
        return [Section("Records", text=text, table=scores["made"])]

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes `records.jsonl` in the release's format, and `audit.csv`, a sheet for people to check labels."""
        rows, labels = run.table(MADE.name), run.table(LABELS.name)
        return write_new(folder, {"records.jsonl": jsonl(rows.to_dicts()), "audit.csv": sheet(labels, self.spec.seed)})


def _headed(word: str, parts: Sequence[str]) -> str:
    """Join the parts, each below a header: `<Section 1>`, `<Section 2>` ..."""
    return "\n\n".join(f"<{word} {number}>\n{part}" for number, part in enumerate(parts, start=1))


def _unbroken(text: str) -> str:
    """The text with `_` instead of white space in citations, so that no chunk ends inside `Roe v. Wade`. Its length does not
    change."""
    parts, end = [], 0
    for begin, stop in citations(text):
        parts += [text[end:begin], re.sub(r"\s", "_", text[begin:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def _word(domain: str) -> str:
    """The scripts' word for a part in this domain."""
    return "Segment" if domain == "Law" else "Section"


def _united(lists: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label for listed in lists for label in listed))


def _marked(text: str, decision: sources.Cited, forms: Iterable[str] = ()) -> str:
    """The text with each citation replaced: citations of the decision by `_TARGET`, all others by `_MARK`. `forms`: other strings
    that cite it, in addition to its title and citation.

    Short forms count: `Brandt, supra`, `212 N.W. at 408`, `Id.` after a citation of the decision, and a party's name in a text
    that also cites the decision in full.
    """
    full = _any_of({decision.title, decision.citation, *forms})
    parties = _parties(decision.title)
    short = _any_of(parties)
    volume = re.fullmatch(r"(\d+\s+\S.*?)\s+\d+", decision.citation)
    at_page = re.compile(rf"\b{_spaced(volume[1])},?\s+at\s") if volume else None
    own = [match.span() for match in full.finditer(text)]
    spans = sorted({*citations(text), *own, *(match.span() for match in short.finditer(text) if own)})
    out: list[str] = []
    end, mark = 0, ""
    for begin, stop in _merged(spans):
        span = text[begin:stop]
        if not BACK.fullmatch(span):
            of_target = any(one.search(span) for one in (full, at_page) if one) or (_is_short(span) and short.search(span))
            mark = _TARGET if of_target else _MARK
        out += [text[end:begin], mark or _MARK]
        end = stop
    return "".join([*out, text[end:]])


def _is_short(span: str) -> bool:
    """Whether a citation is a short form: a party alone, `supra`, or a page after `at`."""
    return re.search(r"\sv\.?\s|\(\d{4}\)\Z", span) is None


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """A pattern for any of the names, the longest first; white space may be a line break."""
    wanted = [_spaced(name) for name in sorted(names, key=lambda name: (-len(name), name)) if name]
    return re.compile("|".join(rf"(?<!\w){name}(?!\w)" for name in wanted) or r"(?!)")


def _spaced(name: str) -> str:
    return r"\s+".join(map(re.escape, name.split()))


def _parties(title: str) -> set[str]:
    """The short names of a decision: each party of more than one word, and a party's last word if it is a proper name
    (`Brandt`, not `Board`)."""
    names = set()
    for party in re.split(r"\sv\.?\s", re.sub(r"\A(?:In re|Ex parte|Matter of)\s", "", title)):
        *first, last = party.split() or [""]
        if first:
            names.add(party.strip())
        if last[:1].isupper() and len(last) >= _LEAST_NAME and last.casefold().strip(".,") not in _OFFICES:
            names.add(last)
    return names


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted spans; overlapping ones are merged."""
    merged: list[tuple[int, int]] = []
    for begin, end in spans:
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _speakers(text: str, borders: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Per chunk, the words in its speakers' names, normalized. Turns are found in the whole text, since a chunk may begin
    within one."""
    found = [(place, lenient_metrics.same(word)) for place, name in placed_turns(text) for word in name_words(name)]
    return [tuple(dict.fromkeys(word for place, word in found if begin <= place < end)) for begin, end in borders]


def sheet(labels: pl.DataFrame, seed: int) -> bytes:
    """A CSV sheet of chunks and their labels, at most 100 rows per domain, with a column for a person's labels."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_SHEET)
    for (domain,), labeled in sorted(labels.group_by("domain")):
        rows = labeled.filter(pl.col("task") == "Recalling").sort("document", "chunk").to_dicts()
        kept = sorted(random.Random(json.dumps([seed, str(domain)])).sample(range(len(rows)), min(100, len(rows))))
        for row in (rows[place] for place in kept):
            fields = (row["domain"], row["document"], str(row["chunk"]), row["text"], ", ".join(row["labels"]) or "None", "")
            writer.writerow(map(quoted, fields))
    return out.getvalue().encode("utf-8")


def read_label_sheet(path: Path) -> dict[str, dict[str, float | int | None]]:
    """Domain -> mean F1 of the labels against a person's, over the completed rows, and `n` (paper, Table B).

    Raises UserError if the file is not such a sheet.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(read_file(path).decode("utf-8-sig"), newline="")))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); give the audit.csv that `summhay export` wrote, filled in") from error
    if not rows or set(_SHEET) - set(rows[0]):
        raise UserError(f"{path} is not a label sheet; expected the columns {', '.join(_SHEET)}")
    by_domain: dict[str, list[float]] = {}
    for row in rows:
        if (person := row[_SHEET[-1]] or "").strip():
            scores = by_domain.setdefault(unquoted(row["domain"]), [])
            scores.append(lenient_metrics.recalling(unquoted(row["labels"]), lenient_metrics.items(unquoted(person))).f1)
    return {domain: {"f1": lenient_metrics.mean(values), "n": len(values)} for domain, values in by_domain.items()}
