"""Finds documents that are near-copies of each other."""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from summhay_ray.synth.checking.words import read
from summhay_ray.text import sentences

COPY = 0.5
"""Minimum Jaccard similarity of two documents' shingles at which they are near-copies."""

REPORTED = COPY / 2
"""Minimum similarity at which a pair gets a row."""

_LENGTH = 4
"""Number of words in a shingle."""
_CROWD = 48
"""If a shingle is in more documents than this, each of them is paired only with the next one that has it."""
_MANY = 1000
"""With more documents than this, fewer shingles are sampled. A haystack of ten million tokens has 10,000 documents."""

_LEAST_SAMPLE = 12
"""Minimum size of a sample. For a text with a smaller sample, all shingles are used."""


def near_copies(texts: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Return pairs of documents (earlier id, later id) and the Jaccard similarity of their shingles, if it is at least
    `REPORTED`.

    A shingle is four consecutive words of a sentence. Pairs are in the mapping's order. Documents with a very common shingle are
    compared only with the next document that has it, so the work grows linearly with the number of documents. Among many copies,
    every copy except the first is found.
    """
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
    """Return the sorted 64-bit hashes of all runs of four words. A shorter sentence is one run."""
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
    """Return the pairs of indices that share enough sampled shingles to be compared in full."""
    # Sample one in `rate` of the shingles, the same ones in every text; use all of them for a short text.
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
    # A pair at REPORTED shares about this part of the smaller sample. Only a third of it is required, to allow for chance.
    sizes = [len(sample) for sample in samples]
    return near | {(one, two) for (one, two), count in shared.items() if 3 * count >= REPORTED * min(sizes[one], sizes[two])}
