"""Retrievers as a spec names them: a name, or a mapping whose first field says what kind it is.

To add a kind: a class below with `head`, its fields and `make`, and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from summhay_ray import retrieve
from summhay_ray.benchmark import Inputs, ModelSpec, Reach, SpecError, Strict, Text
from summhay_ray.encoders import FOLDER_REVISION, Encoding, Precision, Scoring, check_model, find_model, folder_revision
from summhay_ray.engine import validated
from summhay_ray.plugins import code_identity

Read = Callable[[str], str]
"""A file as the spec names it -> its text."""


class Entry(Strict):
    """A retriever that is written as a mapping."""

    head: ClassVar[str]
    """The field that says what kind the entry is."""

    name: str = Field(default="", description="what tables call it; by default made of the rest")

    @property
    def label(self) -> str:
        """What tables call it."""
        return self.name or self.default_label()

    def default_label(self) -> str:
        """What tables call it where the spec does not say."""
        raise NotImplementedError

    def parts(self) -> Sequence[RetrieverEntry]:
        """The entries inside."""
        return ()

    def make(self, seed: int, read: Read) -> Any:
        """The retriever. `read` gives the text of a file that the spec names."""
        raise NotImplementedError

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """What makes it the retriever that it is, as JSON. `digests`: file as the spec names it -> sha256 of its content."""
        return self.model_dump(mode="json")

    def at_home(self, folder: Path) -> Entry:
        """The entry with the folders of its models as they lie here, each known by its content. `folder`: the spec's."""
        return self


def _entry(value: Any) -> Any:
    """A name as it is; a mapping as the entry of its kind. Raises ValueError, in one line."""
    if isinstance(value, str | Entry):
        return value
    heads = [head for head in KINDS if isinstance(value, Mapping) and head in value]
    # `{rerank: X, of: bm25}` has one head; so has each entry inside.
    if len(heads) != 1:
        known = ", ".join(f"{{{head}: ...}}" for head in KINDS)
        raise ValueError(f"expected a retriever's name, or a mapping of one of these kinds: {known}")
    try:
        return validated(KINDS[heads[0]], value, f"{{{heads[0]}: ...}}")
    except SpecError as error:
        # Whoever reads the spec puts before it where the entry stands.
        raise ValueError(str(error)) from error


class Bm25Entry(Entry):
    """BM25 with its tokenization named."""

    head: ClassVar[str] = "bm25"
    bm25: retrieve.Tokenization = Field(
        description="split: str.split(' '); words: as the name bm25; stems: Snowball; wordnet: stems of WordNet's lemmas"
    )

    def default_label(self) -> str:
        return f"bm25-{self.bm25}"

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Bm25(seed=seed, tokenization=self.bm25)


class OracleEntry(Entry):
    """The oracle with errors in a share of the relevant documents."""

    head: ClassVar[str] = "oracle"
    oracle: retrieve.Errors = Field(description="which errors: replace, add, drop or shuffle")
    share: float = Field(default=0.2, ge=0, le=1, description="of the relevant documents")

    def default_label(self) -> str:
        return f"oracle-{self.oracle}-{self.share:g}"

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Oracle(seed=seed, errors=self.oracle, share=self.share)


class ChunksEntry(Strict):
    """Documents are embedded in pieces."""

    tokens: int = Field(ge=1, description="cl100k tokens of a piece")
    overlap: int = Field(default=0, ge=0, description="tokens that neighbours share")
    combine: retrieve.Combine = Field(
        default="max", description="max: the nearest piece counts; mean, weighted: the mean of the vectors, weighted by tokens"
    )

    @model_validator(mode="after")
    def _overlap_is_less(self) -> ChunksEntry:
        if self.overlap >= self.tokens:
            raise ValueError(f"overlap: {self.overlap} of {self.tokens} tokens; expected fewer than a piece has")
        return self


SERVICES = frozenset(
    {
        *(
            "azure",
            "azure_ai",
            "bedrock",
            "cohere",
            "databricks",
            "deepinfra",
            "fireworks_ai",
            "gemini",
            "hosted_vllm",
            "infinity",
        ),
        *("jina_ai", "litellm_proxy", "mistral", "nvidia_nim", "openai", "openai_like", "openrouter", "together_ai", "vertex_ai"),
        *("voyage", "watsonx", "hosted_vllm"),
    }
)
"""What a model's name begins with that somebody serves; any other runs in this process, unless it has an `api_base`."""


class ModelEntry(Entry, Reach):
    """What entries have in common that need a model: one in this process, or one that somebody serves."""

    revision: str = Field(default="", description="the hub's commit; filled in for a folder, by its content")
    max_tokens: int | None = Field(default=None, ge=1, description="the model's own tokens that a text is cut at; null: its own")
    precision: Precision = Field(default="float32", description="float16 and bfloat16 are for GPUs")

    @property
    def model(self) -> str:
        """The model's name, or its folder."""
        found: str = getattr(self, self.head)
        return found

    @model_validator(mode="before")
    @classmethod
    def _price_is_whole(cls, fields: Any) -> Any:
        # Who embeds or reranks writes nothing that has a price.
        if isinstance(fields, Mapping) and isinstance(price := fields.get("price"), Mapping) and price:
            return {**fields, "price": {"input_per_mtok": 0, "output_per_mtok": 0, **price}}
        return fields

    def service(self) -> ModelSpec | None:
        """How the model is asked that somebody serves; None for one in this process."""
        if self.api_base is None and self.model.partition("/")[0] not in SERVICES:
            return None
        reach = self.model_dump(include=set(Reach.model_fields))
        return ModelSpec(
            model=self.model, temperature=None, max_tokens=1, revision=self.revision, extra=dict(self.extra()), **reach
        )

    def extra(self) -> Mapping[str, Any]:
        """What is sent beside the texts."""
        return {}

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """See `Entry`. A folder is known by its content, wherever it lies; how a service is reached is no part of it."""
        found = {**self.model_dump(mode="json", exclude=set(Reach.model_fields)), **self.inner(digests)}
        return {**found, self.head: ""} if self.revision.startswith(FOLDER_REVISION) else found

    def inner(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """The entries inside, as they are known."""
        return {}

    def at_home(self, folder: Path) -> Entry:
        """See `Entry`. Raises NoModel for a folder that is none."""
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
    embed: Text = Field(description="a model's name, or its folder")
    query_prefix: str = Field(default="", description="stands before every query")
    document_prefix: str = Field(default="", description="stands before every document, or piece of one")
    chunks: ChunksEntry | None = Field(default=None, description="null: each document is one text")
    similarity: retrieve.Similarity = Field(default="cosine", description="of two vectors: cosine or dot")
    dimensions: int | None = Field(default=None, ge=1, description="of a service's vectors, where it gives a choice")

    def extra(self) -> Mapping[str, Any]:
        return {} if self.dimensions is None else {"dimensions": self.dimensions}

    def default_label(self) -> str:
        return _short(self.embed)

    def make(self, seed: int, read: Read) -> Any:
        encoding = Encoding(self.embed, self.revision, self.max_tokens, self.precision)
        chunks = retrieve.Chunks(**self.chunks.model_dump()) if self.chunks else None
        return retrieve.Embed(retrieve.Dense(encoding, self.query_prefix, self.document_prefix, chunks, self.similarity))


class LongeEntry(ModelEntry):
    """`longe` with another model of stretched positions."""

    head: ClassVar[str] = "longe"
    longe: Text = Field(description="a model's name, or its folder")

    def default_label(self) -> str:
        return _short(self.longe)

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Longe(seed=seed, encoding=Encoding(self.longe, self.revision, self.max_tokens, self.precision))


class RerankEntry(ModelEntry):
    """The first documents of another ranking, ranked again."""

    head: ClassVar[str] = "rerank"
    rerank: Text = Field(description="a cross-encoder's name, or its folder")
    of: RetrieverEntry = Field(default="bm25", description="the retriever whose ranking is ranked again")
    top: int = Field(default=100, ge=1, description="its first documents are ranked again; the others stand behind them")

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


class FuseEntry(Entry):
    """Several rankings made one."""

    head: ClassVar[str] = "fuse"
    fuse: list[RetrieverEntry] = Field(min_length=2, description="the retrievers whose rankings are made one")
    method: retrieve.Method = Field(default="rrf", description="rrf: by rank, 1 / (60 + rank); sum: by score, spread over 0 to 1")

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
    """Rankings made elsewhere."""

    head: ClassVar[str] = "run"
    run: Text = Field(description="path of a TREC run file, from the spec's folder")

    def default_label(self) -> str:
        return Path(self.run).stem

    def make(self, seed: int, read: Read) -> Any:
        return retrieve.Run(retrieve.read_run(read(self.run), self.run), self.run)

    def semantic(self, digests: Mapping[str, str]) -> dict[str, Any]:
        return {**self.model_dump(mode="json"), "run": digests.get(self.run, self.run)}


RERANK3 = ModelSpec(model=retrieve.RERANK3, temperature=None, max_tokens=1)
"""Who answers for the name `rerank3`."""

KINDS: Mapping[str, type[Entry]] = {
    kind.head: kind for kind in (Bm25Entry, OracleEntry, EmbedEntry, LongeEntry, RerankEntry, FuseEntry, RunEntry)
}
"""The field that says what kind an entry is -> the entry's class."""

RetrieverEntry = Annotated[
    str | SerializeAsAny[Entry],
    BeforeValidator(
        _entry,
        json_schema_input_type=Text | Bm25Entry | OracleEntry | EmbedEntry | LongeEntry | RerankEntry | FuseEntry | RunEntry,
    ),
]
"""A retriever in a spec."""

for _kind in (RerankEntry, FuseEntry):
    _kind.model_rebuild()


def _short(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2]


def retriever_label(entry: str | Entry) -> str:
    """What tables call a retriever of a spec."""
    return entry if isinstance(entry, str) else entry.label


def make_retriever(entry: str | Entry, seed: int, read: Read) -> Any:
    """The retriever of an entry. Raises UnknownName, BadTrec or SpecError, in one line."""
    return retrieve.make(entry, seed) if isinstance(entry, str) else entry.make(seed, read)


def identity_of(entry: str | Entry, digests: Mapping[str, str]) -> Any:
    """What makes an entry the retriever that it is: of a name, the name and a person's own code; else JSON.

    `digests`: file as the spec names it -> sha256 of its content.
    """
    if isinstance(entry, str):
        return f"{entry} {code_identity(entry)}".rstrip()
    return entry.semantic(digests)


def at_home(entry: str | Entry, folder: Path) -> str | Entry:
    """The entry with the folders of its models as they lie on this machine."""
    return entry if isinstance(entry, str) else entry.at_home(folder)


def every(entries: Sequence[str | Entry]) -> Iterator[str | Entry]:
    """All entries, those inside of others too."""
    for entry in entries:
        yield entry
        if isinstance(entry, Entry):
            yield from every(entry.parts())


def files(entries: Sequence[str | Entry]) -> list[str]:
    """The files that entries name, each once."""
    return list(dict.fromkeys(entry.run for entry in every(entries) if isinstance(entry, RunEntry)))


def settled(entries: Sequence[str | Entry], inputs: Inputs) -> list[str | Entry]:
    """The entries with their models' folders as they lie here; their files are read. Raises SpecError, BadTrec."""
    found = [at_home(entry, inputs.folder) for entry in entries]
    for name, revision in local_models_of(found):
        check_model(name, revision)
    for path in files(found):
        retrieve.read_run(inputs.text(path), path)
    return found


def services(entries: Sequence[str | Entry]) -> dict[str, ModelSpec]:
    """Model -> how it is asked, of all that somebody serves. Raises ValueError where one model is written in two ways."""
    found: dict[str, ModelSpec] = {}
    for entry in every(entries):
        service = RERANK3 if entry == "rerank3" else entry.service() if isinstance(entry, ModelEntry) else None
        if service is not None and found.setdefault(service.model, service) != service:
            raise ValueError(
                f"retrievers: {service.model!r} is written in two ways; give both entries the same price, api_base, ..."
            )
    return found


def local_models_of(entries: Sequence[str | Entry]) -> list[tuple[str, str]]:
    """Name and revision of the models that run in this process, each once."""
    named = {"vector": retrieve.MPNET, "longe": retrieve.Longe.MODEL}
    found: dict[tuple[str, str], None] = {}
    for entry in every(entries):
        if isinstance(entry, str) and entry in named:
            found[named[entry], ""] = None
        elif isinstance(entry, ModelEntry) and entry.service() is None:
            found[entry.model, "" if entry.revision.startswith(FOLDER_REVISION) else entry.revision] = None
    return list(found)


def inside(made: Any) -> Sequence[Any]:
    """The retrievers that a retriever is made of."""
    if isinstance(made, retrieve.Fuse):
        return made.parts
    return [made.of] if isinstance(made, retrieve.Rerank) and made.of is not None else []


def models_of(made: Any) -> list[Encoding | Scoring]:
    """The models that a retriever needs, wherever they run, each once."""
    own: list[Encoding | Scoring] = [made.dense.encoding] if isinstance(made, retrieve.Embed) else []
    own += [made.stretched] if isinstance(made, retrieve.Longe) else []
    own += [made.scoring] if isinstance(made, retrieve.Rerank) else []
    return list(dict.fromkeys([*own, *(one for part in inside(made) for one in models_of(part))]))


def local_parts(made: Any, services: Collection[str]) -> list[Any]:
    """A retriever's largest parts, it itself included, that need models in this process and none of the `services`."""
    models = models_of(made)
    if not any(one.model in services for one in models):
        return [made] if models else []
    return [one for part in inside(made) for one in local_parts(part, services)]


def own_code(entries: Sequence[str | Entry]) -> list[str]:
    """The module:Class names of a person's own among the entries."""
    return [entry for entry in every(entries) if isinstance(entry, str) and ":" in entry]
