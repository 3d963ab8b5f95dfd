"""A topic's haystack is stored with its item: with all of its rows or not at all, also after a kill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synth_runs import run_inline, small

from summhay_ray import api
from summhay_ray.benchmarks.synth import make_haystack as making
from summhay_ray.engine import ITEM
from summhay_ray.engine.start import RunFailed
from summhay_ray.store import Finished, Parts, RunStore, Store
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

TWO = {"topics": [{"topic": "the dispute about the ferry", "name": name} for name in ("ferry", "boat")]}
CONTEXTS = ("They met twice.", "They met three times.")


@pytest.fixture
def topics(tmp_path: Path) -> dict[str, Any]:
    """Two topics of one text with different ideas."""
    for name, text in zip(("ferry", "boat"), CONTEXTS, strict=True):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    return {"topics": [{**one, "context": [str(tmp_path / f"{one['name']}.txt")]} for one in TWO["topics"]]}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """The small topic, made without failures."""
    return run_inline(small(), Store(str(tmp_path_factory.mktemp("clean"))))[0]


def holds(run: RunStore) -> dict[str, int]:
    return {name: table["rows"] for name, table in run.digests().items() if table["rows"]}


def test_nothing_of_a_topic_counts_before_all_of_it_does(
    clean: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The haystack's JSON is in the store, and the driver ends before the commit."""
    grid, store = small(), Store(str(tmp_path / "store"))
    real = RunStore.write

    def ends(run: RunStore, stage: str, finished: Sequence[Finished]) -> Parts:
        if stage == ITEM:
            raise OSError(28, "No space left on device")
        return real(run, stage, finished)

    with monkeypatch.context() as patch:
        patch.setattr(RunStore, "write", ends)
        with pytest.raises(RunFailed, match="No space"):
            run_inline(grid, store)
    [made] = clean.table("made").iter_rows(named=True)
    assert json.loads(store.get_object("haystack", made["digest"]))["documents"]
    assert holds(store.run(grid.run_id)) == {}
    told = api.status(grid.run_id, store.uri)
    assert (told.cells["done"], told.status) == (0, "interrupted")
    run, again = run_inline(grid, store)
    assert (again.status, again.calls["made"]) == ("done", 0), "every answer was there"
    assert run.digests() == clean.digests()


def test_a_try_that_fails_leaves_no_haystack_and_the_next_no_failure(
    clean: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = making.synthesize

    async def leaks(job: Any, asker: Any) -> Any:
        found = await real(job, asker)
        return Unverified("queries", "leak", "no", found.checks, retryable=True, kind="malformed", attempts=1)

    grid, store = small(), Store(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(making, "synthesize", leaks)
        run, result = run_inline(grid, store)
    assert result.status == "partial" and set(holds(run)) == {"checks", "failures", "raw_answers"}
    [failed] = result.scores.failed
    assert (failed.error, failed.cell_id) == ("leak", run.table("checks")["cell_id"][0])
    again, result = run_inline(grid, store)
    assert (result.status, result.calls["made"]) == ("done", 0), "a malformed answer that may be another is asked for again"
    assert (again.table("failures").height, again.table("made").height, again.table("haystacks").height) == (0, 1, 1)
    assert again.digests() == clean.digests()


def test_two_topics_may_give_one_haystack(topics: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may give the same answer for different ideas."""
    real, first = making.synthesize, small(**topics).recipe.topics[0]

    async def same(job: Any, asker: Any) -> Any:
        found = await real(small(**topics).recipe.of(first), asker)
        return replace(found, checks=tuple(replace(check, cell_id=job.cell_id) for check in found.checks))

    monkeypatch.setattr(making, "synthesize", same)
    run, result = run_inline(small(**topics), Store(str(tmp_path / "store")))
    ferry, boat = result.scores.haystacks
    assert (ferry.name, boat.name, result.cells["done"]) == ("ferry", "boat", 2)
    assert ferry.haystack_id == boat.haystack_id
    assert {name: n for name, n in holds(run).items() if name in ("made", "haystacks", "documents", "subtopics", "insights")} == {
        "made": 2,
        "haystacks": 1,
        "subtopics": 2,
        "insights": 4,
        "documents": 6,
    }
    files = api.export(run.run_id, tmp_path / "out", run.store.uri)
    assert [file.name for file in files] == ["ferry.json", "boat.json"]
    assert files[0].read_bytes() == files[1].read_bytes()
    turned = {"topics": list(reversed(topics["topics"]))}
    other, _ = run_inline(small(**turned), Store(str(tmp_path / "other")))
    assert other.run_id == run.run_id and other.digests() == run.digests(), "whichever is done first"
