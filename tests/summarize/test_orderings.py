"""Orderings of a whole haystack: permutations, stable, decided by content."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray import plugins
from summhay_ray.records import Document, Haystack, Insight
from summhay_ray.summarize import order

pytestmark = pytest.mark.core
NAMES = ["bottom", "given", "middle", "random", "top"]


def haystack_of(scores: list[int], haystack_id: str = "h") -> Haystack:
    """A haystack with one document per score. The score is the document's number of insights of subtopic s1; each document also
    has one insight of another subtopic."""
    return Haystack(
        haystack_id=haystack_id,
        name="made",
        topic_id="",
        topic=haystack_id,
        domain="news",
        participants=(),
        documents=tuple(
            Document(haystack_id, f"d{number}", number, "text", ("other", *(f"i{place}" for place in range(score))))
            for number, score in enumerate(scores, 1)
        ),
        subtopics=(),
        insights=(
            Insight(haystack_id, "s2", "other", 0, "", ""),
            *(Insight(haystack_id, "s1", f"i{place}", place, "", "") for place in range(5)),
        ),
    )


SCORES = st.lists(st.integers(0, 5), max_size=40)


def test_the_orderings_by_score() -> None:
    haystack = haystack_of([0, 2, 1, 0, 2, 3])
    assert order("given", haystack, "s1", 0) == [1, 2, 3, 4, 5, 6]
    assert order("top", haystack, "s1", 0) == [6, 2, 5, 3, 1, 4]
    assert order("bottom", haystack, "s1", 0) == [1, 4, 3, 2, 5, 6]
    middle = order("middle", haystack, "s1", 0)
    start = middle.index(6)
    assert middle[start : start + 4] == [6, 2, 5, 3]


@given(SCORES, st.sampled_from(NAMES), st.integers(0, 9))
def test_every_ordering_is_a_permutation_and_the_same_again(scores: list[int], name: str, seed: int) -> None:
    numbers = order(name, haystack_of(scores), "s1", seed)
    assert sorted(numbers) == list(range(1, len(scores) + 1))
    assert numbers == order(name, haystack_of(scores), "s1", seed)


@given(SCORES, st.sampled_from(["top", "bottom", "middle"]), st.integers(0, 9))
def test_equal_scores_stand_in_document_order(scores: list[int], name: str, seed: int) -> None:
    numbers = order(name, haystack_of(scores), "s1", seed)
    parts = [[number for number in numbers if scores[number - 1] == score] for score in range(1, 6)]
    if name != "middle":
        parts.append([number for number in numbers if scores[number - 1] == 0])
    assert all(part == sorted(part) for part in parts)


@given(SCORES, st.integers(0, 9))
def test_middle_keeps_the_relevant_together_between_two_ordered_parts(scores: list[int], seed: int) -> None:
    numbers = order("middle", haystack_of(scores), "s1", seed)
    relevant = [place for place, number in enumerate(numbers) if scores[number - 1] > 0]
    if relevant:
        assert relevant == list(range(relevant[0], relevant[-1] + 1))
        best_first = [scores[numbers[place] - 1] for place in relevant]
        assert best_first == sorted(best_first, reverse=True)
        before, behind = numbers[: relevant[0]], numbers[relevant[-1] + 1 :]
        assert before == sorted(before) and behind == sorted(behind)


def test_the_coins_of_middle_fall_about_evenly() -> None:
    numbers = order("middle", haystack_of([0] * 2000 + [1]), "s1", 3)
    # 2,000 coins have a standard deviation of sqrt(2000) / 2 = 22; four of them are 89.
    assert abs(numbers.index(2001) - 1000) < 90


@pytest.mark.parametrize("name", ["random", "middle"])
def test_a_draw_depends_on_seed_haystack_and_subtopic(name: str) -> None:
    haystack = haystack_of([0] * 30)
    others = [order(name, haystack, "s1", 1), order(name, haystack, "s2", 0), order(name, haystack_of([0] * 30, "g"), "s1", 0)]
    assert order(name, haystack, "s1", 0) not in others
    assert len({tuple(numbers) for numbers in others}) == 3


def test_random_is_the_same_in_every_process() -> None:
    # Another process drew it, with other hashes of texts.
    assert order("random", haystack_of([0] * 10), "s1", 7) == [4, 2, 3, 9, 10, 5, 1, 6, 8, 7]


def test_an_own_function_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_orderings.py").write_text(
        "def backwards(haystack, subtopic_id, seed):\n"
        "    return [document.number for document in reversed(haystack.documents)]\n"
        "def lossy(haystack, subtopic_id, seed):\n"
        "    return [1, 1, 2]\n"
        "constant = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    haystack = haystack_of([0, 1, 2])
    assert order("own_orderings:backwards", haystack, "s1", 0) == [3, 2, 1]
    with pytest.raises(ValueError, match="returned 3 numbers for the 3 documents of haystack 'made'"):
        order("own_orderings:lossy", haystack, "s1", 0)
    with pytest.raises(plugins.UnknownName, match="is not an ordering"):
        order("own_orderings:constant", haystack, "s1", 0)
    with pytest.raises(plugins.UnknownName, match="cannot be imported"):
        order("own_orderings:absent", haystack, "s1", 0)
