"""Reads JSON of the user's, whose texts must be fit for tables and prompts."""

from __future__ import annotations

import json
from typing import Any


def parsed_json(content: str | bytes) -> Any:
    """The value of a JSON text.

    Raises ValueError, in a few words, also where a text or a key has a lone surrogate: that is half a character, which UTF-8, and
    so no table and no request, can hold. Raises RecursionError where it is nested too deeply.
    """
    value = json.loads(content)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ord(error.object[error.start])
        raise ValueError(f"a text has the lone surrogate \\u{half:04x}, which is half a character; write whole ones") from None
    return value
