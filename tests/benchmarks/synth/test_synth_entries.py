"""A synth spec in place of haystacks, if some of its topics failed: one line has the state and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from synth_runs import SMALL, run_inline, small

from summhay_ray import api
from summhay_ray.benchmarks.synth import make_haystack as making
from summhay_ray.engine import SpecError
from summhay_ray.store import Store
from summhay_ray.synth import Unverified

pytestmark = pytest.mark.core

THREE = {"topics": [{"topic": f"the dispute about the {name}", "name": name} for name in ("ferry", "tram", "mill")]}
RUN = {"retrievers": ["full"], "summarizers": ["offline/lead"]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **THREE}), encoding="utf-8")
    return path


def failing(monkeypatch: pytest.MonkeyPatch, **retryable: bool) -> None:
    """Topics with these names give no haystack; another start tries the retryable ones again."""
    real = making.synthesize

    async def one_fails(job: Any, asker: Any) -> Any:
        if job.topic.name in retryable:
            return Unverified("queries", "leak", "no", (), retryable[job.topic.name])
        return await real(job, asker)

    monkeypatch.setattr(making, "synthesize", one_fails)


def refusal(path: Path, store: Store) -> str:
    with pytest.raises(SpecError) as refused:
        api.load({**RUN, "haystacks": [str(path)]}, store=store.uri)
    return str(refused.value)


def test_topics_that_failed_for_good_are_not_to_be_made_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ferry=False)
    store = Store(str(tmp_path / "store"))
    run, found = run_inline(small(**THREE), store)
    said = refusal(path, store)
    assert "make them first" not in said and "\n" not in said
    assert f"mine.yaml: 1 of its 3 topics failed for good (summhay failures {run.run_id} --store {store.uri} says why); " in said
    assert "reword or remove them (the others cost nothing again) or give another seed (all are new)" in said
    assert f"then: summhay synth {path} --store {store.uri}; " in said
    assert said.endswith("or list the finished ones by their `entry`, which the same command prints with --json")
    # Both remedies work.
    entries = [one.entry for one in found.scores.haystacks]
    assert len(api.load({**RUN, "haystacks": entries}, store=store.uri).grid.haystacks.metadata) == 2
    path.write_text(yaml.safe_dump({**SMALL, "topics": THREE["topics"][1:]}), encoding="utf-8")
    _, again = run_inline(small(topics=THREE["topics"][1:]), store)
    assert (
        again.calls["made"] == 0
        and len(api.load({**RUN, "haystacks": [str(path)]}, store=store.uri).grid.haystacks.metadata) == 2
    )


def test_topics_that_are_not_made_yet_are_reported_with_them(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ferry=False, tram=True)
    store = Store(str(tmp_path / "store"))
    run_inline(small(**THREE), store)
    assert "1 of its 3 topics failed for good" in (said := refusal(path, store)) and ", 1 more are not made yet; reword" in said


def test_what_another_try_may_make_is_to_be_made(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ferry=True)
    store = Store(str(tmp_path / "store"))
    run_inline(small(**THREE), store)
    assert (
        "1 of its 3 haystacks are not in the store" in (said := refusal(path, store)) and "make them first: summhay synth" in said
    )
