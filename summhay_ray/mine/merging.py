"""Selects insights that may be the same in other words, so that a model can decide about them, and merges insights."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from summhay_ray.mine.insights import Evidence, Mined
from summhay_ray.mine.statements import Statements

TOGETHER = 20
"""Maximum number of insights that one question compares."""
_LIKE = 0.2
"""Minimum share of the lighter insight's weight that two insights must share to be compared."""


def may_be_one(mined: Sequence[Mined]) -> list[list[int]]:
    """Return blocks of 2 to 20 indices of somewhat similar insights. Each insight is in at most one block, that of the most
    certain insight similar to it."""
    of = Statements([one.text for one in mined])
    weight = np.bincount(of.documents, of.sizes, len(mined))
    left = np.ones(len(mined), dtype=bool)
    blocks = []
    for place in range(len(mined)):
        if not left[place]:
            continue
        shared = np.zeros(len(mined))
        facts, _ = of.facts_of(np.flatnonzero(of.documents == place))
        for fact in set(facts.tolist()):
            shared[np.unique(of.documents[of.posted(fact)])] += of.weights[fact]
        like = shared / np.maximum(np.minimum(weight, weight[place]), 1e-9)
        like[~left | (like < _LIKE)] = 0.0
        like[place] = np.inf
        near = [int(other) for other in np.argsort(-like, kind="stable")[:TOGETHER] if like[other] > 0]
        left[near] = False
        blocks += [sorted(near)] if len(near) > 1 else []
    return blocks


def merged(mined: Sequence[Mined], groups: Sequence[Sequence[int]], least: int) -> list[Mined]:
    """Merge each group (indices) into one insight, which has the wording of its most certain member; return all insights.

    Only insights in at least `least` documents are returned. Opposites are never merged, even if they are in one group.
    """
    into = [*range(len(mined))]
    for group in groups:
        first, *others = sorted(group)
        for place in others:
            if not any(into[other] in (first, into[first]) for other in mined[place].opposites):
                into[place] = into[first]
    members: dict[int, list[int]] = {}
    for place, first in enumerate(into):
        members.setdefault(first, []).append(place)
    joined = {first: _joined([mined[place] for place in places]) for first, places in members.items()}
    kept = [first for first, one in joined.items() if len(one.evidence) >= least]
    position = {place: number for number, first in enumerate(kept) for place in members[first]}

    def opposites(first: int) -> tuple[int, ...]:
        others = {position[other] for place in members[first] for other in mined[place].opposites if other in position}
        return tuple(sorted(others - {position[first]}))

    return [replace(joined[first], opposites=opposites(first)) for first in kept]


def _joined(ones: Sequence[Mined]) -> Mined:
    best: dict[int, Evidence] = {}
    doubtful: dict[int, Evidence] = {}
    for one in ones:
        for found, into in ((one.evidence, best), (one.doubtful, doubtful)):
            for evidence in found:
                if evidence.document not in into or evidence.score > into[evidence.document].score:
                    into[evidence.document] = evidence
    listed = tuple(best[document] for document in sorted(best))
    return replace(ones[0], evidence=listed, doubtful=tuple(doubtful[one] for one in sorted(doubtful) if one not in best))
