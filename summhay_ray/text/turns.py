"""Who speaks in a transcript. Part of the text room; behind its door."""

from __future__ import annotations

import re
from collections import Counter

_TURN = re.compile(
    r"(?:^|(?<=[.?!)\]]\s)|(?<=[.?!]\s\s)|(?<=,\s))"
    r"(?P<name>[^\W\d_][\w.'’\-]*(?: [\w.'’\-]+){0,3}?)"
    r"\s?(?:\([^()\n:]{0,80}\)?,?[^()\n:]{0,60}\){1,2})?:\s",
    re.MULTILINE,
)


def turns(text: str) -> list[str]:
    """The names before the colons of turns, in order: `Rosalind`, `project manager`, `bruce stanton`.

    A name with a colon that stands once and within a line is taken for a sentence of its own. What stands in brackets behind a
    name is no part of it.
    """
    found = list(_TURN.finditer(text))
    counts = Counter(match["name"] for match in found)
    heads = {match["name"] for match in found if match.start() == 0 or text[match.start() - 1] == "\n"}
    return [match["name"] for match in found if counts[match["name"]] > 1 or match["name"] in heads]
