"""A store and its runs: sources under their hash, and each run's tables as its newest manifest gives them.

Part of the store room. Layout under the store:
`format.json` · `objects/<kind>/<sha256>` (haystack sources, prompts) · `log/` (response log) ·
`runs/<run>/run.json` · `runs/<run>/blocks/<sha256>.block` (rows) · `runs/<run>/commits/<number>.json` (which blocks count).

Where several blocks finish one unit (two drivers, or a failed cell tried again by a later run) a success counts before a
failure that may be tried again, then the last in the manifest's order: the same for every reader.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from summhay_ray.store import tables
from summhay_ray.store.blocks import Block, Finished, write_block
from summhay_ray.store.commits import Committer, Manifest, Manifests, add_blocks
from summhay_ray.store.errors import StoreError, StoreUnavailable
from summhay_ray.store.files import Files, open_files
from summhay_ray.store.rows import digests_of, finished_of, frames_of

FORMAT = 2


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
            raise StoreError(f"store {self.uri!r}: has no {kind} {digest}") from None
        if hashlib.sha256(content).hexdigest() != digest:
            raise StoreError(f"store {self.uri!r}: {name} is damaged; delete it, and import or run its source again")
        return content

    def run_ids(self) -> list[str]:
        """All runs of the store, sorted. For people: a bucket's listing may lack the latest."""
        return [name for name in self.files.folders("runs") if self.files.exists(f"runs/{name}/run.json")]

    def run(self, run_id: str) -> RunStore:
        """A run that exists. Raises StoreError naming the runs there are."""
        if run_id in ("", ".", "..") or "/" in run_id or not self.files.exists(f"runs/{run_id}/run.json"):
            known = ", ".join(self.run_ids()) or "none"
            raise StoreError(f"store {self.uri!r} has no run {run_id!r}; it has: {known}")
        return RunStore(self, run_id)

    def create_run(self, run_id: str, record: Mapping[str, Any]) -> RunStore:
        """The run, created where it does not exist; its record is what the first creator wrote."""
        self._mark()
        self.files.create(f"runs/{run_id}/run.json", json.dumps(record, sort_keys=True, indent=1).encode())
        return RunStore(self, run_id)


class RunStore:
    """One run's record, commits and tables. `still`: the manifest that is read, instead of the newest at each call."""

    def __init__(self, store: Store, run_id: str, still: Manifest | None = None) -> None:
        self.store = store
        self.run_id = run_id
        self._still = still
        self._manifests = Manifests(store.files, run_id)

    @property
    def record(self) -> dict[str, Any]:
        """What `create_run` wrote."""
        return _object(self.store.files, f"runs/{self.run_id}/run.json")

    def at(self) -> RunStore:
        """The run as it stands now: whatever is committed from here on, what is read of it stays."""
        return RunStore(self.store, self.run_id, self.manifest())

    def manifest(self) -> Manifest:
        """The manifest that counts. Raises StoreError where it is damaged."""
        return self._still or self._manifests.newest()

    def version(self) -> int:
        """The number of the newest manifest, 0 where there is none."""
        return self._still.number if self._still else self._manifests.chain.latest()

    def added(self) -> int:
        """How many blocks were ever added: what merging and taking a run over leave as it is."""
        return self.manifest().added

    def write(self, stage: str, finished: Sequence[Finished]) -> Block:
        """Write the rows of one finished unit or more as an immutable block, which counts for nobody until it is committed."""
        return write_block(self.store.files, self._manifests.folder, stage, finished)

    def committer(self, driver: int, told: str = "") -> Committer:
        """Take the run over for a driver and commit for it. `told`: where it works, such as "on HOST, pid 7".

        Raises Superseded where a driver with a higher number has it.
        """
        return Committer(self._manifests, driver, told)

    def commit(self, stage: str, finished: Sequence[Finished], driver: int = 0) -> None:
        """Write and commit for one process alone, on top of whatever stands: whose the run is stays as it is."""
        if finished:
            add_blocks(self._manifests, [self.write(stage, finished)], driver)

    def finished(self, stage: str) -> dict[str, bool]:
        """Unit -> whether its failure may be tried again, for every committed unit of a stage."""
        return finished_of(self.store.files, self.manifest().blocks, stage)

    def table(self, table: str, cells: Sequence[str] | None = None) -> pl.DataFrame:
        """All committed rows of a table, each once, sorted by primary key.

        `cells`: only the rows of these cells; of a table that has no cells, those that the units of these names brought.
        """
        return frames_of(self.store.files, self.manifest().blocks, [table], cells)[table]

    def tables(self, names: Sequence[str]) -> dict[str, pl.DataFrame]:
        """Several tables of one moment; each block is read once for all of them."""
        return frames_of(self.store.files, self.manifest().blocks, names)

    def digests(self) -> dict[str, dict[str, Any]]:
        """Table -> its number of rows and the hash of its sorted rows."""
        return digests_of(self.store.files, self.manifest().blocks, list(tables.TABLES))


def _object(files: Files, name: str) -> dict[str, Any]:
    read = files.read(name)
    try:
        content = json.loads(read)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise StoreError(f"{files.where(name)} is damaged: expected a JSON object; put back a copy of it, or use another store")
    return content
