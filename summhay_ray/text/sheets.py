"""Texts that stand in a spreadsheet's cells."""

from __future__ import annotations

import re

BEGINS_FORMULA = r"^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
"""What a spreadsheet would take for a formula, or what is quoted already, which keeps `unquoted` exact."""
_FORMULA = re.compile(BEGINS_FORMULA)


def quoted(text: str) -> str:
    """The text with an apostrophe before what would begin a formula."""
    return "'" + text if _FORMULA.match(text) else text


def unquoted(text: str) -> str:
    """What `quoted` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
