"""Build a collection from your own documents, queries and summaries (ODSum, section 3.3): `kind: odsum_build`.

Documents are split at a pattern. Queries are contextualized, so that each can be understood without its document. Similar queries
are clustered and merged, and so are their summaries. `summhay export RUN --out FOLDER` writes the collection and
`provenance.jsonl`, which lists the source queries of each merged query.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl
from pydantic import Field, model_validator

from summhay_ray.benchmark import (
    Ask,
    Inputs,
    Item,
    Model,
    ModelSpec,
    NoReply,
    Request,
    Rows,
    RunStore,
    Section,
    Spec,
    Stage,
    Table,
    Tables,
    Text,
    user,
)
from summhay_ray.benchmarks.odsum.clusters import clusters_of, tfidf_similarity
from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query
from summhay_ray.benchmarks.odsum.export import collection_files
from summhay_ray.benchmarks.odsum.on_collection import OnCollection
from summhay_ray.benchmarks.summarizing import read_summary
from summhay_ray.encoders import Encoding, known_revision, load_encoder
from summhay_ray.inputs import write_new
from summhay_ray.outcome import Answer
from summhay_ray.text import Block, Material, enclosed, fill, inline


class BuildSpec(Spec):
    """Source of a new collection, and the steps that build it."""

    NOT_SEMANTIC = Spec.NOT_SEMANTIC | {"corpus"}

    corpus: Text = Field(description="folder of documents and queries (with gold and references), or store/SHA256")
    split_at: str | None = Field(
        default=None, description="regular expression at which documents are split into parts; null: no splitting"
    )
    contextualize: bool = Field(default=False, description="rewrite each query so that it can be understood without its document")
    merge: bool = Field(default=True, description="cluster similar queries and merge each cluster into one query")
    threshold: float = Field(
        default=0.3, ge=0, le=1, description="similarity that every pair of queries in a cluster must exceed"
    )
    least: int = Field(default=2, ge=1, description="minimum queries per cluster; a smaller cluster joins the most similar one")
    most: int = Field(default=6, ge=1, description="maximum queries per cluster; a larger cluster is split further")
    embed: str = Field(default="", description="embedding model for query similarity, by name or folder; empty: tf-idf")
    model: Model = Field(default=ModelSpec(model="offline/editor"), description="model that rewrites and merges")

    @model_validator(mode="after")
    def _sizes_fit(self) -> BuildSpec:
        if self.least > self.most:
            raise ValueError(f"least: {self.least} is more than most, {self.most}")
        if self.split_at is not None:
            try:
                re.compile(self.split_at)
            except re.error as error:
                raise ValueError(f"split_at: not a regular expression ({error})") from error
        return self


@dataclass(frozen=True, slots=True)
class BuiltQuery:
    """A query of the new collection, with its provenance."""

    query_id: Annotated[str, "identifier, unique within the collection"]
    text: Annotated[str, "the query"]
    references: Annotated[tuple[str, ...], "reference summaries; a merged query has one"]
    gold: Annotated[tuple[str, ...], "ids of the gold documents of all members"]
    members: Annotated[tuple[str, ...], "ids of the source queries"]
    member_texts: Annotated[tuple[str, ...], "texts of the source queries, contextualized if the spec says so"]
    alike: Annotated[float | None, "lowest similarity of any two members; null for a single member"]


class Editor:
    """An offline model for trying out a build: it prefixes a question with its title, and concatenates the parts of a merge."""

    name: ClassVar[str] = "offline/editor"
    revision: ClassVar[str] = "1"

    def answer(self, request: Request) -> str:
        """`In TITLE: QUESTION`, or the sentences of all parts without repeats."""
        title, question = (re.search(rf"^{name}: (.*)$", request.prompt, re.MULTILINE) for name in ("Title", "Question"))
        if title and question:
            return f"In {title[1]}: {question[1]}"
        parts = re.findall(r"<part>\n(.*?)\n</part>", request.prompt, re.DOTALL)
        sentences = [sentence for part in parts for sentence in re.split(r"(?<=[.!?])\s+", part.strip())]
        return " ".join(dict.fromkeys(sentences))


class OdsumBuild(OnCollection[BuildSpec]):
    """Builds a collection. An item is one query of the new collection: a query kept as it is, or a merged cluster."""

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
        self.parts = _split(self._whole, spec.split_at)

    def identity(self) -> Any:
        """See `Workload`. The collection and the prompts are identified by their content."""
        prompts = [_prompt(stage.name) for stage in self.stages]
        weights = known_revision(self.spec.embed) if self.spec.embed else ""
        read = {"inputs": self.inputs.digests(), "weights": weights}
        return {
            "kind": self.kind,
            "collection": self._whole.digest,
            "spec": self.spec.semantic(),
            "prompts": prompts,
            **{name: content for name, content in read.items() if content},
        }

    @functools.cached_property
    def clusters(self) -> Sequence[tuple[tuple[int, ...], float | None]]:
        """(indices of a cluster's queries, lowest similarity of any two of them); the similarity is None for a single query."""
        texts = [query.text for query in self.parts.queries]
        if not self.spec.merge:
            return [((index,), None) for index in range(len(texts))]
        if self.spec.embed:
            vectors = load_encoder(Encoding(self.spec.embed)).encode(texts).values
            norms = (vectors**2).sum(axis=1, keepdims=True) ** 0.5
            similarity = (vectors / norms) @ (vectors / norms).T
        else:
            similarity = tfidf_similarity(texts)
        clusters = clusters_of(similarity, self.spec.threshold, self.spec.least, self.spec.most)
        return [
            (cluster, min((float(similarity[pair]) for pair in combinations(cluster, 2)), default=None)) for cluster in clusters
        ]

    def items(self) -> Iterator[Item]:
        for cluster, alike in self.clusters:
            members = [self.parts.queries[index].query_id for index in cluster]
            yield Item("+".join(members), model=self.spec.model, data={"members": members, "alike": alike})

    async def answer(self, item: Item, ask: Ask) -> Rows:
        """Contextualize each member; merge several members into one query and one summary."""
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
        answer = enclosed("answer", query.references[0] if query.references else "")
        values: dict[str, Material | Block] = {
            "[[TITLE]]": inline(title),
            "[[QUESTION]]": inline(query.text),
            "[[ANSWER]]": answer,
        }
        return await _generated("contextualize", values, ask)

    def score(self, tables: Tables) -> Tables:
        """Table `sizes`: for each number of members, how many queries have it and their mean number of gold documents."""
        built = tables["odsum_built"].with_columns(
            pl.col("members").list.len().cast(pl.Int64).alias("of"), pl.col("gold").list.len().cast(pl.Int64).alias("documents")
        )
        sizes = built.group_by("of").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("documents").mean()).sort("of")
        return {"sizes": sizes}

    def report(self, scores: Tables) -> Sequence[Section]:
        counts = f"{len(self.parts.documents)} documents; {len(self.parts.queries)} queries became {len(self.clusters)}."
        text = f"{counts} {self._whole.attribution}".strip()
        return [Section("Queries by number of source queries", text=text, table=scores["sizes"], notes=self._whole.warnings)]

    def queries(self) -> Mapping[str, None] | None:
        """See `Workload`. Which queries form a cluster is unknown until a model's vectors are computed."""
        return None if self.spec.embed else super().queries()

    def export(self, run: RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`: the new collection, its attribution, and the provenance of its queries."""
        rows = run.table("odsum_built").sort("query_id").to_dicts()
        queries = tuple(Query(row["query_id"], row["text"], tuple(row["references"]), tuple(row["gold"])) for row in rows)
        files = collection_files(replace(self.parts, queries=queries))
        names = ("query_id", "members", "member_texts", "alike")
        provenance = ({name: row[name] for name in names} for row in rows)
        files["provenance.jsonl"] = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in provenance)
        return write_new(folder, files)


def _split(collection: Collection, pattern: str | None) -> Collection:
    """The collection with its documents split into parts; all parts of a gold document are gold."""
    if pattern is None:
        return collection
    parts: dict[str, list[Document]] = {}
    for document in collection.documents:
        texts = [text for text in re.split(pattern, document.text) if text and text.strip()]
        parts[document.document_id] = [
            Document(f"{document.document_id}#{index}", text, document.split) for index, text in enumerate(texts)
        ]
    gold = {name: tuple(part.document_id for part in of_one) for name, of_one in parts.items()}
    queries = tuple(
        replace(query, gold=tuple(part for name in query.gold for part in gold.get(name, (name,))))
        for query in collection.queries
    )
    return replace(collection, documents=tuple(part for of_one in parts.values() for part in of_one), queries=queries)


async def _merged(stage: str, texts: Sequence[str], ask: Ask) -> str:
    return await _generated(stage, {"[[PARTS]]": Block("\n".join(enclosed("part", text) for text in texts))}, ask)


async def _generated(stage: str, values: Mapping[str, Material | Block], ask: Ask) -> str:
    """The model's text. Raises NoReply, which fails the item, if the text is empty or a refusal."""
    reply = await ask(stage, [user(fill(_prompt(stage), values))])
    outcome = read_summary(Answer(reply, reply.key, reply.attempts, reply.usd_micros))
    if not isinstance(outcome, Answer):
        raise NoReply(stage, outcome)
    return outcome.value.text


@functools.cache
def _prompt(name: str) -> str:
    return resources.files("summhay_ray.benchmarks.odsum").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
