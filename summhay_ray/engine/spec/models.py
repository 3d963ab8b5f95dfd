"""The models of a run: their settings, those that answer in the worker, and the parameters in the keys of their calls.

`{answers: FILE, name: NAME}` in a spec is a model whose answers come from a file.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.engine.spec.inputs import Inputs
from summhay_ray.engine.spec.spec import ModelSpec, Spec
from summhay_ray.errors import SpecError
from summhay_ray.llm import LocalModel, ModelSettings, Request, is_local
from summhay_ray.text import RagAnswer, read_rag_answer


@dataclass(eq=False)
class RunModels:
    """The models that a spec names."""

    spec: Spec
    inputs: Inputs
    own: Callable[[], Mapping[str, LocalModel]]
    """The benchmark's models that answer in the worker, by name or by `provider/`."""
    settings: Callable[[], dict[str, ModelSettings]]
    """Model -> its settings: endpoint, limits and price. Raises SpecError for a model without a price."""

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
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise SpecError(f'{where}: no JSON; expected a line such as {{"query_id": "7", "text": "..."}}') from None
        if not isinstance(row, dict):
            raise SpecError(f"{where}: expected an object with query_id and text")
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
            raise SpecError(f"{where}: query_id: {row['query_id']!r} stands on an earlier line, too; leave one")
        texts[row["query_id"]] = row["text"]
    return texts, listed
