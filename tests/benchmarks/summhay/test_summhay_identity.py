"""Identities stay the same, whatever code makes them: runs and cells of the shipped jobs, and a cell's canonical text."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summhay_grids import grid_of

from summhay_ray.engine import Workload, load_workload
from summhay_ray.plugins import code_identity

pytestmark = pytest.mark.core

JOBS = Path(__file__).resolve().parents[3] / "jobs"
KNOWN: dict[str, tuple[str, int, str]] = {
    "quickstart": ("r74045cb10fd1", 112, "d0d1516aaef453d088168e949c0a3c7df3b9249fd6812bddbf2d71999207d845"),
    "rehearsal": ("r4e444a287720", 32, "04af24c057bd5270d66ff3f801a14cac369c01c98942fccde83235a039aac95a"),
    "replay": ("rf13e47fc544b", 243, "f1ca227c92214025063059d4a188093e3071e12b7202c58f19725cb425a7630b"),
    "paper_grid": ("r6c6ca5c86105", 144, "496aff66ff14c15131925cc824ce9e2e7949e52ab3dd96bb48c27030e2756125"),
}
"""Job -> run, number of cells, hash of its sorted cells: they change with our prompts and offline models; the run's also with the
format of a stored run. With nothing else."""


def seen(grid: Workload[Any]) -> tuple[str, int, str]:
    cells = sorted(cell.id for cell in grid.items())
    return grid.run_id, len(cells), hashlib.sha256("".join(cells).encode()).hexdigest()


@pytest.mark.parametrize("job", ["quickstart", "rehearsal"])
def test_jobs_on_samples_keep_their_run_and_cells(job: str) -> None:
    assert seen(load_workload(JOBS / f"{job}.yaml")) == KNOWN[job]


@pytest.mark.parametrize("job", ["replay", "paper_grid"])
def test_jobs_on_the_release_keep_their_run_and_cells(job: str, summhay_data: Path) -> None:
    file = json.dumps([str(summhay_data / "topic_news1.json")])
    assert seen(load_workload(JOBS / f"{job}.yaml", [f"haystacks={file}"])) == KNOWN[job]


def canonical(content: dict[str, Any]) -> str:
    """A cell's id by its definition: canonical JSON of its content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


@given(seed=st.integers(), budget=st.integers(1, 10**9), label=st.text(min_size=1), temperature=st.sampled_from([1.0, 0.5]))
def test_a_cell_is_the_hash_of_its_canonical_content(seed: int, budget: int, label: str, temperature: float) -> None:
    extra = {"top_p": 0.5, "stop": [label, 2.0]}
    model = {"model": "offline/lead", "name": label, "temperature": temperature, "extra": extra}
    grid = grid_of(retrievers=["bm25", "full"], summarizers=[model], seed=seed, token_budget=budget, repeats=2)
    # Whole floats are integers in an identity.
    whole = {"temperature": 1 if temperature == 1 else temperature, "extra": {"top_p": 0.5, "stop": [label, 2]}}
    semantic = {**grid.grid.entries.semantic(grid.spec.summarizers[0]), **whole}
    cells = list(grid.items())
    # Four queries, two retrievers, two repeats.
    assert len(cells) == grid.n_items() == 16
    for cell in cells:
        haystack_id, subtopic_id, retriever, ordering = cell.data["unit"]
        content = {
            "haystack_id": haystack_id,
            "subtopic_id": subtopic_id,
            "retriever": f"{retriever} {code_identity(retriever)}".rstrip(),
            "ordering": ordering,
            "token_budget": budget,
            "seed": seed,
            "summarizer": semantic,
            "repeat": cell.data["repeat"],
        }
        assert cell.id == canonical(content)


def test_the_number_of_cells_is_known_without_making_them() -> None:
    fields = {"retrievers": ["random", "full"], "orderings": ["given", "top"], "summarizers": ["offline/lead", "offline/support"]}
    grid = grid_of(haystacks=["sample/news", "sample/conversation"], repeats=3, **fields)
    # Eight queries, three retrievers or orderings, two summarizers, three repeats.
    assert grid.n_items() == 8 * 3 * 2 * 3 == len(list(grid.items()))
