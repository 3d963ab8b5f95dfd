"""Documents that are near-copies of each other."""

from __future__ import annotations

import random
import time

import pytest

from summhay_ray.synth.checking.copies import COPY, REPORTED, near_copies

pytestmark = pytest.mark.core

WORDS = [
    first + second + third
    for first in ("ba", "ko", "ri", "tu")
    for second in ("lan", "mer", "dos", "vik")
    for third in ("to", "na", "gu", "pe")
]


def text(seed: int, sentences: int = 30) -> str:
    rng = random.Random(seed)
    return " ".join(" ".join(rng.choices(WORDS, k=12)).capitalize() + "." for _ in range(sentences))


def changed(original: str, share: float) -> str:
    """The text with a share of its sentences replaced by others."""
    sentences = original.split(". ")
    others = text(999).split(". ")
    number = round(share * len(sentences))
    return ". ".join(others[:number] + sentences[number:])


def test_a_copy_is_found_and_the_later_one_named_second() -> None:
    texts = {"b": text(1), "a": text(2), "c": text(1)}
    assert near_copies(texts) == [("b", "c", 1.0)]


@pytest.mark.parametrize(("share", "copy"), [(0.1, True), (0.25, True), (0.5, False)])
def test_the_least_similarity_of_a_copy(share: float, copy: bool) -> None:
    """The similarity of two texts with s of 30 sentences in common is s / (60 - s)."""
    pairs = near_copies({"one": text(1), "two": changed(text(1), share)})
    common = 30 - round(30 * share)
    assert [pair[:2] for pair in pairs] == [("one", "two")]
    assert pairs[0][2] == pytest.approx(common / (60 - common), abs=0.03)
    assert (pairs[0][2] >= COPY) == copy and pairs[0][2] >= REPORTED


def test_common_insights_do_not_make_copies() -> None:
    """Two documents with eight of fifty sentences in common: 8 / 92."""
    shared = text(77, 8)
    assert near_copies({"one": f"{text(1, 42)} {shared}", "two": f"{text(2, 42)} {shared}"}) == []


@pytest.mark.parametrize("n", [150, pytest.param(1500, marks=pytest.mark.soak)])
def test_a_sentence_in_all_documents_adds_no_pairs(n: int) -> None:
    common = "This advertisement stands in every single paper of the whole town today."
    texts = {f"d{number}": f"{text(number, 10)} {common}" for number in range(n)}
    began = time.process_time()
    assert near_copies(texts) == []
    assert time.process_time() - began < 10
