"""Position sensitivity: the arithmetic of the paper's Table 3."""

from __future__ import annotations

from dataclasses import replace

import pytest

from summhay_ray.metrics import SystemScore, position_sensitivity

pytestmark = pytest.mark.core


def full(model: str, ordering: str, joint: float | None, retriever: str = "full", judge: str = "j") -> SystemScore:
    return SystemScore("s", retriever, ordering, model, judge, None, None, None, None, joint, 1, 1, 1, None)


@pytest.mark.parametrize(
    ("top", "bottom", "random", "printed", "difference"),
    [
        (13.8, 24.1, 11.4, 12.6, 24.1 - 11.4),  # GPT-4o: 12.7 from the printed scores; the table was rounded after subtracting
        (20.4, 28.0, 18.0, 10.0, 28.0 - 18.0),  # Claude 3 Opus
        (47.1, 38.9, 37.9, 9.2, 47.1 - 37.9),  # Gemini 1.5 Pro
    ],
)
def test_table_3(top: float, bottom: float, random: float, printed: float, difference: float) -> None:
    [row] = position_sensitivity(full("m", name, value) for name, value in (("top", top), ("bottom", bottom), ("random", random)))
    assert row.sensitivity == pytest.approx(difference)
    assert row.sensitivity == pytest.approx(printed, abs=0.1 + 1e-9)
    assert (row.baseline, row.baseline_joint, row.top, row.bottom) == ("random", random, top, bottom)


def test_the_given_order_is_the_baseline_where_no_random_one_is() -> None:
    given = [full("m", "top", 0.1), full("m", "bottom", 0.4), full("m", "given", 0.3), full("m", "middle", 0.9)]
    [row] = position_sensitivity(given)
    assert (row.baseline, row.sensitivity) == ("given", pytest.approx(0.2))
    both = [full("m", "top", 0.1), full("m", "bottom", 0.4), full("m", "given", 0.3), full("m", "random", 0.4)]
    assert position_sensitivity(both)[0].sensitivity == pytest.approx(0.3)
    unscored = [*both[:3], full("m", "random", None)]
    assert position_sensitivity(unscored)[0].baseline == "given"


def test_what_cannot_be_computed_is_none() -> None:
    assert position_sensitivity([]) == []
    assert position_sensitivity([full("m", "given", 0.3)]) == []
    assert position_sensitivity([full("m", "top", 0.3, retriever="keywords"), full("m", "given", 0.1)]) == []
    [row] = position_sensitivity([full("m", "top", 0.3), full("m", "bottom", 0.2)])
    assert (row.baseline, row.baseline_joint, row.sensitivity) == ("", None, None)
    [row] = position_sensitivity([full("m", "top", 0.3), full("m", "bottom", None), full("m", "random", 0.2)])
    assert (row.top, row.bottom, row.sensitivity) == (0.3, None, None)


def test_one_row_a_model_and_judge() -> None:
    systems = [
        full(model, ordering, joint, judge=judge)
        for model, judge, step in (("b", "j", 0.1), ("a", "k", 0.2), ("a", "j", 0.3))
        for ordering, joint in (("top", 0.5 + step), ("bottom", 0.5), ("random", 0.5))
    ]
    found = [(row.model, row.judge, row.sensitivity) for row in position_sensitivity(systems)]
    assert found == [("a", "k", pytest.approx(0.2)), ("a", "j", pytest.approx(0.3)), ("b", "j", pytest.approx(0.1))]


def test_a_row_reports_its_numbers_of_insights() -> None:
    systems = [full("m", "top", 0.3), replace(full("m", "bottom", 0.2), n_scored=0, n_expected=7), full("m", "given", 0.1)]
    [row] = position_sensitivity(systems)
    assert row.n == {"top": (1, 1), "bottom": (0, 7), "baseline": (1, 1)}
    assert (row.n_scored, row.n_expected) == (2, 9)
