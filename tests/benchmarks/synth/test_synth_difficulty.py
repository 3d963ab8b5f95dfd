"""Each difficulty setting, moved from one end to the other, changes the score of `offline/support` as expected.

The full measurement with intervals is `python tools/difficulty.py`.
"""

from __future__ import annotations

from dataclasses import replace

import difficulty
import pytest
from difficulty import Scores, Setting, trend

pytestmark = pytest.mark.core

SETTING = Setting(
    domains=("news",),
    subtopics=4,
    insights=4,
    documents=24,
    words=200,
    seeds=(1,),
    retrievers=("full", "oracle"),
)
"""One haystack of 24 documents at each end."""
ENDS = {"documents_per_insight": (2, 12), "paraphrase": (0, 3), "distractors": (0, 6), "conflicts": (0, 16)}


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Scores]]:
    """Scores that were measured already: three settings share the same unchanged end."""
    return {}


@pytest.mark.soak
@pytest.mark.parametrize("knob", difficulty.KNOBS, ids=lambda knob: knob.name)
def test_the_score_moves_as_it_should(knob: difficulty.Knob, known: dict[str, dict[str, Scores]]) -> None:
    found = difficulty.sweep(replace(knob, values=ENDS[knob.name]), SETTING, known)
    first, last = found.points[knob.retriever].values()
    way = 1 if knob.rises else -1
    assert way * found.trends[knob.retriever].change > 0.05, difficulty.knob_table(found)
    assert way * (last.pooled["stated"] - first.pooled["stated"]) > 0.05, difficulty.knob_table(found)
    assert len(first.joint) == len(last.joint) == 1


def points(*joint: tuple[float, float]) -> dict[int, Scores]:
    """Scores of two haystacks at the values 1, 2, ..."""
    return {
        value: Scores("full", 10, {"joint": (one + other) / 2}, {}, {"a": one, "b": other})
        for value, (one, other) in enumerate(joint, 1)
    }


def test_a_trend_is_the_change_from_the_first_value_to_the_last() -> None:
    found = trend(points((0.2, 0.4), (0.9, 0.9), (0.5, 0.5)))
    # 0.5 - 0.2 and 0.5 - 0.4: on average 0.2, and between 0.1 and 0.3 in any resample.
    assert found.change == pytest.approx(0.2)
    assert found.change_ci == (pytest.approx(0.1), pytest.approx(0.3))
    # Ranks of the means 0.3, 0.9, 0.5 are 3, 1, 2; ranks of the values are 3, 2, 1: 1 - 6 (0 + 1 + 1) / (3 x 8).
    assert found.spearman_of_values == pytest.approx(0.5)
    assert found.holds(rises=True) and not found.holds(rises=False)


def test_a_change_that_may_be_none_is_no_trend() -> None:
    found = trend(points((0.2, 0.4), (0.5, 0.3)))
    assert found.change == pytest.approx(0.1) and found.change_ci[0] < 0 < found.change_ci[1]
    assert not found.holds(rises=True) and not found.holds(rises=False)
    alone = trend({value: Scores("full", 5, {"joint": joint}, {}, {"a": joint}) for value, joint in ((1, 0.2), (2, 0.9))})
    assert alone.change == pytest.approx(0.7) and alone.change_ci is None and not alone.holds(rises=True)


def test_a_haystack_that_one_end_lacks_is_no_change() -> None:
    lacking = {**points((0.2, 0.4), (0.5, 0.5)), 3: Scores("full", 5, {"joint": 0.6}, {}, {"b": 0.6})}
    assert trend(lacking).change == pytest.approx(0.6 - 0.4)
