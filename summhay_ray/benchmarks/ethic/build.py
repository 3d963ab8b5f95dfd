"""Build ETHIC's tasks from your documents (paper, sections 3.2 and 3.3): a run whose items are documents and collections.

A model labels the text chunk by chunk with the prompt of the task, and the labels are merged without duplicates. With `labels:
speakers`, the labels are the speakers of a transcript instead. An offline labeler follows simple rules, so the records are
exported with a sheet on which people can check the labels. The same spec and seed give the same records.
"""

import functools
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray import benchmark
from summhay_ray.benchmarks.ethic import lenient_metrics, prompts, sources
from summhay_ray.benchmarks.ethic.citation_marks import MARK, TARGET_MARK, join_citations, mark_citations
from summhay_ray.benchmarks.ethic.records import LOOKUP, jsonl
from summhay_ray.benchmarks.ethic.spec import CitedSource, CollectionSource, EthicBuildSpec, TextSource
from summhay_ray.benchmarks.ethic.tables import LABELS, MADE, ChunkLabels, EthicRecord
from summhay_ray.errors import SpecError
from summhay_ray.inputs import write_new
from summhay_ray.local_models import check_models
from summhay_ray.sheets import read_sheet, sheet
from summhay_ray.text import chunks, count_tokens, first_tokens, name_words, placed_turns

TOKENIZER = "cl100k_base"
_SHEET = ("domain", "document", "chunk", "text", "labels", "a person's labels")
_QUESTION = re.compile(
    r"\bQuestion:[*_ \t]*(?P<question>\S.*?)\s*\n[\s*_]*Answer:[*_ \t]*(?P<answer>\S.*)\Z", re.DOTALL | re.IGNORECASE
)


@dataclass
class _Made:
    """The records and labels of one source, while they are built."""

    domain: str
    name: str
    context: str
    meta: Mapping[str, Any]
    tasks: Sequence[str]
    records: list[EthicRecord] = field(default_factory=list)
    labels: list[ChunkLabels] = field(default_factory=list)

    def add(self, task: str, instruction: str, answer: Sequence[str], context: str = "", **more: Any) -> None:
        """Add a record if the spec asks for its task. `context`: replaces the source's context. `more`: additional fields of
        meta."""
        if task in self.tasks:
            shown = context or self.context
            meta = json.dumps({**self.meta, "tokens": count_tokens(shown), **more}, sort_keys=True)
            head = (task, self.domain, self.name, f"{self.domain}/{self.name}", shown, prompts.SYSTEM)
            self.records.append(EthicRecord(*head, prompts.frame_prompt(shown, instruction), tuple(answer), meta))

    def add_recalling(self, what: str, parts: Sequence[str], labels: Sequence[Sequence[str]], by: Mapping[str, Any]) -> None:
        """Add the labels of all chunks, and a Recalling record that asks for them."""
        self.label(parts, labels)
        every = tuple(dict.fromkeys(itertools.chain(*labels)))
        self.add("Recalling", prompts.RECALLING[what] + prompts.CUE, every or ("None",), **by)

    def label(self, parts: Sequence[str], labels: Sequence[Sequence[str]], first: int = 0) -> None:
        """Add labels of chunks. `first`: the number of the single chunk of a Lookup question; 0: all chunks, for Recalling."""
        task = LOOKUP if first else "Recalling"
        self.labels += [
            ChunkLabels(self.domain, self.name, task, number, part, tuple(chunk_labels))
            for number, (part, chunk_labels) in enumerate(zip(parts, labels, strict=True), start=first or 1)
        ]


class EthicBuild(benchmark.Benchmark[EthicBuildSpec]):
    """Builds one set of records."""

    kind = "ethic_build"
    stages = (
        benchmark.Stage("label", output_tokens=60, example="None"),
        benchmark.Stage("question", output_tokens=40, example="Question: Who is named?\nAnswer: Anna"),
        benchmark.Stage("summarize", output_tokens=150, example="A summary."),
    )
    tables = (MADE, LABELS)
    counted = benchmark.Counted("documents", MADE.name, prefix="c")

    def __init__(self, spec: EthicBuildSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        check_models((entry.model for entry in spec.model_entries()), self.own_models, inputs.folder)

    def identity(self) -> Any:
        """See `Workload`. Includes the content of the sources and the hash of the prompts."""
        _ = self._texts, self._collections, self._cited
        return {**super().identity(), "prompts": prompts.prompt_hash()}

    @functools.cached_property
    def _texts(self) -> Sequence[tuple[TextSource, sources.Text]]:
        """Read the documents of each source that are long enough. If there are more than `most_documents`, the seed draws
        that many."""
        drawn: list[tuple[TextSource, sources.Text]] = []
        for source in self.spec.texts:
            texts = sources.read_texts(source.path, self.inputs)
            if source.least_tokens:
                texts = [text for text in texts if count_tokens(text.text) >= source.least_tokens]
            if source.most_documents is not None and len(texts) > source.most_documents:
                kept = set(self._random("texts", source.domain).sample(range(len(texts)), source.most_documents))
                texts = [text for place, text in enumerate(texts) if place in kept]
            if not texts:
                raise SpecError(
                    f"spec: texts: {source.path!r} has no document of {source.least_tokens} tokens; lower least_tokens"
                )
            drawn += [(source, text) for text in texts]
        return drawn

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

    def items(self) -> Iterator[benchmark.Item]:
        """Yield one item per document, collection or decision. Raises SpecError if two of a domain have the same name."""
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
                yield benchmark.Item(name, data={"kind": kind, "place": place, "domain": source.domain})

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        place: int = item.data["place"]
        match item.data["kind"]:
            case "text":
                made = await self._build_text(*self._texts[place], ask)
            case "cited":
                made = await self._build_cited(*self._cited[place], ask)
            case _:
                made = await self._build_collection(*self._collections[place], ask)
        return {MADE.name: made.records, LABELS.name: made.labels}

    async def _build_text(self, source: TextSource, text: sources.Text, ask: benchmark.Ask) -> _Made:
        whole = text.text.strip() if source.most_tokens is None else first_tokens(text.text.strip(), source.most_tokens)
        borders = chunks(whole, self.spec.chunk_tokens)
        parts = [prompts.material(whole[begin:end]) for begin, end in borders]
        context = prompts.join_sections("Section", parts)
        made = self._made(source.domain, text, context, chunk_tokens=self.spec.chunk_tokens, chunks=borders)
        what = "speakers" if source.labels == "speakers" else source.domain if source.domain in prompts.RECALLING else "Books"
        found: Sequence[Sequence[str]] = []
        labeled = {"labeler": what} if what == "speakers" else self._model_fields("labeler", self.spec.labeler)
        if {"Recalling", LOOKUP} & set(self.spec.tasks):
            found = _speakers(whole, borders) if what == "speakers" else await self._labels(parts, what, ask)
            made.add_recalling(what, parts, found, labeled)
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._add_question(made, parts, ask)
        elif LOOKUP in self.spec.tasks and any(found):
            number = self._random("lookup", text.name).choice([place for place, labels in enumerate(found, start=1) if labels])
            asked = prompts.LOOKUP_SECTION.format(number=number) + prompts.RECALLING[what] + prompts.CUE
            made.add(LOOKUP, asked, found[number - 1], section=number, **labeled)
        made.add("Summarizing", prompts.SUMMARIZING.format(n=len(parts), word="Section"), ())
        if "Organizing" in self.spec.tasks and len(parts) > 1:
            summarizer = self.spec.summarizer
            replies = [await self._ask("summarize", summarizer, part, prompts.SUMMARY_OF_CHUNK, ask) for part in parts]
            options = [" ".join(reply.text.split()) for reply in replies]
            order = list(range(len(parts)))
            self._random("order", text.name).shuffle(order)
            shown = [options[place] for place in order]
            gold = ", ".join(f"[{order.index(place) + 1}]" for place in range(len(parts)))
            made_by = self._model_fields("summarizer", summarizer)
            made.add("Organizing", prompts.organizing(shown), (gold,), order=order, **made_by)
        return made

    async def _build_collection(self, source: CollectionSource, collection: sources.Collection, ask: benchmark.Ask) -> _Made:
        documents = dict(collection.documents)
        if source.most_documents is not None and len(documents) > source.most_documents:
            kept = sorted(self._random("documents", collection.name).sample(sorted(documents), source.most_documents))
            documents = {number: documents[number] for number in kept}
        texts = [prompts.material(text.strip(), ids=True) for text in documents.values()]
        context = "\n\n".join(f"[{number}]\n{text}" for number, text in zip(documents, texts, strict=True))
        made = self._made(source.domain, collection, context, documents=list(documents))
        if "Recalling" in self.spec.tasks and source.labels == "labeler":
            labels = await self._labels(texts, "Medicine", ask)
            made.add_recalling("Medicine", texts, labels, self._model_fields("labeler", self.spec.labeler))
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._add_question(made, texts, ask)
        word = "Segment" if source.domain == "Law" else "Section"
        made.add(
            "Summarizing", prompts.SUMMARIZING.format(n=len(texts), word=word), (), context=prompts.join_sections(word, texts)
        )
        others = [other for _, other in self._collections if other is not collection]
        if others:
            # Use the collection that shares the most documents. If none shares any, the seed draws one.
            common = [len(collection.common(other, documents)) for other in others]
            drawn = None if max(common) else self._random("background", collection.name).choice(others)
            other = drawn or others[common.index(max(common))]
            shared = [f"[{number}]" for number in collection.common(other, documents)]
            instruction = prompts.attributing(prompts.material(other.background, ids=True))
            made.add("Attributing", instruction, shared or ("None",), background_of=other.name)
        return made

    async def _build_cited(self, source: CitedSource, decision: sources.Cited, ask: benchmark.Ask) -> _Made:
        """Build the records of a decision. Recalling and Summarizing use the segments unchanged. For Attributing, all
        citations become the same mark; the gold labels are the segments in which a citation of the decision was replaced."""
        borders = [chunks(join_citations(text), self.spec.chunk_tokens) for text in decision.citing]
        cuts = zip(decision.citing, borders, strict=True)
        parts = [prompts.material(text[begin:end]) for text, cut in cuts for begin, end in cut]
        word = "Segment" if source.domain == "Law" else "Section"
        context = prompts.join_sections(word, parts)
        made = self._made(source.domain, decision, context, chunk_tokens=self.spec.chunk_tokens, chunks=borders)
        if "Recalling" in self.spec.tasks:
            made.add_recalling(
                "Law", parts, await self._labels(parts, "Law", ask), self._model_fields("labeler", self.spec.labeler)
            )
        if LOOKUP in self.spec.tasks and self.spec.questioner is not None:
            await self._add_question(made, parts, ask)
        made.add("Summarizing", prompts.SUMMARIZING.format(n=len(parts), word=word), ())
        if "Attributing" in self.spec.tasks:
            target, marked_by = prompts.material(f"{decision.title}\n{decision.summary}"), {"marks": source.marks}
            forms: set[str] = set()
            if source.marks == "labeler":
                forms = await self._forms(parts, target, ask)
                marked_by = {**marked_by, **self._model_fields("labeler", self.spec.labeler)}
            marked = [mark_citations(text, decision, forms) for text in decision.citing]
            cut = [chunks(text, self.spec.chunk_tokens) for text in marked]
            segments = [text[begin:end] for text, places in zip(marked, cut, strict=True) for begin, end in places]
            gold = [f"Segment {number}" for number, text in enumerate(segments, start=1) if TARGET_MARK in text]
            segments = [prompts.material(text.replace(TARGET_MARK, MARK)) for text in segments]
            instruction = f"{prompts.ATTRIBUTING_LAW}{prompts.TARGET}{target}{prompts.EVERY_SEGMENT}"
            shown = prompts.join_sections("Segment", segments)
            made.add("Attributing", instruction, gold or ("None",), context=shown, chunks=cut, **marked_by)
        return made

    async def _ask(
        self, stage: str, model: benchmark.ModelSpec, part: str, instruction: str, ask: benchmark.Ask
    ) -> benchmark.RawAnswer:
        question = [benchmark.system(prompts.SYSTEM), benchmark.user(prompts.frame_prompt(part, instruction))]
        return await ask(stage, question, model=model, prompt_hash=prompts.prompt_hash())

    async def _add_question(self, made: _Made, parts: Sequence[str], ask: benchmark.Ask) -> None:
        """Add a Lookup record. A model writes a question about one part, which the seed draws. The record asks this question
        about the whole document."""
        assert self.spec.questioner is not None
        number = self._random("question", made.name).randrange(len(parts)) + 1
        reply = await self._ask("question", self.spec.questioner, parts[number - 1], prompts.QUESTION_OF_CHUNK, ask)
        written = _QUESTION.search(reply.text)
        answer = lenient_metrics.items(written["answer"]) if written else ()
        if written is None or not set(answer) - {lenient_metrics.NONE}:
            raise benchmark.Unreadable(reply, "a line Question: and a line Answer: with what it names")
        made.label([parts[number - 1]], [answer], number)
        made_by = self._model_fields("questioner", self.spec.questioner)
        question = " ".join(written["question"].split())
        made.add(LOOKUP, prompts.lookup(question), answer, section=number, **made_by)

    async def _forms(self, parts: Sequence[str], target: str, ask: benchmark.Ask) -> set[str]:
        """Ask the labeler in which forms the text cites a decision. Returns those that occur in the text."""
        forms: set[str] = set()
        instruction = f"{prompts.CITATIONS_OF_TARGET}{prompts.TARGET}{target}{prompts.CUE}"
        for part in parts:
            reply = await self._ask("label", self.spec.labeler, part, instruction, ask)
            listed = [line.strip().lstrip("-*").strip() for line in reply.text.splitlines()]
            named = [label for label in listed if label and label.casefold().strip(".") != lenient_metrics.NONE]
            found = [label for label in named if label in part]
            if named and not found and len(named) == sum(map(bool, listed)):
                raise benchmark.Unreadable(reply, "citations as they stand in the text, or None")
            forms.update(found)
        return forms

    async def _labels(self, parts: Sequence[str], what: str, ask: benchmark.Ask) -> list[tuple[str, ...]]:
        """Return the labels of each chunk. They are empty if the labeler answers None."""
        labels = []
        for part in parts:
            reply = await self._ask("label", self.spec.labeler, part, prompts.RECALLING[what] + prompts.CUE, ask)
            read = lenient_metrics.items(reply.text)
            if not read:
                raise benchmark.Unreadable(reply, "a list, or None")
            labels.append(tuple(label for label in read if label != lenient_metrics.NONE))
        return labels

    def _made(self, domain: str, source: sources.Text | sources.Collection | sources.Cited, context: str, **cut: Any) -> _Made:
        """Return a source's `_Made` without records. `cut`: chunk borders in characters (one list per citing text), or
        document numbers."""
        meta = {
            "source_sha256": source.sha256,
            **cut,
            "prompt_hash": prompts.prompt_hash(),
            "seed": self.spec.seed,
            "tokenizer": TOKENIZER,
        }
        return _Made(domain, source.name, context, meta, self.spec.tasks)

    def _model_fields(self, role: str, model: benchmark.ModelSpec) -> dict[str, Any]:
        """Return the meta fields of a model in a role: name, sampling, and the revision of a local model."""
        revision = self.models.revision(model.model).get("extra_body", {})
        return {
            role: model.model,
            f"{role}_sampling": model.sampling(),
            **{f"{role}_{name}": value for name, value in revision.items()},
        }

    def score(self, tables: benchmark.Tables) -> benchmark.Tables:
        """Return the table `made`: number of records, mean tokens and mean labels, by task and domain."""
        made = tables[MADE.name].with_columns(
            pl.col("meta").map_elements(lambda meta: json.loads(meta)["tokens"], return_dtype=pl.Int64).alias("tokens"),
            pl.col("answer").list.len().alias("labels"),
        )
        counted = made.group_by("task", "domain").agg(
            pl.col("tokens").mean(), pl.col("labels").cast(pl.Float64).mean(), pl.len().cast(pl.Int64).alias("n")
        )
        return {"made": counted.sort("task", "domain")}

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        text = "tokens: mean cl100k tokens of a context. labels: mean labels of a record, for Recalling, Lookup and Attributing."
        return [benchmark.Section("Records", text=text, table=scores["made"])]

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes `records.jsonl` in the release's format, and `audit.csv`, a sheet on which people check
        labels."""
        rows, labels = run.table(MADE.name), run.table(LABELS.name)
        return write_new(folder, {"records.jsonl": jsonl(rows.to_dicts()), "audit.csv": label_sheet(labels, self.spec.seed)})


def _speakers(text: str, borders: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return, for each chunk, the normalized words of its speakers' names. Turns are found in the whole text, since a chunk
    may begin in the middle of one."""
    found = [(place, lenient_metrics.normalize(word)) for place, name in placed_turns(text) for word in name_words(name)]
    return [tuple(dict.fromkeys(word for place, word in found if begin <= place < end)) for begin, end in borders]


def label_sheet(labels: pl.DataFrame, seed: int) -> bytes:
    """Return a CSV sheet of chunks and their labels, at most 100 rows per domain, with a column for a person's labels."""
    asked = []
    for (domain,), labeled in sorted(labels.group_by("domain")):
        rows = labeled.filter(pl.col("task") == "Recalling").sort("document", "chunk").to_dicts()
        kept = sorted(random.Random(json.dumps([seed, str(domain)])).sample(range(len(rows)), min(100, len(rows))))
        for row in (rows[place] for place in kept):
            asked.append((row["domain"], row["document"], str(row["chunk"]), row["text"], ", ".join(row["labels"]) or "None", ""))
    return sheet(_SHEET, asked)


def read_label_sheet(path: Path) -> dict[str, dict[str, float | int | None]]:
    """Map each domain to the mean F1 of the labels against a person's, and `n`, over the completed rows (Table B). Raises
    UserError if the file is not such a sheet."""
    by_domain: dict[str, list[float]] = {}
    for _, row in read_sheet(path, _SHEET):
        if person := row[_SHEET[-1]]:
            scores = by_domain.setdefault(row["domain"], [])
            scores.append(lenient_metrics.recalling(row["labels"], lenient_metrics.items(person)).f1)
    return {domain: {"f1": lenient_metrics.mean(values), "n": len(values)} for domain, values in by_domain.items()}
