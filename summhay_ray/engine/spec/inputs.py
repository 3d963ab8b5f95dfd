"""The files and the models that a spec names.

A new run reads them from the spec's folder and stores their content. A stored run reads them from the store. A path in a spec may
be a symbolic link. But if the spec names a folder, links inside this folder must not lead out of it.

A model entry `{answers: FILE, name: NAME}` is a model whose answers come from a file.
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
"""The field of a run's record with the spec's folder, in which workers look for models."""
KIND = "input"
"""The kind of input files among the store's objects."""
CODE = "code"
"""The field of a run's record that identifies the user's own code: module:Class -> sha256 (hex) of the module."""


A = TypeVar("A")
B = TypeVar("B")


class Mapped(Protocol):
    """Applies a function to each item, in order. Exceptions of type `error` or UserError keep their type."""

    def __call__(self, work: Callable[[A], B], items: Iterable[A], error: type[UserError]) -> Iterator[B]: ...


@dataclass(eq=False)
class Inputs:
    """Reads files by their names in a spec. Each file that is read becomes part of the run's identity."""

    folder: Path
    """The spec's folder."""
    open_store: Callable[[], Store | None] = lambda: None
    named: Iterable[str] = ()
    """All texts in the spec."""
    untrusted: bool = False
    """Whether reading files outside the spec's folder is refused."""
    on_cluster: Mapped | None = None
    """Applies a function on the run's cluster; None unless it is certain that the run uses a cluster."""
    record: Mapping[str, Any] | None = field(default=None, init=False)
    """The record of a stored run; None for a new one."""
    digests: dict[str, str] = field(default_factory=dict, init=False)
    """Name in the spec -> sha256 (hex) of the content, for all files that were read."""
    files: dict[str, Path] = field(default_factory=dict, init=False)
    """Name in the spec -> path on this machine, for the files that were read from disk."""
    settled: bool = field(default=False, init=False)
    """Whether the run is stored or has started. Then its set of files is final, and no other file can be read."""
    _places: set[str] | None = field(default=None, init=False)
    """The spec's texts as absolute paths: each text once from the spec's folder and once from the current folder."""
    _given: dict[str, bytes] = field(default_factory=dict, init=False)

    @functools.cached_property
    def store(self) -> Store | None:
        """The run's store, which contains the inputs that a spec names by their hash; None without a store. Raises StoreError."""
        return self.open_store()

    @classmethod
    def stored(cls, store: Store, record: Mapping[str, Any]) -> Inputs:
        """Return the inputs of a stored run, from its record."""
        inputs = cls(Path(record.get(FOLDER, "")), lambda: store)
        inputs.record = record
        inputs.digests = {**record.get("inputs", {}), **record.get("answers", {})}
        inputs.settled = True
        return inputs

    def read(self, entry: str) -> bytes:
        """Return the file's content. Raises SpecError if there is no such file, or if it has changed since it was first read."""
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
        """Provide content under the name `entry`, without a file. `read` returns it, and the run stores it like a file."""
        self._given[entry] = content

    def keep(self, store: Store, entries: Iterable[str] | None = None) -> dict[str, str]:
        """Put the files that were read (or only `entries`) into the store. Returns their `digests`."""
        names = self.digests if entries is None else entries
        return {entry: store.put_object(KIND, self.read(entry)) for entry in names}

    def code(self, name: str) -> str:
        """Return the sha256 (hex) of the module of a user's own `module:Class`, for the run's identity; empty for a built-in
        name.

        For a stored run, the hash comes from its record, so that reading a run does not import the user's code.
        """
        if ":" not in name:
            return ""
        if self.record is None:
            return code_identity(name)
        known: Mapping[str, str] = self.record.get(CODE, {})
        head = name.partition("/")[0]
        return known[head] if head in known else source_identity(name)

    def path(self, entry: str) -> Path:
        """Return the path of a file or folder. It is searched in the spec's folder and, for a trusted spec, then in the current
        folder. Raises SpecError if it does not exist, or if a link leads out of a folder that the spec names."""
        path = self._find(entry)
        try:
            real_path(path, *self._within(path))
        except UserError as error:
            raise SpecError(f"spec: {error}") from error
        return path

    def _find(self, entry: str) -> Path:
        """Like `path`, but do not check where links lead."""
        path = find(entry, self.folder) if self.untrusted else find(entry, self.folder, Path())
        if path is None:
            raise SpecError(f"spec: no file {entry!r} in {str(self.folder)!r}; paths start from the spec's folder")
        return path

    def _within(self, path: Path) -> list[Path]:
        """Return the folders out of which links in `path` must not lead. If the spec names only a folder above the path, this is
        the nearest such folder. For an untrusted spec, it is also the spec's own folder."""
        if self._places is None:
            self._places = {os.path.abspath(root / text) for text in self.named if text for root in (self.folder, Path())}
        placed = above = os.path.abspath(path)
        while above not in self._places and (parent := os.path.dirname(above)) != above:
            above = parent
        named_folder = [Path(above)] if above in self._places and above != placed else []
        return [*named_folder, *([self.folder] if self.untrusted else [])]

    def text(self, entry: str) -> str:
        """Return the file's text, without a byte order mark. Raises SpecError if it is not UTF-8."""
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
    """Returns the benchmark's models that answer in the worker, by name or by `provider/`."""
    settings: Callable[[], dict[str, ModelSettings]]
    """Returns model -> its settings: endpoint, limits and price. The result is cached. Raises SpecError for a model without a
    price."""

    @functools.cached_property
    def given_answers(self) -> Mapping[str, GivenAnswers]:
        """Model -> its answers, for models whose answers come from a file. For an invalid file, raises SpecError, which names the
        line."""
        entries = [entry for entry in self.spec.model_entries() if entry.answers is not None]
        return {
            entry.model: GivenAnswers(entry.model, self.inputs.read(str(entry.answers)), str(entry.answers)) for entry in entries
        }

    @functools.cached_property
    def local(self) -> Mapping[str, LocalModel]:
        """All models that answer in the worker: files of answers, the benchmark's models, and this package's."""
        return ChainMap(dict(self.given_answers), self.own())  # type: ignore[arg-type]

    def find(self, model: str) -> LocalModel | None:
        """Return the model in the worker with this name; None if there is none."""
        return self.local.get(model) or self.local.get(f"{model.partition('/')[0]}/")

    def revision(self, model: str) -> dict[str, Any]:
        """Return a local model's revision as a sampling parameter, which makes it part of the key. Empty for other models."""
        if not is_local(model):
            return {}
        local = self.find(model)
        return {"extra_body": {"revision": local.revision}} if local else {}

    def sampling(self, entry: ModelSpec) -> dict[str, Any]:
        """Return the sampling parameters of a model's entry, for its calls and their keys."""
        return {**entry.sampling(), **self.revision(entry.model)}


class GivenAnswers(LocalModel):
    """A model that answers from a file of JSON lines: `{"query_id": ..., "text": ...}`, or answers in the TREC RAG format.

    A request's `lookup` is the query id.
    """

    def __init__(self, name: str, content: bytes, file: str) -> None:
        """Raises SpecError, which names the line, if the file is invalid."""
        self.texts, self.rag = read_given_answers(content, file)
        """Two mappings: query id -> text, and query id -> `RagAnswer` if the line is in that format."""
        self.file = file
        self.name, self.revision = name, hashlib.sha256(content).hexdigest()

    def answer(self, request: Request) -> str:
        """Return the text for the request's query. Raises LookupError if the file has none."""
        if request.lookup not in self.texts:
            raise LookupError(f"{self.file} holds no answer to query_id {request.lookup!r}")
        return self.texts[request.lookup]


def read_given_answers(content: bytes, file: str) -> tuple[dict[str, str], dict[str, RagAnswer]]:
    """Return two mappings: query id -> text, and query id -> `RagAnswer` for lines in that format. Raises SpecError, which names
    the line."""
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
