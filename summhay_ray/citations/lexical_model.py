"""The probability that one document supports a bullet, by a logistic model of their shared words.

The support judge's TF-IDF weights need a haystack of documents. This model is for claims with only one or two references.
`tools/fit_support.py` fits it to claims that people labelled, and measures its accuracy. Its value is a calibrated probability if
half of the claims are supported.
"""

import functools
import json
import math
from collections.abc import Sequence
from importlib import resources
from itertools import chain, pairwise

FEATURES = ("shared", "pairs", "gap", "numbers", "words", "length")
"""The features of a bullet and a document, in the order of the weights:

- shared: the share of the bullet's words that occur in the best window, 0 to 1. The best window is the three adjacent sentences
  of the document that contain most of them.
- pairs: the share of the bullet's pairs of adjacent words that are also adjacent in the document, 0 to 1.
- gap: the length of the bullet's longest run of words that are not in the best window, divided by the bullet's word count, 0 to
  1.
- numbers: how many of the bullet's numbers are missing from the document.
- words: ln(1 + words of the bullet).
- length: ln(1 + words of the document). Longer documents share more words by chance.
"""
SHIPPED = "lexical_model.json"
_SENTENCES = 3


def lexical_features(bullet: Sequence[str], sentences: Sequence[Sequence[str]]) -> tuple[float, ...]:
    """Return the features of a bullet and a document. Both are given as words without function words; each number begins with
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
    """Return the probability (0 to 1) that a document with these features supports the bullet. It is 0 if they share no words."""
    if not features[0]:
        return 0.0
    weights, intercept = _shipped()
    return 1 / (1 + math.exp(-intercept - math.fsum(weight * value for weight, value in zip(weights, features, strict=True))))


@functools.cache
def _shipped() -> tuple[tuple[float, ...], float]:
    fitted = json.loads(resources.files("summhay_ray.citations").joinpath(SHIPPED).read_text(encoding="utf-8"))
    return tuple(fitted["weights"][name] for name in FEATURES), fitted["intercept"]
