"""Runs in a store: immutable parts, one create-only commit record for each set of finished units, readers that follow commits.

Part of the store room. Layout under the store:
`format.json` · `objects/<kind>/<sha256>` (haystack sources, prompts) · `log/` (response log) ·
`runs/<run>/run.json` · `runs/<run>/parts/<sha256>.<table>.parquet` · `runs/<run>/commits/<generation>-<stage>-<hash>.json`.

A commit names the units (cells, rankings, haystacks) that it finishes. Where several commits finish one unit (two drivers,
or a failed cell tried again by a later run) a success counts before a failure, then the
highest generation, then the first name: the same for every reader.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.store import tables
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import LocalFiles, open_files

FORMAT = 1
_HASH = 32
_COMMIT = re.compile(rf"(?P<generation>\d+)-(?P<stage>.+)-(?P<hash>[0-9a-f]{{{_HASH}}})\.json")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit record: what it finishes and where the rows are."""

    name: str
    generation: int
    stage: str
    units: tuple[str, ...]
    retry: tuple[str, ...]
    """Units whose failure a later run may try again."""
    parts: Mapping[str, str]


class Store:
    """A store: sources, response log and runs. Opening creates nothing; the first write does."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files: LocalFiles = open_files(uri)
        if self.files.exists("format.json"):
            found = _object(self.files, "format.json").get("format")
            if not isinstance(found, int):
                raise StoreError(f"store {uri!r}: format.json names no format; is this folder a store?")
            if found > FORMAT:
                raise StoreError(f"store {uri!r}: format {found} is newer than this version reads ({FORMAT}); upgrade")

    def put_object(self, kind: str, content: bytes) -> str:
        """Keep `content` under its sha256 (hex), which is returned."""
        self.files.create("format.json", json.dumps({"format": FORMAT}).encode())
        digest = hashlib.sha256(content).hexdigest()
        self.files.create(f"objects/{kind}/{digest}", content)
        return digest

    def get_object(self, kind: str, digest: str) -> bytes:
        """The object, checked against its name. Raises StoreError where it is absent or damaged."""
        try:
            content = self.files.read(f"objects/{kind}/{digest}")
        except FileNotFoundError:
            raise StoreError(f"store {self.uri!r}: has no {kind} {digest}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            where = f"objects/{kind}/{digest}"
            raise StoreError(f"store {self.uri!r}: {where} is damaged; delete it, and import or run its source again")
        return content

    def run_ids(self) -> list[str]:
        """All runs of the store, sorted."""
        folder = self.files.path("runs")
        return sorted(p.name for p in folder.iterdir() if (p / "run.json").exists()) if folder.is_dir() else []

    def run(self, run_id: str) -> RunStore:
        """A run that exists. Raises StoreError naming the runs there are."""
        if not run_id or "/" in run_id or not self.files.exists(f"runs/{run_id}/run.json"):
            known = ", ".join(self.run_ids()) or "none"
            raise StoreError(f"store {self.uri!r} has no run {run_id!r}; it has: {known}")
        return RunStore(self, run_id)

    def create_run(self, run_id: str, record: Mapping[str, Any]) -> RunStore:
        """The run, created where it does not exist; its record is what the first creator wrote."""
        self.files.create("format.json", json.dumps({"format": FORMAT}).encode())
        self.files.create(f"runs/{run_id}/run.json", json.dumps(record, sort_keys=True, indent=1).encode())
        return RunStore(self, run_id)


class RunStore:
    """One run's record, commits and tables."""

    def __init__(self, store: Store, run_id: str) -> None:
        self.store = store
        self.run_id = run_id
        self._folder = f"runs/{run_id}"

    @property
    def record(self) -> dict[str, Any]:
        """What `create_run` wrote."""
        return _object(self.store.files, f"{self._folder}/run.json")

    def commit(self, stage: str, generation: int, rows: Mapping[str, Sequence[Any]], units: Mapping[str, bool]) -> None:
        """Write the rows (records by table) as parts, then the commit record that makes them count.

        `units`: unit -> whether a later run may try it again. Writing the same units again is harmless.
        """
        parts = {}
        for table, records in sorted(rows.items()):
            if records:
                content = tables.to_parquet(table, records)
                name = f"{self._folder}/parts/{hashlib.sha256(content).hexdigest()}.{table}.parquet"
                self.store.files.create(name, content)
                parts[table] = name
        body = {
            "generation": generation,
            "stage": stage,
            "units": sorted(units),
            "retry": sorted(unit for unit, again in units.items() if again),
            "parts": parts,
        }
        content = json.dumps(body, sort_keys=True).encode()
        name = f"{generation:06d}-{stage}-{hashlib.sha256(content).hexdigest()[:_HASH]}"
        self.store.files.create(f"{self._folder}/commits/{name}.json", content)

    def commits(self, stage: str = "") -> Iterator[Commit]:
        """Commit records, highest generation first, then by name; of one stage where given."""
        found = []
        for name in self.store.files.names(f"{self._folder}/commits", ".json"):
            match = _COMMIT.fullmatch(name.rsplit("/", 1)[1])
            if match and stage in ("", match["stage"]):
                found.append((-int(match["generation"]), name, match["hash"]))
        for _, name, known in sorted(found):
            content = self.store.files.read(name)
            if hashlib.sha256(content).hexdigest()[:_HASH] != known:
                raise StoreError(f"run {self.run_id}: {name} is damaged; delete it and run again: no answer is paid twice")
            body = json.loads(content)
            yield Commit(name, body["generation"], body["stage"], tuple(body["units"]), tuple(body["retry"]), body["parts"])

    def finished(self, stage: str) -> dict[str, bool]:
        """Unit -> whether its failure may be tried again, for every committed unit of a stage."""
        found: dict[str, bool] = {}
        for commit in self.commits(stage):
            again = set(commit.retry)
            for unit in commit.units:
                found[unit] = found.get(unit, True) and unit in again
        return found

    def _winners(self, commits: list[Commit]) -> dict[tuple[str, str], str]:
        """(stage, unit) -> the commit whose rows count: one that needs no other try, else the latest, else the first name."""
        found: dict[tuple[str, str], str] = {}
        for final in (True, False):
            for commit in commits:
                again = set(commit.retry)
                for unit in commit.units:
                    if (unit in again) != final:
                        found.setdefault((commit.stage, unit), commit.name)
        return found

    def next_generation(self) -> int:
        """One more than the highest committed generation."""
        return 1 + max((commit.generation for commit in self.commits()), default=0)

    def table(self, table: str) -> pl.DataFrame:
        """All committed rows of a table, each once, sorted by primary key."""
        keyed = "cell_id" in tables.schema_of(table).names
        commits = list(self.commits())
        winners = self._winners(commits)
        found = []
        for commit in commits:
            live = [unit for unit in commit.units if winners[commit.stage, unit] == commit.name]
            if table in commit.parts and live:
                cells = live if keyed and len(live) < len(commit.units) else None
                found.append(tables.read_part(table, self._part(commit, table), cells))
        return tables.to_frame(table, found)

    def _part(self, commit: Commit, table: str) -> bytes:
        name = commit.parts[table]
        with contextlib.suppress(FileNotFoundError):
            content = self.store.files.read(name)
            if hashlib.sha256(content).hexdigest() == name.rsplit("/", 1)[1].split(".")[0]:
                return content
        raise StoreError(
            f"run {self.run_id}: {name} is absent or damaged; delete it and {commit.name}, and run again: no answer is paid twice"
        )

    def digests(self) -> dict[str, dict[str, Any]]:
        """Table -> its number of rows and the hash of its sorted rows."""
        frames = {table: self.table(table) for table in tables.TABLES}
        return {table: {"rows": frame.height, "sha256": tables.digest(frame)} for table, frame in frames.items()}


def _object(files: LocalFiles, name: str) -> dict[str, Any]:
    try:
        content = json.loads(files.read(name))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{files.path(name)} is damaged: expected a JSON object; put back a copy of it, or use another store")
    return content
