"""The order in which a whole haystack is shown (paper, section 5.4 and Table 3).

To add one, write a function `(haystack, subtopic_id, seed) -> document numbers` anywhere on the Python path, and name it in the
spec: `orderings: [my_package.my_module:my_ordering]`.
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

    given: document order. random: pseudo-random, by seed and content. top, bottom: by oracle score, descending or ascending, ties
    in document order. middle: relevant documents in the middle (`_middle`). Raises UnknownName for an unknown name, and
    ValueError if a user's function does not return every document exactly once.
    """
    numbers = list(_find(name)(haystack, subtopic_id, seed))
    if sorted(numbers) != sorted(document.number for document in haystack.documents):
        raise ValueError(
            f"ordering {name!r} returned {len(numbers)} numbers for the {len(haystack.documents)} documents of haystack "
            f"{haystack.name!r}; it must return every document's number once"
        )
    return numbers


def check_ordering(name: str) -> None:
    """Raises UnknownName unless the name is a built-in ordering or a `module:function`."""
    _find(name)


def _find(name: str) -> Ordering:
    if ":" in name:
        loaded = plugins.load(name)
        if not callable(loaded):
            raise plugins.UnknownName(
                f"{name!r} is not an ordering; expected a function (haystack, subtopic_id, seed) -> numbers"
            )
        ordering: Ordering = loaded
        return ordering
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
    """Relevant documents, best first, in the middle; a seeded coin puts each other document before or after them."""
    scores = _scores(haystack, subtopic_id)
    draws = _draws("middle", haystack, subtopic_id, seed)
    rest = [number for number, score in scores.items() if score == 0]
    relevant = [number for number in _top(haystack, subtopic_id, seed) if scores[number] > 0]
    before = [number for number in rest if draws[number][0] % 2 == 0]
    after = [number for number in rest if draws[number][0] % 2 == 1]
    return before + relevant + after


_ORDERINGS: dict[str, Ordering] = {"given": _given, "random": _random, "top": _top, "bottom": _bottom, "middle": _middle}


def _scores(haystack: Haystack, subtopic_id: str) -> dict[int, int]:
    scores = haystack.oracle_scores(subtopic_id)
    return {document.number: score for document, score in zip(haystack.documents, scores, strict=True)}


def _draws(purpose: str, haystack: Haystack, subtopic_id: str, seed: int) -> dict[int, bytes]:
    """Document number -> a hash of seed and content, used as a uniform draw; equal in every process."""
    draws = {}
    for document in haystack.documents:
        # Not the haystack's id: that changes when a summary is added to a haystack's file, and the order must not.
        content = ["ordering", purpose, seed, haystack.topic, subtopic_id, document.document_id]
        draws[document.number] = hashlib.sha256(json.dumps(content).encode("ascii")).digest()
    return draws
