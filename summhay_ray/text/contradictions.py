"""What a statement says otherwise than its evidence: numbers, amounts, dates, times, names, denials. Part of the text room.

A fact of the statement contradicts one of the evidence that has the same role and another value: the same noun, unit or neighbours,
in sentences that share words with the statement. A fact that the evidence repeats anywhere, in whatever form, contradicts nothing,
and what the evidence leaves out does not either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from summhay_ray.text.facts import Day, Fact, Kind, Statement, read_statement
from summhay_ray.text.sentences import sentences
from summhay_ray.text.words import FUNCTION_WORDS

_WINDOW = 3
"""Neighbouring sentences that are read together."""
_SHARED = 0.4
"""Least share of the statement's words that its evidence has, for numbers and dates; denials and names need more."""
_SHARED_BY_DENIALS, _SHARED_BY_NAMES = 0.5, 0.6
_NEAR = 4
"""Words so far from a number or a date belong to it."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What the statement and its evidence say otherwise."""

    kind: Kind
    statement: str
    """The statement's words."""
    evidence: str
    """The evidence's words."""


def find_contradictions(statement: str, evidence: str) -> list[Contradiction]:
    """What a statement says otherwise than its evidence, in the order of the statement; each fact at most once.

    `evidence`: a passage of any length. The three neighbouring sentences that share most words with a sentence of the statement
    are held against it. A statement never contradicts itself.
    """
    said = [read_statement(sentence) for sentence in sentences(statement)]
    shown = [read_statement(sentence) for sentence in sentences(evidence)]
    facts = [fact for one in shown for fact in one.facts]
    found: list[Contradiction] = []
    for one in said:
        window, share = _best_window(one, shown)
        if share < _SHARED:
            continue
        for fact in one.facts:
            if any(_agree(fact, other) for other in facts):
                continue
            for near in window:
                rival = next((other for other in near.facts if _same_role(fact, one, other, near, share)), None)
                if rival is not None:
                    found.append(Contradiction(fact.kind, fact.words, rival.words))
                    break
        if share >= _SHARED_BY_DENIALS:
            found += _denials(one, said, window, shown)
    return found


def _best_window(statement: Statement, shown: Sequence[Statement]) -> tuple[Sequence[Statement], float]:
    """The neighbouring sentences that have most of a statement's words, as few as have them, and the share that they have."""
    best: tuple[Sequence[Statement], float] = ((), 0.0)
    for size in range(1, _WINDOW + 1):
        for begin in range(max(1, len(shown) - size + 1)):
            window = shown[begin : begin + size]
            common = statement.roots & frozenset().union(*(one.roots for one in window))
            share = len(common) / max(1, len(statement.roots))
            if share > best[1]:
                best = window, share
    return best


def _agree(one: Fact, other: Fact) -> bool:
    """Whether both facts can be the same: the same value, or a part of it."""
    if one.days and other.days:
        return any(_same_day(first, second) for first in one.days for second in other.days)
    if one.minutes and other.minutes:
        return bool(one.minutes & other.minutes)
    if one.quantity and other.quantity:
        bare = not one.quantity.unit or not other.quantity.unit
        return (bare or one.quantity.unit == other.quantity.unit) and one.quantity.agrees(other.quantity)
    return bool(one.name and other.name and _same_name(one.name, other.name))


def _same_day(one: Day, other: Day) -> bool:
    """Whether what both say of a date is the same; what one leaves out is no difference."""
    for first, second in ((one[0], other[0]), (one[1], other[1]), (one[3], other[3])):
        if first is not None and second is not None and first != second:
            return False
    if one[2] is None or other[2] is None:
        return True
    (begin, end), (first_day, last_day) = one[2], other[2]
    return (begin <= first_day and last_day <= end) or (first_day <= begin and end <= last_day)


def _same_name(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two names share a word, or one is made of the other's initials."""
    initials = ("".join(word[:1] for word in one), "".join(word[:1] for word in other))
    return bool(set(one) & set(other)) or one[0][:5] == initials[1][:5] or other[0][:5] == initials[0][:5]


def _same_role(fact: Fact, statement: Statement, other: Fact, near: Statement, share: float) -> bool:
    """Whether two facts that do not agree say the same thing of the same thing."""
    if fact.kind != other.kind:
        return False
    if fact.name:
        absent = not (set(other.name) & statement.roots or set(fact.name) & near.roots)
        return absent and share >= _SHARED_BY_NAMES and _same_place(fact, statement, other, near)
    if fact.quantity and other.quantity:
        if fact.quantity.unit != other.quantity.unit:
            return False
        nouns, others = fact.quantity.nouns, other.quantity.nouns
        if nouns & others:
            return True
        if nouns and others and not fact.quantity.unit:
            return False
    return bool(_around(fact, statement) & _around(other, near))


def _around(fact: Fact, statement: Statement) -> set[str]:
    """Roots of the words near a fact."""
    before = [token for token in statement.tokens[: fact.place] if token in statement.roots][-_NEAR:]
    after = [token for token in statement.tokens[fact.end :] if token in statement.roots][:_NEAR]
    return {*before, *after}


def _same_place(fact: Fact, statement: Statement, other: Fact, near: Statement) -> bool:
    """Whether two names have the same neighbours: two words before, two behind, or one on each side."""
    left, right = _neighbours(fact, statement)
    other_left, other_right = _neighbours(other, near)
    ends = left[-1:] == other_left[-1:] and right[:1] == other_right[:1]
    return ends or (len(left) == 2 and left == other_left) or (len(right) == 2 and right == other_right)


def _neighbours(fact: Fact, statement: Statement) -> tuple[list[str], list[str]]:
    before = [token for token in statement.tokens[: fact.place] if token not in ("the", "a", "an")]
    return before[-2:], [token for token in statement.tokens[fact.end :] if token not in ("the", "a", "an")][:2]


def _denials(
    one: Statement, said: Sequence[Statement], window: Sequence[Statement], shown: Sequence[Statement]
) -> list[Contradiction]:
    """What one denies and the other says."""
    found = []
    undone = [near for near in window if near.undone is not None]
    if undone and not any(other.undone is not None for other in said):
        what = undone[0].undone or frozenset()
        if len(what & one.roots) * 2 >= len(what):
            found.append(Contradiction("denial", " ".join(sorted(what & one.roots)), undone[0].said))
    if one.undone is not None and not any(near.undone is not None for near in shown):
        found.append(Contradiction("denial", one.said, " ".join(sorted(one.undone))))
    if found:
        return found
    denied_by_shown = frozenset().union(*(near.denied for near in shown))
    denied_by_said = frozenset().union(*(other.denied for other in said))
    for near in window:
        for root in sorted(near.denied & one.roots - denied_by_said):
            return [Contradiction("denial", root, f"{near.said} {root}")]
        for root in sorted(one.denied & near.roots - denied_by_shown):
            return [Contradiction("denial", f"{one.said} {root}", root)]
    return found
