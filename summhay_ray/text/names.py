"""Finds the speakers of a transcript, the names of persons, and citations in legal texts, by their form."""

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
    """Return the speaker of each turn, in order: `Rosalind`, `project manager`, `bruce stanton`.

    A turn begins with a name and a colon. Words before a colon in the middle of a line are a speaker only if they occur more than
    once. Text in brackets after a name is not part of the name.
    """
    return [name for _, name in placed_turns(text)]


def placed_turns(text: str) -> list[tuple[int, str]]:
    """Return (offset in the text, speaker) of each turn; see `turns`. Pass the whole text, since a part of it may begin within a
    turn."""
    found = list(_TURN.finditer(text))
    counts = Counter(match["name"] for match in found)
    heads = {match["name"] for match in found if match.start() == 0 or text[match.start() - 1] == "\n"}
    return [(match.start(), match["name"]) for match in found if counts[match["name"]] > 1 or match["name"] in heads]


def name_words(name: str) -> list[str]:
    """Return the words of a person's name, without initials, words such as `of`, titles before the name and `MP` after it.

    Examples: `Smith` and `Basildon` for `Baroness Smith of Basildon`, `Stephen` and `King` for `Mr. Stephen King`. A speaker
    without a name keeps the last word: `Speaker` for `Mr. Speaker`.
    """
    words = [word for word in _WORD.findall(name) if len(word) > 1 and word.lower() not in FUNCTION_WORDS]
    while len(words) > 1 and words[-1].lower() in _BEHIND:
        words.pop()
    while len(words) > 1 and words[0].lower() in TITLES:
        words.pop(0)
    return words


_SERIES = r"(?:[A-Z][\w’']{0,4}\.\s?)+(?:\s?(?:[2-9]d|[3-9]th))?|[A-Z]{2,}(?=\s)"
"""Matches the name of a reporter, a series of law reports: `U.S.`, `S. Ct.`, `F.2d`, `F. Supp. 3d`, `N. W.`, `WL`."""
_PAGE = r"(?:§+\s*)?\d+[a-z]?(?:[-–]\d+)?"
_REPORTER = rf"\d+\s+(?:{_SERIES})\s*{_PAGE}(?:,\s\d+(?:[-–]\d+)?(?!\d*\s[A-Z]))*"
_SHORT_REPORTER = rf"\d+\s+(?:{_SERIES}),?\s+at\s+\d+(?:[-–]\d+)?"
"""Matches the short form of a reporter citation: `410 U.S. at 120`."""
_SIGNAL = r"(?!(?:See|Cf|But|In|Also|Accord|Under|And|The|Compare|Contra|As|By|Like|Both|Unlike|While|Although|Since|When)\b)"
"""Words at the beginning of a sentence that are not part of a party's name, such as signal words."""
_PARTY = _SIGNAL + r"[A-Z][\w.'’&-]*(?:\s(?:of|the|and|&|[A-Z][\w.'’&-]*)){0,5}"
_CASE = rf"\b{_PARTY}\sv\.?\s{_PARTY}|\b(?:In re|Ex parte|Matter of)\s{_PARTY}"
_NAME = r"[A-Z][\w'’&-]*(?:\s(?:of|the|and|&|v\.|[A-Z][\w.'’&-]*)){0,7}"
_PIN = r"(?:,?\s+at\s+\d+(?:[-–]\d+)?)"
_SUPRA = rf"\b{_SIGNAL}{_NAME},\s*(?:supra|ante|infra)\b(?:\snote\s\d+)?{_PIN}?|\b(?:[Ss]upra|[Ii]nfra)\b(?:\snote\s\d+)?{_PIN}?"
_SAME = rf"\b(?:[Ii]d\.|[Ii]bid\b\.?){_PIN}?"
_CITATION = re.compile(
    rf"(?:(?:{_CASE}),?\s)?\b{_REPORTER}(?:\s\((?:[^()]{{0,30}}\s)?\d{{4}}\))?"
    rf"|(?:\b{_SIGNAL}{_NAME},\s)?\b{_SHORT_REPORTER}|{_SUPRA}|{_SAME}|{_CASE}"
    r"|\[\d{4}\]\s(?:\d+\s)?[A-Z][A-Za-z.]{0,6}(?:\s[A-Z][a-z]{0,4})?\s\d+"
    r"|§+\s*\d[\d.\-–]*|\b(?:(?:Case|Docket)\s)?(?:No|Nos|Docket|Case)\.?\s*\d[\d:\-–\w]*|\bsections?\s+\d+"
)
BACK = re.compile(_SAME)
"""Matches a citation of the previous source: `Id. at 12`, `Ibid.`"""


def citations(text: str) -> list[tuple[int, int]]:
    """Return (begin, end) of each citation, such as `Roe v. Wade, 410 U.S. 113 (1973)`, `42 U.S.C. § 1983`, `No. 12-345`,
    `section 4`, and of each short form, such as `Roe v. Wade`, `Wade, supra, at 115`, `410 U.S. at 115`, `Id. at 116`.

    Citations are recognized by their form only. Whether the source exists is not checked.
    """
    return [found.span() for found in _CITATION.finditer(text)]
