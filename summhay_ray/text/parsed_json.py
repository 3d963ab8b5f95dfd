"""Reads a user's JSON, whose texts must be valid in tables and prompts."""

from __future__ import annotations

import json
from typing import Any


def parsed_json(content: str | bytes) -> Any:
    """The value of a JSON text.

    Raises ValueError, with a short reason, also if a text or a key has a lone surrogate: half a character, which UTF-8, and so
    tables and requests, cannot encode. Raises RecursionError if the JSON is nested too deeply.
    """
    value = json.loads(content)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise ValueError(f"a text has the lone surrogate \\u{half:04x}, which is half a character; write whole ones") from None
    return value
