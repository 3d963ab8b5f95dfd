"""Escapes texts for a spreadsheet's cells."""

from __future__ import annotations

import re

BEGINS_FORMULA = r"^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""Matches texts that a spreadsheet would read as a formula, and texts that are quoted already, so that `unquoted` is exact."""
_FORMULA = re.compile(BEGINS_FORMULA)


def quoted(text: str) -> str:
    """The text, with an apostrophe in front if it would begin a formula."""
    return "'" + text if _FORMULA.match(text) else text


def unquoted(text: str) -> str:
    """The inverse of `quoted`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
