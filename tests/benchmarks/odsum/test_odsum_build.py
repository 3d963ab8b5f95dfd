"""A collection made of a user's own documents and queries: clusters, merged queries, and their sources."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import summhay, write_spec

from summhay_ray.benchmarks.odsum.build import Editor, clusters_of, tfidf_similarity

pytestmark = pytest.mark.core

QUERIES = [
    ("1", "What did the council say of the ferry's engine?", "d1", "The engine is old."),
    ("2", "What was said of the engine of the ferry?", "d2", "The engine is bought. The engine is old."),
    ("3", "When does the bridge open again?", "d1", "In May."),
    ("4", "When will the bridge open?", "d3", "In June."),
    ("5", "Who pays for the windows of the library?", "d3", "The town."),
]


def folder_of(place: Path) -> Path:
    (place / "own").mkdir()
    for name in ("d1", "d2", "d3"):
        (place / "own" / f"{name}.txt").write_text(f"First of {name}.\n***\nSecond of {name}.\n***\n \n", encoding="utf-8")
    rows = [{"query_id": q, "text": text, "gold": [gold], "references": [answer]} for q, text, gold, answer in QUERIES]
    (place / "own" / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (place / "own" / "ATTRIBUTION").write_text("Made for a test.", encoding="utf-8")
    return place


def built(place: Path, code: int = 0, **fields: Any) -> tuple[dict[str, Any], Path]:
    spec = write_spec(place, {"kind": "odsum_build", "corpus": "own", "executor": "inline", **fields})
    return summhay("run", spec, "--store", place / "store", code=code), place / "out"


def test_alike_queries_become_one_that_needs_all_of_their_documents(tmp_path: Path) -> None:
    found, out = built(folder_of(tmp_path), threshold=0.3, most=2, split_at=r"\n\*\*\*\n")
    summhay("export", found["run"], "--out", out, "--store", tmp_path / "store")
    lines = [json.loads(line) for line in (out / "provenance.jsonl").read_text("utf-8").splitlines()]
    assert [line["members"] for line in lines] == [["1", "2"], ["3", "4"], ["5"]]  # No cluster has room for the fifth.
    queries = {row["query_id"]: row for row in map(json.loads, (out / "queries.jsonl").read_text("utf-8").splitlines())}
    assert queries["1+2"]["gold"] == ["d1_0", "d1_1", "d2_0", "d2_1"]
    assert queries["1+2"]["references"] == ["The engine is old. The engine is bought."]
    assert queries["5"]["text"] == "Who pays for the windows of the library?"
    assert sorted(file.name for file in (out / "documents").iterdir())[:2] == ["d1_0.txt", "d1_1.txt"]
    # The result is a collection.
    spec = write_spec(tmp_path, {"kind": "odsum", "corpus": "out", "retrievers": ["oracle"], "k": [4], "executor": "inline"})
    assert summhay("retrieve", spec, "--store", tmp_path / "store")["retrieval"][0]["recall"] == 1.0


def test_queries_are_contextualized_one_by_one_and_planned(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    found, out = built(folder, merge=False, contextualize=True)
    assert found["calls"]["made"] == 5
    summhay("export", found["run"], "--out", out, "--store", tmp_path / "store")
    rows = [json.loads(line) for line in (out / "queries.jsonl").read_text("utf-8").splitlines()]
    assert rows[2]["text"] == "In d1: When does the bridge open again?"
    spec = write_spec(tmp_path, {"kind": "odsum_build", "corpus": "own", "contextualize": True, "least": 1, "threshold": 0.3})
    stages = {row["stage"]: row["calls"] for row in summhay("plan", spec, "--store", tmp_path / "other")["stages"]}
    assert stages == {"contextualize": 5, "merge_queries": 2, "merge_summaries": 2}


@pytest.mark.parametrize(
    "answer,error", [("I'm sorry, but I cannot help with that.", "refusal"), ("<think>hm</think> ", "empty_answer")]
)
def test_a_refusal_and_an_empty_text_are_failures_and_no_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, error: str
) -> None:
    asks_of_the_bridge = "When will the bridge open?"
    own = Editor.answer
    monkeypatch.setattr(Editor, "answer", lambda self, one: answer if asks_of_the_bridge in one.prompt else own(self, one))
    found, out = built(folder_of(tmp_path), code=4, threshold=0.3, most=2)
    listed = summhay("failures", found["run"], "--store", tmp_path / "store")["failures"]
    assert [(row["item_id"], row["stage"], row["error"]) for row in listed] == [("3+4", "merge_queries", error)]
    summhay("export", found["run"], "--out", out, "--store", tmp_path / "store")
    rows = map(json.loads, (out / "queries.jsonl").read_text("utf-8").splitlines())
    assert [row["query_id"] for row in rows] == ["1+2", "5"]


def test_every_pair_of_a_cluster_is_above_the_threshold_unless_a_small_one_joined() -> None:
    alike = tfidf_similarity([text for _, text, _, _ in QUERIES])
    assert clusters_of(alike, 0.3, 1, 6) == [(0, 1), (2, 3), (4,)]
    assert sorted(len(one) for one in clusters_of(alike, 0.3, 2, 6)) == [2, 3]


@given(st.integers(1, 14), st.integers(0, 99), st.floats(0, 1), st.integers(1, 3), st.integers(3, 6))
def test_sizes_hold_and_every_query_stands_once(n: int, seed: int, threshold: float, least: int, most: int) -> None:
    vectors = np.abs(np.random.default_rng(seed).normal(size=(n, 3)))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = clusters_of(unit @ unit.T, threshold, least, most)
    assert sorted(place for one in found for place in one) == list(range(n))
    assert all(len(one) <= most for one in found)
    small = [one for one in found if len(one) < least]
    # A small cluster is left if no other has room.
    assert all(len(one) + len(other) > most for one in small for other in found if other != one)


@given(st.integers(1, 20), st.integers(0, 99), st.integers(2, 4), st.integers(4, 7))
def test_small_clusters_join_the_most_similar_pair_by_pair(n: int, seed: int, least: int, most: int) -> None:
    # Similarities are quarters, so that many pairs are equally similar.
    similarity = np.round(np.random.default_rng(seed).random((n, n)) * 4) / 4
    similarity = np.maximum(similarity, similarity.T)
    left = clusters_of(similarity, 0.6, 1, most)
    while True:
        pairs = [
            (similarity[np.ix_(one, other)].min(), one, other)
            for one in left
            for other in left
            if one != other and len(one) < least and len(one) + len(other) <= most
        ]
        if not pairs:
            break
        _, one, other = min(pairs, key=lambda pair: (-pair[0], pair[1:]))
        left = sorted([*(kept for kept in left if kept not in (one, other)), tuple(sorted(one + other))])
    assert clusters_of(similarity, 0.6, least, most) == left


def test_the_queries_of_the_paper_are_clustered_in_seconds() -> None:
    vectors = np.random.default_rng(7).random((1808, 30)) ** 4
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    began = time.process_time()
    found = clusters_of(unit @ unit.T, 0.95, 2, 6)
    assert {len(one) for one in found} <= set(range(2, 7)) and time.process_time() - began < 20


@pytest.mark.parametrize(
    "fields,message",
    [({"least": 4, "most": 3}, "least: 4 is more than most, 3"), ({"split_at": "("}, "split_at: not a regular expression")],
)
def test_what_is_wrong_with_a_spec_is_one_line(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    from summhay_ray.api import load

    with pytest.raises(Exception, match=message):
        load(write_spec(folder_of(tmp_path), {"kind": "odsum_build", "corpus": "own", **fields}))
