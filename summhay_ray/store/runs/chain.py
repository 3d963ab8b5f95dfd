"""A chain of numbered records, each written once; the newest is the current one. Part of the store room.

The records are `<folder>/00000001.json`, `00000002.json`, ... The first writer to create a number wins it: if two writers append
after the same record, one succeeds and the other must read the new record first. `<folder>/latest` is a hint: the search for
the newest record starts at the number it names, and it may be old, missing or wrong. No listing is used, because a bucket's
listing may lag. When records have been deleted (`summhay_ray.store.runs.clean`), `<folder>/first` names one after which none is
missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from summhay_ray.store.errors import DamagedRecord, StoreError
from summhay_ray.store.files.checked_json import read_checked, with_hash
from summhay_ray.store.files.files import Files

_MEND = "delete it and run again: every stored answer is reused"


class Chain:
    """The records in one folder. `mend`: what a person should do about a damaged record, for the error message."""

    def __init__(self, files: Files, folder: str, mend: str = _MEND) -> None:
        self.files = files
        self.folder = folder
        self._mend = mend
        self._hint, self._first = f"{folder}/latest", f"{folder}/first"

    def name(self, number: int) -> str:
        """The file name of a record."""
        return f"{self.folder}/{number:08d}.json"

    def newest(self) -> tuple[int, dict[str, Any]] | None:
        """(number, body) of the newest record, or None if there is none. Raises DamagedRecord."""
        hint = self._named(self._hint)
        content = self._content(hint)
        last = self._last(hint if content is not None else self._lowest())
        if last != hint or content is None:
            content = self._content(last)
        # Only the newest record is checked: the message advises deleting it, and deleting an older one would break the chain.
        return None if content is None else (last, self._checked(last, content))

    def latest(self) -> int:
        """The number of the newest record, 0 if there is none. Reads no record."""
        hint = self._named(self._hint)
        last = self._last(hint) if hint else 0
        return last if last > hint or self._taken(hint) else self._last(self._lowest())

    def known(self) -> tuple[int, list[int]]:
        """(highest number found, numbers below it whose records are missing). Lists the folder; only for messages to people.

        A bucket's listing may lag. It is used only if `latest` names no record, since then a gap may hide later records.
        """
        hint, last = self._named(self._hint), self.latest()
        if self.files.folder is None and self._taken(hint):
            return last, []
        stems = (name.rpartition("/")[2].removesuffix(".json") for name in self.files.names(self.folder, ".json"))
        there = {int(stem) for stem in stems if stem.isdigit()} | ({last} - {0})
        highest = max(there, default=0)
        # The records before the first one were cleaned away; one after the last may be missing, if the hint names it.
        gone = {*range(min(there, default=0), highest), *([hint] if hint > highest else [])}
        return highest, sorted(gone - there - {0})

    def read(self, number: int) -> dict[str, Any] | None:
        """The body of a record, or None if the number is free. Raises DamagedRecord."""
        content = self._content(number)
        return None if content is None else self._checked(number, content)

    def append(self, number: int, body: Mapping[str, Any], hint: bool = True) -> bool:
        """Create record `number`, whose predecessor must exist. Return True if it now holds `body`, False if it holds another.

        `body`: a JSON object without the key `sha256`. A number already taken by the same body counts as success, because the
        reply to our own write may have been lost. `hint`: name it as the newest, which saves readers a search.
        """
        content = with_hash(body)
        if not self.files.create(self.name(number), content) and self._content(number) != content:
            return False
        if not hint:
            return True
        # The record is written; the hint only affects speed.
        with contextlib.suppress(StoreError, OSError):
            self.files.put(self._hint, str(number).encode("ascii"))
        return True

    def forget_missing(self) -> None:
        """Stop expecting records after the newest one that is there: they were lost, and what they said has been made again."""
        if (last := self.latest()) != self._named(self._hint):
            self.files.put(self._hint, str(last).encode("ascii"))

    def _named(self, file: str) -> int:
        try:
            text = self.files.read(file).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return 0
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    def begin_at(self, known: int = 0) -> None:
        """Record, durably, that any record but the newest may be missing from now on: some are about to be deleted.

        `known`: the highest number that a listing has found.
        """
        newest = max(known, self.latest())
        # A hint above the newest record tells of a lost one.
        for file in (self._first, *([self._hint] if self._named(self._hint) < newest else [])):
            with self.files.writing(file) as part, part.open("wb") as stream:
                stream.write(str(newest).encode("ascii"))
                stream.flush()
                os.fsync(stream.fileno())

    def _lowest(self) -> int:
        """A number from which the records have no gap: that which `first` names, or 0 if none was deleted."""
        first = self._named(self._first)
        return first if self._taken(first) else 0

    def _last(self, known: int) -> int:
        """The last taken number at or after `known`, found by doubling steps, then bisection: numbers have no gaps."""
        step, last = 1, known
        while self._taken(last + step):
            last, step = last + step, step * 2
        while step > 1:
            step //= 2
            if self._taken(last + step):
                last += step
        return last

    def _taken(self, number: int) -> bool:
        return number > 0 and self.files.exists(self.name(number))

    def _content(self, number: int) -> bytes | None:
        if number < 1:
            return None
        try:
            return self.files.read(self.name(number))
        except FileNotFoundError:
            return None

    def _checked(self, number: int, content: bytes) -> dict[str, Any]:
        body = read_checked(content, needs_hash=True)
        if body is None:
            # See `read_whole`.
            body = read_checked(self._content(number) or b"", needs_hash=True)
        if body is None:
            raise DamagedRecord(f"{self.files.where(self.name(number))} is damaged; {self._mend}")
        return body
