"""Read ETHIC's records from JSON lines, a zip of them or Parquet, and check their counts against the release.

Fields as on the hub (dmis-lab/ETHIC): ID, Domain, Context, System_msg, User_msg, Answer. Your own records may add `task` (else
it is taken from the file's name), `Document` (the same value for all records of a document) and `Meta` (how the record was
built)."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from summhay_ray.benchmarks.ethic.prompts import FRAME
from summhay_ray.benchmarks.ethic.release_metrics import DOMAINS
from summhay_ray.errors import SpecError
from summhay_ray.text import parsed_json

LOOKUP = "Lookup"
TASKS = (*DOMAINS, LOOKUP)
COUNTS = {
    "Recalling": {"Books": 100, "Debates": 229, "Medicine": 230, "Law": 103},
    "Summarizing": {"Books": 100, "Debates": 229, "Medicine": 230, "Law": 103},
    "Organizing": {"Books": 100, "Debates": 229},
    "Attributing": {"Medicine": 230, "Law": 103},
}
"""Task -> domain -> number of records in the release: 1,986 in all (paper, version 2; version 1 says 2,648)."""
HUB, REVISION = "dmis-lab/ETHIC", "34d9a5c6ffd9b06b1eca75d2e7a437bc96d628c4"
_TEXTS = ("ID", "Domain", "Context", "User_msg")
_NUMBER = re.compile(r"\d")
_MOST_FLAWS = 5
_MOST_BYTES = 2**30
"""Limit for the unpacked files of a zip together."""


@dataclass(frozen=True, slots=True)
class Record:
    """One question about one context."""

    task: str
    domain: str
    id: str
    context: str = field(repr=False)
    system: str = field(repr=False)
    user: str = field(repr=False)
    answer: tuple[str, ...]
    """The labels; for Organizing one string with the order; empty for Summarizing."""
    document: str
    """The source document: intervals are clustered by it."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gold(self) -> str:
        """The gold order of Organizing; empty for Summarizing."""
        return self.answer[0] if self.answer else ""

    @property
    def question(self) -> str:
        """The prompt without its context."""
        before, _, after = self.user.partition(self.context)
        return (before.replace(FRAME, "", 1) + after).strip()

    def context_first(self) -> str:
        """The prompt with the context moved to the front: all records of a document share this prefix."""
        before, _, after = self.user.partition(self.context)
        instruction = before.removesuffix(FRAME).strip()
        return "\n\n".join(filter(None, (FRAME + self.context, instruction))) + after


def read_records(content: bytes, name: str) -> list[Record]:
    """The records of a JSON lines, zip or Parquet file. Raises SpecError with up to five flaws and their lines, in one line."""
    records: list[Record] = []
    flaws: list[str] = []
    for where, row in _rows(content, name):
        record = _record(row, where)
        if isinstance(record, str):
            flaws.append(f"{where}: {record}")
        else:
            records.append(record)
    seen: dict[tuple[str, str, str], int] = Counter((record.task, record.domain, record.id) for record in records)
    flaws += [f"{name}: ID {key[2]!r} occurs {n} times in {key[0]}, {key[1]}" for key, n in seen.items() if n > 1]
    if not records and not flaws:
        flaws.append(f"{name}: holds no record")
    if flaws:
        more = f"; and {len(flaws) - _MOST_FLAWS} more" if len(flaws) > _MOST_FLAWS else ""
        raise SpecError("; ".join(flaws[:_MOST_FLAWS]) + more)
    return records


def check_counts(records: Iterable[Record]) -> list[str]:
    """One line for each count that differs from the release, for the records' tasks."""
    counts = Counter((record.task, record.domain) for record in records)
    tasks = {task for task, _ in counts}
    wanted = {(task, domain): n for task, domains in COUNTS.items() for domain, n in domains.items() if task in tasks}
    return [
        f"{task}, {domain}: {counts[task, domain]} records; the release has {wanted.get((task, domain), 0)}"
        for task, domain in sorted({*wanted, *counts})
        if counts[task, domain] != wanted.get((task, domain), 0)
    ]


def _rows(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """(location, row) of a file; the location names the file, the file inside a zip, and the line."""
    if content[:4] == b"PK\x03\x04":
        yield from _of_zip(content, name)
    elif content[:4] == b"PAR1":
        yield from _of_parquet(content, name)
    else:
        yield from _of_lines(content, name)


def _of_zip(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            files = [file for file in packed.infolist() if file.filename.endswith(".jsonl") and not _hidden(file.filename)]
            if not files:
                raise SpecError(f"{name}: the zip holds no .jsonl file")
            if sum(file.file_size for file in files) > _MOST_BYTES:
                raise SpecError(f"{name}: the zip's files are larger than 1 GiB together; give them apart")
            for file in files:
                yield from _of_lines(packed.read(file), f"{name}/{file.filename}")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SpecError(f"{name}: the zip cannot be read ({error}); fetch it again") from error


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in PurePath(path).parts)


def _of_parquet(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    import polars as pl

    try:
        frame = pl.read_parquet(content)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SpecError(f"{name}: the Parquet file cannot be read ({' '.join(str(error).split())[:100]})") from error
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        yield f"{name}:{number}", row


def _of_lines(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    try:
        # Not splitlines(): a context may contain U+2028, which does not end a line of JSON lines.
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise SpecError(f"{name}: is not UTF-8 text; expected JSON lines, a zip of them, or Parquet") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield f"{name}:{number}", parsed_json(line)
            except (ValueError, RecursionError):
                yield f"{name}:{number}", None


def _record(row: Any, where: str) -> Record | str:
    """The record, or a message that says what is wrong with the row."""
    if not isinstance(row, Mapping):
        return "is no JSON object"
    for name in _TEXTS:
        if not isinstance(row.get(name), str) or not row[name]:
            return f"field {name}: expected a text that is not empty"
    task = row.get("task") or _task_of(where)
    if task not in TASKS:
        return f"field task: found {task!r}; expected {', '.join(TASKS)}, in the field or in the file's name"
    context, user = row["Context"], row["User_msg"]
    if (n := user.count(context)) != 1:
        return f"field User_msg: holds the Context {n} times; expected once"
    answer = _answer(row.get("Answer"), task)
    if isinstance(answer, str):
        return answer
    system, document, meta = row.get("System_msg") or "", row.get("Document"), row.get("Meta")
    if not isinstance(system, str):
        return "field System_msg: expected a text"
    named = document if isinstance(document, str) and document else f"{row['Domain']}/{row['ID']}"
    return Record(task, row["Domain"], row["ID"], context, system, user, answer, named, meta if isinstance(meta, Mapping) else {})


def _task_of(where: str) -> str:
    """The task in a file's name, such as test_recalling.jsonl or recalling.zip; empty if there is none."""
    return next((task for task in TASKS if task.lower() in where.lower()), "")


def _answer(answer: Any, task: str) -> tuple[str, ...] | str:
    if task == "Summarizing":
        return ()
    if task == "Organizing":
        if isinstance(answer, str) and _NUMBER.search(answer):
            return (answer,)
        return "field Answer: expected a text with the numbers of the options in their order"
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence) or not all(isinstance(label, str) for label in answer):
        return "field Answer: expected a list of texts"
    unnumbered = (label for label in answer if task == "Attributing" and not _NUMBER.search(label) and label.casefold() != "none")
    if (label := next(unnumbered, None)) is not None:
        return f"field Answer: {label!r} holds no number of a case; expected numbers, or an empty list where there are none"
    return tuple(answer)
