"""Read the user's documents from which ETHIC's tasks are built: texts, transcripts, collections.

A text is a file, a line of JSON lines (`text`, `document` or `divided_document`), a file of a folder, or a document of a
haystack. A collection is a line of JSON lines (`id`, `background`, `documents` of `id` and `text`), or a subtopic of a
haystack. Haystacks are files in SummHay's released format, or our samples.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.benchmark import Inputs
from summhay_ray.errors import SpecError
from summhay_ray.haystack import load_sample, read_released
from summhay_ray.records import Haystack
from summhay_ray.text import read_json_lines

_TEXT_FIELDS = ("text", "document", "divided_document")
_NAME_FIELDS = ("id", "ID", "title")
_FIRST_ID = 101
_ID = re.compile(r"[0-9]{1,18}")
SAMPLE = "sample/"


@dataclass(frozen=True, slots=True)
class Text:
    """A single document."""

    name: str
    text: str = field(repr=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Collection:
    """The documents of one review, by number, and the review's background."""

    name: str
    background: str = field(repr=False)
    documents: Mapping[int, str] = field(repr=False)
    source: str
    """The file or haystack of origin. Within it, a number always identifies the same document."""

    @property
    def sha256(self) -> str:
        written = json.dumps([self.background, sorted(self.documents.items())], ensure_ascii=True)
        return hashlib.sha256(written.encode("ascii")).hexdigest()

    def common(self, other: Collection, among: Iterable[int]) -> list[int]:
        """Return the numbers in `among` whose documents also belong to the other collection. Documents of different sources
        must have equal texts."""
        there = [number for number in among if number in other.documents]
        if self.source == other.source:
            return there
        return [number for number in there if self.documents[number].split() == other.documents[number].split()]


@dataclass(frozen=True, slots=True)
class Cited:
    """A decision, with other decisions that cite it."""

    name: str
    title: str
    """The title as cited: `Roe v. Wade`."""
    citation: str
    """The reporter citation: `410 U.S. 113`; empty if not given."""
    summary: str = field(repr=False)
    citing: Sequence[str] = field(repr=False)

    @property
    def sha256(self) -> str:
        return hashlib.sha256("\x00".join((self.title, self.citation, self.summary, *self.citing)).encode("utf-8")).hexdigest()


def read_cited(entry: str, inputs: Inputs) -> list[Cited]:
    """Read decisions from JSON lines: `id`, `title`, `citation`, `summary`, `citing` (texts). Raises SpecError."""
    decisions = []
    for where, row in _lines(inputs.text(entry), entry):
        texts = [row.get(name) for name in ("title", "summary")]
        citing = row.get("citing")
        if (
            not all(isinstance(text, str) and text for text in texts)
            or not isinstance(citing, list)
            or not all(map(_is_text, citing))
        ):
            raise SpecError(f"spec: {where}: expected title and summary (texts) and citing (a list of texts)")
        name = str(row.get("id") or where)
        decisions.append(Cited(name, row["title"], str(row.get("citation") or ""), row["summary"], tuple(citing)))
    return decisions


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def read_texts(entry: str, inputs: Inputs) -> list[Text]:
    """Read the documents of a file, of a folder's files or of a haystack, sorted by name; blank ones are dropped. Raises
    SpecError."""
    if entry.startswith(SAMPLE) or entry.endswith(".json"):
        return [Text(document.document_id, document.text) for document in _read_haystack(entry, inputs).documents]
    files = [name for name in inputs.digests if name == entry or name.startswith(entry.rstrip("/") + "/")]
    if not inputs.settled or not files:
        path, files = inputs.path(entry), [entry]
        if path.is_dir():
            kinds = (".txt", ".md", ".jsonl")
            files = [f"{entry.rstrip('/')}/{file.name}" for file in path.iterdir() if file.suffix in kinds]
    texts: list[Text] = []
    for name in sorted(files):
        content = inputs.text(name)
        stem = name.rpartition("/")[2].rpartition(".")[0] or name
        if name.endswith(".jsonl"):
            texts += [_text(row, where, place) for place, (where, row) in enumerate(_lines(content, name))]
        else:
            texts.append(Text(stem, content))
    kept = sorted((text for text in texts if text.text.strip()), key=lambda text: text.name)
    if not kept:
        raise SpecError(f"spec: {entry!r} holds no text; give .txt or .jsonl files, or a folder of them")
    names = [text.name for text in kept]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SpecError(f"spec: {entry!r}: two documents are named {twice!r}; give each a name of its own")
    return kept


def read_collections(entry: str, inputs: Inputs) -> list[Collection]:
    """Read collections from JSON lines, or make one per subtopic of a haystack: the documents with any of its insights. Its
    background is the query and the insights. Raises SpecError."""
    if entry.endswith(".jsonl"):
        return [_collection(row, where, entry) for where, row in _lines(inputs.text(entry), entry)]
    haystack = _read_haystack(entry, inputs)
    gold, collections = haystack.gold, []
    for subtopic in haystack.subtopics:
        insights = haystack.insights_of(subtopic.subtopic_id)
        numbers = sorted({number for insight in insights for number in gold[insight.insight_id] or ()})
        if numbers:
            query = " ".join([subtopic.query or subtopic.text, *(insight.text for insight in insights)])
            documents = {_FIRST_ID + number - 1: haystack.documents[number - 1].text for number in numbers}
            name = f"{haystack.name}-{subtopic.subtopic_id}"
            collections.append(Collection(name, query, documents, haystack.haystack_id))
    return collections


def _read_haystack(entry: str, inputs: Inputs) -> Haystack:
    """Read a file in SummHay's released format, or one of our samples. Raises SpecError."""
    if entry.startswith(SAMPLE) and not inputs.settled:
        inputs.give(entry, json.dumps(load_sample(entry.removeprefix(SAMPLE))).encode("ascii"))
    return read_released(inputs.text(entry), entry).haystack


def _lines(content: str, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for where, row in read_json_lines(content, name, SpecError):
        if not isinstance(row, Mapping):
            raise SpecError(f"spec: {where}: is no JSON object")
        yield where, row


def _text(row: Mapping[str, Any], where: str, place: int) -> Text:
    value = next((row[name] for name in _TEXT_FIELDS if name in row), None)
    parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str)]
    if not parts or (isinstance(value, list) and len(parts) < len(value)):
        raise SpecError(f"spec: {where}: expected a text, or a list of texts, in one of the fields {', '.join(_TEXT_FIELDS)}")
    name = next((str(row[key]).strip() for key in _NAME_FIELDS if row.get(key)), f"document {place + 1}")
    return Text(name, "\n".join(parts))


def _collection(row: Mapping[str, Any], where: str, source: str) -> Collection:
    documents = row.get("documents")
    if not isinstance(row.get("background"), str) or not isinstance(documents, list):
        raise SpecError(f"spec: {where}: expected fields background (text) and documents (list)")
    texts = {}
    for document in documents:
        if (
            not isinstance(document, Mapping)
            or not _ID.fullmatch(str(document.get("id", "")))
            or not _is_text(document.get("text"))
        ):
            raise SpecError(f"spec: {where}: documents: expected id (a whole number of up to 18 digits) and text")
        if (number := int(str(document["id"]))) in texts:
            raise SpecError(f"spec: {where}: documents: id {number} is listed twice")
        texts[number] = document["text"]
    return Collection(str(row.get("id") or where), row["background"], texts, source)
