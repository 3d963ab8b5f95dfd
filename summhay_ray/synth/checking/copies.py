"""Finds documents that are near-copies of each other."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from summhay_ray.synth.checking.words import read
from summhay_ray.text import sentences

COPY = 0.5
"""Minimum Jaccard similarity of two documents' shingles at which one is a near-copy of the other."""

REPORTED = COPY / 2
"""Minimum similarity at which a pair gets a row."""

_LENGTH = 4
"""Words of a shingle."""
_CROWD = 48
"""A shingle in more documents than this pairs each one only with the next that contains it."""
_MANY = 1000
"""With more documents fewer shingles are sampled: a haystack of ten million tokens has 10,000 documents."""

_LEAST_SAMPLE = 12
"""With a smaller sample, all shingles of the text are used."""


def near_copies(texts: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Pairs of documents (earlier id, later id) and the Jaccard similarity of their shingles (four consecutive words of a
    sentence), from `REPORTED` on, in the mapping's order. A document is compared only with the next one that shares a very common
    sentence, so that work grows with the number of documents. Among many copies, every copy except the first is found."""
    ids = list(texts)
    shingles = [_shingles(texts[document_id]) for document_id in ids]
    pairs = []
    for first, second in sorted(_candidates(shingles)):
        both = len(set(shingles[first]).intersection(shingles[second]))
        similarity = both / (len(shingles[first]) + len(shingles[second]) - both) if both else 0.0
        if similarity >= REPORTED:
            pairs.append((ids[first], ids[second], round(similarity, 4)))
    return pairs


def _shingles(text: str) -> Sequence[int]:
    """Sorted 64-bit hashes of all runs of four words; a shorter sentence is one run."""
    hashes = set()
    for sentence in sentences(text):
        reading = read(sentence)
        words = [*reading.roots, *sorted(reading.numbers)]
        for start in range(max(1, len(words) - _LENGTH + 1)):
            run = " ".join(words[start : start + _LENGTH])
            if run:
                hashes.add(int.from_bytes(blake2b(run.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"))
    return array("Q", sorted(hashes))


def _candidates(shingles: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """Pairs of indices that share enough sampled shingles to be compared in full."""
    # One in `rate` of the shingles, the same ones in every text; all of them for a short text.
    rate = 4 if len(shingles) <= _MANY else 16
    drawn = [[shingle for shingle in every if shingle % rate == 0] for every in shingles]
    samples = [some if len(some) >= _LEAST_SAMPLE else every for some, every in zip(drawn, shingles, strict=True)]
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
    # A pair at REPORTED shares about that part of the smaller sample; requiring a third of it allows for chance.
    sizes = [len(sample) for sample in samples]
    return near | {(one, two) for (one, two), count in shared.items() if 3 * count >= REPORTED * min(sizes[one], sizes[two])}
