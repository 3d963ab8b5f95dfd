"""Models in a pool of actors give the same results as in one process, and a kill loses no stored result."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_models import sentence_model

from summhay_ray import api
from summhay_ray.engine import open_run
from summhay_ray.engine.ray import pools
from summhay_ray.engine.ray.pools import Computer
from summhay_ray.engine.ray.worker_actor import WorkOrder
from summhay_ray.store import Store

pytestmark = pytest.mark.embed


def vectors(store: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in store.glob("vectors/*/*.parquet")}


def retrieved(store: Path, model: str, executor: str, **more: Any) -> Any:
    fields = {"haystacks": ["sample/news", "sample/conversation"], "retrievers": [{"embed": model}], "k": [5], **more}
    result = api.specs.retrieve(fields, store=str(store), executor=executor)
    assert (result.status, result.executor) == ("done", executor)
    return api.table(result.run, "ranked", str(store)).rows()


@pytest.mark.soak
@pytest.mark.ray
def test_two_actors_give_what_one_process_gives(tmp_path: Path) -> None:
    model = str(sentence_model(tmp_path / "small"))
    alone = retrieved(tmp_path / "alone", model, "inline")
    pooled = retrieved(tmp_path / "pooled", model, "ray", resources={"embed": {"actors": 2}})
    assert pooled == alone
    assert vectors(tmp_path / "pooled") == vectors(tmp_path / "alone")


@pytest.mark.core
def test_an_actor_keeps_what_a_part_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = str(sentence_model(tmp_path / "small"))
    fields = {"kind": "retrieval", "haystacks": ["sample/news"], "retrievers": ["bm25", {"embed": model}], "k": [5]}
    loaded, store = api.load(fields), Store(str(tmp_path / "store"))
    run = open_run(loaded, store)
    order = WorkOrder(store.files.uri, run.run_id, 1, {**run.record, **loaded.record(store), "kind": loaded.kind})
    parts = loaded.computations(list(loaded.items()))
    lost = [{**part, "corpus": "0" * 64} for part in parts]
    monkeypatch.setattr(pools.ray, "get_runtime_context", lambda: SimpleNamespace(get_actor_id=lambda: "actor"))
    # If something cannot be computed, preparing the item reports it.
    for some, n_texts in ((lost, 0), (parts, None), (parts, 0)):
        (computed,) = Computer(order)({"parts": np.array([json.dumps(some)])})["computed"]
        assert n_texts is None or json.loads(computed)["took"].get("texts", 0) == n_texts
    kept = vectors(tmp_path / "store")
    retrieved(tmp_path / "alone", model, "inline", haystacks=["sample/news"])
    assert kept and kept == vectors(tmp_path / "alone")
