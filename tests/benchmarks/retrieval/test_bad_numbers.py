"""Unusable numbers from a service are paid, reported, kept for `explain`, never used as an answer, and requested again."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from number_service import Damage, Served, number_service

from summhay_ray import api, cli
from summhay_ray.store import LogIndex, Store

pytestmark = pytest.mark.core
NAN = float("nan")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("SIMULATED_API_KEY", "sk-simulated")
    with number_service() as served:
        yield served


def fields(served: Served, *heads: str, **more: Any) -> dict[str, Any]:
    reach = {"api_base": served.base, "api_key_env": "SIMULATED_API_KEY"}
    entries = {
        "embed": {"embed": "openai/embedder", "price": {"input_per_mtok": 1.0}, **reach},
        "rerank": {"rerank": "cohere/reranker", "of": "bm25", "top": 20, "price": {"per_search": 0.002}, **reach},
    }
    return {"haystacks": ["sample/news"], "retrievers": [entries[head] for head in heads], "k": [5], "token_budget": 1500, **more}


def packed(values: list[float]) -> str:
    return base64.b64encode(array("f", values).tobytes()).decode()


def of_documents(change: Callable[[list[dict[str, Any]]], object]) -> Damage:
    """Damages the vectors of the documents, which come from one request and which every query needs."""

    def damage(task: str, texts: list[str], body: dict[str, Any]) -> None:
        if task == "embed" and len(texts) > 1:
            change(body["data"])

    return damage


def of_scores(score: Any) -> Damage:
    """Damages the very first reranking."""
    seen: list[Any] = []

    def damage(task: str, texts: list[str], body: dict[str, Any]) -> None:
        if task == "rerank" and not seen:
            seen.append(texts)
            body["results"][2]["relevance_score"] = score

    return damage


def of_length(*lengths: int) -> Damage:
    """Cuts the vectors of each request to the next of these lengths; the last length stays."""
    left = list(lengths)

    def damage(task: str, texts: list[str], body: dict[str, Any]) -> None:
        length = left.pop(0) if len(left) > 1 else left[0]
        for entry in body["data"]:
            entry["embedding"] = entry["embedding"][:length]

    return damage


def run(spec: dict[str, Any], store: Path) -> tuple[Any, pl.DataFrame]:
    """The result, and the rankings by query and retriever."""
    result = api.specs.retrieve(spec, store=str(store), executor="inline")
    return result, api.table(result.run, "ranked", str(store)).sort("query_id", "retriever", "rank").drop("corpus_id")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame]:
    """The rankings by an undamaged service, for each way to ask it."""
    with pytest.MonkeyPatch.context() as patch, number_service() as served:
        patch.setenv("SIMULATED_API_KEY", "sk-simulated")
        _, ranked = run(fields(served, "embed", "rerank"), tmp_path_factory.mktemp("whole"))
    return {head: ranked.filter(retriever=name) for head, name in (("embed", "embedder"), ("rerank", "bm25+reranker"))}


@pytest.mark.parametrize(
    ("head", "damage", "flaw"),
    [
        (
            "embed",
            of_documents(lambda data: data[3].update(embedding=packed([NAN] * 16))),
            "vector at index 3 holds a number that",
        ),
        pytest.param(
            "embed",
            of_documents(lambda data: data[3]["embedding"].append(1e308)),
            "vector at index 3 holds a number that is not",
            marks=pytest.mark.soak,
        ),
        ("rerank", of_scores(10**400), "score at index 2 holds a number that is not finite"),
    ],
)
def test_a_mended_service_and_the_same_run_again(
    head: str, damage: Damage, flaw: str, service: Served, expected: Any, tmp_path: Path
) -> None:
    store, spec = tmp_path / "store", fields(service, head)
    service.damage = damage
    first, _ = run(spec, store)
    failures = api.failures(first.run, str(store))
    n_sent, n_failed = len(service.calls), 4 if head == "embed" else 1
    assert first.status == "partial" and first.calls["made"] == n_sent == (5 if head == "embed" else 4)
    assert first.usd["spent"] == service.micros / 1e6
    assert [(row["stage"], row["kind"], row["error"]) for row in failures] == [(head, "malformed", "bad_numbers")] * n_failed
    assert all(flaw in row["message"] and "\n" not in row["message"] for row in failures)
    index = LogIndex(Store(str(store)).files)
    index.refresh()
    assert not {row["key"] for row in failures} & index.answers.keys()
    assert [stage.calls for stage in api.plan({**spec, "kind": "retrieval"}, str(store)).stages] == [1]
    service.damage = None
    again, ranked = run(spec, store)
    assert (again.status, again.calls["made"], len(service.calls)) == ("done", 1, n_sent + 1)
    assert again.usd["spent"] == service.micros / 1e6 and ranked.equals(expected[head])
    n_sent = len(service.calls)
    assert run(spec, store)[0].calls["made"] == 0 and len(service.calls) == n_sent
    told = [
        attempt
        for row in failures
        for call in api.explain(first.run, row["cell_id"], str(store))["calls"]
        for attempt in call["failed_attempts"]
    ]
    assert len(told) == n_failed and all(flaw in attempt["flaw"] and attempt["usd_micros"] > 0 for attempt in told)


def test_a_failed_attempt_stays_to_be_explained(service: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, spec = str(tmp_path), {**fields(service, "embed"), "summarizers": ["offline/lead"]}
    service.damage = of_documents(lambda data: data[3].update(embedding=packed([NAN] * 16)))
    first = api.run(spec, store, executor="inline")
    cell = api.failures(first.run, store)[0]["cell_id"]
    service.damage = None
    (attempt,) = api.explain(first.run, cell, store)["failed_attempts"]
    assert attempt["usd_micros"] == 8131 and "not finite as a 4-byte float" in attempt["flaw"]
    assert api.run(spec, store, executor="inline").status == "done"
    with pytest.raises(SystemExit) as stop:
        cli.main(["explain", first.run, cell, "--store", store])
    told = f"failed attempt  openai/embedder, key {attempt['key']}, 0.008131 dollars: the vector at index 3 holds"
    assert not stop.value.code and told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lengths", "failed", "asked_again"),
    [
        pytest.param((16, 8, 16), 1, 1, marks=pytest.mark.soak),
        # The first answer was the wrong one: it is requested again as well.
        ((8, 16), 4, 5),
        pytest.param((8, 16, 8, 16), 3, 5, marks=pytest.mark.soak),
    ],
)
def test_vectors_of_another_length_than_the_models_others(
    lengths: tuple[int, ...], failed: int, asked_again: int, service: Served, expected: Any, tmp_path: Path
) -> None:
    store, spec = tmp_path / "store", fields(service, "embed")
    service.damage = of_length(*lengths)
    first, _ = run(spec, store)
    assert (first.status, first.calls["made"], first.usd["spent"]) == ("partial", 5, service.micros / 1e6)
    refused = {(row["error"], row["key"]) for row in api.failures(first.run, str(store))}
    assert {error for error, _ in refused} == {"bad_numbers"} and len(refused) == failed
    service.damage = None
    again, ranked = run(spec, store)
    assert (again.status, again.usd["spent"]) == ("done", service.micros / 1e6)
    # The order of the first answers decides which of them had the right length.
    assert failed <= again.calls["made"] <= asked_again
    assert ranked.equals(expected["embed"])
    n_sent = len(service.calls)
    assert run(spec, store)[0].calls["made"] == 0 and len(service.calls) == n_sent


def test_vectors_are_held_against_those_of_other_runs(service: Served, tmp_path: Path) -> None:
    store, spec = tmp_path / "store", fields(service, "embed")
    assert run(spec, store)[0].status == "done"
    (embed,) = spec["retrievers"]
    other = {**spec, "retrievers": [{**embed, "document_prefix": "passage: "}]}
    service.damage = of_length(8)
    first, _ = run(other, store)
    (why,) = {row["message"] for row in api.failures(first.run, str(store))}
    assert why.startswith("the vectors have 8 dimensions, and the model's others 16") and first.calls["made"] == 1
    service.damage = None
    again, _ = run(other, store)
    assert (again.status, again.calls["made"]) == ("done", 1)


def test_a_service_that_contradicts_itself_is_given_up(service: Served, tmp_path: Path) -> None:
    """In doubt, an answer overrules stored vectors. If the next answer contradicts it, everything would be paid for again."""
    store, spec = tmp_path / "store", fields(service, "embed")
    service.damage = of_length(16, 8, 16)
    assert run(spec, store)[0].status == "partial"
    service.damage = of_length(8, 16)
    stopped, _ = run(spec, store)
    assert "bad_numbers" in stopped.stopped_models["openai/embedder"] and stopped.calls["made"] <= 5
    service.damage = None
    assert run(spec, store)[0].status == "done"


def test_vectors_of_zeros_are_kept_and_reported(service: Served, tmp_path: Path) -> None:
    store, spec = tmp_path / "store", fields(service, "embed")
    service.damage = of_documents(lambda data: [entry.update(embedding=packed([0.0] * 16)) for entry in data[:2]])
    found, _ = run(spec, store)
    told = "openai/embedder: 2 of its vectors are all zeros"
    assert found.status == "done" and any(line.startswith(told) for line in found.warnings)
    assert any(line.startswith(told) for line in api.status(found.run, str(store)).warnings)
    assert run(spec, store)[0].calls["made"] == 0


def test_what_is_paid_is_kept_where_the_length_cannot_be(service: Served, expected: Any, tmp_path: Path) -> None:
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "dimensions").write_text("in the way")
    found, ranked = run(fields(service, "embed"), tmp_path)
    assert (found.status, found.calls["made"]) == ("done", 5) and ranked.equals(expected["embed"])
    assert run(fields(service, "embed", k=[3]), tmp_path)[0].calls["made"] == 0


@pytest.mark.parametrize(
    "meta",
    [
        "billed",
        {"billed_units": {"search_units": 10**400}},
        pytest.param({"billed_units": {"search_units": -3, "input_tokens": "5"}}, marks=pytest.mark.soak),
        pytest.param({"tokens": "many", "billed_units": ["a"]}, marks=pytest.mark.soak),
        pytest.param({"billed_units": {"search_units": True}, "tokens": {"input_tokens": -1e400}}, marks=pytest.mark.soak),
    ],
)
def test_usage_that_makes_no_sense_is_charged_at_most_the_worst_case(meta: Any, service: Served, tmp_path: Path) -> None:
    service.damage = lambda task, texts, body: body.update(meta=meta)
    found, _ = run(fields(service, "rerank"), tmp_path / "store")
    # A model that reports more than the reservation is stopped.
    assert 1 <= found.calls["made"] <= 4 and found.calls["failed"] == 0
    assert 0 < found.usd["spent"] <= found.calls["made"] * 0.002
