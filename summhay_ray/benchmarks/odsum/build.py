"""A collection made of one's own documents, queries and summaries (ODSum, section 3.3): `kind: odsum_build`.

Documents are split where a pattern says; queries are contextualized, so that they can be understood without their document; alike
queries are clustered and merged, and so are their summaries. `summhay export RUN --out FOLDER` writes the collection, and
`provenance.jsonl`: which queries each merged one is made of.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl
from pydantic import Field, model_validator

from summhay_ray import summarize
from summhay_ray.benchmark import (
    Answer,
    Ask,
    Inputs,
    Item,
    Model,
    ModelSpec,
    NoReply,
    Request,
    Rows,
    Section,
    Spec,
    Stage,
    Table,
    Tables,
    Text,
    user,
)
from summhay_ray.benchmarks.odsum.clusters import alike_by_words, clusters_of
from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query
from summhay_ray.benchmarks.odsum.export import collection_files, write_files
from summhay_ray.benchmarks.odsum.held import OnCollection
from summhay_ray.benchmarks.summarizing import read_summary
from summhay_ray.encoders import Encoding, load_encoder
from summhay_ray.store import RunStore


class BuildSpec(Spec):
    """What a collection is made of, and how."""

    NOT_SEMANTIC = Spec.NOT_SEMANTIC | {"corpus"}

    corpus: Text = Field(description="folder of documents and queries with gold and references, or store/SHA256")
    split_at: str | None = Field(default=None, description="pattern at which documents are cut into parts; null: they stay whole")
    contextualize: bool = Field(default=False, description="rewrite each query so that it can be understood without its document")
    merge: bool = Field(default=True, description="cluster alike queries, and make one of each cluster")
    threshold: float = Field(default=0.3, ge=0, le=1, description="every pair of queries of a cluster is above it")
    least: int = Field(default=2, ge=1, description="queries of a cluster; a smaller one joins the one most like it")
    most: int = Field(default=6, ge=1, description="queries of a cluster; a larger one is clustered again inside")
    embed: str = Field(default="", description="embedding model of the queries' likeness, by name or folder; empty: by words")
    model: Model = Field(default=ModelSpec(model="offline/editor"), description="who rewrites and merges")

    @model_validator(mode="after")
    def _sizes_fit(self) -> BuildSpec:
        if self.least > self.most:
            raise ValueError(f"least: {self.least} is more than most, {self.most}")
        if self.split_at is not None:
            try:
                re.compile(self.split_at)
            except re.error as error:
                raise ValueError(f"split_at: no pattern ({error})") from error
        return self


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """A query of the new collection, and where it comes from."""

    query_id: Annotated[str, "identifier, unique within the collection"]
    text: Annotated[str, "the query"]
    references: Annotated[tuple[str, ...], "reference summaries: of a merged query one"]
    gold: Annotated[tuple[str, ...], "the gold documents of all members"]
    members: Annotated[tuple[str, ...], "ids of the queries that it is made of"]
    member_texts: Annotated[tuple[str, ...], "what they asked, contextualized where that was wanted"]
    alike: Annotated[float | None, "least likeness of two members; null for one"]


class Editor:
    """A model without a key, for trying: it puts a question and its title side by side, and texts one behind the other."""

    name: ClassVar[str] = "offline/editor"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """The question with its title, or the parts, each once."""
        title, question = (re.search(rf"^{name}: (.*)$", request.prompt, re.MULTILINE) for name in ("Title", "Question"))
        if title and question:
            return f"In {title[1]}: {question[1]}"
        parts = re.findall(r"<part>\n(.*?)\n</part>", request.prompt, re.DOTALL)
        sentences = [one for part in parts for one in re.split(r"(?<=[.!?])\s+", part.strip())]
        return " ".join(dict.fromkeys(sentences))


class OdsumBuild(OnCollection[BuildSpec]):
    """An item is a query of the new collection: one that is kept, or a cluster that is merged."""

    kind = "odsum_build"
    stages = (
        Stage("contextualize", output_tokens=40, example="What happens to the ferry of Elsin in the winter?"),
        Stage("merge_queries", output_tokens=60, example="What happens to the ferry and the bridge of Elsin?"),
        Stage("merge_summaries", output_tokens=300, example="The ferry gets a new engine, and the bridge is closed."),
    )
    tables = (Table("odsum_built", BuiltQuery, ("query_id",)),)
    own_models = (Editor,)

    def __init__(self, spec: BuildSpec, inputs: Inputs) -> None:
        super().__init__(spec, inputs)
        self.parts = _split(self.whole, spec.split_at)

    def identity(self) -> Any:
        """See `Workload`. The collection is known by its content, and so are the prompts."""
        prompts = [_prompt(stage.name) for stage in self.stages]
        return {"kind": self.kind, "collection": self.whole.digest, "spec": self.spec.semantic(), "prompts": prompts}

    @functools.cached_property
    def clusters(self) -> Sequence[tuple[tuple[int, ...], float | None]]:
        """Places of the queries that are made one, and the least likeness of two of them."""
        texts = [query.text for query in self.parts.queries]
        if not self.spec.merge:
            return [((place,), None) for place in range(len(texts))]
        if self.spec.embed:
            vectors = load_encoder(Encoding(self.spec.embed)).encode(texts).values
            norms = (vectors**2).sum(axis=1, keepdims=True) ** 0.5
            alike = (vectors / norms) @ (vectors / norms).T
        else:
            alike = alike_by_words(texts)
        found = clusters_of(alike, self.spec.threshold, self.spec.least, self.spec.most)
        return [
            (group, min((float(alike[one, other]) for one in group for other in group if one < other), default=None))
            for group in found
        ]

    def items(self) -> Iterator[Item]:
        """See `Workload`."""
        for group, alike in self.clusters:
            members = [self.parts.queries[place].query_id for place in group]
            yield Item("+".join(members), model=self.spec.model, data={"members": members, "alike": alike})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """Contextualize each member; make one query, and one summary, of several."""
        members = [self.parts.by_id[name] for name in item.data["members"]]
        texts = [await self._contextualized(query, ask) for query in members]
        references = members[0].references
        text = texts[0]
        if len(members) > 1:
            text = await _merged("merge_queries", texts, ask)
            firsts = [query.references[0] for query in members if query.references and query.references[0].strip()]
            references = (await _merged("merge_summaries", firsts, ask),) if firsts else ()
        gold = tuple(dict.fromkeys(name for query in members for name in query.gold))
        names = tuple(item.data["members"])
        return {"odsum_built": [BuiltQuery(item.id, text, references, gold, names, tuple(texts), item.data["alike"])]}

    async def _contextualized(self, query: Query, ask: Ask) -> str:
        if not self.spec.contextualize:
            return query.text
        title = query.gold[0].rpartition("/")[2].partition("#")[0] if query.gold else ""
        values = {"TITLE": title, "QUESTION": query.text, "ANSWER": query.references[0] if query.references else ""}
        return await _said("contextualize", values, ask)

    def score(self, tables: Tables) -> Tables:
        """How many queries were made of how many, and how many documents each needs."""
        built = tables["odsum_built"].with_columns(
            pl.col("members").list.len().cast(pl.Int64).alias("of"), pl.col("gold").list.len().cast(pl.Int64).alias("documents")
        )
        sizes = built.group_by("of").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("documents").mean()).sort("of")
        return {"sizes": sizes}

    def report(self, scores: Tables) -> Sequence[Section]:
        """See `Workload`."""
        told = f"{len(self.parts.documents)} documents; {len(self.parts.queries)} queries became {len(self.clusters)}."
        text = f"{told} {self.whole.attribution}".strip()
        return [Section("Queries, by how many they are made of", text=text, table=scores["sizes"], notes=self.whole.warnings)]

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: the new collection, its attribution, and the provenance of its queries."""
        rows = run.table("odsum_built").sort("query_id").to_dicts()
        queries = tuple(Query(row["query_id"], row["text"], tuple(row["references"]), tuple(row["gold"])) for row in rows)
        files = collection_files(replace(self.parts, queries=queries))
        names = ("query_id", "members", "member_texts", "alike")
        told = ({name: row[name] for name in names} for row in rows)
        files["provenance.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in told)
        return write_files(folder, files)


def _split(collection: Collection, pattern: str | None) -> Collection:
    """The collection with its documents cut into parts: all parts of a gold document are gold."""
    if pattern is None:
        return collection
    parts: dict[str, list[Document]] = {}
    for document in collection.documents:
        texts = [text for text in re.split(pattern, document.text) if text and text.strip()]
        parts[document.document_id] = [
            Document(f"{document.document_id}#{place}", text, document.split) for place, text in enumerate(texts)
        ]
    gold = {name: tuple(part.document_id for part in found) for name, found in parts.items()}
    queries = tuple(
        replace(query, gold=tuple(part for name in query.gold for part in gold.get(name, (name,))))
        for query in collection.queries
    )
    return replace(collection, documents=tuple(part for found in parts.values() for part in found), queries=queries)


async def _merged(stage: str, texts: Sequence[str], ask: Ask) -> str:
    parts = "\n".join(f"<part>\n{text.replace('</part>', '&lt;/part&gt;')}\n</part>" for text in texts)
    return await _said(stage, {"PARTS": parts}, ask)


async def _said(stage: str, values: Mapping[str, str], ask: Ask) -> str:
    """The text that the model writes. Raises NoReply, the item's failure, for one that is empty or refuses in words."""
    reply = await ask(stage, [user(_filled(_prompt(stage), values))])
    outcome = read_summary(Answer(reply, reply.key, reply.attempts, reply.usd_micros))
    if not isinstance(outcome, Answer):
        raise NoReply(stage, outcome)
    return summarize.written(outcome.value)


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with the values in it, in one pass: what is inserted is never searched again."""
    return re.sub(r"\[\[([A-Z]+)\]\]", lambda found: values[found[1]], template)


@functools.cache
def _prompt(name: str) -> str:
    return resources.files("summhay_ray.benchmarks.odsum").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
