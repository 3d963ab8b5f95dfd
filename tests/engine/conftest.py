"""Fixtures that several files of these tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from paid_runs import Office, office


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A slow provider, and the tables of an undisturbed run. Ray takes half a minute for each run."""
    with office(tmp_path_factory.mktemp("office"), "--latency", "0.5") as found:
        yield found
