"""Retrievers of an ODSum run: services are stages, models compute once, exceptions are rows, and `full` is not cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odsum_collections import MEETINGS, QUERIES, meetings
from simulated_provider import in_thread
from tiny_models import cross_encoder, sentence_model

from summhay_ray import api
from summhay_ray.benchmarks.retrieval import stored_models
from summhay_ray.store import Store

pytestmark = pytest.mark.core


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SIMULATED_API_KEY", "sk-simulated")
    with in_thread() as provider:
        yield provider.base


def fields(folder: Path, **more: Any) -> dict[str, Any]:
    if not (folder / "meetings").exists():
        meetings(folder / "meetings")
    return {"kind": "odsum", "corpus": str(folder / "meetings"), "k": [1, 2], **more}


def test_a_query_that_a_service_refuses_is_a_row_and_its_retriever_keeps_its_own(base: str, tmp_path: Path) -> None:
    reach = {"api_base": base.replace("/v1", "/nowhere"), "api_key_env": "SIMULATED_API_KEY", "price": {"per_search": 0}}
    spec = fields(tmp_path, retrievers=["bm25", {"rerank": "cohere/gone", "name": "gone", **reach}])
    result = api.run(spec, str(tmp_path / "store"), executor="inline")
    assert (result.status, result.cells) == ("partial", {"total": 6, "done": 1, "failed": 5})
    rows = {(row["retriever"], row["k"]): row for row in result.to_json()["retrieval"]}
    assert [(row["n"], row["f1"]) for (name, _), row in rows.items() if name == "gone"] == [(0, None)] * 3
    assert rows["bm25", 1]["n"] == 5
    assert {row["stage"] for row in api.failures(result.run, str(tmp_path / "store"))} == {"rerank"}


class Odd:
    """Ranks in the way that its argument names."""

    name, whole = "odd", False

    def __init__(self, argument: str, seed: int) -> None:
        self.argument = argument

    def rank(self, subtopic: Any, haystack: Any) -> Any:
        from summhay_ray.retrieve import Ranked

        return {
            "zero": [Ranked(0, 1.0)],
            "below": [Ranked(1, 1.0), Ranked(-1, 0.5)],
            "beyond": [Ranked(5, 1.0)],
            "twice": [Ranked(1, 1.0), Ranked(1, 0.5)],
            "half": [Ranked(1.5, 1.0)],  # type: ignore[arg-type]
            "nan": [Ranked(1, float("nan"))],
            "bare": [1, 2],
            "none": None,
        }[self.argument]


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        pytest.param("zero", "ranks document 0 in place 1; documents have the numbers 1 to 4", marks=pytest.mark.soak),
        pytest.param("below", "ranks document -1 in place 2; documents have the numbers 1 to 4", marks=pytest.mark.soak),
        ("beyond", "ranks document 5 in place 1; documents have the numbers 1 to 4"),
        ("twice", "ranks document 1 twice; rank each once"),
        pytest.param(
            "half", "place 1 holds Ranked(number=1.5, score=1.0); expected Ranked(number, score)", marks=pytest.mark.soak
        ),
        pytest.param("nan", "document 1 has the score nan; expected a finite number", marks=pytest.mark.soak),
        pytest.param("bare", "place 1 holds 1; expected Ranked(number, score)", marks=pytest.mark.soak),
        ("none", "gave NoneType; expected a list of Ranked(number, score)"),
    ],
)
def test_what_is_no_ranking_is_one_clear_line(tmp_path: Path, argument: str, told: str) -> None:
    store, retriever = str(tmp_path / "store"), f"{__name__}:Odd/{argument}"
    spec = fields(tmp_path, retrievers=[retriever, "bm25"], summarizers=["offline/lead"], k=[1])
    result = api.run(spec, store, executor="inline")
    failures = api.failures(result.run, store)
    assert {(one["stage"], one["error"]) for one in failures} == {("retrieve", "retriever_error")}
    assert {one["message"] for one in failures} == {f"retriever 'odd', query '0' of 'meetings': {told}"}
    rows = {(row["retriever"], row["k"]): row["n"] for row in result.to_json()["retrieval"]}
    assert rows == {(retriever, 1): 0, (retriever, None): 0, ("bm25", 1): 5, ("bm25", None): 5}


def test_full_shows_the_whole_collection_whatever_k(tmp_path: Path) -> None:
    spec = fields(tmp_path, retrievers=["full", "bm25"], summarizers=["offline/lead"])
    result = api.run(spec, str(tmp_path / "store"), executor="inline")
    assert result.cells["total"] == 5 + 2 * 5
    told = result.to_json()
    assert {(row["retriever"], row["k"]) for row in told["summaries"]} == {("bm25", 1), ("bm25", 2), ("full", None)}
    (whole,) = [row for row in told["retrieval"] if row["retriever"] == "full"]
    assert (whole["k"], whole["recall"], whole["ndcg"], whole["mrr"]) == (None, 1, None, None)
    shown = Store(str(tmp_path / "store")).run(result.run).table("retrieved").filter(retriever="full")
    assert shown["shown"].to_list() == [len(MEETINGS)] * 5


@pytest.mark.embed
def test_texts_that_a_model_cuts_are_reported(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = sentence_model(tmp_path / "small", longest=16)
    scorer = cross_encoder(tmp_path / "scorer")
    rerank = {"rerank": str(scorer), "of": "bm25", "max_tokens": 24, "name": "scored"}
    spec = fields(tmp_path, retrievers=[{"embed": str(model), "name": "small"}, rerank])
    found = api.specs.retrieve(spec, store=str(tmp_path / "store"), executor="inline").to_json()
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    texts, queries = list(MEETINGS.values()), [one["query"] for one in QUERIES.values()]
    embedded = [len(tokenizer(text)["input_ids"]) - 16 for text in (*texts, *queries)]
    pairs = [[query, text] for query in queries for text in texts]
    scored = [len(read) - 24 for read in tokenizer(pairs)["input_ids"]]
    expected = [
        {"retriever": name, "model": str(path.resolve()), "texts": len(beyond), "cut": len(over), "tokens": sum(over)}
        for name, path, beyond in (("scored", scorer, scored), ("small", model, embedded))
        for over in ([n for n in beyond if n > 0],)
    ]
    assert found["cut_texts"] == expected and all(row["cut"] for row in expected)
    for row in expected:
        said = f"cuts {row['cut']} of {row['texts']} texts, by {row['tokens']} tokens in all"
        assert any(line.startswith(row["retriever"]) and said in line for line in found["warnings"])
    # Another run finds vectors and scores in the store, and reports the same.
    again = api.specs.retrieve({**spec, "k": [3]}, store=str(tmp_path / "store"), executor="inline")
    assert again.run != found["run"] and again.to_json()["cut_texts"] == expected


@pytest.mark.embed
def test_local_vectors_are_kept_shared_and_never_computed_by_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_models, "TEXTS_A_BLOCK", 2)
    store, model = tmp_path / "store", {"embed": str(sentence_model(tmp_path / "small")), "name": "small"}
    spec = fields(tmp_path, retrievers=[model], summarizers=["offline/lead"])

    def files(of: Path) -> list[str]:
        return sorted(path.name for path in of.glob("vectors/*/*.parquet"))

    assert api.plan(spec, str(store)).no_context == 0 and files(store) == []
    first = api.run(spec, str(store), executor="inline")
    assert first.status == "done" and len(files(store)) == 2 + 3
    made = {path: path.stat().st_mtime_ns for path in store.glob("vectors/*/*.parquet")}
    again = api.specs.retrieve(spec, store=str(store), executor="inline")
    assert again.to_json()["retrieval"] == first.to_json()["retrieval"]
    assert {path: path.stat().st_mtime_ns for path in store.glob("vectors/*/*.parquet")} == made
    # Two actors share one collection, and write the same files.
    shared = Store(str(tmp_path / "shared"))
    loaded = api.load(spec, store=shared.uri)
    parts = loaded.computations(list(loaded.items()), 2)
    assert [part["share"] for part in parts] == [[0, 2], [1, 2]]
    loaded.compute(parts[0])
    assert 0 < len(files(tmp_path / "shared")) < 5
    loaded.compute(parts[1])
    assert files(tmp_path / "shared") == files(store)
