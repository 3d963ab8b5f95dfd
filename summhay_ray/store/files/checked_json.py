"""Reads the records of a store: JSON that fits a schema, usually with a hash of the rest of its content.

The hash has no key: it detects accidental changes, but does not prove who wrote a record. So each record is also checked by the
schema of its type, a TypedDict or a dataclass, which pydantic reads without any conversion. A record that does not fit is
damaged: a text for a number, a missing or repeated field, a number below 0 or above `Count`, NaN, half a character.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from summhay_ray.store.files.entry import plain_name

T = TypeVar("T")


def _check_identifier(name: str) -> str:
    if not name.isidentifier():
        raise ValueError(f"{name[:80]!r} is no name of a column")
    return name


Count = Annotated[int, Field(ge=0, le=10**12)]
"""A number in one record: tokens, micro-dollars (up to a million dollars), bytes, rows. Sums of nine million fit into 64 bits."""
Total = Annotated[int, Field(ge=0, lt=2**63)]
"""A sum of such numbers, or the number of a session."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Dollars, seconds or a factor."""
Name = Annotated[str, AfterValidator(plain_name)]
"""The name of a run, a table or a file, which becomes part of a path."""
Identifier = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_identifier)]
"""The name of a column: the field of a dataclass, in any script. It is never part of a path."""
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

_FIELD = "sha256"


_schema = functools.cache(TypeAdapter)


def as_record(kind: type[T], content: bytes) -> T | None:
    """The object in a JSON text; None if that does not fit the schema of `kind`. Fields that the schema lacks are left out."""
    schema: Any = kind
    try:
        record: T = _schema(schema).validate_json(content, strict=True)
    except ValidationError:
        return None
    return record


def read_record(content: bytes, kind: type[T]) -> T | None:
    """The record without a hash in a file; None if it is damaged."""
    body = _parse(content)
    return None if body is None else as_record(kind, _json(body))


def with_hash(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    """The object as JSON, with the sha256 (hex) of `body` in the field `sha256`. Equal bodies give equal bytes.

    Raises ValueError if `body` has that field itself.
    """
    if _FIELD in body:
        raise ValueError(f"field {_FIELD}: this name is taken by the hash of the record; give it another one")
    # Convert it as a reader will see it: JSON turns other keys into texts, which sort differently.
    body = json.loads(json.dumps(body))
    return _json({**body, _FIELD: hashlib.sha256(_json(body)).hexdigest()}, indent)


def read_checked(content: bytes, kind: type[T]) -> T | None:
    """The record in a file, without its hash; None if the hash is wrong or the record is damaged in another way."""
    body = _parse(content)
    if body is None or body.pop(_FIELD, None) != hashlib.sha256(hashed := _json(body)).hexdigest():
        return None
    return as_record(kind, hashed)


def _parse(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is none, or if a field is repeated."""
    try:
        body = json.loads(content, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _without_repeats(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(fields)) < len(fields):
        raise ValueError("a field is there twice")
    return found


def _json(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    return json.dumps(body, sort_keys=True, indent=indent, separators=separators).encode("ascii")
