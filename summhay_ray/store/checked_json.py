"""JSON objects that hold a hash of the rest of their content, so that damage is noticed. Part of the store room."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_FIELD = "sha256"


def with_hash(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    """The object as JSON, with the sha256 (hex) of `body` in the field `sha256`. Equal bodies give equal bytes."""
    return _json({**body, _FIELD: hashlib.sha256(_json(body)).hexdigest()}, indent)


def read_checked(content: bytes) -> dict[str, Any] | None:
    """The object without its hash; None if it is none, or if the hash does not fit. Earlier versions wrote no hash."""
    try:
        body = json.loads(content)
        if not isinstance(body, dict):
            return None
        digest = body.pop(_FIELD, None)
        fits = digest is None or digest == hashlib.sha256(_json(body)).hexdigest()
    except (ValueError, RecursionError):
        return None
    return body if fits else None


def _json(body: Mapping[str, Any], indent: int | None = None) -> bytes:
    separators = (",", ":") if indent is None else None
    return json.dumps(body, sort_keys=True, indent=indent, separators=separators, allow_nan=False).encode("ascii")
