"""ETHIC's records: load them from files, our sample, an `ethic_build` run or the hub, and check them.

A file holds JSON lines, a zip of them, or Parquet. The fields are those of the hub (dmis-lab/ETHIC): ID, Domain, Context,
System_msg, User_msg, Answer. Your own records may add `task` (otherwise the file's name gives it), `Document` (the same value
for all records of a document) and `Meta` (how the record was built).
"""

import io
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import polars as pl

from summhay_ray.benchmark import Inputs
from summhay_ray.benchmarks.ethic.prompts import FRAME
from summhay_ray.benchmarks.ethic.release_metrics import DOMAINS
from summhay_ray.benchmarks.ethic.spec import EthicSpec, HubSpec
from summhay_ray.benchmarks.ethic.tables import MADE
from summhay_ray.benchmarks.hub_files import hub_path
from summhay_ray.errors import SpecError, UserError
from summhay_ray.inputs import read_file
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
SAMPLE = "sample/"
RUN = "run/"
_FIELDS = ("ID", "Domain", "Context", "System_msg", "User_msg", "Answer", "task", "Document", "Meta")
_TEXTS = ("ID", "Domain", "Context", "User_msg")
_NUMBER = re.compile(r"\d")
_HIDDEN = re.compile(r"(?:\A|/)(?:\.(?!/)|__MACOSX)")
_MOST_FLAWS = 5
_MOST_BYTES = 2**30
"""Limit for the total size of the unpacked files of a zip."""


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
    """The labels. For Organizing, one string with the order; for Summarizing, empty."""
    document: str
    """The source document, which is the cluster of the intervals."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The prompt without its context."""
        before, _, after = self.user.partition(self.context)
        return (before.replace(FRAME, "", 1) + after).strip()

    def context_first(self) -> str:
        """Return the prompt with the context moved to the front: all records of a document then share this prefix."""
        before, _, after = self.user.partition(self.context)
        instruction = before.removesuffix(FRAME).strip()
        return "\n\n".join(filter(None, (FRAME + self.context, instruction))) + after


def load_records(spec: EthicSpec, inputs: Inputs) -> list[Record]:
    """Load the records that the spec selects, sorted by domain and document. Raises SpecError."""
    records: list[Record] = []
    for entry in spec.data:
        if isinstance(entry, HubSpec):
            names = [f"{entry.hub}@{entry.revision}/{task.lower()}.zip" for task in entry.tasks]
        else:
            names = [entry]
        for name in names:
            if not inputs.settled and name not in inputs.digests:
                _fetch(entry, name, inputs)
            records += read_records(inputs.read(name), name)
    if spec.released_counts and (differ := check_counts(records)):
        raise SpecError(f"spec: data: {'; '.join(differ)}; give all files of a task, or released_counts: false")
    wanted = [
        record
        for record in records
        if (record.task in spec.tasks or not spec.tasks) and (record.domain in spec.domains or not spec.domains)
    ]
    if not wanted:
        there = ", ".join(sorted({f"{record.task}/{record.domain}" for record in records}))
        raise SpecError(f"spec: tasks, domains: no record has these; the data has {there}")
    keys = [(record.task, record.domain, record.id) for record in wanted]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise SpecError(f"spec: data: ID {twice[2]!r} of {twice[0]}, {twice[1]} is in two files; list only one of them")
    return sorted(wanted, key=lambda record: (record.domain, record.document))


def _fetch(entry: str | HubSpec, name: str, inputs: Inputs) -> None:
    """Add records from outside the spec's folder to the inputs: a file of the hub, our sample, or the records of a run."""
    if isinstance(entry, HubSpec):
        try:
            content = read_file(hub_path(entry.hub, name.rpartition("/")[2], entry.revision))
        except UserError as error:
            raise SpecError(f"spec: data: {error}") from error
        inputs.give(name, content)
    elif entry.startswith(SAMPLE):
        folder = resources.files("summhay_ray.benchmarks.ethic").joinpath("sample")
        known = sorted(f"{SAMPLE}{file.name.removesuffix('.jsonl')}" for file in folder.iterdir() if file.name.endswith(".jsonl"))
        sample = entry.removeprefix(SAMPLE)
        if entry not in known:
            raise SpecError(f"spec: data: no sample is named {sample!r}; there is {', '.join(known)}")
        inputs.give(name, folder.joinpath(f"{sample}.jsonl").read_bytes())
    elif entry.startswith(RUN):
        if inputs.store is None:
            raise SpecError(f"spec: data: {entry} is in a store; give the store")
        run = inputs.store.run(run_id := entry.removeprefix(RUN))
        if MADE.name not in run.declared:
            raise SpecError(f"spec: data: {run_id} is of kind {run.record.get('kind')}; give a run of kind ethic_build")
        inputs.give(name, jsonl(run.table(MADE.name).to_dicts()))


def read_records(content: bytes, name: str) -> list[Record]:
    """Read the records of a JSON lines, zip or Parquet file. Raises SpecError, with a message of one line that lists up to
    five flaws."""
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
    """Return one line for each record count that differs from the release. Checks only the tasks that the records have."""
    counts = Counter((record.task, record.domain) for record in records)
    tasks = {task for task, _ in counts}
    wanted = {(task, domain): n for task, domains in COUNTS.items() for domain, n in domains.items() if task in tasks}
    return [
        f"{task}, {domain}: {counts[task, domain]} records; the release has {wanted.get((task, domain), 0)}"
        for task, domain in sorted({*wanted, *counts})
        if counts[task, domain] != wanted.get((task, domain), 0)
    ]


def _rows(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (location, row) for each row of a file. The location names the file, the file inside a zip, and the line."""
    if content[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as packed:
                files = [file for file in packed.infolist() if file.filename.endswith(".jsonl")]
                files = [file for file in files if not _HIDDEN.search(file.filename)]
                if not files:
                    raise SpecError(f"{name}: the zip holds no .jsonl file")
                if sum(file.file_size for file in files) > _MOST_BYTES:
                    raise SpecError(f"{name}: the zip's files are larger than 1 GiB together; give them apart")
                for file in files:
                    yield from _lines(packed.read(file), f"{name}/{file.filename}")
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise SpecError(f"{name}: the zip cannot be read ({error}); fetch it again") from error
    elif content[:4] == b"PAR1":
        try:
            frame = pl.read_parquet(content)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise SpecError(f"{name}: the Parquet file cannot be read ({' '.join(str(error).split())[:100]})") from error
        for number, row in enumerate(frame.iter_rows(named=True), start=1):
            yield f"{name}:{number}", row
    else:
        yield from _lines(content, name)


def _lines(content: bytes, name: str) -> Iterator[tuple[str, Any]]:
    try:
        # Not splitlines(): a context may contain U+2028, which does not end a JSON line.
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
    """Return the record, or a message that says what is wrong with the row."""
    if not isinstance(row, Mapping):
        return "is no JSON object"
    for name in _TEXTS:
        if not isinstance(row.get(name), str) or not row[name]:
            return f"field {name}: expected a text that is not empty"
    # Without the field, the file's name gives the task: test_recalling.jsonl, recalling.zip.
    task = row.get("task") or next((task for task in TASKS if task.lower() in where.lower()), "")
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


def jsonl(rows: Iterable[dict[str, Any]]) -> bytes:
    """Return rows of the table `ethic_records` as JSON lines in the release's format."""
    lines = []
    for row in rows:
        answer: Any = row["answer"][0] if row["task"] == "Organizing" else list(row["answer"])
        values = (row["record"], row["domain"], row["context"], row["system"], row["user"], answer, row["task"], row["document"])
        lines.append(json.dumps(dict(zip(_FIELDS, (*values, json.loads(row["meta"])), strict=True)), ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8")
