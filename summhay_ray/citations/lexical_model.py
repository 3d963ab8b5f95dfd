"""The probability that one document supports a bullet, by a logistic model of their shared words.

TF-IDF and the agreement of documents need a haystack. This model judges claims that have only a reference or two. It is fitted to
claims that people labelled (`tools/fit_support.py`, which also measures it). Its value is a probability if half of the claims are
supported.
"""

import functools
import json
import math
from collections.abc import Sequence
from importlib import resources
from itertools import chain, pairwise

FEATURES = ("shared", "pairs", "gap", "numbers", "words", "length")
"""The features of a bullet and a document, in the order of the weights:

- shared: the share of the bullet's words in the best three adjacent sentences of the document, 0 to 1.
- pairs: the share of the bullet's pairs of adjacent words that are also adjacent in the document, 0 to 1.
- gap: the longest run of the bullet's words that these three sentences lack, as a share of its words, 0 to 1.
- numbers: the count of the bullet's numbers that the document lacks.
- words: ln(1 + words of the bullet).
- length: ln(1 + words of the document). A longer document shares more words by chance.
"""
SHIPPED = "lexical_model.json"
_SENTENCES = 3


def lexical_features(bullet: Sequence[str], sentences: Sequence[Sequence[str]]) -> tuple[float, ...]:
    """The features of a bullet's words and those of each sentence of a document, without function words. A number begins with
    `#`."""
    words = dict.fromkeys(bullet)
    windows = [set(chain(*sentences[begin : begin + _SENTENCES])) for begin in range(max(1, len(sentences) - _SENTENCES + 1))]
    window = max(windows, key=lambda window: len(window & words.keys()))
    document = list(chain(*sentences))
    held = set(document)
    neighbours = set(pairwise(bullet))
    longest = run = 0
    for word in bullet:
        run = 0 if word in window else run + 1
        longest = max(longest, run)
    return (
        len(window & words.keys()) / max(1, len(words)),
        len(neighbours & set(pairwise(document))) / max(1, len(neighbours)),
        longest / max(1, len(bullet)),
        float(sum(word.startswith("#") and word not in held for word in words)),
        math.log1p(len(words)),
        math.log1p(len(document)),
    )


def lexical_value(features: Sequence[float]) -> float:
    """The probability that a document with these features supports the bullet, 0 to 1; 0 without shared words."""
    if not features[0]:
        return 0.0
    weights, intercept = _shipped()
    return 1 / (1 + math.exp(-intercept - math.fsum(weight * value for weight, value in zip(weights, features, strict=True))))


@functools.cache
def _shipped() -> tuple[tuple[float, ...], float]:
    fitted = json.loads(resources.files("summhay_ray.citations").joinpath(SHIPPED).read_text(encoding="utf-8"))
    return tuple(fitted["weights"][name] for name in FEATURES), fitted["intercept"]
