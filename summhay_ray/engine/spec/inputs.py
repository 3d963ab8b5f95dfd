"""The files and the models that a spec names.

A new run reads them from the spec's folder and stores their content; a stored run reads them from the store. A path in a spec may
be a link, but a link inside a folder that the spec names may not lead out of that folder.

`{answers: FILE, name: NAME}` in a spec is a model whose answers come from a file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from summhay_ray.engine.spec.spec import ModelSpec, Spec
from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import find, read_json, real_path
from summhay_ray.llm import LocalModel, ModelSettings, Request, is_local
from summhay_ray.plugins import code_identity, source_identity
from summhay_ray.store import Store
from summhay_ray.text import RagAnswer, read_json_lines, read_rag_answer

FOLDER = "folder"
"""The field of a run's record with the folder of its spec, for models in folders next to the spec."""
KIND = "input"
"""The kind of these files among the store's objects."""
CODE = "code"
"""The field of a run's record with the user's own code: module:Class -> sha256 (hex) of the module."""


A = TypeVar("A")
B = TypeVar("B")


class Mapped(Protocol):
    """Applies a function to each item, in order. An exception of type `error` or UserError keeps its type."""

    def __call__(self, work: Callable[[A], B], items: Iterable[A], error: type[UserError]) -> Iterator[B]: ...


@dataclass(eq=False)
class Inputs:
    """Reads files by their names in a spec. Every file that is read becomes part of the run's identity."""

    folder: Path
    """The spec's folder."""
    open_store: Callable[[], Store | None] = lambda: None
    named: Iterable[str] = ()
    """Every text in the spec."""
    untrusted: bool = False
    """Whether nothing outside the spec's folder may be read."""
    on_cluster: Mapped | None = None
    """Applies a function on the run's cluster; None if the run may not have one."""
    record: Mapping[str, Any] | None = field(default=None, init=False)
    """The record of a stored run; None for a new one."""
    digests: dict[str, str] = field(default_factory=dict, init=False)
    """Name in the spec -> sha256 (hex) of the content, for all files that were read."""
    files: dict[str, Path] = field(default_factory=dict, init=False)
    """Name in the spec -> path on this machine, for the files that were read from disk."""
    settled: bool = field(default=False, init=False)
    """Whether the run's set of files is final, because the run is stored or has started. No further file can be read then."""
    _places: set[str] | None = field(default=None, init=False)
    """The spec's texts as absolute paths, each relative to the spec's folder and to the current one."""
    _given: dict[str, bytes] = field(default_factory=dict, init=False)

    @functools.cached_property
    def store(self) -> Store | None:
        """The run's store, which holds inputs that are named by their hash; None without a store. Raises StoreError."""
        return self.open_store()

    @classmethod
    def stored(cls, store: Store, record: Mapping[str, Any]) -> Inputs:
        """The inputs of a stored run, from its record."""
        inputs = cls(Path(record.get(FOLDER, "")), lambda: store)
        inputs.record = record
        inputs.digests = {**record.get("inputs", {}), **record.get("answers", {})}
        inputs.settled = True
        return inputs

    def read(self, entry: str) -> bytes:
        """The file's content. Raises SpecError if there is no such file, or if it changed since it was first read."""
        if self.settled and entry not in self.digests:
            raise SpecError(
                f"{entry!r} is read for the first time while the run is under way; read it in `items` or `__init__`: a run's "
                "files are kept before it begins"
            )
        if self.record is not None and self.store is not None:
            content = self.store.get_object(KIND, self.digests[entry])
        elif entry in self._given:
            content = self._given[entry]
        else:
            path = self._find(entry)
            try:
                content = read_json(path, self._within(path))
            except OSError as error:
                raise SpecError(f"spec: {entry!r} cannot be read ({error.strerror}); give a file that can") from error
            except UserError as error:
                raise SpecError(f"spec: {error}") from error
            self.files[entry] = path.resolve()
        digest = hashlib.sha256(content).hexdigest()
        if self.digests.setdefault(entry, digest) != digest:
            raise SpecError(f"{entry}: was changed since it was read; put back what it was, or start again")
        return content

    def give(self, entry: str, content: bytes) -> None:
        """Provide content that is not a file in the spec's folder. `read` returns it, and the run stores it like a file."""
        self._given[entry] = content

    def keep(self, store: Store, entries: Iterable[str] | None = None) -> dict[str, str]:
        """Put the files that were read (or only `entries`) into the store; returns their `digests`."""
        names = self.digests if entries is None else entries
        return {entry: store.put_object(KIND, self.read(entry)) for entry in names}

    def code(self, name: str) -> str:
        """sha256 (hex) of the module with the user's own `module:Class`, as part of a run's identity; empty for a built-in name.

        A stored run has it in its record, so that reading a run imports none of the user's code.
        """
        if ":" not in name:
            return ""
        if self.record is None:
            return code_identity(name)
        known: Mapping[str, str] = self.record.get(CODE, {})
        head = name.partition("/")[0]
        return known[head] if head in known else source_identity(name)

    def path(self, entry: str) -> Path:
        """The path of a file or folder: in the spec's folder or, for a trusted spec, else in the current one. Raises SpecError if
        it does not exist or is outside the place that the spec names."""
        path = self._find(entry)
        try:
            real_path(path, *self._within(path))
        except UserError as error:
            raise SpecError(f"spec: {error}") from error
        return path

    def _find(self, entry: str) -> Path:
        """Like `path`, without the check of its place."""
        path = find(entry, self.folder) if self.untrusted else find(entry, self.folder, Path())
        if path is None:
            raise SpecError(f"spec: no file {entry!r} in {str(self.folder)!r}; paths start from the spec's folder")
        return path

    def _within(self, path: Path) -> list[Path]:
        """The folders that `path` must not lead out of: the nearest one above it that the spec names, unless the spec names the
        path itself; and, for an untrusted spec, the spec's own folder."""
        if self._places is None:
            self._places = {os.path.abspath(root / text) for text in self.named if text for root in (self.folder, Path())}
        placed = above = os.path.abspath(path)
        while above not in self._places and (parent := os.path.dirname(above)) != above:
            above = parent
        named_folder = [Path(above)] if above in self._places and above != placed else []
        return [*named_folder, *([self.folder] if self.untrusted else [])]

    def text(self, entry: str) -> str:
        """The file's text, without a byte order mark. Raises SpecError if it is not UTF-8."""
        try:
            return self.read(entry).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SpecError(f"spec: {entry!r} is not UTF-8 text") from None


@dataclass(eq=False)
class RunModels:
    """The models that a spec names."""

    spec: Spec
    inputs: Inputs
    own: Callable[[], Mapping[str, LocalModel]]
    """The benchmark's models that answer in the worker, by name or by `provider/`."""
    settings: Callable[[], dict[str, ModelSettings]]
    """Model -> its settings, made once: endpoint, limits and price. Raises SpecError for a model without a price."""

    @functools.cached_property
    def given_answers(self) -> Mapping[str, GivenAnswers]:
        """Model -> its answers, for models whose answers come from a file. Raises SpecError, naming the line, for a bad file."""
        entries = [entry for entry in self.spec.model_entries() if entry.answers is not None]
        return {
            entry.model: GivenAnswers(entry.model, self.inputs.read(str(entry.answers)), str(entry.answers)) for entry in entries
        }

    @functools.cached_property
    def local(self) -> Mapping[str, LocalModel]:
        """All models that answer in the worker: files of answers, the benchmark's own and this package's."""
        return ChainMap(dict(self.given_answers), self.own())  # type: ignore[arg-type]

    def find(self, model: str) -> LocalModel | None:
        """The model in the worker with this name; None if there is none."""
        return self.local.get(model) or self.local.get(f"{model.partition('/')[0]}/")

    def revision(self, model: str) -> dict[str, Any]:
        """A sampling parameter with the revision of a local model, so that it enters the key; empty for any other model."""
        if not is_local(model):
            return {}
        local = self.find(model)
        return {"extra_body": {"revision": local.revision}} if local else {}

    def sampling(self, entry: ModelSpec) -> dict[str, Any]:
        """The sampling parameters of a model's entry, for its calls and their keys."""
        return {**entry.sampling(), **self.revision(entry.model)}


class GivenAnswers(LocalModel):
    """A model that answers from a file of JSON lines: `{"query_id": ..., "text": ...}`, or answers in the TREC RAG format.

    A request's `lookup` is the query id.
    """

    def __init__(self, name: str, content: bytes, file: str) -> None:
        """Raises SpecError, naming the line, if the file cannot be used."""
        self.texts, self.rag = read_given_answers(content, file)
        """Query id -> text; query id -> `RagAnswer`, if the file has one."""
        self.file = file
        self.name, self.revision = name, hashlib.sha256(content).hexdigest()

    def answer(self, request: Request) -> str:
        """The text for the request's query. Raises LookupError if the file has none."""
        if request.lookup not in self.texts:
            raise LookupError(f"{self.file} holds no answer to query_id {request.lookup!r}")
        return self.texts[request.lookup]


def read_given_answers(content: bytes, file: str) -> tuple[dict[str, str], dict[str, RagAnswer]]:
    """Query id -> text; query id -> `RagAnswer`, for lines that have one. Raises SpecError, naming the line."""
    texts: dict[str, str] = {}
    listed: dict[str, RagAnswer] = {}
    for where, row in read_json_lines(content, file, SpecError):
        if not isinstance(row, dict):
            raise SpecError(f'{where}: expected an object such as {{"query_id": "7", "text": "..."}}')
        try:
            rag = read_rag_answer(row)
        except ValueError as error:
            raise SpecError(f"{where}: {error}") from error
        if rag is not None:
            listed[rag.query_id] = rag
            row = {"query_id": rag.query_id or None, "text": rag.text()}
        for name in ("query_id", "text"):
            if not isinstance(row.get(name), str):
                raise SpecError(f"{where}: {name}: expected text, found {json.dumps(row.get(name))[:40]}")
        if row["query_id"] in texts:
            raise SpecError(f"{where}: query_id: {row['query_id']!r} is on an earlier line, too; leave one")
        texts[row["query_id"]] = row["text"]
    return texts, listed
