"""Finds statements that recur across documents, and for each statement every document with it.

1. `comparing` finds the candidates: sentences with similar ones in other documents, and the best window of each document.
2. The required score of a window depends on the collection: if few statements recur, most moderate scores are due to chance.
3. Candidates are accepted in order of their value. The best ones contain much, are clearly findings, and recur in many documents.
   `windows` decides which windows state a candidate. A candidate based on the same sentences as an accepted one is a repetition.
   The exception: enough of these sentences state one of the two much better than the other.

Similar statements are opposites if they have different numbers or names, or if only one of them contains a denial. Neither is
evidence for the other. If only a time or date differs, the statements are different, but not opposites.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from summhay_ray.mine.comparing import Candidate, Compared, Comparing
from summhay_ray.mine.findings import least_worth
from summhay_ray.mine.statements import Floats, Statements
from summhay_ray.mine.windows import stating
from summhay_ray.synth import read_words
from summhay_ray.text import find_contradictions

SAYS, SAYS_AT_MOST, UNSURE = 0.3, 0.65, 0.45
"""A window states an insight if its score reaches a threshold. The threshold depends on the collection, and lies between `SAYS`
and `SAYS_AT_MOST`; for statements with long numbers, it is at most `UNSURE`. A decision by a score below `UNSURE` is unsure."""
STRICTNESS = 1.5
"""With a higher threshold, a window must state more of an insight: the required shares are multiplied by (threshold / `SAYS`) to
this power."""
NEAR = 0.1
"""A window whose score is below the threshold by at most this much nearly states the insight. A person or a model is asked about
it."""
CHANCE, DECAY = 0.3, 0.6
"""`CHANCE`: maximum share of chance matches among the windows that state an insight. `DECAY`: factor by which the number of
chance matches falls with each 0.05 of the score. It was measured on folders of incident reports, minutes, release notes and
proposals with hardly any recurring statements."""
REPEATS = 0.5
"""Minimum overlap (intersection over union) of the sentences of two candidates that are the same insight."""
APART = 0.25
"""Minimum difference of scores at which a window states only one of two such candidates."""
SAME = 0.95
"""Minimum similarity to an accepted candidate at which a sentence is no longer a candidate."""
WORDS = "words"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A document that states an insight. `document`: index; `text`: the window; `score`: how much of the insight it has, 0 to 1.

    `by`: who decided that the document states it: `words`, or the label of a model, whose raw answer has the `key`.
    """

    document: int
    text: str
    score: float
    by: str = WORDS
    key: str = ""

    @property
    def sure(self) -> bool:
        """Whether a model confirmed it, or the window has most of the insight."""
        return self.by != WORDS or self.score >= UNSURE


@dataclass(frozen=True, slots=True)
class Mined:
    """An insight that recurs. `confidence` is relative to the best insight, 0 to 1; lists of insights are sorted by it.

    `opposites`: indices in the same list.
    """

    text: str
    evidence: tuple[Evidence, ...]
    doubtful: tuple[Evidence, ...]
    """Windows of other documents that nearly state the insight, or whose words only partly support it."""
    confidence: float
    opposites: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Taken:
    """An accepted candidate, its value, and the score of each window that states it, by the window's first sentence."""

    found: Candidate
    value: float
    scores: dict[int, float]


def find_insights(comparing: Comparing, compared: Iterable[Compared], least: int) -> list[Mined]:
    """Return the insights that at least `least` documents state, among the candidates of all blocks, best first."""
    of = comparing.of
    every = [(found, comparing.worth(found.sentence)) for block in compared for found in block.candidates()]
    least_sure = least_worth([worth for _, worth in every])
    candidates = [found for found, worth in every if worth >= least_sure]
    says = _least_score(of, candidates)
    taken = _chosen(comparing, candidates, says, least)
    most = max((one.value for one in taken), default=1.0)

    def evidence(found: Candidate, which: npt.NDArray[np.bool_]) -> tuple[Evidence, ...]:
        rows = np.flatnonzero(which).tolist()
        return tuple(
            Evidence(int(of.documents[found.firsts[row]]), found.window(of, row), round(float(found.scores[row]), 4))
            for row in rows
        )

    mined = []
    for one in taken:
        found, said = one.found, np.isin(one.found.firsts, [*one.scores])
        doubtful = evidence(found, ~said & (found.scores >= says - NEAR))
        mined.append(Mined(of.texts[found.sentence], evidence(found, said), doubtful, round(one.value / most, 4)))
    places = np.full(of.n, -1, dtype=np.int64)
    places[[one.found.sentence for one in taken]] = np.arange(len(taken))
    opposed: dict[int, set[int]] = {}
    for place, one in enumerate(taken):
        found = one.found
        alike = found.near[places[found.near] >= 0]
        for other in places[alike[comparing.opposite(found.sentence, alike)]].tolist():
            if _opposed(mined[place].text, mined[other].text):
                opposed.setdefault(place, set()).add(other)
                opposed.setdefault(other, set()).add(place)
    return [replace(one, opposites=tuple(sorted(opposed.get(place, ())))) for place, one in enumerate(mined)]


def _opposed(one: str, other: str) -> bool:
    """Whether two insights contradict each other. A different time or date is no contradiction, since it indicates two events."""
    return any(found.kind not in ("date", "time") for found in find_contradictions(one, other))


def _least_score(of: Statements, candidates: Sequence[Candidate]) -> float:
    """Return the minimum score of windows that state a candidate. With it, the share of chance matches among these windows is at
    most `CHANCE`.

    Chance matches are counted just below the lowest possible threshold, where they are most frequent. From there on, their number
    is assumed to fall by `DECAY`. A few matches are added to the count, so that the estimate for a small folder is not too
    optimistic. Copies of a sentence are not counted, because they do not show how other wordings score.
    """
    places: dict[str, int] = {}
    texts = np.array([places.setdefault(text, len(places)) for text in of.texts], dtype=np.int64)
    none = np.zeros(0)
    own = of.documents
    others = [
        found.scores[(own[found.firsts] != own[found.sentence]) & (texts[found.firsts] != texts[found.sentence])]
        for found in candidates
    ]
    scores = np.concatenate([none, *others])
    low, step = 0.25, 0.05
    chance = float(((scores >= low) & (scores < low + step)).sum()) + 3
    for says in np.arange(SAYS, SAYS_AT_MOST + step / 2, step).tolist():
        expected = chance * DECAY ** ((says - low) / step) / (1 - DECAY)
        if expected <= CHANCE * (scores >= says).sum():
            break
    return float(says)


def _chosen(comparing: Comparing, candidates: Sequence[Candidate], says: float, least: int) -> list[_Taken]:
    """Return the accepted candidates, best first. A candidate that repeats a better one is not accepted."""
    of = comparing.of

    def value(found: Candidate, said: npt.NDArray[np.bool_]) -> float:
        return comparing.worth(found.sentence) * _value(float(of.sizes[found.sentence]), found.scores[said])

    def least_score(found: Candidate) -> float:
        """Return the minimum score of windows that state a candidate. It is lower if the candidate has long numbers: the windows
        must have them, and chance matches seldom do."""
        exact = says > UNSURE and any(len(number) > 1 for number in read_words(of.texts[found.sentence]).numbers)
        return UNSURE if exact else says

    # Checking its windows can only lower a candidate's value. If it is still the best afterwards, it is accepted.
    waiting = []
    for place, found in enumerate(candidates):
        said = found.scores >= least_score(found)
        if said.sum() >= least:
            waiting.append((-value(found, said), found.sentence, place, said, False))
    heapq.heapify(waiting)
    resting: dict[int, list[int]] = {}
    taken: list[_Taken] = []
    repeated = np.zeros(of.n, dtype=bool)
    while waiting:
        worst, sentence, place, said, read = heapq.heappop(waiting)
        found = candidates[place]
        if repeated[sentence]:
            continue
        if not read:
            by_numbers = least_score(found) < says
            strictness = 1.0 if by_numbers else (says / SAYS) ** STRICTNESS
            said = said & stating(of, found, said, least, strictness, by_numbers)
            if said.sum() >= least:
                heapq.heappush(waiting, (-value(found, said), sentence, place, said, True))
            continue
        scores = dict(zip(found.firsts[said].tolist(), found.scores[said].tolist(), strict=True))
        touched = {place for first in scores for place in resting.get(first, ())}
        alike = [one for one in (taken[place] for place in sorted(touched)) if _repeats(scores, one.scores)]
        if len(alike) > 1 or (alike and not _are_two(scores, alike[0].scores, least)):
            continue
        same = found.near[found.likeness >= SAME]
        repeated[same[~comparing.opposite(sentence, same)]] = True
        for first in scores:
            resting.setdefault(first, []).append(len(taken))
        for one in alike:
            for first in scores.keys() & one.scores.keys():
                del (scores if scores[first] <= one.scores[first] else one.scores)[first]
        taken.append(_Taken(found, -worst, scores))
    return taken


def _repeats(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether two candidates are based on the same windows."""
    return len(one.keys() & other.keys()) >= REPEATS * len(one.keys() | other.keys())


def _are_two(one: Mapping[int, float], other: Mapping[int, float], least: int) -> bool:
    """Whether two candidates with the same windows are two insights: enough windows state much more of one, and enough others
    state much more of the other."""
    apart = [one[first] - other[first] for first in one.keys() & other.keys()]
    return sum(by >= APART for by in apart) >= least and sum(by <= -APART for by in apart) >= least


def _value(size: float, scores: Floats) -> float:
    """Return a candidate's value. It grows with the candidate's weight (`size`), and with the number and the scores of the
    windows that state it."""
    return round(math.log1p(size * float(scores.mean())) * math.log1p(float((scores**2).sum())), 9)
