"""Records of a store as objects: JSON that fits a schema, mostly with a hash of the rest of its content.

The hash has no key: it shows that a disk or a hand has changed a record, not who wrote it. So a record becomes an object here, by
the schema of its type: a TypedDict or a dataclass, read by pydantic without any conversion. Whatever does not fit is damaged: a
text as a number, a field that is missing or given twice, a number below 0 or above `Count`, NaN, half a character.
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
"""The name of a run, a table or a file, of which a path is made."""
Identifier = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_check_identifier)]
"""The name of a column: the field of a dataclass, in any script. No path is made of it."""
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
    # As it will be read: JSON makes texts of other keys, which sort differently.
    body = json.loads(json.dumps(body))
    return _json({**body, _FIELD: hashlib.sha256(_json(body)).hexdigest()}, indent)


def read_checked(content: bytes, kind: type[T]) -> T | None:
    """The record in a file, without its hash; None if that does not fit, or if the record is damaged otherwise."""
    body = _parse(content)
    if body is None or body.pop(_FIELD, None) != hashlib.sha256(hashed := _json(body)).hexdigest():
        return None
    return as_record(kind, hashed)


def _parse(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a file; None if it holds none, or a field twice."""
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
