"""The words of a text that `features.py` compares. Private to the judge room.

A word is reduced to its root: lower case, without an English ending, and cut after five letters, so that prescribe and
prescription are the same word. A number is a word with all its digits. Scripts without blanks between words (Chinese, Japanese,
Thai, ...) are split into characters. English function words, and citations such as [8, 11], are dropped.
"""

from __future__ import annotations

import re
import unicodedata

from summhay_ray.text import FUNCTION_WORDS, UNSPACED, root

COMMON_WEIGHT = 0.5
"""Weight of a common word (`is_common`) relative to other words."""

_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED}]|[^\W\d_{UNSPACED}]+")
_NUMBER = r"\s{0,3}(?:[A-Za-z]{1,12}\s{0,3})?\d{1,5}\s{0,3}"
_CITATION = re.compile(rf"[\[【]{_NUMBER}(?:[,;–-]{_NUMBER})*[\]】]")
_STOP_WORDS = FUNCTION_WORDS - {"here", "until", "whether"} | {"still"}
"""The list that the parameters were fitted with."""

# Words of reporting and assessment: they differ between two accounts of the same fact.
_COMMON_WORDS = """
    ability able accord account achieve acknowledge act address advise affect aim allow approach around ask aspect base become
    begin believe better bring call cause certain claim come common concern consider continue crucial current deal describe
    despite detail different discuss drive due effect emphasize enable end ensure especially essential event example expect
    explain face fact factor feature feel find first focus follow form future general get give go good great happen help high
    highlight idea identify impact important include increase indicate inform instance involve issue keep key know large lead
    level like likely look main major make manner matter mean measure mention method move need new note notable number offer
    outline overall part particular past people person place plan play point possible potential present problem process produce
    provide put quite range reason recent recommend reduce reflect relate remain remark report require result reveal review role
    say second see seek seem serve set share show significant similar situation specific speak start state step stress suggest
    support take talk tell tend term thing think time today together topic try type underline understand use usual various vital
    want way well word work year
"""


def roots(text: str) -> list[str]:
    """The roots and numbers of a text, in order."""
    return [_root(word) for word in _words(text)]


def without_citations(text: str) -> str:
    """The text without numeric citations: [8], [Articles 8, 11], 【8-11】."""
    return _CITATION.sub(" ", text)


def is_common(root: str) -> bool:
    """Whether a root belongs to a word of reporting, which says little about the content."""
    return root in _COMMON_ROOTS


def _words(text: str) -> list[str]:
    words: list[str] = _WORD.findall(unicodedata.normalize("NFC", without_citations(text).lower()))
    return [word for word in words if word not in _STOP_WORDS]


def _root(word: str) -> str:
    return word.replace(",", "") if word[0].isdigit() else root(word)


_COMMON_ROOTS = frozenset(roots(_COMMON_WORDS))
