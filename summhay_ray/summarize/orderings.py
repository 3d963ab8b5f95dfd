"""The order in which a whole haystack is shown (paper, section 5.4 and Table 3). Part of the `summarize` room.

To add one: write a function `(haystack, subtopic_id, seed) -> document numbers` anywhere on the Python path and name it in
the spec: `orderings: [my_package.my_module:my_ordering]`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from summhay_ray import plugins
from summhay_ray.records import Haystack

Ordering = Callable[[Haystack, str, int], list[int]]


def order(name: str, haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    """The numbers of all documents in the order shown.

    given: document order. random: seeded by content. top, bottom: by oracle score, descending or ascending, equal scores in
    document order. middle: see there. Raises UnknownName for a name that nothing answers to, and ValueError where a
    user's function does not return every document once.
    """
    numbers = list(_find(name)(haystack, subtopic_id, seed))
    if sorted(numbers) != sorted(document.number for document in haystack.documents):
        raise ValueError(
            f"ordering {name!r} returned {len(numbers)} numbers for the {len(haystack.documents)} documents of haystack "
            f"{haystack.name!r}; it must return every document's number once"
        )
    return numbers


def check_ordering(name: str) -> None:
    """Raises UnknownName where no ordering, of ours or at `module:function`, answers to the name."""
    _find(name)


def _find(name: str) -> Ordering:
    if ":" in name:
        loaded = plugins.load(name)
        if not callable(loaded):
            raise plugins.UnknownName(f"{name!r} is no ordering; expected a function (haystack, subtopic_id, seed) -> numbers")
        own: Ordering = loaded
        return own
    if name not in _ORDERINGS:
        raise plugins.unknown("ordering", name, _ORDERINGS)
    return _ORDERINGS[name]


def _given(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    return [document.number for document in haystack.documents]


def _random(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    draws = _draws("random", haystack, subtopic_id, seed)
    return sorted(draws, key=lambda number: draws[number])


def _top(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    scores = _scores(haystack, subtopic_id)
    return sorted(scores, key=lambda number: -scores[number])


def _bottom(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    scores = _scores(haystack, subtopic_id)
    return sorted(scores, key=lambda number: scores[number])


def _middle(haystack: Haystack, subtopic_id: str, seed: int) -> list[int]:
    """Relevant documents, best first, between the others: a seeded coin sends each of those before or behind them."""
    scores = _scores(haystack, subtopic_id)
    draws = _draws("middle", haystack, subtopic_id, seed)
    rest = [number for number, score in scores.items() if score == 0]
    relevant = [number for number in _top(haystack, subtopic_id, seed) if scores[number] > 0]
    before = [number for number in rest if draws[number][0] % 2 == 0]
    behind = [number for number in rest if draws[number][0] % 2 == 1]
    return before + relevant + behind


_ORDERINGS: dict[str, Ordering] = {"given": _given, "random": _random, "top": _top, "bottom": _bottom, "middle": _middle}


def _scores(haystack: Haystack, subtopic_id: str) -> dict[int, int]:
    scores = haystack.oracle_scores(subtopic_id)
    return {document.number: score for document, score in zip(haystack.documents, scores, strict=True)}


def _draws(purpose: str, haystack: Haystack, subtopic_id: str, seed: int) -> dict[int, bytes]:
    """One even draw a document, from content alone: the same on every machine and in every process."""
    draws = {}
    for document in haystack.documents:
        # Not the haystack's id: it changes with every summary that is added to a file, and the draw must not.
        content = ["ordering", purpose, seed, haystack.topic, subtopic_id, document.document_id]
        draws[document.number] = hashlib.sha256(json.dumps(content).encode("ascii")).digest()
    return draws
