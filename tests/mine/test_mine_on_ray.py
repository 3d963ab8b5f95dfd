"""On Ray, a folder's blocks are prepared by a pool of actors: the haystack is that of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tickets import write_tickets

from summhay_ray import api

pytestmark = pytest.mark.ray


def test_a_folder_that_a_pool_prepares_is_the_haystack_of_one_process(tmp_path: Path) -> None:
    said = write_tickets(tmp_path / "tickets", 501)
    results = {
        executor: api.mine(
            tmp_path / "tickets", tmp_path / f"{executor}.json", str(tmp_path / f"store-{executor}"), executor=executor
        )
        for executor in ("inline", "ray")
    }
    assert [result.status for result in results.values()] == ["done", "done"]
    assert not results["inline"].computing and results["ray"].computing["compute_s"] > 0
    made = (tmp_path / "ray.json").read_text(encoding="utf-8")
    assert made == (tmp_path / "inline.json").read_text(encoding="utf-8") and all(fact in made for fact in said)
    # What the blocks have given is kept as long as the haystack is not made.
    assert not list(tmp_path.glob("store-*/runs/*/blocks/*"))
