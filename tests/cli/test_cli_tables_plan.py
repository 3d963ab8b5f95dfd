"""The text around the figures of a plan."""

from __future__ import annotations

import pytest

from summhay_ray.cli.record_tables import BOUNDS_LEGEND
from summhay_ray.synth.making.asking import TRIES
from summhay_ray.synth.making.bounds import EDITED, FAILS, REJECTED
from summhay_ray.synth.making.documents import REWRITES

pytestmark = pytest.mark.core


def test_the_legend_explains_the_bounds() -> None:
    least, expected, most = BOUNDS_LEGEND
    assert least.startswith("at least: every answer is right at once")
    shares = ((FAILS, "subtopics, insights and queries"), (EDITED, "documents"), (REJECTED, "chapters"))
    assert expected.startswith("expected: ")
    assert all(f"{100 * share:g} % of the {what} " in expected for share, what in shares)
    assert most.startswith("at most: ") and f"whole documents up to {REWRITES + 1} times" in most
    assert f"after {TRIES - 1} answers that cannot be read" in most
