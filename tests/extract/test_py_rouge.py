"""ROUGE-N by py-rouge's rules: its words, and its figures on the paper's pairs."""

from __future__ import annotations

import pytest

from summhay_ray.extract import rouge_n
from summhay_ray.extract.py_rouge import rouge_words

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Naïve café 3.5%", ["na", "ve", "caf", "3", "5"]),
        ("They cannot go, gonna stay; he cannotbe", ["thei", "cannot", "go", "gon", "na", "stai", "he", "cannotb"]),
        ("aides antra acromia", ["aid", "antrum", "acromion"]),
        ("accidentally visibly ran", ["accid", "visibl", "ran"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert rouge_words(text) == words


def test_scores_by_hand() -> None:
    # text: the cook hid key (4 words); reference: the cook hid the key (5): 4 shared words, and 2 of 3 and 4 pairs.
    one, two = rouge_n("The cook hid key", "the cook hid the key", 1), rouge_n("The cook hid key", "the cook hid the key", 2)
    assert (one.precision, one.recall, one.f1) == (4 / 4, 4 / 5, pytest.approx(2 * 0.8 / 1.8))
    assert (two.precision, two.recall) == (2 / 3, 2 / 4)
    assert rouge_n("", "a", 1).f1 == rouge_n("a", "", 1).f1 == rouge_n("a", "a", 2).f1 == 0
    assert rouge_n("running", "run", 1).recall == 1 and rouge_n("running", "run", 1, stem=False).recall == 0
