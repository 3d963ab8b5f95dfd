"""What several files of these tests begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from paid_runs import Office, office


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A provider that takes its time, and the tables of a run that nothing happened to: each run takes Ray half a minute."""
    with office(tmp_path_factory.mktemp("office"), "--latency", "0.5") as found:
        yield found
