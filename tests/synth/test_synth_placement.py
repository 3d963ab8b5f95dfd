"""Placement meets all numbers of shape and difficulty, or one line names those that cannot be met."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.synth import Difficulty, Shape, Topic, check_placement, load_domain
from summhay_ray.synth.making.kinds import PlannedDocument, PlannedHaystack, PlannedInsight, PlannedSubtopic
from summhay_ray.synth.making.placement import place, planned_insights

pytestmark = pytest.mark.core

NEWS = replace(load_domain("news"), insights_per_document=3)


def outline(shape: Shape, difficulty: Difficulty) -> PlannedHaystack:
    """An outline with the requested subtopics and insights; the first insights of the first subtopics have conflicting ones."""
    subtopics = []
    for s in range(shape.subtopics + difficulty.distractors):
        ids = [f"s{s}-i{i}" for i in range(shape.insights)]
        sides: dict[str, str] = {}
        asked = min(difficulty.conflicts, shape.subtopics * shape.insights)
        for i in range(s, asked, shape.subtopics) if s < shape.subtopics else ():
            one, other = ids[i // shape.subtopics], f"s{s}-x{i}"
            sides |= {one: other, other: one}
        ids += [other for other in sides.values() if other not in ids]
        insights = tuple(PlannedInsight(one, f"s{s}", "", f"text of {one}", sides.get(one, "")) for one in ids)
        subtopics.append(PlannedSubtopic(f"s{s}", "", f"subtopic {s}", "", insights, asked=s < shape.subtopics))
    return PlannedHaystack(Topic("t", "rain"), tuple(subtopics))


SHAPES = st.builds(Shape, st.integers(1, 5), st.integers(3, 6), st.integers(10, 60), st.sampled_from([150, 750]))
DIFFICULTIES = st.builds(
    Difficulty,
    documents_per_insight=st.none() | st.integers(2, 9),
    least=st.integers(1, 5),
    spread=st.floats(0, 1),
    distractors=st.integers(0, 3),
    conflicts=st.integers(0, 4),
    cross_references=st.floats(0, 1),
)


def placed(shape: Shape, difficulty: Difficulty, seed: int = 1) -> tuple[PlannedDocument, ...]:
    return place(outline(shape, difficulty), shape, difficulty, NEWS, seed)


@given(SHAPES, DIFFICULTIES, st.integers(0, 99))
def test_placement_meets_shape_and_difficulty(shape: Shape, difficulty: Difficulty, seed: int) -> None:
    planned = outline(shape, difficulty)
    assert len(planned.insights) == planned_insights(shape, difficulty) or difficulty.conflicts > shape.subtopics * shape.insights
    try:
        check_placement(shape, difficulty, NEWS)
        documents = place(planned, shape, difficulty, NEWS, seed)
    except UserError as problem:
        assert "\n" not in str(problem) and ("raise " in str(problem) or "lower " in str(problem))
        assume(False)
    assert [document.number for document in documents] == list(range(1, shape.documents + 1))
    assert len({document.document_id for document in documents}) == shape.documents
    counts = Counter(one for document in documents for one in document.insight_ids)
    assert set(counts) == {insight.insight_id for insight in planned.insights}
    assert min(counts.values()) >= difficulty.least
    average = difficulty.documents_per_insight
    if average is not None:
        assert sum(counts.values()) == average * len(planned.insights)
    loads = [len(document.insight_ids) for document in documents]
    assert min(loads) >= 1 and max(loads) - min(loads) <= 1
    other = {insight.insight_id: insight.conflicts_with for insight in planned.insights}
    for document in documents:
        held = set(document.insight_ids)
        assert len(held) == len(document.insight_ids)
        assert not any(other[one] in held for one in held)


@given(st.integers(10, 900), st.floats(0, 1), st.integers(0, 99))
def test_dates_ascend_and_references_point_back_in_time(documents: int, share: float, seed: int) -> None:
    shape, difficulty = Shape(2, 3, documents), Difficulty(cross_references=share)
    planned = placed(shape, difficulty, seed)
    dates = [document.date for document in planned]
    referring = [document for document in planned if document.refers_to]
    if not share:
        assert set(dates) == {""} and not referring
        return
    assert dates == sorted(dates) and all(len(date) == 10 for date in dates)
    first_day = dates.count(dates[0])
    assert len(referring) == min(round(share * documents), documents - first_day)
    for document in referring:
        assert all(dates[number - 1] < document.date for number in document.refers_to)


def counts_at(spread: float) -> list[int]:
    shape, difficulty = Shape(5, 6, 100), Difficulty(documents_per_insight=9, spread=spread)
    return sorted(Counter(one for document in placed(shape, difficulty) for one in document.insight_ids).values())


def test_spread_makes_shares_uneven_but_keeps_the_least_and_the_sum() -> None:
    assert set(counts_at(0)) == {9}
    gaps = [counts_at(spread)[-1] - counts_at(spread)[0] for spread in (0, 0.25, 0.5, 1)]
    assert gaps == sorted(gaps) and gaps[-1] > 15
    # The rarest of 30 gets 5 and 1/30 of 120 over 1 + 1/2 + ... + 1/30 = 3.99: 5 + 1.0.
    assert counts_at(1)[0] == 6 and sum(counts_at(1)) == 9 * 30


@pytest.mark.parametrize(
    ("shape", "difficulty", "said"),
    [
        (
            {},
            {"documents_per_insight": 4},
            "documents_per_insight is 4, below difficulty.least, 5; raise it or lower",
        ),
        ({"documents": 4}, {}, "4 documents are too few for difficulty.least 5; raise documents"),
        ({"documents": 9}, {"conflicts": 1}, "9 documents (half of them for each side of a conflict) are too few"),
        ({"documents": 30}, {"documents_per_insight": 31}, "too few for difficulty.documents_per_insight 31"),
        ({"subtopics": 1, "insights": 3}, {"conflicts": 4}, "difficulty.conflicts is 4, but only 3 insights have a query"),
        (
            {"subtopics": 2, "insights": 3},
            {"documents_per_insight": 5},
            "fill 30 of 100 documents, and none may be empty; lower",
        ),
        # 63 insights in 5 documents each are 315 places: 32 in each of 10 documents, and 750 words hold 41, 150 hold 8.
        (
            {"documents": 10, "words": 150},
            {},
            "32 per document, and 150 words hold 8; raise documents to 40",
        ),
    ],
)
def test_impossible_shapes_are_refused_in_one_line_with_the_field_to_change(shape: Any, difficulty: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        check_placement(Shape(**shape), Difficulty(**difficulty), NEWS)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_two_insights_that_exclude_each_other_cannot_fill_an_odd_number_of_documents() -> None:
    one, other = PlannedInsight("a", "s", "", "1", "b"), PlannedInsight("b", "s", "", "2", "a")
    pair = PlannedHaystack(Topic("t", "rain"), (PlannedSubtopic("s", "", "x", "", (one, other)),))
    with pytest.raises(UserError, match="2 insights in 5 documents each fill 10 of 11 documents, and none may be empty"):
        place(pair, Shape(1, 1, 11), Difficulty(conflicts=1), NEWS, 1)
    with pytest.raises(UserError, match="lower documents to 10"):
        check_placement(Shape(1, 1, 11), Difficulty(conflicts=1), NEWS)
    assert len(place(pair, Shape(1, 1, 10), Difficulty(conflicts=1), NEWS, 1)) == 10


@pytest.mark.soak
def test_a_haystack_of_ten_million_tokens_is_planned() -> None:
    shape, difficulty = Shape(9, 7, 15_000), Difficulty(spread=0.5, conflicts=3, cross_references=0.2)
    documents = placed(shape, difficulty)
    assert len(documents) == 15_000 and {len(document.insight_ids) for document in documents} == {3}
