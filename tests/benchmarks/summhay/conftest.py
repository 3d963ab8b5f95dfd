"""The released systems, imported and scored once for all files that compare them (tests/conftest.py, DEAR)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from summhay_ray.benchmarks.summhay import import_released, score_run
from summhay_ray.store import RunStore, Store


@pytest.fixture(scope="session")
def released_run(summhay_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The two released files in a store. Tests only read it."""
    store = Store(str(tmp_path_factory.mktemp("released")))
    return store.run(import_released([str(summhay_data / f"topic_news{number}.json") for number in (1, 2)], store).run)


@pytest.fixture(scope="session")
def released_scores(released_run: RunStore) -> Any:
    return score_run(released_run)
