"""Build a collection from your own documents, queries and summaries (ODSum, section 3.3): `kind: odsum_build`.

Documents are split at a pattern. Queries are contextualized, so that each can be understood without its document. Similar
queries are clustered (complete linkage above a threshold, then bounds on the sizes; appendix B). The queries of a cluster are
merged, and so are their summaries. `summhay export RUN --out FOLDER` writes the collection and `provenance.jsonl`, which lists
the source queries of each merged query.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from summhay_ray import benchmark
from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query, json_lines
from summhay_ray.benchmarks.odsum.on_collection import OnCollection
from summhay_ray.benchmarks.summarizing import read_summary
from summhay_ray.encoders import Encoding, known_revision, load_encoder
from summhay_ray.inputs import write_new
from summhay_ray.outcome import Answer
from summhay_ray.text import Block, Material, content_roots, enclosed, fill, inline


class BuildSpec(benchmark.Spec):
    """The source of a new collection, and the steps that build it."""

    NOT_SEMANTIC = benchmark.Spec.NOT_SEMANTIC | {"corpus"}

    corpus: benchmark.Text = Field(description="folder of documents and queries (with gold and references), or store/SHA256")
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
    model: benchmark.Model = Field(
        default=benchmark.ModelSpec(model="offline/editor"), description="model that rewrites and merges"
    )

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
    """An offline model for trying out a build. It puts the title before a question, and concatenates the parts of a merge."""

    name: ClassVar[str] = "offline/editor"
    revision: ClassVar[str] = "1"

    def answer(self, request: benchmark.Request) -> str:
        """Return `In TITLE: QUESTION`, or the sentences of all parts without repeats."""
        title, question = (re.search(rf"^{name}: (.*)$", request.prompt, re.MULTILINE) for name in ("Title", "Question"))
        if title and question:
            return f"In {title[1]}: {question[1]}"
        parts = re.findall(r"<part>\n(.*?)\n</part>", request.prompt, re.DOTALL)
        sentences = [sentence for part in parts for sentence in re.split(r"(?<=[.!?])\s+", part.strip())]
        return " ".join(dict.fromkeys(sentences))


class OdsumBuild(OnCollection[BuildSpec]):
    """Builds a collection. An item is one query of the new collection: a query of the source, or a merged cluster."""

    kind = "odsum_build"
    stages = (
        benchmark.Stage("contextualize", output_tokens=40, example="What happens to the ferry of Elsin in the winter?"),
        benchmark.Stage("merge_queries", output_tokens=60, example="What happens to the ferry and the bridge of Elsin?"),
        benchmark.Stage("merge_summaries", output_tokens=300, example="The ferry gets a new engine, and the bridge is closed."),
    )
    tables = (benchmark.Table("odsum_built", BuiltQuery, ("query_id",), texts=("member_texts",)),)
    own_models = (Editor,)

    def __init__(self, spec: BuildSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        self.parts = _split_documents(self._whole, spec.split_at)

    def identity(self) -> Any:
        prompts = [_prompt(stage.name) for stage in self.stages]
        weights = known_revision(self.spec.embed) if self.spec.embed else ""
        read = {"inputs": self.inputs.digests, "weights": weights}
        return {
            "kind": self.kind,
            "collection": self._whole.digest,
            "spec": self.spec.semantic(),
            "prompts": prompts,
            **{name: content for name, content in read.items() if content},
        }

    @functools.cached_property
    def clusters(self) -> Sequence[tuple[tuple[int, ...], float | None]]:
        """(indices of a cluster's queries, lowest similarity of any two of them). The similarity of a single query is None."""
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

    def items(self) -> Iterator[benchmark.Item]:
        for cluster, alike in self.clusters:
            members = [self.parts.queries[index].query_id for index in cluster]
            yield benchmark.Item("+".join(members), model=self.spec.model, data={"members": members, "alike": alike})

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """Contextualize each query of a cluster. If there are several, merge them into one query and one summary."""
        members = [self.parts.by_id[name] for name in item.data["members"]]
        texts = [await self._contextualize(query, ask) for query in members]
        references = members[0].references
        text = texts[0]
        if len(members) > 1:
            firsts = [query.references[0] for query in members if query.references and query.references[0].strip()]
            queries, summaries = (Block("\n".join(enclosed("part", part) for part in parts)) for parts in (texts, firsts))
            text = await _generate("merge_queries", {"[[PARTS]]": queries}, ask)
            references = (await _generate("merge_summaries", {"[[PARTS]]": summaries}, ask),) if firsts else ()
        gold = tuple(dict.fromkeys(name for query in members for name in query.gold))
        names = tuple(item.data["members"])
        return {"odsum_built": [BuiltQuery(item.id, text, references, gold, names, tuple(texts), item.data["alike"])]}

    async def _contextualize(self, query: Query, ask: benchmark.Ask) -> str:
        if not self.spec.contextualize:
            return query.text
        title = query.gold[0].rpartition("/")[2].partition("#")[0] if query.gold else ""
        answer = enclosed("answer", query.references[0] if query.references else "")
        values: dict[str, Material | Block] = {
            "[[TITLE]]": inline(title),
            "[[QUESTION]]": inline(query.text),
            "[[ANSWER]]": answer,
        }
        return await _generate("contextualize", values, ask)

    def score(self, tables: benchmark.Tables) -> benchmark.Tables:
        """Return the table `sizes`: for each number of members, how many queries have it and their mean number of gold
        documents."""
        built = tables["odsum_built"].with_columns(
            pl.col("members").list.len().cast(pl.Int64).alias("of"), pl.col("gold").list.len().cast(pl.Int64).alias("documents")
        )
        sizes = built.group_by("of").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("documents").mean()).sort("of")
        return {"sizes": sizes}

    def report(self, scores: benchmark.Tables) -> Sequence[benchmark.Section]:
        counts = f"{len(self.parts.documents)} documents; {len(self.parts.queries)} queries became {len(self.clusters)}."
        text = f"{counts} {self._whole.attribution}".strip()
        return [
            benchmark.Section("Queries by number of source queries", text=text, table=scores["sizes"], notes=self._whole.warnings)
        ]

    def queries(self) -> Mapping[str, None] | None:
        """See `Workload`. The queries are unknown until a model's vectors are computed, since these decide the clusters."""
        return None if self.spec.embed else super().queries()

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Writes the new collection, its attribution, and the provenance of its queries."""
        rows = run.table("odsum_built").sort("query_id").to_dicts()
        queries = tuple(Query(row["query_id"], row["text"], tuple(row["references"]), tuple(row["gold"])) for row in rows)
        names = ("query_id", "members", "member_texts", "alike")
        provenance = json_lines({name: row[name] for name in names} for row in rows)
        return write_new(folder, {**replace(self.parts, queries=queries).files(), "provenance.jsonl": provenance})


def _split_documents(collection: Collection, pattern: str | None) -> Collection:
    """Split the documents of a collection into parts. All parts of a gold document are gold."""
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


async def _generate(stage: str, values: Mapping[str, Material | Block], ask: benchmark.Ask) -> str:
    """Return the model's text. Raises NoReply, which fails the item, if the text is empty or a refusal."""
    reply = await ask(stage, [benchmark.user(fill(_prompt(stage), values))])
    outcome = read_summary(Answer(reply, reply.key, reply.attempts, reply.usd_micros))
    if not isinstance(outcome, Answer):
        raise benchmark.NoReply(stage, outcome)
    return outcome.value.text


@functools.cache
def _prompt(name: str) -> str:
    return resources.files("summhay_ray.benchmarks.odsum").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")


def tfidf_similarity(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the cosine similarities (n, n) of the texts' tf-idf vectors. Terms are word roots; function words are left out."""
    bags = [Counter(content_roots(text)) for text in texts]
    document_frequency = Counter(word for bag in bags for word in bag)
    columns = {word: column for column, word in enumerate(document_frequency)}
    vectors = np.zeros((len(bags), max(1, len(columns))))
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            vectors[row, columns[word]] = count * math.log((1 + len(bags)) / document_frequency[word])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1.0)
    similarity: NDArray[np.float64] = unit @ unit.T
    return similarity


def clusters_of(similarity: NDArray[np.float64], threshold: float, least: int, most: int) -> list[tuple[int, ...]]:
    """Return clusters of row indices, each sorted, in the order of their first member. `similarity`: (n, n).

    The linkage only joins rows if every pair of them is above the threshold. A cluster of more than `most` rows is split until
    all parts fit. (The paper lowers the threshold instead, but that cannot split a cluster.) A cluster of fewer than `least`
    rows joins the most similar cluster with room for it.
    """
    from scipy.cluster.hierarchy import fcluster

    if len(similarity) < 2:
        return [(row,) for row in range(len(similarity))]
    # fcluster accepts distances equal to its bound, so pass the next smaller number.
    labels = fcluster(_tree(similarity), math.nextafter(1.0 - threshold, -1.0), criterion="distance")
    linked = _groups(labels.tolist(), range(len(similarity)))
    parts = sorted(part for cluster in linked for part in _halve(similarity, cluster, most))
    return _join_small(similarity, parts, least, most)


def _join_small(similarity: NDArray[np.float64], clusters: list[tuple[int, ...]], least: int, most: int) -> list[tuple[int, ...]]:
    """Return sorted clusters in which those of fewer than `least` rows are joined to others. The most similar pair joins
    first; ties go to the pair with the earliest first rows. Needs quadratic time and memory."""
    nearest_rows = np.array([similarity[list(cluster)].min(axis=0) for cluster in clusters])
    linked = np.array([nearest_rows[:, list(cluster)].min(axis=1) for cluster in clusters]).T
    """(small cluster, other cluster): the similarity of their least similar pair of rows."""
    sizes = np.array([len(cluster) for cluster in clusters])
    best = np.where(sizes < least, np.inf, -np.inf)
    """For each small cluster, the similarity of the most similar cluster with room for it. If it is not `known`, this is an
    upper bound."""
    targets, known = np.zeros(len(clusters), dtype=np.int64), sizes >= least
    while best[small := int(best.argmax())] > -np.inf:
        if not known[small]:
            # `best` can only fall: full clusters stay full, and growing clusters never become more similar.
            room = sizes + sizes[small] <= most
            room[small] = False
            similar = np.where(room, linked[small], -np.inf)
            targets[small] = similar.argmax()
            best[small], known[small] = similar[targets[small]], True
            continue
        # Clusters are ordered by their first rows, so the joined cluster takes the earlier position.
        into, gone = sorted((small, int(targets[small])))
        linked[into] = np.minimum(linked[into], linked[gone])
        linked[:, into] = np.minimum(linked[:, into], linked[:, gone])
        clusters[into], clusters[gone] = tuple(sorted(clusters[into] + clusters[gone])), ()
        sizes[into], sizes[gone] = sizes[into] + sizes[gone], most + 1
        known[(targets == into) | (targets == gone)] = False
        best[into], best[gone], known[into] = np.inf if sizes[into] < least else -np.inf, -np.inf, False
    return [cluster for cluster in clusters if cluster]


def _halve(similarity: NDArray[np.float64], cluster: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Halve a cluster along its linkage tree until no part has more than `most` rows."""
    from scipy.cluster.hierarchy import fcluster

    found, left = [], [cluster]
    while left:
        if len(cluster := left.pop()) <= most:
            found.append(cluster)
            continue
        labels = fcluster(_tree(similarity[list(cluster)][:, list(cluster)]), 2, criterion="maxclust").tolist()
        parts = _groups(labels, cluster)
        # If all pairs are equally similar, every cut is equally good.
        left += parts if len(parts) > 1 else [cluster[start : start + most] for start in range(0, len(cluster), most)]
    return found


def _tree(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the complete-linkage tree over the distances 1 - similarity, in scipy's format."""
    from scipy.cluster.hierarchy import linkage

    distances = np.clip(1.0 - similarity, 0.0, None)
    tree: NDArray[np.float64] = linkage(distances[np.triu_indices(len(distances), 1)], method="complete")
    return tree


def _groups(labels: Sequence[int], rows: Sequence[int]) -> list[tuple[int, ...]]:
    groups: dict[int, list[int]] = {}
    for label, row in zip(labels, rows, strict=True):
        groups.setdefault(label, []).append(row)
    return [tuple(sorted(group)) for group in groups.values()]
