"""The records of a store, and chains of records. A record is JSON that fits a schema, usually with a hash of its other fields.

The hash uses no secret, so it detects accidental changes, but does not prove who wrote a record. So each record is also checked
against the schema of its type, a TypedDict or a dataclass, which pydantic reads without any conversion. A record that does not
fit is damaged: for example, it has a text instead of a number, a missing or repeated field, a number below 0 or above the maximum
of `Count`, NaN, or half of a surrogate pair.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from annotated_types import Predicate
from pydantic import Field, TypeAdapter, ValidationError

from summhay_ray.store.files import Files
from summhay_ray.store.names import PLAIN, DamagedRecord

T = TypeVar("T")

Count = Annotated[int, Field(ge=0, le=10**12)]
"""A number in one record: tokens, micro-dollars (up to a million dollars), bytes, rows. A sum of nine million such numbers fits
into 64 bits."""
Total = Annotated[int, Field(ge=0, lt=2**63)]
"""A sum of `Count`s, or the number of a session."""
Saving = Annotated[int, Field(gt=-(2**63), lt=2**63)]
"""Micro-dollars that a provider's cache saved; negative if the cache was written but not read."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Dollars, seconds or a factor."""
Name = Annotated[str, Field(pattern=PLAIN)]
"""The name of a run, a table or a file, which becomes part of a path. It is checked because a record may come from somebody else,
with a valid hash."""
Identifier = Annotated[str, Field(min_length=1, max_length=255), Predicate(str.isidentifier)]
"""The name of a column, which is the name of a dataclass's field, in any script. It is never part of a path."""
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

_FIELD = "sha256"
_schema = functools.cache(TypeAdapter)


def as_record(kind: type[T], content: bytes) -> T | None:
    """Return the object in a JSON text; None if it does not fit the schema of `kind`. Fields that are not in the schema are left
    out."""
    schema: Any = kind
    try:
        record: T = _schema(schema).validate_json(content, strict=True)
    except ValidationError:
        return None
    return record


def with_hash(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return the object as JSON, with the sha256 (hex) of `body` in the field `sha256`. Equal bodies give equal bytes.

    Raises ValueError if `body` already has that field.
    """
    if _FIELD in body:
        raise ValueError(f"field {_FIELD}: this name is taken by the hash of the record; give it another one")
    # Convert the body to what a reader will see. JSON converts keys to texts, which changes their order.
    body = json.loads(json.dumps(body))
    return _json({**body, _FIELD: hashlib.sha256(_json(body)).hexdigest()}, indent)


def read_checked(content: bytes, kind: type[T], *, hashed: bool = True) -> T | None:
    """Return the record in a file, without its hash; None if the hash is wrong or the record is damaged in another way.

    `hashed`: whether the record has a hash.
    """
    try:
        body = json.loads(content, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    digest = body.pop(_FIELD, None) if hashed else None
    rest = _json(body)
    return None if hashed and digest != hashlib.sha256(rest).hexdigest() else as_record(kind, rest)


def _without_repeats(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(record := dict(fields)) < len(fields):
        raise ValueError("a field is there twice")
    return record


def _json(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    return json.dumps(body, sort_keys=True, indent=indent, separators=separators).encode("ascii")


@dataclass
class Chain(Generic[T]):
    """A chain of numbered records in one folder. Each record is written once, and the newest one is current.

    The records are `<folder>/00000001.json`, `00000002.json`, ... The first writer that creates a number wins. If two writers
    append after the same record, one of them fails, and must read the new record before it tries again. The newest record is
    found by listing the folder. If the listing lags behind, a reader sees an earlier state, and a writer's append fails. Earlier
    records may be missing (`summhay_ray.store.clean`).
    """

    files: Files
    folder: str
    kind: type[T]
    """The schema of the records."""
    mend: str = "delete it and run again: every stored answer is reused"
    """The remedy for a damaged record, for the error message."""

    def name(self, number: int) -> str:
        """Return the file name of a record."""
        return f"{self.folder}/{number:08d}.json"

    def numbers(self) -> list[int]:
        """Return the numbers of the existing records, sorted."""
        names = list(self.files.names(self.folder, ".json"))
        stems = [name.rpartition("/")[2].removesuffix(".json") for name in names]
        numbers = [(int(stem), name) for stem, name in zip(stems, names, strict=True) if stem.isdecimal()]
        return sorted(number for number, name in numbers if name == self.name(number))

    def latest(self) -> int:
        """Return the number of the newest record, 0 if there is none. Reads no record."""
        return max(self.numbers(), default=0)

    def newest(self) -> tuple[int, T] | None:
        """Return (number, body) of the newest record, or None if there is none. Raises DamagedRecord."""
        while number := self.latest():
            # It is missing if it was replaced and deleted in the meantime; then look again.
            if (body := self.read(number)) is not None:
                return number, body
        return None

    def read(self, number: int) -> T | None:
        """Return the body of a record, or None if there is no record with this number. Raises DamagedRecord."""
        try:
            body = read_checked(self.files.read(self.name(number)), self.kind)
        except FileNotFoundError:
            return None
        if body is None:
            raise self.damaged(number)
        return body

    def damaged(self, number: int) -> DamagedRecord:
        """Return the error to raise for a damaged record."""
        return DamagedRecord(f"{self.files.where(self.name(number))} is damaged; {self.mend}", self.files.uri)

    def append(self, number: int, body: Mapping[str, Any]) -> bool:
        """Create record `number`, which follows the newest one. Returns True if the record now has this `body`, False if it has
        another one.

        `body`: a JSON object without the key `sha256`. If the record already has the same body, this returns True, since the
        reply to our own write may have been lost.
        """
        return self.files.create(self.name(number), with_hash(body))
