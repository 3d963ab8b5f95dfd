"""Words and sentences of texts in scripts other than Latin, by ICU (Unicode's own library).

The papers' tokenizers support only ASCII letters: a text in Hindi, Thai, Arabic or Chinese has no words and one sentence.
ICU has the rules of Unicode for all scripts (UAX #29), and dictionaries for scripts without blanks between words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Script = Literal["auto", "latin"]
"""auto: ICU tokenizes texts that are not Latin; latin: the papers' tokenizers are used for every text."""

_LATIN = (
    "A-Za-z\u00aa\u00ba\u00c0-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2070-\u209f\u2100-\u218f\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f"
    "\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_LETTER = re.compile(r"[^\W\d_]")
_OTHER = re.compile(rf"[^\W\d_{_LATIN}]")
_SHARE = 10
"""A text is Latin if less than one in ten of its letters is of another script: English text may mention a Greek letter."""
_BLANK = re.compile(r"(?<=[\u0e00-\u0eff])\s+(?=[\u0e00-\u0eff])")
"""Thai and Lao have a blank after a sentence, and none between words."""


def is_latin(*texts: str) -> bool:
    """Whether the letters of all the texts are mostly Latin."""
    foreign = [text for text in texts if not text.isascii()]
    # A fraction or a circled number is not a letter.
    n_others = sum(sum(map(str.isalpha, _OTHER.findall(text))) for text in foreign)
    return not n_others or n_others * _SHARE < sum(len(_LETTER.findall(text)) for text in texts)


def words_of(text: str) -> list[str]:
    """The words and numbers of a text in any script, in order, folded to lower case; punctuation is left out."""
    from icu4py.breakers import WordBreaker

    pieces = WordBreaker(unicodedata.normalize("NFC", text), "und")
    return [unicodedata.normalize("NFKC", word).casefold() for word in map(str, pieces) if any(map(str.isalnum, word))]


def sentences_of(text: str) -> list[str]:
    """The sentences of a text in any script, in order, without the white space between them."""
    from icu4py.breakers import SentenceBreaker

    found = (part.strip() for sentence in map(str, SentenceBreaker(text, "und")) for part in _BLANK.split(sentence))
    return [sentence for sentence in found if sentence]
