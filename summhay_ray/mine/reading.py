"""Reads the documents of a folder. Nothing is skipped silently: unreadable files are reported.

Text, Markdown and HTML are read directly. In JSONL, which includes BEIR corpora, each line is a document (`id`, `text`, `title`);
in CSV, each row. PDF and office files are converted (extra `documents`).
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.mine.converting import CONVERTED, Converter, NotConverted
from summhay_ray.text import chunks, page_text

LARGEST = 20_000_000
"""Maximum number of characters of a document that is not cut into parts."""
LARGEST_FOLDER = 100_000_000
"""Maximum number of characters of a document that is cut into parts, and of all mined documents together. They take about 2 GB of
memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """A document's text and id. The id is the path in the folder, with `#ID` for a row or a part of a file."""

    document_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or row that cannot be read: its path or id, the class of the error, and a message with the remedy."""

    document_id: str
    error: str
    message: str


def read_folder(folder: Path, part_tokens: int | None = None) -> tuple[list[Source], list[Unread]]:
    """Read all documents below a folder, ordered by path. `part_tokens`: maximum cl100k tokens of a part; None: documents are not
    cut.

    Hidden files (`.name`) are skipped. Raises OSError if the folder itself cannot be read, and UserError if a converter limit in
    the environment is not a number.
    """
    sources: list[Source] = []
    unread: list[Unread] = []
    seen: set[str] = set()
    beir = (folder / "corpus.jsonl").is_file()
    with Converter() as converter:
        for path in _files(folder):
            name = path.relative_to(folder).as_posix()
            if beir and (name == "queries.jsonl" or name.startswith("qrels/")):
                continue
            for one in _read(path, name, folder, converter, bare=beir and name == "corpus.jsonl"):
                found = one if isinstance(one, Unread) else _flaw(one, seen, part_tokens)
                if isinstance(found, Unread):
                    unread.append(found)
                elif isinstance(one, Source):
                    seen.add(one.document_id)
                    sources += _parts(one, part_tokens)
    return sources, unread


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place) / name for name in sorted(files) if not name.startswith("."))


def _flaw(source: Source, seen: set[str], part_tokens: int | None) -> Unread | None:
    """Return why a document cannot be used, or None if it can."""
    if not source.text.strip():
        return Unread(source.document_id, "empty", "has no text; nothing can be found in it")
    if source.document_id in seen:
        return Unread(source.document_id, "same_id", "another document has this id; give each its own")
    if part_tokens is None and len(source.text) > LARGEST:
        why = f"has {len(source.text) / 1e6:.0f} million characters, more than {LARGEST // 10**6}"
        return Unread(source.document_id, "too_long", f"{why}; cut it into parts with part_tokens, such as part_tokens: 1000")
    if len(source.text) > LARGEST_FOLDER:
        why = f"has {len(source.text) / 1e6:.0f} million characters, more than {LARGEST_FOLDER // 10**6}"
        return Unread(source.document_id, "too_long", f"{why}; divide it, and mine its parts one by one")
    return None


def _parts(source: Source, part_tokens: int | None) -> list[Source]:
    spans = chunks(source.text, part_tokens) if part_tokens else []
    if len(spans) < 2:
        return [source]
    return [
        Source(f"{source.document_id}#{number}", source.text[begin:end]) for number, (begin, end) in enumerate(spans, start=1)
    ]


def _read(path: Path, name: str, folder: Path, converter: Converter, bare: bool) -> Iterator[Source | Unread]:
    """Yield the documents of one file, and its unreadable parts. `bare`: the ids of rows are used without the file's name."""
    # resolve() must not be used, since it raises an error for a link to itself.
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        yield Unread(name, "outside", "is a link that leads out of the folder; copy the file into it")
        return
    kind = path.suffix.lower()
    try:
        content = read_file(path)
    except OSError as error:
        yield Unread(name, "unreadable", f"cannot be read ({error.strerror}); mend its rights, or remove it")
        return
    except UserError as error:
        if error.exit_code != UserError.exit_code:
            # SIGTERM ends the command; it is not this file's error.
            raise
        yield Unread(name, "unreadable", f"is not read: {str(error).removeprefix(f'{path}: ')}")
        return
    if kind in CONVERTED:
        try:
            yield Source(name, converter.text(content, kind))
        except NotConverted as failure:
            yield Unread(name, failure.kind, f"{failure}")
        return
    if b"\0" in content and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield Unread(name, "binary", "is binary, not text; convert it to text, or remove it")
        return
    try:
        text = content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError as error:
        yield Unread(name, "encoding", f"is not UTF-8 text (byte {error.start}); save it as UTF-8")
        return
    if kind in (".jsonl", ".ndjson"):
        yield from _lines(text, name, bare)
    elif kind in (".csv", ".tsv"):
        yield from _table(text, name)
    elif kind in (".html", ".htm", ".xhtml"):
        yield Source(name, page_text(text))
    else:
        yield Source(name, text)


def _lines(text: str, name: str, bare: bool) -> Iterator[Source | Unread]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            yield Unread(f"{name}#{number}", "row", f"line {number} is no JSON object with a `text`; correct or remove it")
            continue
        yield _row(name, row, number, bare)


def read_table(text: str, column: str) -> csv.DictReader[str]:
    """Return the rows of a CSV text. The separator is the one that makes the first line contain the column: comma, semicolon
    (which spreadsheets write if the comma is the decimal sign) or tab."""
    csv.field_size_limit(2**31 - 1)
    for comma in ",;\t":
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=comma)
        if column in (reader.fieldnames or ()):
            return reader
    return csv.DictReader(io.StringIO(text, newline=""))


def _table(text: str, name: str) -> Iterator[Source | Unread]:
    reader = read_table(text, "text")
    if "text" not in (reader.fieldnames or ()):
        yield Unread(name, "columns", "has no column `text`; name its columns id, text and title in the first line")
        return
    try:
        for number, row in enumerate(reader, start=1):
            yield _row(name, {key: value for key, value in row.items() if isinstance(value, str)}, number, bare=False)
    except csv.Error as error:
        yield Unread(name, "row", f"is no CSV from line {reader.line_num} on ({error}); correct it")


def _row(name: str, row: dict[str, object], number: int, bare: bool) -> Source:
    """Return a row as a document. Its title, if any, is the first line."""
    given = row.get("_id", row.get("id"))
    own = str(given) if isinstance(given, str | int) and str(given) else str(number)
    title = str(row.get("title") or "").strip()
    return Source(own if bare else f"{name}#{own}", f"{title}\n{row.get('text', '')}" if title else str(row.get("text", "")))
