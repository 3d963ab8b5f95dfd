"""A chain of numbered records, each written once; the newest is the current one.

The records are `<folder>/00000001.json`, `00000002.json`, ... The first writer to create a number wins it: if two writers append
after the same record, one succeeds and the other must read the new record first. Listing the folder finds the newest. A listing
that lags behind shows an earlier state, after which an append fails. Earlier records may be missing
(`summhay_ray.store.runs.clean`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from summhay_ray.store.errors import DamagedRecord
from summhay_ray.store.files.checked_json import read_checked, with_hash
from summhay_ray.store.files.files import Files

T = TypeVar("T")

_MEND = "delete it and run again: every stored answer is reused"


class Chain(Generic[T]):
    """The records in one folder. `kind`: their schema; see `summhay_ray.store.files.checked_json`.

    `mend`: what a person should do about a damaged record, for the error message.
    """

    def __init__(self, files: Files, folder: str, kind: type[T], mend: str = _MEND) -> None:
        self.files = files
        self.folder = folder
        self._kind = kind
        self._mend = mend

    def name(self, number: int) -> str:
        """The file name of a record."""
        return f"{self.folder}/{number:08d}.json"

    def numbers(self) -> list[int]:
        """The numbers of the existing records, sorted."""
        names = list(self.files.names(self.folder, ".json"))
        stems = [name.rpartition("/")[2].removesuffix(".json") for name in names]
        found = [(int(stem), name) for stem, name in zip(stems, names, strict=True) if stem.isdecimal()]
        return sorted(number for number, name in found if name == self.name(number))

    def latest(self) -> int:
        """The number of the newest record, 0 if there is none. Reads no record."""
        return max(self.numbers(), default=0)

    def newest(self) -> tuple[int, T] | None:
        """(number, body) of the newest record, or None if there is none. Raises DamagedRecord."""
        while number := self.latest():
            # It is missing if it was replaced and cleaned away meanwhile.
            if (body := self.read(number)) is not None:
                return number, body
        return None

    def read(self, number: int) -> T | None:
        """The body of a record, or None if the number is free. Raises DamagedRecord."""
        try:
            body = read_checked(self.files.read(self.name(number)), self._kind)
        except FileNotFoundError:
            return None
        if body is None:
            raise self.damaged(number)
        return body

    def damaged(self, number: int) -> DamagedRecord:
        """The error to raise for a damaged record."""
        return DamagedRecord(f"{self.files.where(self.name(number))} is damaged; {self._mend}", self.files.uri)

    def append(self, number: int, body: Mapping[str, Any]) -> bool:
        """Create record `number`, which follows the newest. Return True if the record now holds `body`, False if it holds another
        body.

        `body`: a JSON object without the key `sha256`. A number that holds the same body counts as written: the reply to our own
        write may have been lost.
        """
        return self.files.create(self.name(number), with_hash(body))
