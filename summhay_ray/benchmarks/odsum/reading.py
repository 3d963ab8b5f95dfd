"""Reads a folder as a collection: the release's raw meetings or stories, BEIR, or text files with a file of queries.

| files in the folder | format |
|---|---|
| `queries.json` and `documents/*.txt` | the release's raw meetings |
| `queries.jsonl` and, beside it or in `documents/`, any of `train.jsonl`, `dev.jsonl`, `test.jsonl` | the release's raw stories |
| `corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv` | BEIR |
| `queries.jsonl` and `documents/*.txt`, or `*.txt` beside it | your own texts |

The files may also be in a subfolder `raw`, as in the release. In BEIR folders and your own, a line of queries.jsonl may have
`references`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.odsum.collection import Collection, Document, Query, checked
from summhay_ray.benchmarks.odsum.splits import meeting_splits
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.retrieve import titled

SPLITS = ("train", "test", "dev")
"""In the order in which the release lists documents and queries."""
MEETINGS = (
    "ODSum-meeting (Zhou et al., 2023; MIT licence), made of QMSum (Zhong et al., 2021), whose transcripts are those of AMI, "
    "ICSI and committees; their own terms hold for the texts."
)
STORIES = (
    "ODSum-story (Zhou et al., 2023; MIT licence), made of SQuALITY (Wang et al., 2022); the stories are Project Gutenberg's, in "
    "the public domain in the United States."
)


def read_collection(folder: Path, called: str) -> Collection:
    """The collection in a folder. `called` is the folder as the spec names it. Raises SpecError, naming the file."""
    for place in (folder, folder / "raw"):
        for fits, read in _FORMS:
            if fits(place):
                try:
                    return read(place, called)
                except OSError as error:
                    raise SpecError(f"corpus: {error.filename}: cannot be read ({error.strerror})") from error
                except (ValueError, UserError) as error:
                    raise SpecError(f"corpus: {called}: {error}") from error
    if not folder.is_dir():
        raise SpecError(f"corpus: no folder {called!r}; relative paths start at the spec's folder")
    raise SpecError(
        f"corpus: {called!r} has no known format; expected queries.json and documents/*.txt (meetings), queries.jsonl "
        "and documents/train.jsonl (stories), corpus.jsonl and queries.jsonl (BEIR), or queries.jsonl and documents/*.txt"
    )


def _meetings(folder: Path, called: str) -> Collection:
    file = folder / "queries.json"
    by_id = _json(read_file(file), "queries.json")
    if not isinstance(by_id, dict):
        raise ValueError("queries.json: expected an object of query id to query, answer, meetings_list")
    split_of = meeting_splits(list(by_id))
    queries = []
    for query_id, value in by_id.items():
        where = f"queries.json: query {query_id!r}"
        fields = _object(value, where)
        text, answer = (_text(fields, name, where) for name in ("query", "answer"))
        queries.append(Query(query_id, text, (answer,), _texts(fields, "meetings_list", where), split_of[query_id]))
    return checked(called, _text_files(_texts_folder(folder)), queries, MEETINGS)


def _stories(folder: Path, called: str) -> Collection:
    place = folder / "documents" if (folder / "documents").is_dir() else folder
    documents, passages, split_of = [], {}, {}
    for split in SPLITS:
        file = place / f"{split}.jsonl"
        for where, row in _lines(file) if file.exists() else ():
            story = _object(row, where)
            passage = str(_object(story.get("metadata"), f"{where}: metadata").get("passage_id", ""))
            parts = _texts(story, "divided_document", where)
            title = _text(story, "title", where)
            if title in passages:
                raise ValueError(
                    f"{where}: title: {title!r} repeats an earlier story's; titles join queries to stories and must be unique"
                )
            names = tuple(f"{split}/{passage}#{index}" for index in range(len(parts)))
            passages[title], split_of[title] = (passage, names), split
            documents += [Document(name, text, split) for name, text in zip(names, parts, strict=True)]
    queries = []
    for where, row in _lines(folder / "queries.jsonl"):
        if not isinstance(row, list):
            raise ValueError(f"{where}: expected a list of a story's queries")
        for number, value in enumerate(row, start=1):
            fields = _object(value, where)
            title = _text(fields, "title", where)
            if title not in passages:
                raise ValueError(f"{where}: title: no story is called {title!r}")
            passage, names = passages[title]
            responses = [_text(_object(each, where), "response_text", where) for each in _list(fields, "responses", where)]
            query_id = f"{passage}-{fields.get('question_number', number)}"
            queries.append(Query(query_id, _text(fields, "question_text", where), tuple(responses), names, split_of[title]))
    return checked(called, documents, queries, STORIES)


def _beir(folder: Path, called: str) -> Collection:
    documents = []
    for where, row in _lines(folder / "corpus.jsonl"):
        fields = _object(row, where)
        title, text = str(fields.get("title") or ""), _text(fields, "text", where)
        documents.append(Document(_text(fields, "_id", where), titled(title, text), title=title))
    gold, split_of = _qrels(folder / "qrels")
    queries = []
    for where, row in _lines(folder / "queries.jsonl"):
        fields = _object(row, where)
        query_id = _text(fields, "_id", where)
        metadata = fields.get("metadata")
        more = {**(metadata if isinstance(metadata, dict) else {}), **fields}
        references = _texts(more, "references", where, needed=False)
        # A query without gold documents is in no file of the qrels.
        split = split_of.get(query_id) or str(more.get("split") or "")
        queries.append(Query(query_id, _text(fields, "text", where), references, gold.get(query_id, ()), split))
    return checked(called, documents, queries)


def _qrels(folder: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """(query id -> ids of its relevant documents, most relevant first; query id -> its split)."""
    grades: dict[str, dict[str, int]] = {}
    split_of: dict[str, str] = {}
    for file in sorted(folder.glob("*.tsv")):
        for number, line in enumerate(_decoded(read_file(file), f"qrels/{file.name}").splitlines(), start=1):
            columns = line.split("\t")
            if not line.strip() or (number == 1 and not columns[-1].strip().isdigit()):
                continue
            if len(columns) != 3 or not columns[2].strip().lstrip("-").isdigit():
                raise ValueError(f"qrels/{file.name}:{number}: expected query-id, corpus-id and score, with tabs between")
            if int(columns[2]) > 0:
                grades.setdefault(columns[0], {})[columns[1]] = int(columns[2])
                split_of[columns[0]] = {"validation": "dev"}.get(file.stem, file.stem)
    return {query: tuple(sorted(grade_of, key=lambda name: -grade_of[name])) for query, grade_of in grades.items()}, split_of


def _own(folder: Path, called: str) -> Collection:
    queries = []
    for where, row in _lines(folder / "queries.jsonl"):
        fields = _object(row, where)
        references, gold = (_texts(fields, name, where, needed=False) for name in ("references", "gold"))
        query_id, text = (_text(fields, name, where) for name in ("query_id", "text"))
        split = fields.get("split", "")
        if not isinstance(split, str):
            raise ValueError(f"{where}: split: expected text")
        queries.append(Query(query_id, text, references, gold, split))
    licence = next(
        (file for file in (folder / "LICENSE", folder / "LICENSE.txt", folder / "ATTRIBUTION") if file.is_file()), None
    )
    attribution = " ".join(_decoded(read_file(licence), licence.name).split()) if licence else ""
    return checked(called, _text_files(_texts_folder(folder)), queries, attribution)


def _texts_folder(folder: Path) -> Path:
    return next((place for place in (folder / "documents", folder / "Documents") if place.is_dir()), folder)


def _text_files(folder: Path) -> list[Document]:
    """The folder's .txt files as documents, ordered by file name; LICENSE.txt is left out."""
    files = sorted(folder.glob("*.txt"), key=lambda file: file.name)
    return [
        Document(file.stem, _decoded(read_file(file), f"{folder.name}/{file.name}")) for file in files if file.stem != "LICENSE"
    ]


_Form = tuple[Callable[[Path], bool], Callable[[Path, str], Collection]]
_FORMS: Sequence[_Form] = (
    (lambda folder: (folder / "queries.json").is_file(), _meetings),
    (lambda folder: (folder / "corpus.jsonl").is_file() and (folder / "queries.jsonl").is_file(), _beir),
    (
        lambda folder: (
            (folder / "queries.jsonl").is_file()
            and any((place / f"{split}.jsonl").is_file() for place in (folder, folder / "documents") for split in SPLITS)
        ),
        _stories,
    ),
    (lambda folder: (folder / "queries.jsonl").is_file() and any(_texts_folder(folder).glob("*.txt")), _own),
)


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    """(file:line, parsed JSON) for each line that is not blank."""
    for number, line in enumerate(read_file(file).split(b"\n"), start=1):
        if line.strip():
            where = f"{file.name}:{number}"
            yield where, _json(line, where)


def _json(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({' '.join(str(error).split())[:80]})") from None


def _decoded(content: bytes, where: str) -> str:
    try:
        # The same text on every system: no byte order mark, and \n as the only line break.
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise ValueError(f"{where}: is not UTF-8 text") from None


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object, found {json.dumps(value)[:40]}")
    return value


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    if not isinstance(value := fields.get(name), str):
        raise ValueError(f"{where}: {name}: expected text, found {json.dumps(value)[:40]}")
    return value


def _list(fields: Mapping[str, Any], name: str, where: str) -> list[Any]:
    if not isinstance(value := fields.get(name), list):
        raise ValueError(f"{where}: {name}: expected a list, found {json.dumps(value)[:40]}")
    return value


def _texts(fields: Mapping[str, Any], name: str, where: str, needed: bool = True) -> tuple[str, ...]:
    if not needed and fields.get(name) is None:
        return ()
    value = _list(fields, name, where)
    if not all(isinstance(text, str) for text in value):
        raise ValueError(f"{where}: {name}: expected a list of texts, found {json.dumps(value)[:40]}")
    return tuple(value)
