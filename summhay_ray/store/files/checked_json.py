"""JSON objects that hold a hash of the rest of their content, so that damage is noticed. Part of the store room."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_FIELD = "sha256"


def with_hash(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    """The object as JSON, with the sha256 (hex) of `body` in the field `sha256`. Equal bodies give equal bytes.

    Raises ValueError if `body` has that field itself.
    """
    if _FIELD in body:
        raise ValueError(f"field {_FIELD}: this name is taken by the hash of the record; give it another one")
    # As it will be read: JSON makes texts of other keys, which sort differently.
    body = json.loads(json.dumps(body))
    return _json({**body, _FIELD: hashlib.sha256(_json(body)).hexdigest()}, indent)


def read_checked(content: bytes) -> dict[str, Any] | None:
    """The object without its hash; None if `content` is not a JSON object with a hash that fits."""
    try:
        body = json.loads(content)
        if not isinstance(body, dict):
            return None
        fits = body.pop(_FIELD, None) == hashlib.sha256(_json(body)).hexdigest()
    except (ValueError, RecursionError):
        return None
    return body if fits else None


def _json(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    return json.dumps(body, sort_keys=True, indent=indent, separators=separators).encode("ascii")
