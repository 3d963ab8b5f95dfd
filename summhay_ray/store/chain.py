"""Numbered records, each written once, the newest of which counts. Part of the store room.

`<folder>/00000001.json`, `00000002.json`, ...: whoever creates a number first has it, so of two writers that follow the same
record exactly one goes on and the other sees what came between. `<folder>/latest` names a number from which the newest is
found by looking upwards: it may be old, absent or wrong. No listing is used, since a bucket's may lag. Where the first records
were deleted (`summhay_ray.store.clean`) `<folder>/first` names one that is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files

_MEND = "delete it and run again: no answer is paid twice"


class Chain:
    """The records in one folder. `mend`: what a person does about a damaged one, for the message."""

    def __init__(self, files: Files, folder: str, mend: str = _MEND) -> None:
        self.files = files
        self.folder = folder
        self._mend = mend
        self._hint, self._first = f"{folder}/latest", f"{folder}/first"

    def name(self, number: int) -> str:
        """The name of a record's file."""
        return f"{self.folder}/{number:08d}.json"

    def newest(self) -> tuple[int, dict[str, Any]] | None:
        """The newest record and its number, None where there is none. Raises StoreError where it is damaged."""
        hint = self._named(self._hint)
        content = self._content(hint)
        last = self._last(hint if content is not None else self._lowest())
        if last != hint or content is None:
            content = self._content(last)
        # Of a record that is not the newest nothing is said: deleting it would break the chain.
        return None if content is None else (last, self._checked(last, content))

    def latest(self) -> int:
        """The newest record's number, 0 where there is none. Reads no record."""
        hint = self._named(self._hint)
        last = self._last(hint)
        return last if last > hint or self._taken(hint) else self._last(self._lowest())

    def known(self) -> tuple[int, list[int]]:
        """The highest number that anything tells of, and those up to it whose records are gone. For people: a folder is listed.

        A bucket's listing may lag: it is asked only where `latest` names no record, so that a gap may have hidden later ones.
        """
        hint, last = self._named(self._hint), self.latest()
        if self.files.folder is None and self._taken(hint):
            return last, []
        stems = (name.rpartition("/")[2].removesuffix(".json") for name in self.files.names(self.folder, ".json"))
        there = {int(stem) for stem in stems if stem.isdigit()} | ({last} - {0})
        gone = {hint, *range(min(there), max(there))} if there else {hint}
        return max(there, default=0), sorted(gone - there - {0})

    def read(self, number: int) -> dict[str, Any] | None:
        """A record's body, None where the number is free. Raises StoreError where it is damaged."""
        content = self._content(number)
        return None if content is None else self._checked(number, content)

    def append(self, number: int, body: Mapping[str, Any]) -> bool:
        """Create the record `number`, which must follow one that exists; True where it holds `body` now, False where another's.

        `body`: what JSON can hold, without a key `sha256`. A number that is taken by the same body counts as won: an answer
        to our own write may have been lost.
        """
        content = _encoded(body)
        if not self.files.create(self.name(number), content) and self._content(number) != content:
            return False
        # Nothing depends on the hint but speed, and what it follows is written.
        with contextlib.suppress(StoreError, OSError):
            self.files.put(self._hint, str(number).encode("ascii"))
        return True

    def _named(self, file: str) -> int:
        try:
            text = self.files.read(file).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return 0
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    def delete_before(self, number: int) -> None:
        """Say that the records before this one, which is there, are about to be deleted."""
        self.files.put(self._first, str(number).encode("ascii"))

    def _lowest(self) -> int:
        """A number that is taken and follows all gaps, 0 where the first is the first."""
        return 0 if self._taken(1) else self._named(self._first)

    def _last(self, known: int) -> int:
        """The last number from `known` on that is taken, found in steps that double: numbers are taken without a gap."""
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
        try:
            body = json.loads(content)
        except ValueError:
            body = None
        if isinstance(body, dict):
            body.pop("sha256", None)
            if _encoded(body) == content:
                return body
        raise StoreError(f"{self.files.where(self.name(number))} is damaged; {self._mend}")


def _encoded(body: Mapping[str, Any]) -> bytes:
    """The record's bytes: its body and the sha256 (hex) over it. Equal bodies give equal bytes."""
    digest = hashlib.sha256(_json(body)).hexdigest()
    return _json({**body, "sha256": digest})


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
