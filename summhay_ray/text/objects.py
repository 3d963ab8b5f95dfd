"""JSON objects in a text. Part of the text room; imported from `summhay_ray.text`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any


def whole_objects(
    text: str, start: re.Pattern[str], decoder: json.JSONDecoder, wanted: Callable[[Any], object]
) -> tuple[list[Any], str]:
    """What the decoder reads from places where `start` matches and is wanted, outermost first; and the text without it.

    Raises what the decoder raises beside ValueError and RecursionError.
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
