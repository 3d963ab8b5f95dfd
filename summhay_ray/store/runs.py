"""A store and its runs: sources under their hash, and each run's tables as its newest manifest gives them.

Part of the store room. Layout under the store:
`format.json` · `objects/<kind>/<sha256>` (haystack sources, prompts) · `log/` (response log) ·
`runs/<run>/run.json` (what made the run, and what its tables are) · `runs/<run>/blocks/<sha256>.block` (rows) ·
`runs/<run>/commits/<number>.json` (which blocks count).

Where several blocks finish one unit (two drivers, or a failed cell tried again by a later run) a success counts before a
failure that may be tried again, then the last in the manifest's order: the same for every reader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from summhay_ray.store.blocks import Block, Finished, check_block, write_block
from summhay_ray.store.commits import Committer, Manifest, Manifests, add_blocks
from summhay_ray.store.errors import Damaged, StoreError, StoreUnavailable
from summhay_ray.store.files import Files, open_files
from summhay_ray.store.log_index import LogIndex
from summhay_ray.store.rows import digests_of, finished_of, frames_of, pieces_of, units_of
from summhay_ray.store.run_record import record_flaw
from summhay_ray.store.tables import Columns, Table, Tables, columns_of

FORMAT = 2
RUN_FORMAT = 3
"""How a run is written. It is part of what a run's id is made of, so that no run meets one that was written otherwise."""
MAX_RECORD = 64 * 2**20
"""Bytes of a record at most: a run of a hundred thousand haystacks has a third of it."""


class Store:
    """A store: sources, response log and runs. Opening creates nothing; the first write does."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.files: Files = open_files(uri)
        self._marked = False
        try:
            self._check(_object(self.files, "format.json").get("format"))
            self._marked = True
        except FileNotFoundError:
            return
        except StoreUnavailable as error:
            # Who never answered is no service that has gone for a while: the place is wrong, as far as anybody can tell.
            raise StoreError(str(error)) from None

    def _check(self, found: Any) -> None:
        if not isinstance(found, int):
            raise StoreError(f"store {self.uri!r}: format.json names no format; is this a store?")
        if found > FORMAT:
            raise StoreError(f"store {self.uri!r}: format {found} is newer than this version reads ({FORMAT}); upgrade")
        if found < FORMAT:
            raise StoreError(
                f"store {self.uri!r}: format {found} was written by an earlier version; "
                "copy its log folder into a new folder and run again with that as the store: no answer is paid twice"
            )

    def _mark(self) -> None:
        if not self._marked:
            self.files.create("format.json", json.dumps({"format": FORMAT}).encode())
            self._marked = True

    def put_object(self, kind: str, content: bytes) -> str:
        """Keep `content` under its sha256 (hex), which is returned."""
        self._mark()
        digest = hashlib.sha256(content).hexdigest()
        name = f"objects/{kind}/{digest}"
        if not self.files.exists(name):
            self.files.create(name, content)
        return digest

    def get_object(self, kind: str, digest: str) -> bytes:
        """The object, checked against its name. Raises StoreError where it is absent or damaged."""
        name = f"objects/{kind}/{digest}"
        try:
            content = self.files.read(name)
        except FileNotFoundError:
            mend = f"{self.files.where(name)} is gone; put it back from a copy, or import or run its source again"
            raise StoreError(f"store {self.uri!r}: has no {kind} {digest}: {mend}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"store {self.uri!r}: {name} is damaged; delete it, and import or run its source again")
        return content

    def run_ids(self) -> list[str]:
        """All runs of the store, sorted. For people: a bucket's listing may lack the latest."""
        return [name for name in self.files.folders("runs") if self.files.exists(f"runs/{name}/run.json")]

    def run(self, run_id: str) -> RunStore:
        """A run that exists; the beginning of its id is enough where no other begins so.

        Raises StoreError naming the runs there are.
        """
        if run_id not in ("", ".", "..") and "/" not in run_id and self.files.exists(f"runs/{run_id}/run.json"):
            return RunStore(self, run_id)
        known = self.run_ids()
        found = [one for one in known if run_id and one.startswith(run_id)]
        if len(found) > 1:
            raise StoreError(f"store {self.uri!r}: {run_id!r} begins the ids of {', '.join(found)}; write more of it")
        if not found:
            raise StoreError(
                f"store {self.uri!r} has no run {run_id!r}; it has: {', '.join(known) or 'none'}; "
                "another store is given by --store or $SUMMHAY_STORE"
            )
        return RunStore(self, found[0])

    def size(self, run_id: str) -> tuple[int, float]:
        """Bytes that the run's files take, and when it was created (seconds since 1970, by the store's clock)."""
        folder = f"runs/{run_id}"
        here = list(self.files.entries(folder))
        below = [f"{folder}/{one}" for one in self.files.folders(folder)]
        below += [f"{one}/{table}" for one in below for table in self.files.folders(one)]
        created = next((one.written for one in here if one.name == f"{folder}/run.json"), 0.0)
        return sum(one.size for one in here) + sum(one.size for place in below for one in self.files.entries(place)), created

    def create_run(self, run_id: str, record: Mapping[str, Any], tables: Iterable[Table]) -> RunStore:
        """The run, created where it does not exist; its record is what the first creator wrote, and `tables` what it holds.

        One that an earlier version wrote keeps its columns: no others but its `later` ones may have come since.
        Raises StoreError where it exists with other tables: rows that fit in none of them would be lost.
        """
        tables = list(tables)
        wanted = columns_of(tables)
        self._mark()
        content = {**record, "tables": [columns.to_json() for columns in wanted.values()]}
        created = self.files.create(f"runs/{run_id}/run.json", json.dumps(content, sort_keys=True, indent=1).encode())
        run = RunStore(self, run_id, declared=wanted if created else None)
        if differ := _differing(run.declared, wanted, {table.name: table.later for table in tables}):
            raise StoreError(
                f"run {run_id} was written with other tables ({', '.join(differ)}) than this version writes; "
                f"delete {self.files.where(f'runs/{run_id}')} and run again: no answer is paid twice"
            )
        return run


class RunStore:
    """One run's record, commits and tables.

    `still`: the manifest that is read, instead of the newest at each call. `declared`: what its tables are, where the run is not
    created yet, or was asked before; else its record says it.
    """

    def __init__(self, store: Store, run_id: str, still: Manifest | None = None, declared: Tables | None = None) -> None:
        self.store = store
        self.run_id = run_id
        self._still = still
        self._declared = declared
        self._manifests = Manifests(store.files, run_id)

    @property
    def record(self) -> dict[str, Any]:
        """What `create_run` wrote; its tables are `tables`. Raises StoreError where it is damaged."""
        name = f"runs/{self.run_id}/run.json"
        found = _object(self.store.files, name)
        if wrong := record_flaw(found):
            raise StoreError(f"{self.store.files.where(name)} is damaged: {wrong}; put back a copy of it, or use another store")
        return found

    @property
    def declared(self) -> Tables:
        """The run's tables, as its record has them; it is read once. Raises StoreError for a run of an earlier version."""
        if self._declared is None:
            self._declared = _declared(self.record, self.run_id)
        return self._declared

    def at(self, manifest: Manifest | None = None) -> RunStore:
        """The run as it stands now, or as a manifest has it: whatever is committed from here on, what is read of it stays."""
        return RunStore(self.store, self.run_id, manifest or self.manifest(), self.declared)

    def manifest(self) -> Manifest:
        """The manifest that counts. Raises StoreError where it is damaged."""
        return self._still or self._manifests.newest()

    def readable(self) -> tuple[RunStore, list[str]]:
        """The run as it stands now by the newest manifest that can be read, and a line for each that is gone or damaged."""
        manifest, found = self._manifests.readable()
        return RunStore(self.store, self.run_id, manifest, self._declared), found

    def without_damaged(self) -> tuple[RunStore, list[str]]:
        """The run as it stands now without its blocks that are absent or damaged, and a line for each of these."""
        manifest, whole, found = self.manifest(), [], []
        for block in manifest.blocks:
            try:
                check_block(self.store.files, block)
                whole.append(block)
            except Damaged as error:
                found.append(str(error))
        return RunStore(self.store, self.run_id, replace(manifest, blocks=tuple(whole)), self._declared), found

    def log(self, packed: bool = True) -> LogIndex:
        """The store's log as it stands, and what the run's commits tell of its money. Raises StoreError where it cannot be read.

        `packed`: read the packs; without them the segments that they were made of.
        """
        index = LogIndex(self.store.files, _packed=not packed)
        # First: what is committed was in the log by then.
        index.know(self.run_id, self.manifest().spent)
        index.refresh()
        return index

    def version(self) -> int:
        """The number of the newest manifest, 0 where there is none."""
        return self._still.number if self._still else self._manifests.chain.latest()

    def added(self) -> int:
        """How many blocks were ever added: what merging and taking a run over leave as it is."""
        return self.manifest().added

    def write(self, stage: str, finished: Sequence[Finished]) -> Block:
        """Write the rows of one finished unit or more as an immutable block, which counts for nobody until it is committed."""
        self._chosen(sorted({table for one in finished for table in one.rows}))
        return write_block(self.store.files, self._manifests.folder, self.declared, stage, finished)

    def committer(self, driver: int, told: str = "") -> Committer:
        """Take the run over for a driver and commit for it. `told`: where it works, such as "on HOST, pid 7".

        Raises Superseded where a driver with a higher number has it.
        """
        return Committer(self._manifests, self.declared, driver, told)

    def commit(self, stage: str, finished: Sequence[Finished], driver: int = 0) -> None:
        """Write and commit for one process alone, on top of whatever stands: whose the run is stays as it is."""
        if finished:
            add_blocks(self._manifests, [self.write(stage, finished)], driver)

    def finished(self, stage: str) -> dict[str, bool]:
        """Unit -> whether its failure may be tried again, for every committed unit of a stage."""
        return finished_of(self.store.files, self.manifest().blocks, stage)

    def table(self, table: str, units: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """All committed rows of a table, each once, sorted by primary key; `units`: only those that units of these names brought.

        `columns`: only these and the key's, which is quicker where others are long. Raises StoreError for a table that the run
        has not.
        """
        wanted = self._chosen([table])
        if columns is not None:
            wanted = {table: wanted[table].only(columns)}
        return frames_of(self.store.files, self.manifest().blocks, wanted, units)[table]

    def tables(self, names: Sequence[str]) -> dict[str, pl.DataFrame]:
        """Several tables of one moment; each block is read once for all of them."""
        return frames_of(self.store.files, self.manifest().blocks, self._chosen(names))

    def pieces(self, table: str) -> Iterator[pl.DataFrame]:
        """As `table`, in pieces one behind the other, of which little more than one is held at a time."""
        for _, pieces in pieces_of(self.store.files, self.manifest().blocks, self._chosen([table])):
            yield from pieces

    def by_unit(self, names: Sequence[str]) -> Iterator[tuple[str, Mapping[str, pl.DataFrame]]]:
        """Each unit that is finished with its rows of these tables, block by block; one block is held at a time."""
        return units_of(self.store.files, self.manifest().blocks, self._chosen(names))

    def digests(self) -> dict[str, dict[str, Any]]:
        """Table -> its number of rows and the hash of its sorted rows."""
        return digests_of(self.store.files, self.manifest().blocks, self.declared)

    def _chosen(self, names: Sequence[str]) -> Tables:
        for name in names:
            if name not in self.declared:
                raise StoreError(f"run {self.run_id} has no table {name!r}; it has: {', '.join(sorted(self.declared)) or 'none'}")
        return {name: self.declared[name] for name in names}


def _declared(record: Mapping[str, Any], run_id: str) -> Tables:
    if "tables" not in record:
        raise StoreError(
            f"run {run_id} was written by an earlier version; run its spec again in this store: "
            "a new run takes every answer from the log"
        )
    try:
        return {one["name"]: Columns.from_json(one) for one in record["tables"]}
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"run {run_id}: its run.json describes a table in a way that this version cannot read ({error})"
        ) from None


def _differing(stored: Tables, wanted: Tables, later: Mapping[str, Collection[str]]) -> list[str]:
    """The tables that are not the same in both, but for columns that only the wanted one has, and that came later."""
    return sorted(
        name
        for name in stored.keys() | wanted.keys()
        if name not in stored or name not in wanted or not stored[name].same_as(wanted[name], later[name])
    )


def _object(files: Files, name: str) -> dict[str, Any]:
    read = files.read_range(name, 0, MAX_RECORD + 1)
    try:
        content = json.loads(read) if len(read) <= MAX_RECORD else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{files.where(name)} is damaged: expected a JSON object; put back a copy of it, or use another store")
    return content
