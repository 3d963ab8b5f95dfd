"""The dimensions of a service's vectors, shared by several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from summhay_ray.store import Dimensions, LocalFiles

pytestmark = pytest.mark.core


def test_the_first_answer_decides_for_all_processes_and_a_later_one_only_in_doubt(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    one, two = Dimensions(files), Dimensions(files)
    assert one.expected("space", 16) == 16 and two.expected("space", 16) == 16 and one.expected("other", 8) == 8
    assert not Dimensions(files).fits("space", 8) and Dimensions(files).fits("space", 16)
    # An answer of another length makes it doubtful, but not for processes that know the dimensions already.
    assert two.expected("space", 8) == 16 and one.expected("space", 16) == 16 and not one.fits("space", 8)
    doubting = Dimensions(files)
    assert doubting.fits("space", 16) and not doubting.fits("space", 8) and not doubting.overruled
    assert doubting.expected("space", 8) == 8 and doubting.overruled == {"space"} and not doubting.fits("space", 16)
    assert Dimensions(files).expected("space", 8) == 8 and not Dimensions(files).fits("space", 16)


def test_what_was_read_is_overruled_by_the_first_answer(tmp_path: Path) -> None:
    """Stores of earlier versions do not contain the length of the vectors."""
    known = Dimensions(LocalFiles(tmp_path))
    assert known.fits("space", 8) and not known.fits("space", 16)
    assert known.expected("space", 16) == 16 and known.overruled == {"space"} and not known.fits("space", 8)
    assert known.expected("space", 8) == 16
