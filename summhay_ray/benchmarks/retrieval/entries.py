"""The retrievers of a spec. An entry is a name, or a mapping with a field that names its kind, such as `{embed: MODEL}`.

To add a kind, write a class with `head`, `title` and its fields, and add it to `KINDS`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, Union

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from summhay_ray import retrieve
from summhay_ray.benchmark import Inputs, ModelSpec, Reach, Spec, Strict, Text
from summhay_ray.encoders import FOLDER_REVISION, Encoding, Precision, Scoring, check_model, find_model, folder_revision
from summhay_ray.errors import SpecError, UserError

Read = Callable[[str], str]
"""Path of a file as the spec names it -> its text."""
S = TypeVar("S", bound=Spec)


class Entry(Strict):
    """An entry that is written as a mapping."""

    head: ClassVar[str]
    """The field that names the entry's kind."""
    title: ClassVar[str]
    """Format of the default name in tables. `{0.FIELD}` is a field of the entry. `{last}` is the last component of the path in
    the field `head`, and `{stem}` is the same without its suffix. `{nested}` is the names of the nested entries."""
    nested: ClassVar[str] = ""
    """The field with the nested entries (one entry, or a list); empty if there are none."""

    name: str = Field(default="", description="name in tables; empty: made from the other fields")

    @property
    def label(self) -> str:
        path = str(getattr(self, self.head))
        nested = ",".join(map(retriever_label, self.parts()))
        made = self.title.format(self, last=path.rstrip("/").rpartition("/")[2], stem=Path(path).stem, nested=nested)
        return self.name or made

    def parts(self) -> Sequence[RetrieverEntry]:
        found = getattr(self, self.nested) if self.nested else []
        return found if isinstance(found, list) else [found]

    def changed_parts(self, change: Callable[[str | Entry], Any]) -> dict[str, Any]:
        """Apply `change` to each nested entry. Returns the field with the nested entries; empty without any."""
        changed = [change(part) for part in self.parts()]
        alone = changed and not isinstance(getattr(self, self.nested), list)
        return {self.nested: changed[0] if alone else changed} if changed else {}

    def make(self, seed: int, read: Read) -> Any:
        """Make the retriever. `read` returns the text of a file that the spec names.

        By default, this is the built-in retriever with the name `head`, which gets the head's value as its argument, the seed,
        and the other fields as options.
        """
        options = self.model_dump(exclude={"name", self.head})
        return retrieve.make(f"{self.head}/{getattr(self, self.head)}", seed, options)


def _entry(value: Any) -> Any:
    """Return a name unchanged, and a mapping as the entry of its kind. Raises ValueError."""
    if isinstance(value, str | Entry):
        return value
    heads = [head for head in KINDS if isinstance(value, Mapping) and head in value]
    # Ignore the heads of nested entries: `{rerank: X, of: {bm25: split}}` has one head.
    if len(heads) != 1:
        known = ", ".join(f"{{{head}: ...}}" for head in KINDS)
        raise ValueError(f"expected a retriever's name, or a mapping of one of these kinds: {known}")
    try:
        return KINDS[heads[0]].parse(value, f"{{{heads[0]}: ...}}")
    except SpecError as error:
        # The caller adds the entry's location to the message.
        raise ValueError(str(error)) from error


class Bm25Entry(Entry):
    """BM25 with a given tokenization."""

    head: ClassVar[str] = "bm25"
    title: ClassVar[str] = "bm25-{0.bm25}"
    bm25: retrieve.Tokenization = Field(
        description="split: str.split(' '); words: same as the name bm25; stems: Snowball; wordnet: stems of WordNet lemmas"
    )


class OracleEntry(Entry):
    """The oracle, with errors in a share of the relevant documents."""

    head: ClassVar[str] = "oracle"
    title: ClassVar[str] = "oracle-{0.oracle}-{0.share:g}"
    oracle: retrieve.Errors = Field(description="kind of errors: replace, add, drop or shuffle")
    share: float = Field(default=0.2, ge=0, le=1, description="share of the relevant documents with an error")


class ChunksEntry(Strict):
    """How to split documents into pieces for embedding."""

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


class Searcher(ModelSpec):
    """A search service."""

    PRICED_BY: ClassVar[Sequence[str]] = ("per_search",)
    TASK = "search"


class ServiceEntry(Entry, Reach):
    """Base of entries that may call a service."""

    free: ClassVar[bool] = False
    """Whether calls are free if the spec gives no price."""

    @model_validator(mode="before")
    @classmethod
    def _price_is_whole(cls, fields: Any) -> Any:
        """Complete the price. It may omit output tokens, since these services have none."""
        price = fields.get("price") if isinstance(fields, Mapping) else ""
        if price is None and cls.free:
            return {**fields, "price": 0}
        if isinstance(price, Mapping) and price:
            return {**fields, "price": {"input_per_mtok": 0, "output_per_mtok": 0, **price}}
        return fields


class ModelEntry(ServiceEntry):
    """Base of entries with a model, which runs in this process or at a service."""

    title: ClassVar[str] = "{last}"
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


class EmbedEntry(ModelEntry):
    """Retrieval by the vectors of an embedding model."""

    head: ClassVar[str] = "embed"
    embed: Text = Field(description="model name or folder")
    query_prefix: str = Field(default="", description="prefix of every query")
    document_prefix: str = Field(default="", description="prefix of every document or piece")
    chunks: ChunksEntry | None = Field(
        default=None, description="how to split documents into pieces; null: each document is embedded as one text"
    )
    similarity: retrieve.Similarity = Field(default="cosine", description="similarity of two vectors: cosine or dot")
    dimensions: int | None = Field(default=None, ge=1, description="dimensions of a service's vectors, if it offers a choice")

    def make(self, seed: int, read: Read) -> Any:
        encoding = Encoding(self.embed, self.revision, self.max_tokens, self.precision)
        chunks = retrieve.Chunks(**self.chunks.model_dump()) if self.chunks else None
        return retrieve.Embed(retrieve.Dense(encoding, self.query_prefix, self.document_prefix, chunks, self.similarity))


class LongeEntry(ModelEntry):
    """`longe` with another model whose positions are extended."""

    head: ClassVar[str] = "longe"
    longe: Text = Field(description="model name or folder")

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Longe(seed=seed, encoding=Encoding(self.longe, self.revision, self.max_tokens, self.precision))


class RerankEntry(ModelEntry):
    """Reranking of the first documents of another ranking."""

    head: ClassVar[str] = "rerank"
    title: ClassVar[str] = "{nested}+{last}"
    nested: ClassVar[str] = "of"
    rerank: Text = Field(description="cross-encoder name or folder")
    of: RetrieverEntry = Field(default="bm25", description="retriever whose ranking is reranked")
    top: int = Field(default=100, ge=1, description="number of top documents to rerank; the remaining ones follow in their order")

    def make(self, seed: int, read: Read) -> Any:
        scoring = Scoring(self.rerank, self.revision, self.max_tokens, self.precision)
        return retrieve.Rerank(scoring, make_retriever(self.of, seed, read), self.top)


class SearchEntry(ServiceEntry):
    """Your own search service. It takes a query and returns ids or texts of documents, as JSON over HTTP."""

    head: ClassVar[str] = "search"
    title: ClassVar[str] = "{0.search}"
    free: ClassVar[bool] = True
    search: Text = Field(description="name of the service, in tables and prices")
    api_base: Text = Field(description="URL that takes the query, by POST")
    query: Text = Field(default="query", description="field of the request's JSON that holds the query")
    results: str = Field(default="", description="field of the answer with the list of results, best first; empty: the answer")
    id: str = Field(default="", description="field of a result with the document's id; empty: the result itself")
    text: str = Field(default="", description="field of a result with a text of the document, whole or a passage, instead of ids")
    extra: dict[str, Any] = Field(default={}, description="further fields to send, such as top_k: 20")
    revision: str = Field(default="", description="version of the service; a new version gets every query again")

    @model_validator(mode="after")
    def _one_of_both(self) -> SearchEntry:
        if self.id and self.text:
            raise ValueError("id, text: name one of them: documents are found by their id, or by their text")
        return self

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Search(self.search, retrieve.Fields(self.results, self.id, self.text))


class FuseEntry(Entry):
    """Fusion of several rankings."""

    head: ClassVar[str] = "fuse"
    title: ClassVar[str] = "{0.method}({nested})"
    nested: ClassVar[str] = "fuse"
    fuse: list[RetrieverEntry] = Field(min_length=2, description="retrievers whose rankings are fused")
    method: retrieve.Method = Field(default="rrf", description="rrf: sum of 1 / (60 + rank); sum: sum of scores scaled to 0..1")

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Fuse([make_retriever(part, seed, read) for part in self.fuse], self.method)


class RunEntry(Entry):
    """Rankings from a file."""

    head: ClassVar[str] = "run"
    title: ClassVar[str] = "{stem}"
    run: Text = Field(description="path of a TREC run file, relative to the spec's folder")

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Run(retrieve.read_run(read(self.run), self.run), self.run)


KINDS: Mapping[str, type[Entry]] = {
    kind.head: kind for kind in (Bm25Entry, OracleEntry, EmbedEntry, LongeEntry, RerankEntry, SearchEntry, FuseEntry, RunEntry)
}
"""The field that names an entry's kind -> the class of the entry."""

RetrieverEntry = Annotated[
    str | SerializeAsAny[Entry],
    BeforeValidator(
        _entry,
        json_schema_input_type=Union[(Text, *KINDS.values())],
    ),
]
"""A retriever in a spec."""

for _kind in (RerankEntry, FuseEntry):
    _kind.model_rebuild()


def retriever_label(entry: str | Entry) -> str:
    """Return the name in tables of a spec's retriever."""
    return entry if isinstance(entry, str) else entry.label


def make_retriever(entry: str | Entry, seed: int, read: Read) -> Any:
    """Make the retriever of an entry. Raises UnknownName, BadTrec or SpecError."""
    return retrieve.make(entry, seed) if isinstance(entry, str) else entry.make(seed, read)


def every(entries: Sequence[str | Entry]) -> Iterator[str | Entry]:
    for entry in entries:
        yield entry
        if isinstance(entry, Entry):
            yield from every(entry.parts())


def files(entries: Sequence[str | Entry]) -> list[str]:
    """Return the run files that entries name, without repeats."""
    return list(dict.fromkeys(entry.run for entry in every(entries) if isinstance(entry, RunEntry)))


def own_code(entries: Sequence[str | Entry]) -> list[str]:
    """Return the entries of the form module:Class, which are user-defined retrievers."""
    return [entry for entry in every(entries) if isinstance(entry, str) and ":" in entry]


def identity_of(entry: str | Entry, digests: Mapping[str, str]) -> Any:
    """Return the identity of a retriever: a name with the hash of any user code behind it, or a mapping as JSON without the way
    to reach its service. A model's folder is identified by its content.

    `digests`: path as the spec names it -> sha256 of the file, and module:Class -> sha256 of the module.
    """
    if isinstance(entry, str):
        return f"{entry} {digests.get(entry, '')}".rstrip()
    identity = entry.model_dump(mode="json", exclude=set(Reach.model_fields))
    identity |= entry.changed_parts(lambda part: identity_of(part, digests))
    if isinstance(entry, RunEntry):
        identity["run"] = digests.get(entry.run, entry.run)
    if isinstance(entry, ModelEntry) and entry.revision.startswith(FOLDER_REVISION):
        identity[entry.head] = ""
    return identity


def service_of(entry: str | Entry) -> ModelSpec | None:
    """Return the settings for calling an entry's service. None if it has no service, or if its model runs in this process."""
    if entry == "rerank3":
        return Reranker(model=retrieve.RERANK3, temperature=None, max_tokens=1)
    if isinstance(entry, SearchEntry):
        asked_as: type[ModelSpec] = Searcher
        name, extra = entry.search, {**entry.extra, ModelSpec.QUERY_FIELD: entry.query}
    elif isinstance(entry, ModelEntry) and (entry.api_base is not None or ModelSpec.is_service(entry.model)):
        asked_as = Reranker if isinstance(entry, RerankEntry) else Embedder
        dimensions = entry.dimensions if isinstance(entry, EmbedEntry) else None
        name, extra = entry.model, {} if dimensions is None else {"dimensions": dimensions}
    else:
        return None
    reach = entry.model_dump(include=set(Reach.model_fields))
    return asked_as(model=name, temperature=None, max_tokens=1, revision=entry.revision, extra=extra, **reach)


def services(entries: Sequence[str | Entry]) -> dict[str, ModelSpec]:
    """Map the name of each model at a service to the way to call it. Raises ValueError if one model has two different
    settings."""
    by_model: dict[str, ModelSpec] = {}
    for service in map(service_of, every(entries)):
        if service is not None and by_model.setdefault(service.model, service) != service:
            raise ValueError(
                f"retrievers: {service.model!r} has two different settings; give both entries the same price, api_base, ..."
            )
    return by_model


def check_retrievers(entries: Sequence[str | Entry]) -> None:
    """Raise ValueError if two retrievers share a name in tables, or if a model at a service has two different settings."""
    labels = [retriever_label(entry) for entry in entries]
    for index, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        if label in labels[:index]:
            mend = "remove one" if isinstance(entry, str) else "give one of them another name: NAME"
            raise ValueError(f"retrievers: {label!r} is listed twice; {mend}")
    services(entries)


@contextlib.contextmanager
def located_errors(index: int) -> Iterator[None]:
    """Turn user errors into SpecErrors that give the retriever's location in the spec."""
    try:
        yield
    except UserError as error:
        raise SpecError(f"spec: retrievers[{index}]: {str(error).removeprefix('spec: ')}") from error


def with_retrievers(spec: S, inputs: Inputs) -> S:
    """Check models and run files, and resolve the retrievers' model folders. The spec of a stored run is returned unchanged.
    Raises SpecError."""
    if inputs.record is not None:
        return spec
    resolved = []
    for index, entry in enumerate(spec.retrievers):  # type: ignore[attr-defined]
        with located_errors(index):
            resolved.append(retriever := resolve_folder(entry, inputs.folder))
            for part in every([retriever]):
                if isinstance(part, ModelEntry) and service_of(part) is None:
                    revision = "" if part.revision.startswith(FOLDER_REVISION) else part.revision
                    check_model(part.model, revision, "cross-encoder" if isinstance(part, RerankEntry) else "encoder")
                elif part in ("vector", "longe"):
                    check_model(retrieve.MPNET if part == "vector" else retrieve.Longe.MODEL, "", "encoder")
            for path in files([retriever]):
                retrieve.read_run(inputs.text(path), path)
    return spec.model_copy(update={"retrievers": resolved})


def resolve_folder(entry: str | Entry, folder: Path) -> str | Entry:
    """Replace model folders (relative to the spec's `folder`) by absolute paths, with content hashes as revisions. Raises
    NoModel."""
    if isinstance(entry, str):
        return entry
    changed: dict[str, Any] = {}
    if isinstance(entry, ModelEntry) and service_of(entry) is None:
        path = next((path for path in (folder / entry.model, Path(entry.model)) if path.is_dir()), None)
        if path is None:
            find_model(entry.model)
        else:
            changed = {entry.head: str(path.resolve()), "revision": folder_revision(path.resolve())}
    return entry.model_copy(update={**changed, **entry.changed_parts(lambda part: resolve_folder(part, folder))})
