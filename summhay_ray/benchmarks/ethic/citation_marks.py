"""Replace citations by marks, for Attributing in law, and find those that refer to one decision."""

import re
from collections.abc import Iterable

from summhay_ray.benchmarks.ethic.sources import Cited
from summhay_ray.text import BACK, citations

MARK, TARGET_MARK = "[CITATION]", "[TARGET CITATION]"
_OFFICE_WORDS = """
    board state states city town village county company corp bank people commonwealth government department commission
    commissioner school district university college hospital railway railroad stores secretary administration association union
    trust estate service services authority council committee republic crown king queen court agency bureau society club party
"""
_OFFICES = frozenset(_OFFICE_WORDS.split())
"""Words in parties' names that do not identify a party."""
_LEAST_NAME = 4
_FULL_FORM = re.compile(r"\sv\.?\s|\(\d{4}\)\Z")
"""Matches full citations, but not short forms: a party alone, `supra`, or a page after `at`."""


def join_citations(text: str) -> str:
    """Replace white space in citations by `_`, so that no chunk ends inside `Roe v. Wade`. The text keeps its length."""
    parts, end = [], 0
    for begin, stop in citations(text):
        parts += [text[end:begin], re.sub(r"\s", "_", text[begin:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def mark_citations(text: str, decision: Cited, forms: Iterable[str] = ()) -> str:
    """Replace each citation: citations of the decision by `TARGET_MARK`, all others by `MARK`. `forms`: strings that cite the
    decision, in addition to its title and citation.

    Short forms count: `Brandt, supra`, `212 N.W. at 408`, `Id.` after a citation of the decision, and a party's name in a text
    that also cites the decision in full.
    """
    full = _any_of({decision.title, decision.citation, *forms})
    # Short names: each party's name of more than one word, and its last word if that is a proper name (`Brandt`, not `Board`).
    parties = set()
    for party in re.split(r"\sv\.?\s", re.sub(r"\A(?:In re|Ex parte|Matter of)\s", "", decision.title)):
        *first, last = party.split() or [""]
        if first:
            parties.add(party.strip())
        if last[:1].isupper() and len(last) >= _LEAST_NAME and last.casefold().strip(".,") not in _OFFICES:
            parties.add(last)
    short = _any_of(parties)
    volume = re.fullmatch(r"(\d+\s+\S.*?)\s+\d+", decision.citation)
    at_page = re.compile(rf"\b{_spaced_pattern(volume[1])},?\s+at\s") if volume else None
    own = [match.span() for match in full.finditer(text)]
    # Merge overlapping spans into one citation.
    spans: list[tuple[int, int]] = []
    for begin, stop in sorted({*citations(text), *own, *(match.span() for match in short.finditer(text) if own)}):
        if spans and begin < spans[-1][1]:
            spans[-1] = spans[-1][0], max(stop, spans[-1][1])
        else:
            spans.append((begin, stop))
    out: list[str] = []
    end, mark = 0, ""
    for begin, stop in spans:
        span = text[begin:stop]
        if not BACK.fullmatch(span):
            by_party = not _FULL_FORM.search(span) and short.search(span)
            of_target = by_party or any(one.search(span) for one in (full, at_page) if one)
            mark = TARGET_MARK if of_target else MARK
        out += [text[end:begin], mark or MARK]
        end = stop
    return "".join([*out, text[end:]])


def _any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the names. Longer names come first, and white space in a name may be a line break."""
    wanted = [_spaced_pattern(name) for name in sorted(names, key=lambda name: (-len(name), name)) if name]
    return re.compile("|".join(rf"(?<!\w){name}(?!\w)" for name in wanted) or r"(?!)")


def _spaced_pattern(name: str) -> str:
    return r"\s+".join(map(re.escape, name.split()))
