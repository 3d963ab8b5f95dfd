"""Whether a window of a document states a candidate, or only shares most of its words.

A document is evidence only if it has the candidate's names, and its window has the candidate's numbers, contradicts none of them,
does not put what one of the documents is about in the place of another word, and has enough of what is said about the names.
"""

import difflib
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from summhay_ray.mine.comparing import Candidate
from summhay_ray.mine.statements import Statements
from summhay_ray.synth import lacks_a_fact, read_words
from summhay_ray.text import find_contradictions

FRAME, SLOT = 0.75, 3
"""Two statements have the same wording if the second has at least this share of the first one's words, in the same order. Only
differences of at most this many consecutive words are compared."""
SAID = 0.35
"""Minimum share of the weight of a statement's words, names aside, in a window that states it: a name alone is no evidence for
what is said about it."""
WHOLE = 7
"""A statement of at most this number of words and numbers is stated only where all of them are."""


def stating(of: Statements, candidate: Candidate, said: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the windows that `said` marks have the candidate's numbers, contradict none, are about the same thing, and are in
    documents with its names."""
    text = of.texts[candidate.sentence]
    own = read_words(text)
    # A claim is worded by a model, other than the documents.
    is_short = len({*own.roots, *own.numbers}) <= WHOLE and not of.passages[candidate.sentence] % 2
    named = set(itertools.chain(*own.names))
    said_of_them = {word: of.weight(word) for word in own.roots if word not in named}
    least = SAID * sum(said_of_them.values()) - (1 - SAID) * sum(of.weight(f"#{number}") for number in own.numbers)
    kept = np.zeros(said.size, dtype=bool)
    for row in np.flatnonzero(said).tolist():
        window = candidate.window(of, row)
        if window == text:
            kept[row] = True
            continue
        reading = read_words(window)
        document = int(of.documents[candidate.firsts[row]])
        if own.numbers - reading.numbers - reading.loose:
            continue
        has_names = all(any(of.count(word, document) for word in name) for name in own.names)
        if not has_names and lacks_a_fact(window, text):
            continue
        if sum(weight for word, weight in said_of_them.items() if word in reading.roots) < least:
            continue
        if is_short and not set(own.roots) <= set(reading.roots):
            continue
        one = _Worded(own.roots, frozenset(named), int(of.documents[candidate.sentence]))
        other = _Worded(reading.roots, frozenset(itertools.chain(*reading.names)), document)
        kept[row] = not _about_another(of, one, other) and not find_contradictions(text, window)
    return kept


class _Worded(NamedTuple):
    """The words of a statement in order, those of them that are names, and its document."""

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
