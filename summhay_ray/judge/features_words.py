"""Part of the judge room, for the room alone: the words of a text, as `features.py` compares them.

A word is a root: lower case, without an English ending, and without what follows its fifth letter, so that prescribe and
prescription are one word. A figure is a word with all its digits. A script that sets no blanks between words (Chinese, Japanese,
Thai, ...) is cut into characters. English function words, and citations such as [8, 11], are no words.
"""

from __future__ import annotations

import re
import unicodedata

from summhay_ray.text import FUNCTION_WORDS, UNSPACED, root

COMMON_WEIGHT = 0.5
"""What a common word counts of what a rare one does (`is_common`)."""

_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{UNSPACED}]|[^\W\d_{UNSPACED}]+")
_NUMBER = r"\s{0,3}(?:[A-Za-z]{1,12}\s{0,3})?\d{1,5}\s{0,3}"
_CITATION = re.compile(rf"[\[【]{_NUMBER}(?:[,;–-]{_NUMBER})*[\]】]")
_STOP_WORDS = FUNCTION_WORDS - {"here", "until", "whether"} | {"still"}
"""Those that the numbers of `fit.py` were fitted with."""

# What anyone says when telling what another said, or why it matters: such words differ between two tellings of one thing.
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
    """The roots and figures of a text, in their order."""
    return [_root(word) for word in _words(text)]


def without_citations(text: str) -> str:
    """The text without what cites documents by number: [8], [Articles 8, 11], 【8-11】."""
    return _CITATION.sub(" ", text)


def is_common(root: str) -> bool:
    """Whether a root is of a word that telling something takes, whatever is told: it shows little of what was meant."""
    return root in _COMMON_ROOTS


def _words(text: str) -> list[str]:
    words: list[str] = _WORD.findall(unicodedata.normalize("NFC", without_citations(text).lower()))
    return [word for word in words if word not in _STOP_WORDS]


def _root(word: str) -> str:
    return word.replace(",", "") if word[0].isdigit() else root(word)


_COMMON_ROOTS = frozenset(roots(_COMMON_WORDS))
