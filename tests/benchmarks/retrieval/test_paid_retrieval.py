"""Embedding and reranking services are calls like any other: keyed, planned, paid once, within the budget."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_provider import in_thread
from tiny_models import sentence_model

from summhay_ray import api
from summhay_ray.errors import SpecError
from summhay_ray.llm import Request, scores_of, vectors_of
from summhay_ray.llm.vectors_and_scores import scores_reply, vectors_reply
from summhay_ray.retrieve import Corpus, Query
from summhay_ray.simulator import vectors

pytestmark = pytest.mark.core


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SIMULATED_API_KEY", "sk-simulated")
    with in_thread() as provider:
        yield provider.base


def entries(base: str) -> list[Any]:
    reach = {"api_base": base, "api_key_env": "SIMULATED_API_KEY"}
    embed = {"embed": "openai/embedder", "price": {"input_per_mtok": 2.5}, **reach}
    rerank = {"rerank": "cohere/reranker", "top": 20, "price": {"per_search": 0.002}, **reach}
    return ["bm25", embed, {**rerank, "of": "bm25", "name": "reranked"}, {"fuse": ["bm25", embed], "name": "fused"}]


def fields(base: str, **more: Any) -> dict[str, Any]:
    return {"haystacks": ["sample/news"], "retrievers": entries(base), "k": [5], "token_budget": 1500, **more}


def stats(base: str) -> dict[str, Any]:
    with urllib.request.urlopen(base.replace("/v1", "/simulated/stats")) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_service_is_paid_once_its_bill_is_ours_and_rankings_are_what_it_says(base: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    first = api.specs.retrieve(fields(base), store=store, executor="inline")
    bill = stats(base)
    assert (first.status, first.usd["spent"]) == ("done", bill["micros"] / 1e6)
    assert bill["served"] == bill["prompts"] == first.calls["made"] > 4
    again = api.specs.retrieve(fields(base, k=[3]), store=store, executor="inline")
    assert (again.calls["made"], stats(base)["served"]) == (0, bill["served"])
    shown = {(row["stage"], row["model"]): row["real"] for row in api.status(first.run, store).to_json()["usage"]}
    assert shown["embed", "openai/embedder"]["calls"] + shown["rerank", "cohere/reranker"]["calls"] == bill["served"]

    ranked = api.table(first.run, "ranked", store)
    corpus = api.load({**fields(base), "kind": "retrieval"}).corpora.corpus(ranked["corpus_id"][0])  # type: ignore[attr-defined]
    assert isinstance(corpus, Corpus)
    for query in corpus.queries:
        assert isinstance(query, Query)
        asked, held = (np.array([vectors.embed(one, 256) for one in texts]) for texts in ([query.text], corpus.texts))
        rows = ranked.filter(query_id=query.query_id).sort("rank")
        found = dict(rows.filter(retriever="embedder").select("number", "score").iter_rows())
        expected = (held @ asked[0]).tolist()
        assert [found[number] for number in range(1, len(corpus.texts) + 1)] == pytest.approx(expected, abs=1e-6)
        best = rows.filter(retriever="bm25")["number"].to_list()[:20]
        relevance = vectors.relevance(query.text, [corpus.texts[number - 1] for number in sorted(best)])
        said = dict(zip(sorted(best), relevance, strict=True))
        reranked = rows.filter(retriever="reranked")["number"].to_list()
        assert reranked[:20] == sorted(best, key=lambda number: (-said[number], number))


def test_a_plan_names_the_stages_and_a_budget_stops_and_goes_on(base: str, tmp_path: Path) -> None:
    store, spec = str(tmp_path / "store"), fields(base, summarizers=["offline/lead"])
    planned = {(one.stage, one.model): one for one in api.plan(spec, store).stages}
    embed, rerank = planned["embed", "openai/embedder"], planned["rerank", "cohere/reranker"]
    assert (rerank.calls, rerank.usd) == (4, 4 * 0.002)
    stopped = api.run(spec, store, budget=rerank.usd / 2, executor="inline")
    assert stopped.status == "budget" and stats(base)["micros"] <= rerank.usd / 2 * 1e6
    done = api.run(spec, store, budget=1, executor="inline")
    bill = stats(base)
    assert (done.status, bill["repeated"], done.usd["spent"]) == ("done", 0, bill["micros"] / 1e6)
    assert embed.usd_min + rerank.usd_min <= done.usd["spent"] <= embed.usd_max + rerank.usd_max
    assert sum(one.calls for one in (embed, rerank)) == bill["served"]
    # Rankings alone ask only questions that are already answered.
    assert api.specs.retrieve(spec, store=store, executor="inline").calls["made"] == 0
    tables = api.table(done.run, "rankings", store)
    assert tables.height == len(tables.unique(["haystack_id", "subtopic_id", "retriever", "rank"]))


@pytest.mark.parametrize(
    "entry",
    [
        *({"embed": "voyage/voyage-3"}, {"embed": "jina_ai/jina-embeddings-v3"}),
        *({"rerank": "voyage/rerank-2"}, {"rerank": "jina_ai/jina-reranker-v2-base-multilingual"}),
    ],
)
def test_jina_and_voyage_are_asked_by_litellm(base: str, tmp_path: Path, entry: dict[str, Any]) -> None:
    price = {"input_per_mtok": 2.5} if "embed" in entry else {"per_search": 0.002}
    reach = {"api_base": base, "api_key_env": "SIMULATED_API_KEY", "price": price}
    result = api.specs.retrieve(fields(base, retrievers=[{**entry, **reach}]), store=str(tmp_path / "store"), executor="inline")
    bill = stats(base)
    assert result.status == "done" and result.calls["made"] == bill["served"] == (5 if "embed" in entry else 4)
    assert result.usd["spent"] == bill["micros"] / 1e6
    assert {row["n"] for row in result.to_json()["retrieval"]} == {4}


def test_a_plan_of_what_is_answered_in_part_counts_what_is_left(base: str, tmp_path: Path) -> None:
    """Some vectors are known and some are not; all have the same length."""
    store, embed = str(tmp_path / "store"), entries(base)[1]
    api.specs.retrieve(fields(base, retrievers=[embed]), store=store, executor="inline")
    other = {**fields(base, retrievers=[{**embed, "document_prefix": "passage: "}]), "summarizers": ["offline/lead"]}
    planned = {one.stage: one.calls for one in api.plan(other, store).stages}
    # The queries' vectors are known; one request asks for the vectors of the 36 documents.
    assert (planned["embed"], planned["summarize"]) == (1, 4)


@pytest.mark.embed
def test_models_here_compute_before_a_service_is_asked(base: str, tmp_path: Path) -> None:
    store, local = tmp_path / "store", {"embed": str(sentence_model(tmp_path / "small")), "name": "local"}
    both = {"fuse": [entries(base)[1], local], "name": "both"}
    spec = {**fields(base, retrievers=[both, local]), "kind": "retrieval"}
    loaded = api.load(spec, store=str(store))
    (part,) = loaded.computations([item for item in loaded.items() if item.data["retriever"] == "both"])
    assert part["retrievers"] == ["both"]
    loaded.compute(part)
    made = {path.name for path in store.glob("vectors/*/*.parquet")}
    result = api.specs.retrieve(spec, store=str(store), executor="inline")
    assert result.status == "done" and {path.name for path in store.glob("vectors/*/*.parquet")} == made
    assert {row["n"] for row in result.to_json()["retrieval"]} == {4}
    run = api.run({**fields(base, retrievers=[both]), "summarizers": ["offline/lead"]}, str(store), executor="inline")
    assert (run.status, stats(base)["repeated"]) == ("done", 0)


def test_a_service_that_fails_is_a_failure_of_its_stage(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMULATED_API_KEY")
    with pytest.raises(Exception, match="SIMULATED_API_KEY"):
        api.specs.retrieve(fields(base), store=str(tmp_path / "store"), executor="inline")
    for head, model, needed in (("embed", "openai/no-such", "input_per_mtok"), ("rerank", "cohere/no-such", "per_search")):
        with pytest.raises(SpecError, match=f"'{model}' has no known price; add price: {{{needed}: ...}}"):
            api.specs.retrieve({**fields(base), "retrievers": [{head: model}]}, store=str(tmp_path / "store"))
    two = [{"embed": "openai/e", "price": {"input_per_mtok": price}, "name": f"e{price}"} for price in (1, 2)]
    with pytest.raises(SpecError, match="'openai/e' has two different settings"):
        api.load({**fields(base), "retrievers": two, "summarizers": ["offline/lead"]})


def test_keys_are_of_the_content() -> None:
    one = Request("m", (), task="embed", inputs=("a", "b"))
    others = [
        Request("m", (), task="rerank", inputs=("a", "b")),
        Request("m", (), task="embed", inputs=("b", "a")),
        Request("m", (), {"dimensions": 8}, task="embed", inputs=("a", "b")),
        Request("m", "a\nb"),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
    assert one.key == Request("m", (), task="embed", inputs=["a", "b"]).key
    with pytest.raises(ValueError, match="expected messages for chat, else inputs"):
        Request("m", "a", inputs=("b",))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": []},
        {"data": [{"embedding": [1.0]}]},
        {"data": [{"embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]},
        {"data": [{"embedding": [1.0]}, [1.0]]},
        *({"data": [{"index": 0, "embedding": [1.0]}, {"index": other, "embedding": [1.0]}]} for other in (0, True, "1")),
        *({"data": [{"index": 0, "embedding": [1.0]}, {"index": other, "embedding": [1.0]}]} for other in (-1, 1.0, 10**400)),
    ],
)
def test_a_body_without_an_entry_for_each_text_is_refused(body: Any) -> None:
    with pytest.raises(ValueError):
        vectors_reply(body, 2)


@pytest.mark.parametrize(
    "vector",
    [[], "AAAA AAAA", None, 1.0, [True], [1.0, 2.0], [10**400], [float("inf")]],
)
def test_what_is_no_vector_is_a_flaw(vector: Any) -> None:
    reply = vectors_reply({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": vector}]}, 2)
    assert reply.flaw.startswith("the vector at index 1 ")
    reply = scores_reply({"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": vector}]}, 2)
    assert reply.flaw.startswith("the score at index 1 ") or vector == 1.0


def test_numbers_come_back_as_they_were() -> None:
    data = [{"index": 1, "embedding": [0.5, -1e-9]}, {"index": 0, "embedding": [1.0, 2.0]}]
    reply = vectors_reply({"data": data, "usage": {"prompt_tokens": 3}}, 2)
    assert vectors_of(reply.text).tolist() == [[1.0, 2.0], [0.5, pytest.approx(-1e-9)]]
    assert reply.usage is not None and (reply.usage.input_tokens, "data" in reply.raw) == (3, False)
    results = [{"index": 1, "relevance_score": 0.25}, {"index": 0, "relevance_score": 1}]
    reply = scores_reply({"results": results, "meta": {"billed_units": {"search_units": 2}}}, 2)
    assert scores_of(reply.text) == [1.0, 0.25]
    assert scores_of(scores_reply({"results": [{"score": 0.5}, {"score": 0.75}]}, 2).text) == [0.5, 0.75]
    assert vectors_of(vectors_reply({"data": [{"embedding": [2.0]}, {"embedding": [1.0]}]}, 2).text).tolist() == [[2.0], [1.0]]
    assert reply.usage is not None and (reply.usage.input_tokens, reply.usage.searches) == (0, 2)
