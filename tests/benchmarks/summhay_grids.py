"""SummHay workloads of small specs and of files made here, for tests that inspect a workload before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from big_haystacks import write_haystacks
from inline_runs import SAMPLE

from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import load_workload
from summhay_ray.store import Store

SMALL = {"documents": 4, "words": 30, "subtopics": 2, "insights": 2}
"""The size of a haystack file of `grid_of_files`."""


def grid_of(folder: Path | None = None, store: Store | None = None, **fields: Any) -> SummHay:
    """The workload of the small spec with some fields replaced. `folder`: the folder of its files."""
    spec: Any = {**SAMPLE, **fields}
    if folder is not None:
        path = folder / "spec-of-tests.yaml"
        path.write_text(yaml.safe_dump(spec), encoding="utf-8")
        spec = path
    found = load_workload(spec, store=store)
    assert isinstance(found, SummHay)
    return found


def grid_of_files(folder: Path, number: int, size: dict[str, int] = SMALL, **fields: Any) -> tuple[SummHay, list[Path]]:
    """The workload over this many small haystack files in a folder, and the files."""
    paths = write_haystacks(folder, number, **size)
    return grid_of(folder, haystacks=names_of(paths), **fields), paths


def names_of(paths: Sequence[Path]) -> list[str]:
    """The names of the files in a spec in the same folder."""
    return [path.name for path in paths]


def ids_of(grid: SummHay) -> set[str]:
    """The ids of all cells."""
    return {item.id for item in grid.items()}
