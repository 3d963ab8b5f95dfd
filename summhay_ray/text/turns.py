"""The speakers of a transcript, and the names in the text before a colon."""

from __future__ import annotations

import re
from collections import Counter

from summhay_ray.text.words import FUNCTION_WORDS

_TURN = re.compile(
    r"(?:^|(?<=[.?!)\]]\s)|(?<=[.?!]\s\s)|(?<=,\s))"
    r"(?P<name>(?:The (?=[A-Z]))?[^\W\d_][\w.'’\-]*(?: [\w.'’\-]+){0,3}?)"
    r"\s?(?:\([^()\n:]{0,80}\)?,?[^()\n:]{0,60}\){1,2})?:\s",
    re.MULTILINE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
_TITLE_WORDS = """
    mr mrs ms miss mx messrs mme mlle madam madame sir dame lord lady master mister dr doctor prof professor rev reverend fr
    father mother brother sister aunt uncle saint st hon honourable honorable rt right am deputy vice shadow
    king queen prince princess duke duchess marquess marquis marchioness earl count countess viscount viscountess baron baroness
    baronet captain capt colonel col major general gen sergeant sgt lieutenant lt admiral commander corporal
    inspector constable detective judge justice magistrate senator congressman congresswoman representative president chancellor
    minister secretary ambassador governor mayor councillor councilor alderman commissioner speaker chair chairman chairwoman
    chairperson bishop archbishop rabbi imam pastor
"""
TITLES = frozenset(_TITLE_WORDS.split())
"""Titles and offices before a person's name, in lower case; they are not part of the name."""
_BEHIND = frozenset(("mp", "msp", "qc", "kc", "esq", "jr", "sr"))


def turns(text: str) -> list[str]:
    """The speaker of each turn, in order: `Rosalind`, `project manager`, `bruce stanton`.

    A turn begins with a name and a colon. Words with a colon that occur only once, within a line, do not count as a speaker.
    Text in brackets after a name is not part of it.
    """
    return [name for _, name in placed_turns(text)]


def placed_turns(text: str) -> list[tuple[int, str]]:
    """(Offset in the text, speaker) of each turn; see `turns`. Give the whole text: a part of it may begin within a turn."""
    found = list(_TURN.finditer(text))
    counts = Counter(match["name"] for match in found)
    heads = {match["name"] for match in found if match.start() == 0 or text[match.start() - 1] == "\n"}
    return [(match.start(), match["name"]) for match in found if counts[match["name"]] > 1 or match["name"] in heads]


def name_words(name: str) -> list[str]:
    """The words of a person's name, without initials, words such as `of`, titles before the name and `MP` after it: `Smith` and
    `Basildon` of `Baroness Smith of Basildon`, `Stephen` and `King` of `Mr. Stephen King`. A speaker without a name keeps the
    last word: `Speaker` of `Mr. Speaker`."""
    words = [word for word in _WORD.findall(name) if len(word) > 1 and word.lower() not in FUNCTION_WORDS]
    while len(words) > 1 and words[-1].lower() in _BEHIND:
        words.pop()
    while len(words) > 1 and words[0].lower() in TITLES:
        words.pop(0)
    return words
