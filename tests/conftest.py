"""Fixtures that the tests of several rooms share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Threads of numpy and torch would busy-wait for each other's processors, which other tests need.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    # A single test, and `make soak`, use all of polars' threads.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")

# The time of an example depends on the machine's load. `make soak` runs the thorough ones.
settings.register_profile("quick", deadline=None, max_examples=12)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile("quick")

# Tests kill processes, never the machine: written data survives a killed process without waiting for the disk.
os.fsync = lambda descriptor: None

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_xdist_auto_num_workers() -> int:
    """One worker for the tests that start Ray, and one per processor: with one more, the suite takes longer."""
    return 1 + (os.cpu_count() or 2)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten the name of a test with a long text: names travel between the processes, several times each."""
    return f"{ascii(val[:60])[1:-1]}... of {len(val)}" if isinstance(val, str) and len(val) > 200 else None


DEAR = {
    "s3": "s3",
    "desk": "desk",
    "finished": "finished",
    "litellm": "libraries",
    "embed": "libraries",
    "released_run": "released",
}
"""Fixtures and marks whose libraries or servers take seconds to start -> a group: one worker runs all its files."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Keep a file's tests together, because its fixtures are expensive. Tests that start Ray run one by one, and begin first."""
    # Collect marks and fixtures at once: asking each of thousands of items for one mark after another takes three times as long.
    named = {item: {mark.name for mark in item.iter_markers()}.union(getattr(item, "fixturenames", ())) for item in items}
    needed = {item.path: group for item in items for name, group in DEAR.items() if name in named[item]}
    groups = {item: "ray" if "ray" in named[item] else needed.get(item.path, item.path.name) for item in items}
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups[item]))
    # The longest chains first.
    first = ["ray", *dict.fromkeys(DEAR.values())]
    items.sort(key=lambda item: (first.index(groups[item]) if groups[item] in first else 9, "core" in named[item]))
    # Before xdist reads the groups.
    yield


def pytest_collection_finish() -> None:
    """Freeze the thousands of tests, so that the garbage collector does not look at them repeatedly."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the tests that start Ray a higher priority: they are the longest chain, and begin first."""
    if item.get_closest_marker("embed"):
        pytest.importorskip("sentence_transformers")
    if "PYTEST_XDIST_WORKER" in os.environ and not item.get_closest_marker("ray") and os.nice(0) == 0:
        os.nice(5)


def pytest_sessionfinish() -> None:
    """Collect garbage once: pytest searches all objects for unclosed resources five times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The released data in the parent folder of the checkout; tests that need it are skipped without it."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"released data is absent: {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def summhay_data(shared_data: Path) -> Path:
    """The released SummHay haystacks, annotations and reference scores."""
    return shared_data / "summhay"


@pytest.fixture(scope="session")
def litellm() -> Any:
    """The module, imported before tests that measure time. Its import takes seconds; one worker runs these tests (DEAR)."""
    from summhay_ray.llm.via_litellm import load_litellm

    return load_litellm()
