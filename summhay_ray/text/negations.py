"""Finds the denials in a sentence, and what they deny."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from summhay_ray.text.fact_tokens import Token

_NEGATION = re.compile(
    r"\b(?:not|never|cannot|no longer"
    r"|nicht|kein(?:e[mnrs]?)?|niemals|niet|geen|nunca|não|non|n(?:e\s|['’])\w+\s(?:\w+\s)?(?:pas|jamais|plus)"
    r"|\w+n['’]t|(?P<noun>no(?:[ -]one|body)?|none(?: of)?|without|neither|nor|zero|lack(?:s|ed|ing)?(?: of)?|absence of"
    r"|free (?:of|from)|against(?= \w+ing\b))"
    r"|(?:fail(?:s|ed|ing|ure)?|refus(?:es|ed|ing|al)|declin(?:es|ed|ing)|unable) to"
    r"|(?P<claim>den(?:y|ies|ied|ying)|refut(?:es|ed|ing)|disprov(?:es|ed|ing)|debunk(?:s|ed|ing)|disput(?:es|ed|ing)|ruled out))"
    r"\b(?!-)",
    re.IGNORECASE,
)
_NO_NEGATION = re.compile(
    r"\b(?:not (?:only|just|merely|simply|solely|necessarily|least|all|every|many|much|always|entirely|exclusively)"
    r"|no (?:doubt|matter|wonder|more than|less than|fewer than)|no\.? ?\d|nothing but|or not)\b",
    re.IGNORECASE,
)
_UNTRUE = re.compile(
    r"\b(?:(?:did not|didn['’]t|never|ha(?:s|ve|d) (?:not|never)|ha(?:s|ve|d)n['’]t|(?:does|do) not) (?:actually |really |ever )?"
    r"(?:happen(?:ed)?|occur(?:red)?|exist(?:ed)?|tak(?:e|en) place|took place)"
    r"|(?:is|are|was|were|be) (?:not true|untrue|false|not the case|not correct|incorrect|a hoax|a myth|fabricated|invented"
    r"|made up|denied|refuted|disproved|debunked|ruled out)"
    r"|there (?:was|were|is|are|has been|had been|have been) (?:no|never))\b",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(r"なかった|なかっ|ません|(?<!か)ない(?![わとか])|않[았는]|못했|없[었다]|\bnicht(?=\s*[.!;])")
_NOT_DENIED_BEFORE = re.compile(r"(?:なければなら|かもしれ|に違い|間違い|少なく|しか|だけで)な|なければ")
"""Patterns for negations after the negated words, as in languages that put the negation last, and for similar text without a
negation."""
_DENIES_AFTER = re.compile(r"没有|沒有|并未|並未|未能|不会|不會|不再")
_CONDITION = re.compile(r"\b(?:if|unless|whether)\b", re.IGNORECASE)
_TIMED = re.compile(r"\s(?:before|until)\b")
_PROVIDED = re.compile(r"\b(?:without|unless|until|except|before(?= (?-i:[A-Z\d])))\b", re.IGNORECASE)
_CLAUSE = frozenset(".;:!?()—–,") | {"but", "although", "however", "while", "whereas", "because", "though"}
_REACH, _FAR = 5, 10
"""Maximum number of following content words that a negation applies to. A denial such as "refuted" applies to more."""


@dataclass(frozen=True, slots=True)
class Negation:
    """A negation or denial in a sentence."""

    words: str
    what: frozenset[str]
    """The root of the negated word. If the negation applies to a whole event or statement, the roots of all words of it."""
    whole: bool
    """Whether `what` is a whole event or statement."""
    before: frozenset[str]
    after: frozenset[str]
    """Roots of the two content words before the negation, and of those after the negated word."""
    scope: frozenset[str]
    """Roots of all words that the negation may apply to."""
    certain: bool = True
    """Whether it really denies. A condition ("if it does not"), "cannot without", "not until" and "not before May" do not."""


def find_negations(text: str, tokens: Sequence[Token]) -> Iterator[Negation]:
    """Yield the denials in a sentence."""
    spared = [match.span() for match in _NO_NEGATION.finditer(text)]
    condition = _CONDITION.search(text)
    limit = condition.start() if condition else len(text)
    for match in _UNTRUE.finditer(text):
        there = match[0].lower().startswith("there")
        what = frozenset(_after(tokens, match.end(), _REACH) if there else _before(tokens, match.start(), len(tokens)))
        yield Negation(match[0], what, True, frozenset(), frozenset(), what, match.start() < limit)
    for match in () if _NOT_DENIED_BEFORE.search(text) else _DENIED_BEFORE.finditer(text):
        what = frozenset(_before(tokens, match.start(), _REACH))
        if what:
            yield Negation(match[0], what, True, frozenset(), frozenset(), what)
    for match in _DENIES_AFTER.finditer(text):
        what = frozenset(_after(tokens, match.end(), _REACH))
        if what:
            yield Negation(match[0], what, True, frozenset(), frozenset(), what)
    for match in _NEGATION.finditer(text):
        scope = _after(tokens, match.end(), _FAR if match["claim"] else _REACH)
        if not scope or any(begin <= match.start() < end for begin, end in spared):
            continue
        is_plain = not (match["noun"] or match["claim"])
        later = _TIMED.match(text, match.end())
        certain = match.start() < limit and not (is_plain and (later or _PROVIDED.search(text, match.end())))
        if match["claim"]:
            what = frozenset(scope)
            yield Negation(match[0], what, True, frozenset(), frozenset(), what, certain)
            continue
        before = frozenset(_before(tokens, match.start(), 1 if match["noun"] else 2)) - {scope[0]}
        # In "hit no customers" the denied event is before the negation; in "no customers were hit" it is after it.
        after = before.difference(scope) if match["noun"] and before else frozenset(scope[1:3])
        yield Negation(f"{match[0]} {scope[0]}", frozenset(scope[:1]), False, before, after, frozenset(scope), certain)


def _after(tokens: Sequence[Token], start: int, most: int) -> list[str]:
    """Return the roots after a place in the text, up to the end of the clause, without adverbs."""
    found: list[str] = []
    for token in tokens:
        if token.start >= start:
            if token.lower in _CLAUSE or len(found) == most:
                break
            if token.root and not (token.lower.endswith("ly") and len(token.lower) > 6):
                found.append(token.root)
    return found


def _before(tokens: Sequence[Token], start: int, most: int) -> list[str]:
    """Return the last roots before a place in the text."""
    return [token.root for token in tokens if token.root and token.end <= start][-most:]
