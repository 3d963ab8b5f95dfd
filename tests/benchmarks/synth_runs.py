"""Small topics, synthesized inline with the ledger, log, budget, commits and tables of any run, without Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from summhay_ray import api
from summhay_ray.benchmarks.synth import Synth
from summhay_ray.engine import RunResult, Workload, run_workload
from summhay_ray.store import RunStore, Store

SMALL: Mapping[str, Any] = {
    "domain": "news",
    "topics": ["the new tram line in Calaford"],
    "subtopics": 2,
    "insights": 2,
    "documents": 6,
    "words": 120,
    "difficulty": {"least": 2, "documents_per_insight": 3},
    "license": "CC-BY-4.0",
}


def small(**fields: Any) -> Synth:
    """The synthesis of a small spec with some fields replaced; it needs no key."""
    found = api.load({**SMALL, **fields})
    assert isinstance(found, Synth)
    return found


def run_inline(workload: Workload[Any], store: Store, budget_usd: float | None = None) -> tuple[RunStore, RunResult]:
    """Run or resume in this process."""
    result = run_workload(workload, store, {"budget": budget_usd, "executor": "inline"})
    return store.run(result.run), result


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Text files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
