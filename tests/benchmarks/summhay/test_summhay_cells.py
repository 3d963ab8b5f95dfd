"""Cells and identity: the changes that make another run, cell or system, and the changes that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from summhay_grids import grid_of, ids_of

from summhay_ray.haystack import load_sample

pytestmark = pytest.mark.core


def test_the_grid_is_the_product_and_orderings_are_of_the_whole_haystack() -> None:
    grid = grid_of(
        haystacks=["sample/news", "sample/conversation"],
        retrievers=["random", "bm25", "full"],
        orderings=["given", "top", "bottom"],
        summarizers=["offline/support", "offline/lead"],
        repeats=2,
    )
    queries = 4 + 4
    cells = list(grid.items())
    assert len({cell.source for cell in cells}) == queries * (1 + 1 + 3), "a context for each query and way to make one"
    assert len(cells) == queries * 5 * 2 * 2 == len(ids_of(grid)) == grid.n_items()
    ways = {tuple(cell.data["unit"][2:]) for cell in cells}
    assert ways == {("random", "given"), ("bm25", "given"), ("full", "given"), ("full", "top"), ("full", "bottom")}


SEMANTIC: list[dict[str, Any]] = [
    {"haystacks": ["sample/conversation"]},
    {"haystacks": ["sample/news", "sample/conversation"]},
    {"retrievers": ["oracle"]},
    {"retrievers": ["full"]},
    {"token_budget": 1501},
    {"repeats": 2},
    {"seed": 1},
    {"summarizers": ["offline/support"]},
    {"summarizers": [{"model": "offline/lead", "name": "other"}]},
    {"summarizers": [{"model": "offline/lead", "max_tokens": 7}]},
    {"summarizers": [{"model": "offline/lead", "temperature": 0.5}]},
    {"summarizers": [{"model": "offline/lead", "seed": 5}]},
    {"summarizers": [{"model": "offline/lead", "extra": {"top_p": 0.5}}]},
    {"summarizers": [{"model": "offline/lead", "prompt": "mine.txt"}]},
    {"judges": [{"model": "offline/judge", "max_tokens": 7}]},
]
NOT_SEMANTIC: list[dict[str, Any]] = [
    {"name": "another"},
    {"budget_usd": 3.0},
    {"limits": {"offline/lead": {"rpm": 5, "concurrency": 3}}},
    {"workers": 3},
    {"endpoint_url": "http://127.0.0.1:9000"},
    {"orderings": ["top"]},  # Without `full`, orderings have no effect.
    {"summarizers": [{"model": "offline/lead", "price": 0}]},
    {"summarizers": [{"model": "offline/lead", "timeout_s": 5.0}]},
    {"summarizers": [{"model": "offline/lead", "max_answer_bytes": 5000}]},
    {"summarizers": [{"model": "offline/lead", "api_base": "http://127.0.0.1:1"}]},
    {"summarizers": [{"model": "offline/lead", "api_key_env": "SOME_KEY"}]},
    {"summarizers": [{"model": "offline/lead", "context_window": 99999}]},
]


def prompt_folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.txt").write_text("[DOCUMENTS] [QUERY] [N_insights]", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("fields", SEMANTIC, ids=str)
def test_what_changes_the_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert grid_of(prompt_folder(tmp_path), **fields).run_id != grid_of().run_id


@pytest.mark.parametrize("fields", NOT_SEMANTIC, ids=str)
def test_what_does_not_change_the_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert grid_of(prompt_folder(tmp_path), **fields).run_id == grid_of().run_id


def test_the_order_of_lists_does_not_change_the_run() -> None:
    one = grid_of(haystacks=["sample/news", "sample/conversation"], retrievers=["bm25", "full"], orderings=["top", "given"])
    two = grid_of(haystacks=["sample/conversation", "sample/news"], retrievers=["full", "bm25"], orderings=["given", "top"])
    assert one.run_id == two.run_id
    assert ids_of(one) == ids_of(two)


def test_a_prompt_file_counts_by_its_text_and_not_by_its_name(tmp_path: Path) -> None:
    for name in ("mine.txt", "copy.txt"):
        (tmp_path / name).write_text("[DOCUMENTS] [QUERY] [N_insights]", encoding="utf-8")
    (tmp_path / "other.txt").write_text("[DOCUMENTS] [QUERY] [N_insights]!", encoding="utf-8")
    ids = [
        grid_of(tmp_path, summarizers=[{"model": "offline/lead", "prompt": name}]).run_id
        for name in ("mine.txt", "copy.txt", "other.txt")
    ]
    assert ids[0] == ids[1] != ids[2]


def test_a_cell_does_not_depend_on_the_rest_of_the_grid() -> None:
    alone = ids_of(grid_of())
    among = ids_of(grid_of(retrievers=["oracle", "bm25"], summarizers=["offline/support", "offline/lead"]))
    assert alone < among


def with_scores(tmp_path: Path, *names: str) -> Path:
    raw = load_sample("news")
    for subtopic in raw["subtopics"]:
        subtopic["retriever"] = {name: {doc["document_id"]: doc["idx"] for doc in raw["documents"]} for name in names}
    (tmp_path / "scored.json").write_text(json.dumps(raw), encoding="utf-8")
    return tmp_path


def test_systems_have_the_releases_keys(tmp_path: Path) -> None:
    grid = grid_of(
        with_scores(tmp_path, "vector", "dwzhu/e5-base-4k"),
        haystacks=["scored.json"],
        retrievers=["bm25", "released/vector", "released/dwzhu/e5-base-4k", "full"],
        orderings=["given", "top", "bottom", "middle"],
        summarizers=["replay/gpt-4o"],
    )
    assert set(grid.grid.systems.values()) == {
        "bm25_gpt-4o",
        "vector_gpt-4o",
        "dwzhu/e5-base-4k_gpt-4o",
        "gpt-4o",
        "fl-ctxt-sort_gpt-4o",
        "fl-ctxt-rev-sort_gpt-4o",
        "fl-ctxt-middle_gpt-4o",
    }


def test_two_systems_never_share_a_key(tmp_path: Path) -> None:
    grid = grid_of(with_scores(tmp_path, "keywords"), haystacks=["scored.json"], retrievers=["keywords", "released/keywords"])
    assert sorted(grid.grid.systems.values()) == ["keywords_offline/lead", "released/keywords_offline/lead"]


RETRIEVER = """
from summhay_ray.retrieve import Ranked

class Mine:
    name, whole = "mine", {whole}

    def __init__(self, argument="", seed=0):
        pass

    def rank(self, subtopic, haystack):
        return [Ranked(document.number, 0.0) for document in haystack.documents]
"""


def test_a_persons_own_code_is_part_of_the_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (("mine_one", RETRIEVER), ("mine_two", RETRIEVER), ("mine_other", RETRIEVER + "# changed\n")):
        (tmp_path / f"{name}.py").write_text(text.format(whole=False), encoding="utf-8")
    (tmp_path / "mine_whole.py").write_text(RETRIEVER.format(whole=True), encoding="utf-8")
    one, other = (grid_of(retrievers=[f"{name}:Mine"]) for name in ("mine_one", "mine_other"))
    assert one.run_id != other.run_id
    assert ids_of(one).isdisjoint(ids_of(other))
    # A retriever that returns the whole haystack takes the orderings, and they count.
    given, sorted_ = (grid_of(retrievers=["mine_whole:Mine"], orderings=[name]) for name in ("given", "top"))
    assert given.run_id != sorted_.run_id


def test_our_own_prompts_are_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    run_id, cells = grid_of().run_id, ids_of(grid_of())
    monkeypatch.setattr("summhay_ray.summarize.prompt_identity", lambda text, **_: "reworded")
    assert grid_of().run_id != run_id
    assert ids_of(grid_of()).isdisjoint(cells)
