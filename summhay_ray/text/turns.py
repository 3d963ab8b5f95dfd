"""The speakers of a transcript. Part of the text room."""

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
    """The speaker of each turn, in order: `Rosalind`, `project manager`, `bruce stanton`.

    A turn begins with a name and a colon. Words with a colon that occur only once, within a line, are not taken for a speaker.
    Text in brackets after a name is not part of it.
    """
    found = list(_TURN.finditer(text))
    counts = Counter(match["name"] for match in found)
    heads = {match["name"] for match in found if match.start() == 0 or text[match.start() - 1] == "\n"}
    return [match["name"] for match in found if counts[match["name"]] > 1 or match["name"] in heads]
