"""Words and function words."""

from __future__ import annotations

import re
import unicodedata

UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Character ranges, for a regular expression, of scripts without blanks between words (Chinese, Japanese, Thai, ...).
Each character of them counts as a word."""

_CLOSED_CLASSES = """
    a about after against all also although am an and another any are as at be because been before being between both but by
    can could d did do does doing down during each either even every few for from had has have having he her here him his how
    however i if in into is it its just ll m many may me might more most much must my neither no nor not of on only onto or
    other our out over own per re s same several shall she should since so some such t than that the their them then there
    these they this those though through to too toward towards under until up upon us ve very via was we were what when where
    whether which while who whom whose why will with within without would yet you your
"""
FUNCTION_WORDS = frozenset(_CLOSED_CLASSES.split())
"""English function words (closed classes), which carry no topic."""

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

_PLAIN = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")


def plain_words(text: str) -> list[str]:
    """The words and numerals of a text in order, in lower case, without punctuation."""
    return _PLAIN.findall(unicodedata.normalize("NFKC", text).casefold())
