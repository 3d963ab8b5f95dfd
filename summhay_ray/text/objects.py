"""Extracting JSON objects from a text. Part of the text room."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any


def whole_objects(
    text: str, start: re.Pattern[str], decoder: json.JSONDecoder, wanted: Callable[[Any], object]
) -> tuple[list[Any], str]:
    """The wanted JSON values that begin where `start` matches, in order, and the text without them.

    Of nested values only the outermost wanted one is returned. Errors of the decoder other than ValueError and
    RecursionError are raised.
    """
    found: list[Any] = []
    rest: list[str] = []
    kept = 0
    match = start.search(text)
    while match:
        after = match.start() + 1
        try:
            value, end = decoder.raw_decode(text, match.start())
        except ValueError:
            pass
        except RecursionError:
            break
        else:
            if wanted(value):
                found.append(value)
                rest.append(text[kept : match.start()])
                kept = after = end
        match = start.search(text, after)
    return found, "".join((*rest, text[kept:]))
