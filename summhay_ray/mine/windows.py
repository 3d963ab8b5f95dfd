"""Decides whether a window of a document states a candidate, or only shares most of its words.

A window is evidence if it meets all of these conditions. Its document has the candidate's names. The window has the candidate's
numbers and counts, and does not contradict or deny the candidate. It does not put another subject of the documents in the place
of a word. It has enough of the candidate's other words.
"""

import difflib
import itertools
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from summhay_ray.mine.comparing import Candidate
from summhay_ray.mine.statements import Statements
from summhay_ray.synth import lacks_a_fact, read_words
from summhay_ray.text import FUNCTION_WORDS, MONTHS, find_contradictions, plain_words, read_statement, sentences

FRAME, SLOT = 0.75, 3
"""Two statements have the same wording if the second has at least `FRAME` of the first one's words in the same order. Only
differences of at most `SLOT` consecutive words are examined."""
SAID, MOSTLY_SAID = 0.35, 0.75
"""Minimum share of a statement's word weight, without names, that a window must have, since a name alone is no evidence.
`MOSTLY_SAID` applies if two documents are enough, because two documents often share a wording by chance. It also applies if a low
score is enough because the window has the statement's numbers."""
SURE, SURELY = 0.43, 3
"""At least `SURELY` documents must have the share `SURE` of the word weight, for which numbers do not count."""
WHOLE = 5
"""A statement is short if it has at most this number of words and numbers, without names. A window must then have all of them."""
DENIED = 0.6
"""If only one of two sentences denies something, they contradict each other if they share this part of the lighter one's
words."""
_LABEL = re.compile(r"""\([^()]*\)|"[^"]*"|“[^”]*”|\b[A-Z][\w.]*(?:[ -]v?\d[\w.]*)+|\bv?\d+(?:\.\d+)*\.(?:x\b|\d+\.[\dx]\w*)""")
"""Matches a label, by which a text identifies a thing: words in brackets or quotation marks, a name with a number ("PEP 8"), or a
version ("18.x")."""
_NUMBERED = re.compile(r"\b([A-Z][\w.]*)[ -]v?(\d[\w.]*)")
"""Matches a name with a number: "PEP 8"."""
_DOTTED = re.compile(r"(?<![\w./-])(?:[^\W\d_][\w-]+(?:[./][^\W\d_][\w-]+)+|(?=[\w-]*\d)[^\W\d_]\w*(?:-\w+){2,})")
"""Matches the name of a host, a module, a function, a folder or a machine, which may be in lower case: "mail.example.org",
"disk/cache", "pool-2-node"."""
_STATE = re.compile(r"\b(?:am|is|are|was|were|be|been|being|went|goes|go) (?:\w+ly )?(up|down|out|over|on|off)\b(?! the\b)")
"""Matches a state that is expressed by a function word: "is down"."""
_FUTURE = re.compile(r"\b(?:will|shall|[’']ll) (?:\w+ly )?be\b")
"""`_FUTURE` matches a statement about the future; the next pattern also matches plans and possibilities."""
_PLANNED = re.compile(r"\b(?:will|shall|would|could|may|might|should|must|to|expect\w*|plan\w*|next)\b|[’']ll\b")


def stating(
    of: Statements, candidate: Candidate, said: npt.NDArray[np.bool_], least: int, strictness: float, by_numbers: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which of the windows marked by `said` state the candidate: they have its numbers, contradict none of it, and are
    about the same thing, in documents with its names.

    Return no window if too few documents surely state it. `strictness`: a factor on the required shares. It is 1 for a claim,
    since a model words a claim differently from the documents. `by_numbers`: the windows have lower scores, which are enough only
    if they have the numbers and most of the words.
    """
    text = of.texts[candidate.sentence]
    is_claim = bool(of.passages[candidate.sentence] % 2)
    strictness = 1.0 if is_claim else strictness
    own, labels, counts = read_words(text), _labels(text), _counts(text)
    dotted = frozenset(_DOTTED.findall(text.lower()))
    named = _roots(dotted).union(*own.names)
    said_of_them = {word: of.weight(word) for word in own.roots if word not in named and word not in labels}
    numbers, states = own.numbers - labels, set(_STATE.findall(text))
    is_short = len({*said_of_them, *numbers}) <= WHOLE and not is_claim
    total = sum(said_of_them.values())
    numeric = 0.0 if by_numbers else sum(of.weight(f"#{number}") for number in numbers)
    required = min(1.0, (SAID if is_claim or (least >= SURELY and not by_numbers) else MOSTLY_SAID) * strictness)
    required_to_be_sure = max(required, min(1.0, SURE * strictness))
    kept, sure = np.zeros(said.size, dtype=bool), 0
    for row in np.flatnonzero(said).tolist():
        window = candidate.window(of, row)
        if window == text:
            kept[row], sure = True, sure + 1
            continue
        reading = read_words(window)
        document = int(of.documents[candidate.firsts[row]])
        if own.numbers - reading.numbers - reading.loose:
            continue
        has_names = all(any(of.count(word, document) for word in name) for name in own.names)
        if not has_names and lacks_a_fact(window, text):
            continue
        dotted_there = frozenset(_DOTTED.findall(window.lower())) if dotted else dotted
        if dotted - dotted_there and (is_short or dotted_there):
            continue
        stated = sum(weight for word, weight in said_of_them.items() if word in reading.roots)
        if stated < required * total - (1 - required) * numeric:
            continue
        if is_short and not said_of_them.keys() <= set(reading.roots):
            continue
        if states and not states <= set(plain_words(window)):
            continue
        nearest = _nearest(of, candidate, row)
        if _changes_tense(text, of.evidence[nearest]) or _changes_tense(of.evidence[nearest], text):
            continue
        if any(_counted_otherwise(counts, _counts(passage)) for passage in (of.evidence[nearest], window)):
            continue
        if _denied(of, candidate.sentence, nearest):
            continue
        one = _Worded(own.roots, frozenset(named), int(of.documents[candidate.sentence]))
        other = _Worded(reading.roots, _roots(dotted_there).union(*reading.names), document)
        if not _about_another(of, one, other) and not find_contradictions(text, window):
            kept[row], sure = True, sure + (stated >= required_to_be_sure * total)
    return kept if sure >= min(least, SURELY) or is_claim else np.zeros(said.size, dtype=bool)


def _changes_tense(one: str, other: str) -> bool:
    """Whether one text is about the future, and the other one is not."""
    return bool(_FUTURE.search(one)) and not _PLANNED.search(other)


def _roots(names: Collection[str]) -> frozenset[str]:
    """Return the roots of the words in some names."""
    return frozenset(itertools.chain.from_iterable(read_words(name).roots for name in names))


def _labels(text: str) -> set[str]:
    """Return the roots and numbers in the text's labels."""
    readings = [read_words(label) for label in _LABEL.findall(text)]
    return {part for reading in readings for part in (*reading.roots, *reading.numbers)}


def _nearest(of: Statements, candidate: Candidate, row: int) -> int:
    """Return the sentence of a window that shares the most facts with the candidate."""
    first, own = int(candidate.firsts[row]), of.facts(candidate.sentence)
    window = range(first, first + int(candidate.lengths[row]))
    return max(window, key=lambda sentence: _shared(of, own, of.facts(sentence)))


def _shared(of: Statements, one: npt.NDArray[np.int32], other: npt.NDArray[np.int32]) -> float:
    return float(of.weights[np.intersect1d(one, other)].sum())


_Count = tuple[frozenset[str], tuple[float | str, ...]]
"""(Roots of at least two words for the counted things, their number), such as "critical issues"; or (name, number)."""


def _counts(text: str) -> set[_Count]:
    """Return the numbers of counted things and of names. Other numbers in a label do not count."""
    labels = _labels(text)
    quantities = [
        fact.quantity for sentence in sentences(text) for fact in read_statement(sentence).facts if fact.kind == "number"
    ]
    named = {
        (frozenset((name,)), (number.rstrip(".").removesuffix(".x"),))
        for name, number in _NUMBERED.findall(text)
        if name not in MONTHS and name.lower() not in FUNCTION_WORDS
    }
    return named | {
        (one.nouns, one.stated)
        for one in quantities
        if one and len(one.nouns) > 1 and not one.unit and labels.isdisjoint(format(value, ".12g") for value in one.stated)
    }


def _counted_otherwise(counts: set[_Count], others: set[_Count]) -> bool:
    """Whether the others lack a count, but have a similar one: "two critical bugs" and "two minor bugs", "PEP 8" and "PEP 9"."""
    return any(not nouns.isdisjoint(other) for nouns, _ in counts - others for other, _ in others)


def _denied(of: Statements, one: int, other: int) -> bool:
    """Whether only one of two similar sentences denies something about the other one's subject."""
    if of.denies[one] == of.denies[other]:
        return False
    words = [facts[~of.numeric[facts]] for facts in (of.facts(one), of.facts(other))]
    if _shared(of, *words) < DENIED * min(float(of.weights[facts].sum()) for facts in words):
        return False
    denying, roots = (one, of.evidence[other]) if of.denies[one] else (other, of.texts[one])
    about = frozenset(read_words(roots).roots)
    negations = [negation for part in sentences(of.evidence[denying]) for negation in read_statement(part).negations]
    return any(negation.certain and negation.before and negation.before <= about for negation in negations)


class _Worded(NamedTuple):
    """The words of a statement in order, the names among them, and its document."""

    words: Sequence[str]
    names: frozenset[str]
    document: int


def _about_another(of: Statements, one: _Worded, other: _Worded) -> bool:
    """Whether two statements differ only in a name, or in a word that one of the documents is about: "the modifier manager is
    created once", "the component manager is created once"."""
    steps = difflib.SequenceMatcher(None, one.words, other.words, autojunk=False).get_opcodes()
    if sum(end - begin for step, begin, end, *_ in steps if step == "equal") < FRAME * len(one.words):
        return False
    for step, begin, end, first, last in steps:
        if step in ("replace", "delete") and max(end - begin, last - first) <= SLOT:
            sides = one.words[begin:end], other.words[first:last]
            initials = {"".join(word[0] for word in side) for side in sides}
            missing, instead = set(sides[0]) - set(other.words) - initials, set(sides[1]) - set(one.words) - initials
            if (set(sides[0]) - initials) & one.names and instead & other.names:
                return True
            subjects = [*((one.document, word) for word in missing), *((other.document, word) for word in instead)]
            if any(of.is_about(document, word) for document, word in subjects):
                return True
    return False
