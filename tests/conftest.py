"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_xdist_auto_num_workers() -> int:
    """One processor is left to the tests that run beside those of `-n auto`, and start Ray."""
    return max(1, (os.cpu_count() or 2) - 1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The released data beside the checkout; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"released data is absent: {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def summhay_data(shared_data: Path) -> Path:
    """The released SummHay haystacks, annotations and reference scores."""
    return shared_data / "summhay"
