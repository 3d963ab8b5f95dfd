"""Retrievers in a spec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import summhay_ray
from summhay_ray.benchmarks.retrieval import own_code, retriever_label
from summhay_ray.benchmarks.summhay import SummHay, SummhaySpec
from summhay_ray.engine import load_workload
from summhay_ray.errors import SpecError
from summhay_ray.llm.provider_table import PROVIDERS
from summhay_ray.store import Store

pytestmark = pytest.mark.core


def spec(*retrievers: Any) -> dict[str, Any]:
    return {"haystacks": ["sample/news"], "retrievers": list(retrievers), "summarizers": ["offline/lead"], "token_budget": 500}


def workload(tmp_path: Path, *retrievers: Any) -> SummHay:
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(spec(*retrievers)))
    found = load_workload(str(tmp_path / "s.yaml"))
    assert isinstance(found, SummHay)
    return found


def test_what_tables_call_them() -> None:
    given: list[Any] = [
        "bm25", {"bm25": "split"}, {"oracle": "drop", "share": 0.5}, {"embed": "org/small", "max_tokens": 64},
        {"longe": "org/long"}, {"rerank": "cross-encoder/small", "of": "vector"}, {"fuse": ["bm25", {"bm25": "stems"}]},
        {"fuse": ["bm25", "vector"], "method": "sum", "name": "both"}, {"run": "runs/mine.run"},
    ]  # fmt: skip
    found = SummhaySpec.parse(spec(*given), "spec").retrievers
    assert [retriever_label(one) for one in found] == [
        *("bm25", "bm25-split", "oracle-drop-0.5", "small", "long", "vector+small", "rrf(bm25,bm25-stems)", "both", "mine"),
    ]
    again = SummhaySpec.model_validate(json.loads(SummhaySpec.parse(spec(*given), "spec").model_dump_json()))
    assert again.retrievers == found


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            {"bm25": "lines"},
            "retrievers[0]: {bm25: ...}: bm25: input should be 'split', 'words', 'stems' or 'wordnet', found \"lines\"",
        ),
        ({"embed": "m", "chunk": 3}, "{embed: ...}: chunk: unknown field; did you mean chunks?"),
        (
            {"embed": "m", "chunks": {"tokens": 5, "overlap": 5}},
            "chunks: overlap: 5 tokens in pieces of 5; expected fewer",
        ),
        ({"embed": ""}, "{embed: ...}: embed: string should have at least 1 character"),
        ({"fuse": ["bm25"]}, "{fuse: ...}: fuse: list should have at least 2 items"),
        ({"fuse": ["bm25", {"bm25": 3}]}, "{fuse: ...}: fuse[1]: {bm25: ...}: bm25: input should be"),
        ({"embedding": "m"}, "expected a retriever's name, or a mapping of one of these kinds: {bm25: ...}"),
        ({"bm25": "split", "embed": "m"}, "expected a retriever's name, or a mapping of one of these kinds"),
        (7, "expected a retriever's name"),
        ({"oracle": "drop", "share": 1.5}, "share: input should be less than or equal to 1"),
        ({"run": "none.run"}, "no file 'none.run'"),
        ({"fuse": ["bm25", "bm52"]}, "no retriever is named 'bm52'; did you mean 'bm25'?"),
        ({"fuse": ["bm25", "released/vector"]}, "news holds no scores of 'released/vector'"),
        ({"embed": "./none"}, "model './none': no such folder"),
    ],
)
def test_a_wrong_entry_is_refused_in_one_line(tmp_path: Path, entry: Any, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        workload(tmp_path, entry)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def lacking(*, embeds: bool) -> list[tuple[str, str | None]]:
    """(provider, api_base) of each provider without the service: without an address, and with the provider's own address."""
    found = [(name, known) for name, known in PROVIDERS.items() if ("embed" if embeds else "rerank") not in known.services]
    own = [(name, f"https://{known.domains[0]}/v1") for name, known in found if known.domains and "*" not in known.domains[0]]
    return [*((name, None) for name, _ in found), *own]


@pytest.mark.parametrize("head", ["embed", "rerank"])
def test_a_service_that_a_provider_lacks_is_refused_at_the_spec(head: str) -> None:
    price = {"input_per_mtok": 1} if head == "embed" else {"per_search": 0.002}
    cases = lacking(embeds=head == "embed")
    assert len(cases) > 100
    for provider, base in cases:
        entry = {head: f"{provider}/x", "price": price, "api_base": base}
        with pytest.raises(SpecError) as caught:
            SummhaySpec.parse(spec(entry), "spec").check("spec", ["embed", "rerank"])
        assert str(caught.value).startswith(f"spec: {provider}/x: {head}: {provider} has no ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("entry", [{"rerank": "openai/x", "price": {"per_search": 0.002}}, {"embed": "anthropic/x"}])
def test_such_a_spec_is_neither_planned_nor_run(tmp_path: Path, entry: Any) -> None:
    with pytest.raises(SpecError, match="has no (reranking|embeddings) service"):
        workload(tmp_path, {"fuse": ["bm25", entry]})
    mine = {**entry, "price": {"per_search": 0.002, "input_per_mtok": 1}, "api_base": "http://127.0.0.1:9"}
    assert workload(tmp_path, {"fuse": ["bm25", mine]})


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'bm25-split' is listed twice"):
        workload(tmp_path, {"bm25": "split"}, {"bm25": "split"})


def test_a_run_of_mappings_keeps_what_it_stands_on(tmp_path: Path) -> None:
    """When the run is scored and resumed, the file of rankings is gone. A file with other content makes another run."""
    first = workload(tmp_path, "bm25")
    (haystack,) = first.grid.haystacks.values()
    lines = [f"{one.subtopic_id} Q0 {haystack.documents[2].document_id} 1 1.5 mine\n" for one in haystack.subtopics]
    (tmp_path / "mine.run").write_text("".join(lines))
    named = workload(tmp_path, {"run": "mine.run"}, {"bm25": "split"}, {"fuse": ["bm25", {"bm25": "stems"}]})
    ids = named.run_id
    result = summhay_ray.run(str(tmp_path / "s.yaml"), store=str(tmp_path / "store"), executor="inline")
    assert (result.status, result.run) == ("done", ids)
    rankings = Store(str(tmp_path / "store")).run(ids).table("rankings")
    ranked = rankings.filter(retriever="mine")
    assert ranked["document_id"].unique().to_list() == [haystack.documents[2].document_id]
    assert sorted(rankings["retriever"].unique()) == ["bm25-split", "mine", "rrf(bm25,bm25-stems)"]
    (tmp_path / "mine.run").write_text("".join(lines[1:]))
    assert workload(tmp_path, {"run": "mine.run"}, {"bm25": "split"}, {"fuse": ["bm25", {"bm25": "stems"}]}).run_id != ids


def test_a_persons_own_code_inside_an_entry_goes_with_a_job() -> None:
    found = SummhaySpec.parse(spec({"fuse": ["bm25", {"rerank": "m", "of": "mine:Own"}]}), "spec")
    assert own_code(found.retrievers) == ["mine:Own"]
