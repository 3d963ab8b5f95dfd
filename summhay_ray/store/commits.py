"""The commits of a run form a chain of manifests. Each manifest lists all parts of the run.

`runs/<run>/commits/00000001.json`, ...: {"session", "added", "parts"}. `session` is the number of the session that owns the run.
`added` counts all parts that were ever added; merging does not change it.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from summhay_ray.store.files import Files
from summhay_ray.store.names import DamagedRecord, Superseded
from summhay_ray.store.parts import UNITS, PartFiles, Parts
from summhay_ray.store.records import Chain, Total
from summhay_ray.store.rows import merge
from summhay_ray.store.tables import Tables

FULL_BYTES = 96 << 20
"""Maximum memory for the parts that are merged at once during a run. A part that needs more than half of it is merged with other
parts only at the end of the run."""
MOST, FEWEST = 16, 8
"""If there are more than MOST smaller parts, the newest FEWEST are merged. Older parts are included one by one as long as the
next is not larger than the sum so far. So each row is merged about log8(commits) times before the run ends."""
AGAIN = "run or import again: the rows are made again from the log, which has every stored answer"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest, with the fields that the module describes. Its `number` is 0 if no manifest was written yet."""

    number: int = 0
    session: int = 0
    added: int = 0
    parts: Sequence[Parts] = ()

    @property
    def final(self) -> Parts | None:
        """The run's final merged tables; None if they were never merged or if something was committed later."""
        return self.parts[0] if len(self.parts) == 1 and self.parts[0].final else None


class ManifestBody(TypedDict):
    """A manifest as JSON."""

    session: Total
    added: Total
    parts: list[Parts]


_BODY = TypeAdapter(ManifestBody)


class Manifests:
    """The manifests of one run, and the files of their parts."""

    def __init__(self, files: Files, run_id: str) -> None:
        self.files = files
        self.run_id = run_id
        self.parts = PartFiles(files, run_id)
        mend = "delete it and run or import again: every stored answer is reused"
        self.chain = Chain(files, f"runs/{run_id}/commits", ManifestBody, mend)

    def newest(self) -> Manifest:
        """Return the newest manifest, which is the current one. Raises DamagedRecord."""
        try:
            newest = self.chain.newest()
        except DamagedRecord as error:
            raise self.parts.damaged(error.flaw.partition(";")[0]) from None
        return Manifest() if newest is None else Manifest(newest[0], **newest[1])

    def missing_folder(self) -> str:
        """Return a message if the folder of manifests is missing although the run has parts; else empty."""
        return "" if self.chain.numbers() or not self.parts.existing() else f"{self.files.where(self.chain.folder)} is gone"

    def flaws(self) -> Iterator[str]:
        """Yield a line with the remedy for each missing, damaged or misplaced file. Reads all parts.

        Raises DamagedRecord, with the remedy, if the newest manifest is damaged.
        """
        if lost := self.missing_folder():
            yield f"{lost}, and with it which rows the run has; put it back from a copy, or {AGAIN}"
        where, newest = self.files.where(self.chain.folder), self.chain.newest()
        all_parts = newest[1]["parts"] if newest else ()
        for parts in all_parts:
            for table, part in {UNITS: parts.units, **parts.tables}.items():
                if flaw := self.parts.flaw(table, part):
                    yield f"{flaw}; delete the folder {where}, and {AGAIN}"
            for table in self.parts.misplaced(parts) if parts.final else ():
                folder = self.files.where(f"{self.parts.tables_folder}/{table}")
                yield f"{folder} does not hold the run's table and nothing else; run or import again, which puts it there"
        shown = any(entry.name.startswith(self.parts.tables_folder) for entry in self.parts.existing())
        if shown and newest and not any(parts.final for parts in all_parts):
            yield f"{where} lacks its newest file, which names the run's tables; {AGAIN}"

    def change(self, newest: Manifest, changed: Callable[[Manifest], Manifest]) -> Manifest:
        """Apply a change to the newest manifest, even if others write to the chain at the same time. Returns the manifest that is
        then the newest.

        `newest`: the newest manifest that the caller knows. `changed`: returns the successor of a manifest, or its argument if
        nothing must be written. It is called again if another writer appended first. Its exceptions propagate.
        """
        while True:
            wanted = changed(newest)
            if wanted is newest:
                return newest
            wanted = dataclasses.replace(wanted, number=newest.number + 1)
            # This is faster than `asdict` if there are hundreds of parts.
            fields = {"session": wanted.session, "added": wanted.added, "parts": list(wanted.parts)}
            body = _BODY.dump_python(fields, mode="json")  # type: ignore[arg-type]
            if self.chain.append(wanted.number, body):
                return wanted
            newest = self.newest()


class Committer:
    """Commits and merges parts for the session that owns the run. It is thread-safe. `RunStore.committer` makes it."""

    def __init__(self, manifests: Manifests, tables: Tables, session: int) -> None:
        self.session = session
        self._tables = tables
        self._manifests = manifests
        self._appending = threading.Lock()
        self._merging = threading.Lock()
        self._newest = manifests.change(manifests.newest(), self._claim)

    def _claim(self, newest: Manifest) -> Manifest:
        """Return the manifest with this session as owner; the same object if this session already owns the run. Raises
        Superseded."""
        if newest.session > self.session:
            run = self._manifests.run_id
            raise Superseded(f"run {run}: another driver took the run over; this one stops, nothing is lost")
        return newest if newest.session == self.session else dataclasses.replace(newest, session=self.session)

    def add(self, parts: Sequence[Parts]) -> None:
        """Commit the parts in one manifest. Parts that are already committed are not added again. Raises Superseded."""

        def added(newest: Manifest) -> Manifest:
            mine = self._claim(newest)
            known = {one.units.name for one in mine.parts}
            new = {one.units.name: one for one in parts if one.units.name not in known}
            return dataclasses.replace(mine, added=mine.added + len(new), parts=(*mine.parts, *new.values())) if new else mine

        with self._appending:
            self._newest = self._manifests.change(self._newest, added)

    def is_due(self) -> bool:
        """Return whether `compact` would merge parts. Reads no files."""
        return len(parts_to_merge(self._newest.parts)) > 0

    def compact(self) -> int:
        """Merge the parts that are due, and return how many were merged. `add` may run at the same time. Raises Superseded."""
        with self._merging:
            if not (group := parts_to_merge(self._newest.parts)):
                return 0
            merged = merge(self._manifests.parts, self._tables, group)
            with self._appending:
                self._replace(group, merged)
            return len(group)

    def finish(self, without: pl.DataFrame | None = None) -> None:
        """Merge all parts into the final tables, and move these to the tables' folders. This includes parts that others commit in
        the meantime. `without`: kinds and names of units to remove from the run.

        Raises Superseded, StoreError, OSError. The commits then stay valid, and another call continues.
        """
        with self._merging, self._appending:
            self._newest, final = self._manifests.newest(), None
            if without is not None:
                parts = self._newest.parts
                self._replace(parts, merge(self._manifests.parts, self._tables, parts, final=True, without=without))
            # Another process may end the run at the same time, so repeat until the final parts do not change.
            while self._newest.final not in (final, None) or final is None:
                while (final := self._newest.final) is None:
                    parts = self._newest.parts
                    self._replace(parts, merge(self._manifests.parts, self._tables, parts, final=True))
                # Check parts of tables that the run's record lacks, since no reader would notice that they are damaged.
                for table in final.tables.keys() - self._tables.keys():
                    with self._manifests.parts.open_part(table, final.tables[table]):
                        pass
                self._manifests.parts.show(final)
                self._newest = self._manifests.newest()

    def _replace(self, merged: Sequence[Parts], by: Parts) -> None:
        """Replace the parts `merged` by `by`, into which they were merged. Does nothing if another process has merged some of
        them."""

        def replaced(newest: Manifest) -> Manifest:
            mine, names = self._claim(newest), [parts.units.name for parts in merged]
            known = [parts.units.name for parts in mine.parts]
            start = known.index(names[0]) if names and names[0] in known else 0
            if known[start : start + len(names)] != names:
                return mine
            return dataclasses.replace(mine, parts=(*mine.parts[:start], by, *mine.parts[start + len(names) :]))

        self._newest = self._manifests.change(self._newest, replaced)


def parts_to_merge(parts: Sequence[Parts]) -> Sequence[Parts]:
    """Return the newest parts, which should be merged now; none if there are few."""
    full = [place for place, one in enumerate(parts, 1) if one.final or one.unpacked > FULL_BYTES // 2]
    open_ones = parts[full[-1] if full else 0 :]
    if len(open_ones) <= MOST:
        return ()
    size, start = 0, len(open_ones)
    while start and (len(open_ones) - start < FEWEST or open_ones[start - 1].unpacked <= size):
        if size and size + open_ones[start - 1].unpacked > FULL_BYTES:
            break
        start -= 1
        size += open_ones[start].unpacked
    return open_ones[start:] if len(open_ones) - start > 1 else ()
