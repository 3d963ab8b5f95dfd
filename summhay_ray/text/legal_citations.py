"""Citations in legal texts: reporters, case names, short forms, sections, dockets."""

from __future__ import annotations

import re

_SERIES = r"(?:[A-Z][\w’']{0,4}\.\s?)+(?:\s?(?:[2-9]d|[3-9]th))?|[A-Z]{2,}(?=\s)"
"""A reporter: `U.S.`, `S. Ct.`, `F.2d`, `F. Supp. 3d`, `N. W.`, `WL`."""
_PAGE = r"(?:§+\s*)?\d+[a-z]?(?:[-–]\d+)?"
_REPORTER = rf"\d+\s+(?:{_SERIES})\s*{_PAGE}(?:,\s\d+(?:[-–]\d+)?(?!\d*\s[A-Z]))*"
_SHORT_REPORTER = rf"\d+\s+(?:{_SERIES}),?\s+at\s+\d+(?:[-–]\d+)?"
"""`410 U.S. at 120`, the short form of a reporter citation."""
_SIGNAL = r"(?!(?:See|Cf|But|In|Also|Accord|Under|And|The|Compare|Contra|As|By|Like|Both|Unlike|While|Although|Since|When)\b)"
"""Signal words and other words that begin a sentence and are not part of a party's name."""
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
"""A citation of the previously cited source: `Id. at 12`, `Ibid.`"""


def citations(text: str) -> list[tuple[int, int]]:
    """(begin, end) of each citation: `Roe v. Wade, 410 U.S. 113 (1973)`, `42 U.S.C. § 1983`, `No. 12-345`, `section 4`, and of
    its short forms: `Roe v. Wade`, `Wade, supra, at 115`, `410 U.S. at 115`, `Id. at 116`.

    Citations are recognized by their form alone; whether the source exists is not checked.
    """
    return [found.span() for found in _CITATION.finditer(text)]
