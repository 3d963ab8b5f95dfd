"""Retrievers in a spec: a name, or a mapping with a field that names its kind, such as `{embed: MODEL}`.

To add a kind, write a class with `head`, its fields and `make`, and add it to `KINDS` and `RetrieverEntry`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from summhay_ray import retrieve
from summhay_ray.benchmark import Inputs, ModelSpec, Reach, Strict, Text
from summhay_ray.encoders import FOLDER_REVISION, Encoding, Kind, Precision, Scoring, check_model, find_model, folder_revision
from summhay_ray.errors import SpecError, UserError

Read = Callable[[str], str]
"""Path of a file as the spec names it -> its text."""


class Entry(Strict):
    """A retriever written as a mapping."""

    head: ClassVar[str]
    """The field that names the entry's kind."""

    name: str = Field(default="", description="name in tables; empty: made from the other fields")

    @property
    def label(self) -> str:
        """The name in tables if the spec gives none."""
        return self.name or self.default_label()

    def default_label(self) -> str:
        """The name in tables if the spec gives none."""
        raise NotImplementedError

    def parts(self) -> Sequence[RetrieverEntry]:
        """The nested entries."""
        return ()

    def make(self, seed: int, read: Read) -> Any:
        """The retriever. `read` returns the text of a file that the spec names."""
        raise NotImplementedError

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """The fields that identify the retriever, as JSON. `digests`: path as the spec names it -> sha256 of the file."""
        return self.model_dump(mode="json")

    def at_home(self, folder: Path) -> Entry:
        """The entry with model folders as absolute paths and content hashes as revisions. `folder`: the spec's folder."""
        return self


def _entry(value: Any) -> Any:
    """A name as it is; a mapping as the entry of its kind. Raises ValueError."""
    if isinstance(value, str | Entry):
        return value
    heads = [head for head in KINDS if isinstance(value, Mapping) and head in value]
    # Headings of nested entries do not count: `{rerank: X, of: {bm25: split}}` has one.
    if len(heads) != 1:
        known = ", ".join(f"{{{head}: ...}}" for head in KINDS)
        raise ValueError(f"expected a retriever's name, or a mapping of one of these kinds: {known}")
    try:
        return KINDS[heads[0]].parse(value, f"{{{heads[0]}: ...}}")
    except SpecError as error:
        # The caller adds the entry's place in the spec.
        raise ValueError(str(error)) from error


class Bm25Entry(Entry):
    """BM25 with a named tokenization."""

    head: ClassVar[str] = "bm25"
    bm25: retrieve.Tokenization = Field(
        description="split: str.split(' '); words: same as the name bm25; stems: Snowball; wordnet: stems of WordNet lemmas"
    )

    def default_label(self) -> str:
        return f"bm25-{self.bm25}"

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Bm25(seed=seed, tokenization=self.bm25)


class OracleEntry(Entry):
    """The oracle, with errors in a share of the relevant documents."""

    head: ClassVar[str] = "oracle"
    oracle: retrieve.Errors = Field(description="kind of errors: replace, add, drop or shuffle")
    share: float = Field(default=0.2, ge=0, le=1, description="share of the relevant documents with an error")

    def default_label(self) -> str:
        return f"oracle-{self.oracle}-{self.share:g}"

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Oracle(seed=seed, errors=self.oracle, share=self.share)


class ChunksEntry(Strict):
    """How documents are split into pieces for embedding."""

    tokens: int = Field(ge=1, description="cl100k tokens per piece")
    overlap: int = Field(default=0, ge=0, description="tokens shared by neighbouring pieces")
    combine: retrieve.Combine = Field(
        default="max",
        description="max: the most similar piece counts; mean: the mean vector counts; weighted: the mean weighted by tokens",
    )

    @model_validator(mode="after")
    def _overlap_is_less(self) -> ChunksEntry:
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap: {self.overlap} tokens in pieces of {self.tokens}; expected fewer than a piece has")
        return self


class Embedder(ModelSpec):
    """An embedding model at its service."""

    PRICED_BY: ClassVar[Sequence[str]] = ("input_per_mtok",)
    TASK = "embed"


class Reranker(ModelSpec):
    """A reranking model at its service."""

    PRICED_BY: ClassVar[Sequence[str]] = ("per_search",)
    TASK = "rerank"


def _whole_price(fields: Any) -> Any:
    """An entry's fields. These services have no output tokens, so a price may omit that of output tokens."""
    if isinstance(fields, Mapping) and isinstance(price := fields.get("price"), Mapping) and price:
        return {**fields, "price": {"input_per_mtok": 0, "output_per_mtok": 0, **price}}
    return fields


class ModelEntry(Entry, Reach):
    """Base of entries with a model, which runs in this process or at a service."""

    asked_as: ClassVar[type[ModelSpec]] = Embedder
    """The model at its service."""

    revision: str = Field(default="", description="commit on the model hub; for a folder, filled in from its content")
    max_tokens: int | None = Field(
        default=None, ge=1, description="maximum tokens of a text, by the model's tokenizer; null: the model's limit"
    )
    precision: Precision = Field(default="float32", description="number format of the weights; float16 and bfloat16 are for GPUs")

    @property
    def model(self) -> str:
        """The model's name, or its folder."""
        name: str = getattr(self, self.head)
        return name

    @model_validator(mode="before")
    @classmethod
    def _price_is_whole(cls, fields: Any) -> Any:
        return _whole_price(fields)

    def service(self) -> ModelSpec | None:
        """How to call the model at its service; None for a model that runs in this process."""
        if self.api_base is None and not ModelSpec.is_service(self.model):
            return None
        reach = self.model_dump(include=set(Reach.model_fields))
        return self.asked_as(
            model=self.model, temperature=None, max_tokens=1, revision=self.revision, extra=dict(self.extra()), **reach
        )

    def extra(self) -> Mapping[str, Any]:
        """Parameters sent with the texts."""
        return {}

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """See `Entry`. A folder is identified by its content; the way to reach a service is left out."""
        found = {**self.model_dump(mode="json", exclude=set(Reach.model_fields)), **self.inner(digests)}
        return {**found, self.head: ""} if self.revision.startswith(FOLDER_REVISION) else found

    def inner(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """The identities of nested entries, by field."""
        return {}

    def at_home(self, folder: Path) -> Entry:
        """See `Entry`. Raises NoModel for a path without a model."""
        if self.service() is not None:
            return self
        for path in (folder / self.model, Path(self.model)):
            if path.is_dir():
                found = path.resolve()
                return self.model_copy(update={self.head: str(found), "revision": folder_revision(found)})
        find_model(self.model)
        return self


class EmbedEntry(ModelEntry):
    """Retrieval by the vectors of an embedding model."""

    head: ClassVar[str] = "embed"
    embed: Text = Field(description="model name or folder")
    query_prefix: str = Field(default="", description="text put before every query")
    document_prefix: str = Field(default="", description="text put before every document or piece")
    chunks: ChunksEntry | None = Field(default=None, description="how to split documents; null: each is embedded as one text")
    similarity: retrieve.Similarity = Field(default="cosine", description="similarity of two vectors: cosine or dot")
    dimensions: int | None = Field(default=None, ge=1, description="dimensions of a service's vectors, if it offers a choice")

    def extra(self) -> Mapping[str, Any]:
        return {} if self.dimensions is None else {"dimensions": self.dimensions}

    def default_label(self) -> str:
        return _short(self.embed)

    def make(self, seed: int, read: Read) -> Any:
        encoding = Encoding(self.embed, self.revision, self.max_tokens, self.precision)
        chunks = retrieve.Chunks(**self.chunks.model_dump()) if self.chunks else None
        return retrieve.Embed(retrieve.Dense(encoding, self.query_prefix, self.document_prefix, chunks, self.similarity))


class LongeEntry(ModelEntry):
    """`longe` with another model with extended positions."""

    head: ClassVar[str] = "longe"
    longe: Text = Field(description="model name or folder")

    def default_label(self) -> str:
        return _short(self.longe)

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Longe(seed=seed, encoding=Encoding(self.longe, self.revision, self.max_tokens, self.precision))


class RerankEntry(ModelEntry):
    """Reranking of the first documents of another ranking."""

    head: ClassVar[str] = "rerank"
    asked_as: ClassVar[type[ModelSpec]] = Reranker
    rerank: Text = Field(description="cross-encoder name or folder")
    of: RetrieverEntry = Field(default="bm25", description="retriever whose ranking is reranked")
    top: int = Field(default=100, ge=1, description="number of top documents to rerank; the others follow in their order")

    def default_label(self) -> str:
        return f"{retriever_label(self.of)}+{_short(self.rerank)}"

    def parts(self) -> Sequence[RetrieverEntry]:
        return (self.of,)

    def inner(self, digests: Mapping[str, str]) -> dict[str, Any]:
        return {"of": identity_of(self.of, digests)}

    def make(self, seed: int, read: Read) -> Any:
        scoring = Scoring(self.rerank, self.revision, self.max_tokens, self.precision)
        return retrieve.Rerank(scoring, make_retriever(self.of, seed, read), self.top)

    def at_home(self, folder: Path) -> Entry:
        return super().at_home(folder).model_copy(update={"of": at_home(self.of, folder)})


class Searcher(ModelSpec):
    """A search service."""

    PRICED_BY: ClassVar[Sequence[str]] = ("per_search",)
    TASK = "search"


class SearchEntry(Entry, Reach):
    """Your own search service: it takes a query and returns ids or texts of documents, as JSON over HTTP."""

    head: ClassVar[str] = "search"
    search: Text = Field(description="name of the service, in tables and prices")
    api_base: Text = Field(description="URL that takes the query, by POST")
    query: Text = Field(default="query", description="field of the sent JSON that holds the query")
    results: str = Field(default="", description="field of the answer with the list of results, best first; empty: the answer")
    id: str = Field(default="", description="field of a result with the document's id; empty: the result itself")
    text: str = Field(default="", description="field of a result with a text of the document, whole or a passage, instead of ids")
    extra: dict[str, Any] = Field(default={}, description="further fields to send, such as top_k: 20")
    revision: str = Field(default="", description="version of the service; a new one is asked again")

    @model_validator(mode="before")
    @classmethod
    def _is_free(cls, fields: Any) -> Any:
        return _whole_price({**fields, "price": 0} if isinstance(fields, Mapping) and fields.get("price") is None else fields)

    @model_validator(mode="after")
    def _one_of_both(self) -> SearchEntry:
        if self.id and self.text:
            raise ValueError("id, text: name one of them: documents are found by their id, or by their text")
        return self

    def default_label(self) -> str:
        return self.search

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Search(self.search, retrieve.Fields(self.results, self.id, self.text))

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude=set(Reach.model_fields))

    def service(self) -> ModelSpec:
        """How to call the service."""
        reach = self.model_dump(include=set(Reach.model_fields))
        sent = {**self.extra, ModelSpec.QUERY_FIELD: self.query}
        return Searcher(model=self.search, temperature=None, max_tokens=1, revision=self.revision, extra=sent, **reach)


class FuseEntry(Entry):
    """Fusion of several rankings."""

    head: ClassVar[str] = "fuse"
    fuse: list[RetrieverEntry] = Field(min_length=2, description="retrievers whose rankings are fused")
    method: retrieve.Method = Field(default="rrf", description="rrf: sum of 1 / (60 + rank); sum: sum of scores scaled to 0..1")

    def default_label(self) -> str:
        return f"{self.method}({','.join(map(retriever_label, self.fuse))})"

    def parts(self) -> Sequence[RetrieverEntry]:
        return self.fuse

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Fuse([make_retriever(part, seed, read) for part in self.fuse], self.method)

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        return {**self.model_dump(mode="json"), "fuse": [identity_of(part, digests) for part in self.fuse]}

    def at_home(self, folder: Path) -> Entry:
        return self.model_copy(update={"fuse": [at_home(part, folder) for part in self.fuse]})


class RunEntry(Entry):
    """Rankings from a file."""

    head: ClassVar[str] = "run"
    run: Text = Field(description="path of a TREC run file, relative to the spec's folder")

    def default_label(self) -> str:
        return Path(self.run).stem

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Run(retrieve.read_run(read(self.run), self.run), self.run)

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        return {**self.model_dump(mode="json"), "run": digests.get(self.run, self.run)}


RERANK3 = Reranker(model=retrieve.RERANK3, temperature=None, max_tokens=1)
"""The service model behind the name `rerank3`."""

KINDS: Mapping[str, type[Entry]] = {
    kind.head: kind for kind in (Bm25Entry, OracleEntry, EmbedEntry, LongeEntry, RerankEntry, SearchEntry, FuseEntry, RunEntry)
}
"""The field that names an entry's kind -> the entry's class."""

RetrieverEntry = Annotated[
    str | SerializeAsAny[Entry],
    BeforeValidator(
        _entry,
        json_schema_input_type=Text
        | Bm25Entry
        | OracleEntry
        | EmbedEntry
        | LongeEntry
        | RerankEntry
        | SearchEntry
        | FuseEntry
        | RunEntry,
    ),
]
"""A retriever in a spec."""

for _kind in (RerankEntry, FuseEntry):
    _kind.model_rebuild()


def _short(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2]


def retriever_label(entry: str | Entry) -> str:
    """The name of a spec's retriever in tables."""
    return entry if isinstance(entry, str) else entry.label


def make_retriever(entry: str | Entry, seed: int, read: Read) -> Any:
    """The retriever of an entry. Raises UnknownName, BadTrec or SpecError."""
    return retrieve.make(entry, seed) if isinstance(entry, str) else entry.make(seed, read)


def identity_of(entry: str | Entry, digests: Mapping[str, str]) -> Any:
    """The identity of a retriever: for a name, the name with the hash of user code behind it; for a mapping, JSON.

    `digests`: path as the spec names it -> sha256 of the file, and module:Class -> sha256 of the module.
    """
    if isinstance(entry, str):
        return f"{entry} {digests.get(entry, '')}".rstrip()
    return entry.semantic(digests)


def at_home(entry: str | Entry, folder: Path) -> str | Entry:
    """The entry with model folders resolved on this machine; see `Entry.at_home`."""
    return entry if isinstance(entry, str) else entry.at_home(folder)


def every(entries: Sequence[str | Entry]) -> Iterator[str | Entry]:
    """All entries, including nested ones."""
    for entry in entries:
        yield entry
        if isinstance(entry, Entry):
            yield from every(entry.parts())


def files(entries: Sequence[str | Entry]) -> list[str]:
    """The run files that entries name, without repeats."""
    return list(dict.fromkeys(entry.run for entry in every(entries) if isinstance(entry, RunEntry)))


@contextlib.contextmanager
def naming(index: int) -> Iterator[None]:
    """Turn user errors into SpecErrors that name the retriever's location in the spec."""
    try:
        yield
    except UserError as error:
        raise SpecError(f"spec: retrievers[{index}]: {str(error).removeprefix('spec: ')}") from error


def settled(entries: Sequence[str | Entry], inputs: Inputs) -> list[str | Entry]:
    """The entries with model folders resolved, after checking models and run files. Raises SpecError."""
    resolved = []
    for index, entry in enumerate(entries):
        with naming(index):
            found = at_home(entry, inputs.folder)
            for name, revision, kind in local_models_of([found]):
                check_model(name, revision, kind)
            for path in files([found]):
                retrieve.read_run(inputs.text(path), path)
            resolved.append(found)
    return resolved


def check_made(entries: Sequence[str | Entry], seed: int, read: Read) -> None:
    """Raises SpecError for a retriever that cannot be made."""
    for index, entry in enumerate(entries):
        with naming(index):
            make_retriever(entry, seed, read)


def services(entries: Sequence[str | Entry]) -> dict[str, ModelSpec]:
    """Model name -> how to call it, for all service models. Raises ValueError for one model with two different settings."""
    found: dict[str, ModelSpec] = {}
    for entry in every(entries):
        service = RERANK3 if entry == "rerank3" else entry.service() if isinstance(entry, ModelEntry | SearchEntry) else None
        if service is not None and found.setdefault(service.model, service) != service:
            raise ValueError(
                f"retrievers: {service.model!r} has two different settings; give both entries the same price, api_base, ..."
            )
    return found


def local_models_of(entries: Sequence[str | Entry]) -> list[tuple[str, str, Kind]]:
    """(name, revision, kind) of the models that run in this process, without repeats."""
    named = {"vector": retrieve.MPNET, "longe": retrieve.Longe.MODEL}
    found: dict[tuple[str, str, Kind], None] = {}
    for entry in every(entries):
        if isinstance(entry, str) and entry in named:
            found[named[entry], "", "encoder"] = None
        elif isinstance(entry, ModelEntry) and entry.service() is None:
            revision = "" if entry.revision.startswith(FOLDER_REVISION) else entry.revision
            found[entry.model, revision, "cross-encoder" if isinstance(entry, RerankEntry) else "encoder"] = None
    return list(found)


def inside(made: Any) -> Sequence[Any]:
    """The retrievers directly inside a fusion or reranking retriever."""
    if isinstance(made, retrieve.Fuse):
        return made.parts
    return [made.of] if isinstance(made, retrieve.Rerank) and made.of is not None else []


def of_words(made: Any) -> list[retrieve.OfWords]:
    """The parts of a retriever (or the whole) that compare words."""
    own = [made] if isinstance(made, retrieve.OfWords) else []
    return [*own, *(one for part in inside(made) for one in of_words(part))]


def models_of(made: Any) -> list[Encoding | Scoring]:
    """The models that a retriever needs, local or at services, without repeats."""
    own: list[Encoding | Scoring] = [made.dense.encoding] if isinstance(made, retrieve.Embed) else []
    own += [made.stretched] if isinstance(made, retrieve.Longe) else []
    own += [made.scoring] if isinstance(made, retrieve.Rerank) else []
    return list(dict.fromkeys([*own, *(one for part in inside(made) for one in models_of(part))]))


def local_parts(made: Any, services: Collection[str]) -> list[Any]:
    """The largest parts of a retriever (or the whole) that need local models and none of the `services`."""
    models = models_of(made)
    if not any(one.model in services for one in models):
        return [made] if models else []
    return [one for part in inside(made) for one in local_parts(part, services)]


def own_code(entries: Sequence[str | Entry]) -> list[str]:
    """The module:Class names among the entries: users' own retrievers."""
    return [entry for entry in every(entries) if isinstance(entry, str) and ":" in entry]
