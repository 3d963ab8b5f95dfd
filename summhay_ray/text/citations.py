"""Citations in legal texts: reporters, sections, dockets. Part of the text room."""

from __future__ import annotations

import re

_REPORTER = (
    r"\d+\s+(?:U\.\s?S\.(?:\s?C\.)?|S\.\s?Ct\.|F\.(?:\s?(?:2d|3d|4th))?|F\.\s?Supp\.(?:\s?[23]d)?|[A-Z][\w.]*\.(?:\s?(?:2d|3d|4th))?)"
    r"\s*(?:§+\s*)?\d+(?:[-–]\d+)?"
)
_SIGNAL = r"(?!(?:See|Cf|But|In|Also|Accord|Under|And)\b)"
"""Signal words, which are not part of a party's name."""
_PARTY = _SIGNAL + r"[A-Z][\w.'’&-]*(?:\s(?:of|the|and|&|[A-Z][\w.'’&-]*)){0,5}"
_CITATION = re.compile(
    rf"(?:\b{_PARTY}\sv\.\s{_PARTY},?\s)?\b{_REPORTER}(?:\s\((?:[^()]{{0,30}}\s)?\d{{4}}\))?"
    r"|§+\s*\d[\d.\-–]*|\b(?:No|Nos|Docket|Case)\.?\s*\d[\d:\-–\w]*|\bsections?\s+\d+"
)


def citations(text: str) -> list[tuple[int, int]]:
    """(begin, end) of each citation: `Roe v. Wade, 410 U.S. 113 (1973)`, `42 U.S.C. § 1983`, `No. 12-345`, `section 4`.

    Citations are recognized by their form alone; whether the source exists is not checked.
    """
    return [found.span() for found in _CITATION.finditer(text)]
