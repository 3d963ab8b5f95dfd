"""Read a folder as a collection, and read the release's files of rankings.

A folder holds the release's raw meetings or stories, BEIR, or text files with a file of queries:

| files in the folder | format | |---|---| | `queries.json` and `documents/*.txt` | the release's raw meetings | |
`queries.jsonl`, and in the same folder or in `documents/` any of `train.jsonl`, `dev.jsonl`, `test.jsonl` | the release's raw
stories | | `corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv` | BEIR | | `queries.jsonl` and `documents/*.txt`, or `*.txt` in the
same folder | your own texts |

The files may also be in a subfolder `raw`, as in the release. In BEIR folders and your own, a line of queries.jsonl may have
`references`.

The release's pipeline files hold the texts of retrieved documents but not their ids. A file is a list of `{"Query", "Summary" |
"Summary_1".., "Article"}`. The article consists of the retrieved documents, separated by `<doc-sep>`. The text after the last
separator is a document. It may be blank only if the collection has a blank document. Some files lack newlines and double
quotes, so texts are compared without them.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np

from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query, check_collection
from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import read_file, read_json, real_path
from summhay_ray.retrieve import read_beir, read_beir_qrels, run_lines
from summhay_ray.text import parsed_json, read_json_lines

SPLITS = ("train", "test", "dev")
"""The splits, in the order in which the release lists documents and queries."""
SEED = 42
SEPARATOR = "<doc-sep>"
_LOST = re.compile(r'[\s"]+')
_T = TypeVar("_T", str, list[Any])
MEETINGS = (
    "ODSum-meeting (Zhou et al., 2023; MIT licence), made of QMSum (Zhong et al., 2021), whose transcripts are those of AMI, "
    "ICSI and committees; their own terms hold for the texts."
)
STORIES = (
    "ODSum-story (Zhou et al., 2023; MIT licence), made of SQuALITY (Wang et al., 2022); the stories are Project Gutenberg's, in "
    "the public domain in the United States."
)


def read_collection(folder: Path, called: str) -> Collection:
    """Read the collection in a folder. `called` is the folder as the spec names it. Raises SpecError, with the file's name."""
    for place in (_Place(folder, folder), _Place(folder / "raw", folder)):
        for fits, read in _FORMS:
            try:
                if fits(place):
                    return read(place, called)
            except OSError as error:
                raise SpecError(f"corpus: {error.filename}: cannot be read ({error.strerror})") from error
            except (ValueError, UserError) as error:
                raise SpecError(f"corpus: {called}: {error}") from error
    if not folder.is_dir():
        raise SpecError(f"corpus: no folder {called!r}; relative paths start at the spec's folder")
    raise SpecError(
        f"corpus: {called!r} has no known format; expected queries.json and documents/*.txt (meetings), queries.jsonl "
        "and documents/train.jsonl (stories), corpus.jsonl and queries.jsonl (BEIR), or queries.jsonl and documents/*.txt; of "
        f"documents without queries, summhay mine {called} --out mine.json makes a haystack"
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The folder with the files, inside the folder that the spec names. Raises UserError for a link that leads out of that
    folder."""

    path: Path
    named: Path

    def has(self, name: str) -> bool:
        if not os.path.lexists(self.path / name):
            return False
        real_path(self.path / name, self.named)
        return True

    def read(self, name: str) -> bytes:
        return read_file(self.path / name, within=[self.named])

    def files(self, pattern: str) -> list[str]:
        return sorted(file.relative_to(self.path).as_posix() for file in self.path.glob(pattern))


def _meetings(place: _Place, called: str) -> Collection:
    try:
        by_id = parsed_json(place.read("queries.json"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"queries.json: is no JSON ({error})") from None
    if not isinstance(by_id, dict):
        raise ValueError("queries.json: expected an object of query id to query, answer, meetings_list")
    split_of = meeting_splits(list(by_id))
    queries = []
    for query_id, value in by_id.items():
        where = f"queries.json: query {query_id!r}"
        fields = _object(value, where)
        text, answer = (_field(str, fields, name, where) for name in ("query", "answer"))
        queries.append(Query(query_id, text, (answer,), _texts(fields, "meetings_list", where), split_of[query_id]))
    return check_collection(called, _text_files(place), queries, MEETINGS)


def meeting_splits(query_ids: Sequence[str]) -> Mapping[str, str]:
    """Map each query id of ODSum-meeting to train (60 %), test (30 %) or dev (10 %), split as in the release.

    The release uses scikit-learn's `train_test_split` with `test_size` 0.4, then 0.25 on the rest, and `random_state` 42.
    """
    ids_of, rest = {}, list(query_ids)
    for name, share in (("train", 0.4), ("test", 0.25)):
        order = np.random.RandomState(SEED).permutation(len(rest)).tolist()
        n = math.ceil(share * len(rest))
        ids_of[name], rest = [rest[index] for index in order[n:]], [rest[index] for index in order[:n]]
    return {query_id: name for name, ids in {**ids_of, "dev": rest}.items() for query_id in ids}


def _stories(place: _Place, called: str) -> Collection:
    folder = "documents/" if place.has("documents") else ""
    documents, passages, split_of = [], {}, {}
    for split in SPLITS:
        name = f"{folder}{split}.jsonl"
        for where, row in _lines(place, name) if place.has(name) else ():
            story = _object(row, where)
            passage = str(_object(story.get("metadata"), f"{where}: metadata").get("passage_id", ""))
            parts = _texts(story, "divided_document", where)
            title = _field(str, story, "title", where)
            if title in passages:
                raise ValueError(
                    f"{where}: title: {title!r} repeats an earlier story's; titles join queries to stories and must be unique"
                )
            names = tuple(f"{split}/{passage}#{index}" for index in range(len(parts)))
            passages[title], split_of[title] = (passage, names), split
            documents += [Document(name, text, split) for name, text in zip(names, parts, strict=True)]
    queries = []
    for where, row in _lines(place, "queries.jsonl"):
        if not isinstance(row, list):
            raise ValueError(f"{where}: expected a list of a story's queries")
        for number, value in enumerate(row, start=1):
            fields = _object(value, where)
            title = _field(str, fields, "title", where)
            if title not in passages:
                raise ValueError(f"{where}: title: no story is called {title!r}")
            passage, names = passages[title]
            responses = [
                _field(str, _object(each, where), "response_text", where) for each in _field(list, fields, "responses", where)
            ]
            query_id = f"{passage}-{fields.get('question_number', number)}"
            queries.append(Query(query_id, _field(str, fields, "question_text", where), tuple(responses), names, split_of[title]))
    return check_collection(called, documents, queries, STORIES)


def _beir(place: _Place, called: str) -> Collection:
    def text(name: str) -> str:
        return _decoded(place.read(name), name)

    corpus = read_beir(text, place.path.name)
    named = zip(corpus.document_ids, corpus.texts, corpus.titles, strict=True)
    documents = [Document(name, whole, title=title) for name, whole, title in named]
    grades: dict[str, dict[str, float]] = {}
    split_of: dict[str, str] = {}
    for name in place.files("qrels/*.tsv"):
        split = PurePath(name).stem
        for query_id, judged in read_beir_qrels(text(name), name).grades.items():
            if relevant := {document: grade for document, grade in judged.items() if grade > 0}:
                grades.setdefault(query_id, {}).update(relevant)
                split_of[query_id] = {"validation": "dev"}.get(split, split)
    # The most relevant documents come first.
    gold = {query: tuple(sorted(grade_of, key=lambda name: -grade_of[name])) for query, grade_of in grades.items()}
    queries = []
    for query in corpus.queries:
        # A query without gold documents is in no file of the qrels.
        split = split_of.get(query.query_id) or query.split
        queries.append(Query(query.query_id, query.text, query.references, gold.get(query.query_id, ()), split))
    return check_collection(called, documents, queries)


def _read_texts(place: _Place, called: str) -> Collection:
    queries = []
    for where, row in _lines(place, "queries.jsonl"):
        fields = _object(row, where)
        references, gold = (_texts(fields, name, where, needed=False) for name in ("references", "gold"))
        query_id, text = (_field(str, fields, name, where) for name in ("query_id", "text"))
        split = fields.get("split", "")
        if not isinstance(split, str):
            raise ValueError(f"{where}: split: expected text")
        queries.append(Query(query_id, text, references, gold, split))
    licence = next((name for name in ("LICENSE", "LICENSE.txt", "ATTRIBUTION") if place.has(name)), None)
    attribution = " ".join(_decoded(place.read(licence), licence).split()) if licence else ""
    return check_collection(called, _text_files(place), queries, attribution)


def _text_names(place: _Place) -> list[str]:
    """Return the sorted names of the .txt files in `documents` or, if there are none, in the folder of the queries."""
    documents = next((f"{name}/" for name in ("documents", "Documents") if place.has(name)), "")
    return place.files(f"{documents}*.txt")


def _text_files(place: _Place) -> list[Document]:
    """Read the texts as documents, ordered by file name. LICENSE.txt is left out."""
    stems = {name: PurePath(name).stem for name in _text_names(place)}
    for name in stems:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{ascii(name)}: the name is not UTF-8; rename the file") from None
    return [Document(stem, _decoded(place.read(name), name)) for name, stem in stems.items() if stem != "LICENSE"]


_Form = tuple[Callable[[_Place], bool], Callable[[_Place, str], Collection]]
_FORMS: Sequence[_Form] = (
    (lambda place: place.has("queries.json"), _meetings),
    (lambda place: place.has("corpus.jsonl") and place.has("queries.jsonl"), _beir),
    (
        lambda place: (
            place.has("queries.jsonl")
            and any(place.has(f"{folder}{split}.jsonl") for folder in ("", "documents/") for split in SPLITS)
        ),
        _stories,
    ),
    (lambda place: place.has("queries.jsonl") and bool(_text_names(place)), _read_texts),
)


def _lines(place: _Place, name: str) -> Iterator[tuple[str, Any]]:
    return read_json_lines(place.read(name), PurePath(name).name)


def _decoded(content: bytes, where: str) -> str:
    try:
        # Remove the byte order mark and normalize line breaks to \n, so that the text is the same on every system.
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ValueError(f"{where}: is not UTF-8 text") from None


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object, found {json.dumps(value)[:40]}")
    return value


def _field(kind: type[_T], fields: Mapping[str, Any], name: str, where: str) -> _T:
    if not isinstance(value := fields.get(name), kind):
        expected = "text" if kind is str else "a list"
        raise ValueError(f"{where}: {name}: expected {expected}, found {json.dumps(value)[:40]}")
    return value


def _texts(fields: Mapping[str, Any], name: str, where: str, needed: bool = True) -> tuple[str, ...]:
    if not needed and fields.get(name) is None:
        return ()
    value: list[Any] = _field(list, fields, name, where)
    if not all(isinstance(text, str) for text in value):
        raise ValueError(f"{where}: {name}: expected a list of texts, found {json.dumps(value)[:40]}")
    return tuple(value)


def pipeline_run(collection: Collection, files: Sequence[str | Path], tag: str = "release") -> str:
    """Return the rankings in pipeline files as lines of a TREC run, for `retrievers: [{run: FILE}]`. A query is matched by
    its text or, as in the stories' sparse files, by its first reference. Raises SpecError, with file and entry, for a query
    or document that is not in the collection."""
    documents = {_bare(document.text): document.document_id for document in reversed(collection.documents)}
    queries = {_bare(query.text): query.query_id for query in reversed(collection.queries)}
    answers = {_bare(query.references[0]): query.query_id for query in reversed(collection.queries) if query.references}
    lines = []
    for file in files:
        for place, entry in enumerate(_entries(file)):
            where = f"{file}: entry {place}"
            answer = entry.get("Summary", entry.get("Summary_1", ""))
            query_id = queries.get(_bare(entry["Query"])) or answers.get(_bare(answer))
            if query_id is None:
                raise SpecError(f"{where}: the collection has no query with this text or first reference")
            parts = list(map(_bare, entry["Article"].split(SEPARATOR)))
            if len(parts) > 1 and not parts[-1] and "" not in documents:
                parts.pop()
            ids = [documents.get(part) for part in parts]
            if None in ids:
                what = f"{where}: document {ids.index(None) + 1} of its article is not in the collection"
                raise SpecError(f"{what}; give the collection that the file was made from")
            lines.append(run_lines(query_id, list(dict.fromkeys(name for name in ids if name)), tag))
    return "".join(lines)


def _entries(file: str | Path) -> list[dict[str, str]]:
    try:
        rows = json.loads(read_json(file))
    except (OSError, ValueError) as error:
        raise SpecError(f"{file}: cannot be read: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SpecError(f"{file}: expected a list of objects with Query and Article")
    for place, row in enumerate(rows):
        for name in ("Query", "Article"):
            if not isinstance(row.get(name), str):
                raise SpecError(f"{file}: entry {place}: {name}: expected text")
    return rows


def _bare(text: str) -> str:
    return _LOST.sub("", text)
