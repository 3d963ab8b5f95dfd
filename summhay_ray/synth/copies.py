"""Part of the synth room, for the room alone: documents that are near-copies of each other."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from summhay_ray.synth.words import read
from summhay_ray.text import sentences

COPY = 0.5
"""Share of two documents' shingles that they have in common (Jaccard), from which on one is a near-copy of the other."""

REPORTED = COPY / 2
"""Pairs from this share on are worth a row."""

_LENGTH = 4
_CROWD = 48
_MANY = 1000
"""Documents from which on fewer shingles are sampled: a haystack of ten million tokens has 10,000 documents."""

_LEAST_SAMPLE = 12


def near_copies(texts: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Pairs of documents (earlier id, later id, in the mapping's order) and the share of shingles they have in common.

    All pairs from `REPORTED` on, ordered by the places of the two. A shingle is four words in a row of one sentence. Of a
    sentence that a crowd of documents has, each is held against the next one that has it alone, so that work grows with
    the documents, not with their pairs: of a crowd of copies each but the first is found.
    """
    ids = list(texts)
    shingles = [_shingles(texts[document_id]) for document_id in ids]
    found = []
    for one, two in sorted(_candidates(shingles)):
        share = _jaccard(shingles[one], shingles[two])
        if share >= REPORTED:
            found.append((ids[one], ids[two], round(share, 4)))
    return found


def _shingles(text: str) -> Sequence[int]:
    """64-bit hashes of all runs of four words, sorted; of a shorter sentence, the whole."""
    found = set()
    for sentence in sentences(text):
        reading = read(sentence)
        words = [*reading.roots, *sorted(reading.numbers)]
        for start in range(max(1, len(words) - _LENGTH + 1)):
            run = " ".join(words[start : start + _LENGTH])
            if run:
                found.add(int.from_bytes(blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"))
    return array("Q", sorted(found))


def _candidates(shingles: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """Pairs that share enough of a sample of the shingles to be held against each other."""
    rate = 4 if len(shingles) <= _MANY else 16
    samples = [_sample(every, rate) for every in shingles]
    holders: dict[int, list[int]] = {}
    for place, sample in enumerate(samples):
        for shingle in sample:
            holders.setdefault(shingle, []).append(place)
    shared: Counter[tuple[int, int]] = Counter()
    near: set[tuple[int, int]] = set()
    for places in holders.values():
        if len(places) > _CROWD:
            near.update(zip(places, places[1:], strict=False))
        else:
            shared.update((one, two) for at, one in enumerate(places) for two in places[at + 1 :])
    # A pair at REPORTED shares about REPORTED of the smaller sample; a third of that leaves room for chance.
    sizes = [len(sample) for sample in samples]
    return near | {(one, two) for (one, two), count in shared.items() if 3 * count >= REPORTED * min(sizes[one], sizes[two])}


def _sample(shingles: Sequence[int], rate: int) -> Sequence[int]:
    """One in `rate` of them, the same of every text; all of a short text's."""
    sample = [shingle for shingle in shingles if shingle % rate == 0]
    return sample if len(sample) >= _LEAST_SAMPLE else shingles


def _jaccard(one: Sequence[int], two: Sequence[int]) -> float:
    both = len(set(one).intersection(two))
    return both / (len(one) + len(two) - both) if both else 0.0
