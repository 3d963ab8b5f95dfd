"""Vectors are stored by content: computed once for all runs; a damaged file is found and made again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tiny_models import cross_encoder, sentence_model

from summhay_ray import api, encoders
from summhay_ray.benchmarks.retrieval import stored_models
from summhay_ray.store import LocalFiles, VectorSpace

pytestmark = [pytest.mark.embed, pytest.mark.core]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    return {"embed": str(sentence_model(folder / "small")), "rerank": str(cross_encoder(folder / "cross"))}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is encoded, and every query and text that is scored."""
    found: list[str] = []
    encode, score = encoders.Encoder.encode, encoders.Scorer.score

    def encoded(self: Any, texts: Any, *more: Any) -> Any:
        found.extend(texts)
        return encode(self, texts, *more)

    def scored(self: Any, pairs: Any, *more: Any) -> Any:
        found.extend(map(str, pairs))
        return score(self, pairs, *more)

    monkeypatch.setattr(encoders.Encoder, "encode", encoded)
    monkeypatch.setattr(encoders.Scorer, "score", scored)
    monkeypatch.setattr(stored_models, "TEXTS_A_BLOCK", 16)
    return found


def retrieved(store: Path, *retrievers: Any, **more: Any) -> list[tuple[Any, ...]]:
    fields = {"haystacks": ["sample/news"], "retrievers": list(retrievers), "k": [5], "token_budget": 1500, **more}
    result = api.specs.retrieve(fields, store=str(store), executor="inline")
    assert result.status == "done"
    ranked = api.table(result.run, "ranked", str(store))
    return ranked.select("query_id", "rank", "number", "score").rows()


def vectors(store: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in store.glob("vectors/*/*.parquet")}


def test_nothing_is_computed_twice(tmp_path: Path, models: dict[str, str], computed: list[str]) -> None:
    store = tmp_path / "store"
    first = retrieved(store, {"embed": models["embed"]})
    # 36 documents and 4 queries, if the sample has them.
    assert len(computed) == len(set(computed)) > 30
    n, files = len(computed), vectors(store)
    retrieved(store, {"embed": models["embed"], "name": "again", "similarity": "dot"})
    fused = retrieved(store, {"fuse": ["bm25", {"embed": models["embed"]}]})
    assert len(computed) == n and vectors(store) == files
    assert {row[2] for row in fused} == {row[2] for row in first}
    # A prefix changes the texts; another maximum length changes the vector space.
    retrieved(store, {"embed": models["embed"], "query_prefix": "query "})
    assert len(computed) == n + 4
    retrieved(store, {"embed": models["embed"], "max_tokens": 8})
    assert len(computed) == 2 * n + 4
    reranked = retrieved(store, {"rerank": models["rerank"], "top": 10})
    assert len(computed) == 2 * n + 4 + 40
    assert retrieved(store, {"rerank": models["rerank"], "top": 5, "name": "shorter"}) != reranked
    assert len(computed) == 2 * n + 4 + 40


def test_the_files_are_parquet_of_fixed_lists(tmp_path: Path, models: dict[str, str], computed: list[str]) -> None:
    retrieved(tmp_path / "store", {"embed": models["embed"]}, {"embed": models["embed"], "precision": "float16", "name": "half"})
    kinds = {str(pq.read_schema(path).field("vector").type) for path in (tmp_path / "store").glob("vectors/*/*.parquet")}
    assert kinds == {"fixed_size_list<element: float>[32]", "fixed_size_list<element: halffloat>[32]"}
    assert len(computed) == 2 * len(set(computed))


def test_a_damaged_file_is_found_and_made_again(tmp_path: Path, models: dict[str, str], computed: list[str]) -> None:
    store = tmp_path / "store"
    first, files = retrieved(store, {"embed": models["embed"]}), None
    files = vectors(store)
    n = len(computed)
    damaged, gone, *_ = sorted(store.glob("vectors/*/*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(bytes(content))
    gone.unlink()
    told = {check.name: check for check in api.doctor(store=str(store))}["vectors"]
    assert not told.ok and damaged.name in told.message
    again = retrieved(store, {"embed": models["embed"], "name": "again"})
    assert n < len(computed) <= n + 32
    assert vectors(store) == files
    assert again == first
    assert {check.name: check for check in api.doctor(store=str(store))}["vectors"].ok


def test_planning_computes_nothing(tmp_path: Path, models: dict[str, str], computed: list[str]) -> None:
    fields = {
        "haystacks": ["sample/news"],
        "retrievers": [{"embed": models["embed"]}, {"rerank": models["rerank"]}],
        "token_budget": 1500,
        "summarizers": ["offline/lead"],
    }
    made = api.plan(fields, str(tmp_path / "store"))
    assert (made.no_context, computed) == (0, [])
    asked = {(one.stage, one.model): one.calls for one in made.stages}
    assert asked["summarize", "offline/lead"] == 8


def test_a_file_whose_vectors_are_all_in_others_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("summhay_ray.store.vectors.OPEN_FILES", 2)
    files, read = LocalFiles(tmp_path), list[str]()
    keys = [VectorSpace.key(str(number)) for number in range(6)]
    for number, key in enumerate(keys):
        # Two processes have computed the same vector, for texts whose tokens they count differently.
        for n_tokens in (1, 2):
            VectorSpace(files, "s").put([key], np.full((1, 4), number, np.float32), [n_tokens])
    whole = files.read

    def reading(name: str) -> bytes:
        read.append(name)
        return whole(name)

    monkeypatch.setattr(files, "read", reading)
    space = VectorSpace(files, "s")
    assert space.get([VectorSpace.key("none")]) == {} and len(read) == 12
    assert space.get([VectorSpace.key("another")]) == {} and len(read) == 12
    assert [found.vector[0] for key in keys for found in space.get([key]).values()] == list(range(6))
