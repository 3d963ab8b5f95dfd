"""Brings the answers of a store of format 2 into this version's log. Part of the store room; nothing else reads the old format.

The old log was `log/WRITER.jsonl` in a folder. In a bucket it was segments (`log/WRITER/N.jsonl`), packs of them
(`log/packs/SHA256.jsonl`), and on each machine what was not uploaded yet (`$SUMMHAY_SPOOL/HASH/WRITER.TOKEN/N.jsonl`). A record
is a line: CRC-32 in hex, length in bytes, JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from summhay_ray.store.errors import OldStore, StoreError
from summhay_ray.store.files.files import Files, LocalFiles, open_files
from summhay_ray.store.log.log_index import LONGEST_BYTES, PIECE_BYTES, LogIndex
from summhay_ray.store.log.log_lines import ANSWER
from summhay_ray.store.log.log_writer import LogWriter
from summhay_ray.store.runs.chain import Chain
from summhay_ray.store.runs.drivers import begin_session, living, open_sessions
from summhay_ray.store.runs.runs import FORMAT, Store

OLD_RECORD = "run.old.json"
"""The record of a run of the old format. Without a `run.json`, it is no run: nothing reads its tables."""

_BATCH_BYTES = 1 << 20
_HEAD = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) ")


def migrate(uri: str) -> Counter[str] | None:
    """Write every answer of the old log into the new one, once; then mark the store as of the present format.

    Returns the numbers of answers that were `written`, that were `known` already, and of `damaged` records; None if there is
    nothing to migrate. Killed in the middle, it can be run again. Raises StoreError, also while a driver is at work; OSError.
    """
    files = open_files(uri)
    spool, old_runs = _spool_of(files), list[str]()
    try:
        if Store(uri).is_new:
            raise StoreError(f"there is no store at {files.uri}")
        # Another machine may have migrated it: what lies on the disk of this one is brought as well.
        if not spool.is_dir():
            return None
    except OldStore:
        old_runs = list(files.folders("runs"))
    records = {record.number: record for record in open_sessions(files)}
    for number in living(files, records):
        raise StoreError(f"store {files.uri}: a run is at work in it ({records[number].where}); stop it, then migrate")
    # From here on, drivers of earlier versions refuse to begin: they cannot read this session's record.
    session = begin_session(files, "migrate", paying=True)
    try:
        writer, counts = LogWriter(files, session.number), Counter[str](written=0, known=0, damaged=0)
        index = LogIndex(files)
        index.refresh()
        seen, size, batch = set(index.answers), 0, list[dict[str, Any]]()
        for record in _records(files, spool):
            what = "damaged" if not record else "known" if record["key"] in seen else "written"
            counts[what] += 1
            if what == "written":
                seen.add(record["key"])
                batch.append({"stage": "", **record})
                size += len(str(record.get("text")))
            if size > _BATCH_BYTES:
                writer.append(batch)
                session.beat()
                batch, size = [], 0
        if batch:
            writer.append(batch)
        writer.close()
        for run in old_runs:
            with contextlib.suppress(FileNotFoundError):
                files.create(f"runs/{run}/{OLD_RECORD}", files.read(f"runs/{run}/run.json"))
                files.delete(f"runs/{run}/run.json")
        files.put("format.json", json.dumps({"format": FORMAT}).encode())
        shutil.rmtree(spool, ignore_errors=True)
    finally:
        session.end("done")
    return counts


def _records(files: Files, spool: Path) -> Iterator[dict[str, Any]]:
    """The answers of the old log, an empty record for a damaged one; the packs first, which hold what is oldest."""
    newest = Chain(files, "log/packs", "put it back from a copy, or delete the records of this folder").newest()
    packs = [pack["data"] for pack in newest[1]["packs"]] if newest else []
    folders = ["log", *(f"log/{name}" for name in files.folders("log"))]
    old = [(files, name) for name in dict.fromkeys([*packs, *(name for at in folders for name in files.names(at, ".jsonl"))])]
    here = LocalFiles(spool)
    old += [(here, name) for folder in here.folders("") for name in here.names(folder, ".jsonl")]
    for place, name in old:
        yield from (record for record in _records_of(place, name) if record.get("kind", ANSWER) == ANSWER)


def _records_of(files: Files, name: str) -> Iterator[dict[str, Any]]:
    """The records of a file. An unfinished last line is left out: its writer was killed."""
    offset, rest = 0, b""
    try:
        while piece := files.read_range(name, offset, PIECE_BYTES):
            offset += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                # Where a line break is damaged, a line holds several records.
                while line:
                    head = _HEAD.match(line)
                    body = line[head.end() : head.end() + int(head[2])] if head else b""
                    whole = head is not None and len(body) == int(head[2]) and b"%08x" % zlib.crc32(body) == head[1]
                    yield json.loads(body) if whole else {}
                    line = line[head.end() + len(body) + 1 :] if head and whole else b""
            if len(rest) > LONGEST_BYTES:
                yield {}
                return
    except FileNotFoundError:
        yield {}


def _spool_of(files: Files) -> Path:
    """Where this machine kept answers on their way to the bucket."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser(), "summhay/spool")
    place = files.uri.split("?")[0] + "".join(re.findall(r"[?&]endpoint_url=[^&]*", files.uri))
    return Path(os.environ.get("SUMMHAY_SPOOL") or home, hashlib.sha256(place.encode()).hexdigest()[:16])
