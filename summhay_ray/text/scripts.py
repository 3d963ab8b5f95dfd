"""Words and sentences of texts in scripts other than Latin, by ICU (Unicode's own library).

The tokenizers of the papers know ASCII letters: for them a text in Hindi, Thai, Arabic or Chinese has no word and one sentence.
ICU has the rules of Unicode for all scripts (UAX #29), and dictionaries for those that put no blanks between words.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Script = Literal["auto", "latin"]
"""auto: a text that is not Latin is tokenized by ICU; latin: every text is tokenized as the papers do."""

_LATIN = (
    "A-Za-z\u00aa\u00ba\u00c0-\u02ff\u1d00-\u1dbf\u1e00-\u1eff\u2070-\u209f\u2100-\u218f\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f"
    "\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
)
_LETTER = re.compile(r"[^\W\d_]")
_OTHER = re.compile(rf"[^\W\d_{_LATIN}]")
_SHARE = 10
"""A text is Latin if less than one in so many of its letters is of another script: English may name a Greek letter."""
_BLANK = re.compile(r"(?<=[\u0e00-\u0eff])\s+(?=[\u0e00-\u0eff])")
"""Thai and Lao end a sentence with a blank, and have none between words."""


def is_latin(*texts: str) -> bool:
    """Whether the texts, taken together, are in Latin script, as far as they have letters."""
    foreign = [text for text in texts if not text.isascii()]
    # A fraction or a number in a circle is no letter.
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
