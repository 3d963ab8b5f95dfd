"""The combination of two verdicts, and the choice of insights to ask about: every expected value by visible arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.judge import Verdict, blend, label_of, least_certain

pytestmark = pytest.mark.core

FULL_2 = Verdict("FULL_COVERAGE", "2")
PARTIAL_2 = Verdict("PARTIAL_COVERAGE", "2")
NONE = Verdict("NO_COVERAGE", '"NA"')


def free(value: float, bullet: str = "3", uncertainty: float | None = 0.2) -> Verdict:
    return Verdict("NO_COVERAGE" if bullet == '"NA"' else "PARTIAL_COVERAGE", bullet, value, uncertainty)


@pytest.mark.parametrize(
    ("judge", "offline", "value", "coverage", "bullet"),
    [
        (FULL_2, free(0.8), (1 + 0.8) / 2, "FULL_COVERAGE", "2"),
        (FULL_2, free(0.4), (1 + 0.4) / 2, "PARTIAL_COVERAGE", "2"),
        (FULL_2, free(0.0, '"NA"'), (1 + 0) / 2, "PARTIAL_COVERAGE", "2"),
        (PARTIAL_2, free(0.3, '"NA"'), (0.5 + 0.3) / 2, "PARTIAL_COVERAGE", "2"),
        (PARTIAL_2, free(0.1, '"NA"'), (0.5 + 0.1) / 2, "NO_COVERAGE", '"NA"'),
        (PARTIAL_2, free(0.9), (0.5 + 0.9) / 2, "PARTIAL_COVERAGE", "2"),
        (NONE, free(0.8), (0 + 0.8) / 2, "PARTIAL_COVERAGE", "3"),
        (NONE, free(0.4), (0 + 0.4) / 2, "NO_COVERAGE", '"NA"'),
        (NONE, free(0.8, '"NA"'), (0 + 0.8) / 2, "NO_COVERAGE", '"NA"'),
        (Verdict("PARTIAL_COVERAGE", "2", 0.7), free(0.9), (0.7 + 0.9) / 2, "FULL_COVERAGE", "2"),
    ],
)
def test_the_value_is_the_mean_and_label_and_bullet_follow(
    judge: Verdict, offline: Verdict, value: float, coverage: str, bullet: str
) -> None:
    mixed = blend(judge, offline, weight=0.5)
    assert mixed.value == pytest.approx(value)
    assert (mixed.coverage, mixed.bullet_id) == (coverage, bullet)


def test_the_weight_is_the_judges() -> None:
    assert blend(FULL_2, free(0.2), weight=1.0).value == 1
    assert blend(FULL_2, free(0.2), weight=0.0).value == pytest.approx(0.2)
    assert blend(FULL_2, free(0.2)).value == pytest.approx(0.4 * 1 + 0.6 * 0.2)
    assert blend(FULL_2, free(0.2), weight=0.75).value == pytest.approx(0.75 * 1 + 0.25 * 0.2)
    with pytest.raises(ValueError, match="0 to 1"):
        blend(FULL_2, NONE, weight=1.1)


def test_uncertainty_is_carried_on() -> None:
    sure = Verdict("FULL_COVERAGE", "2", 0.9, 0.1)
    assert blend(sure, free(0.5, uncertainty=0.3)).uncertainty == pytest.approx(0.4 * 0.1 + 0.6 * 0.3)
    assert blend(FULL_2, free(0.5, uncertainty=0.3)).uncertainty == pytest.approx(0.3)
    assert blend(sure, PARTIAL_2).uncertainty == pytest.approx(0.1)
    assert blend(FULL_2, PARTIAL_2).uncertainty is None
    assert blend(FULL_2, free(0.5), weight=1.0).uncertainty is None
    assert blend(sure, PARTIAL_2, weight=5e-324).uncertainty == pytest.approx(0.1)


@pytest.mark.parametrize("bullet_id", ['"NA"', "null", "[1, 2]", "0"])
def test_a_judge_that_contradicts_itself_is_never_called_no_coverage(bullet_id: str) -> None:
    mixed = blend(Verdict("FULL_COVERAGE", bullet_id), free(0.0, '"NA"'), weight=0.5)
    assert (mixed.coverage, mixed.bullet_id) == ("PARTIAL_COVERAGE", bullet_id)
    assert blend(Verdict("FULL_COVERAGE", bullet_id), free(0.4, "3")).bullet_id == "3"


values = st.floats(0, 1)
verdicts = st.builds(
    Verdict,
    st.sampled_from(["NO_COVERAGE", "PARTIAL_COVERAGE", "FULL_COVERAGE"]),
    st.sampled_from(["1", '"NA"', "7"]),
    st.one_of(st.none(), values),
    st.one_of(st.none(), values),
)


@given(verdicts, verdicts, values)
def test_a_blend_lies_between_its_parts(judge: Verdict, offline: Verdict, weight: float) -> None:
    mixed = blend(judge, offline, weight)
    low, high = sorted((judge.expected, offline.expected))
    assert mixed.value is not None and low - 1e-9 <= mixed.value <= high + 1e-9
    assert mixed.coverage == "NO_COVERAGE" or mixed.coverage == label_of(mixed.value)
    told = [one.uncertainty for one in (judge, offline) if one.uncertainty is not None]
    if mixed.uncertainty is not None:
        assert min(told) - 1e-9 <= mixed.uncertainty <= max(told) + 1e-9


@pytest.mark.parametrize(
    ("uncertainties", "share", "chosen"),
    [
        ([0.1, 0.4, 0.3, 0.2], 0.5, {1, 2}),
        ([0.2, 0.2, 0.2, 0.2], 0.5, {0, 1}),
        ([0.1, 0.4, 0.4], 1 / 3, {1}),
        ([0.1, 0.2], 0.0, set()),
        ([0.1, 0.2], 1.0, {0, 1}),
        ([], 0.5, set()),
        ([0.3] * 14, 0.1, {0}),  # round(1.4) = 1
        ([0.3] * 16, 0.1, {0, 1}),  # round(1.6) = 2
    ],
)
def test_exactly_the_share_is_chosen_the_first_of_equals_first(
    uncertainties: list[float], share: float, chosen: set[int]
) -> None:
    assert least_certain(uncertainties, share) == chosen


@given(st.lists(values), values)
def test_who_is_chosen_is_nowhere_more_certain_than_who_is_not(uncertainties: list[float], share: float) -> None:
    chosen = least_certain(uncertainties, share)
    assert len(chosen) == round(share * len(uncertainties))
    rest = set(range(len(uncertainties))) - chosen
    if chosen and rest:
        assert min(uncertainties[index] for index in chosen) >= max(uncertainties[index] for index in rest)
