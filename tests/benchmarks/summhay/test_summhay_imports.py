"""Imports of many files: checked before anything is written, one commit for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from big_haystacks import write_haystacks
from summhay_grids import SMALL

from summhay_ray import api
from summhay_ray.benchmarks.summhay import import_released
from summhay_ray.benchmarks.summhay.haystacks import imports
from summhay_ray.benchmarks.summhay.haystacks.imports import FILES_A_BLOCK, keep_files
from summhay_ray.errors import UserError
from summhay_ray.haystack import InvalidHaystack
from summhay_ray.metrics import Compat
from summhay_ray.store import RunStore, Store

MANY = 2 * FILES_A_BLOCK + 3


def files(folder: Path, number: int = MANY) -> list[str]:
    return [str(path) for path in write_haystacks(folder / "files", number, **SMALL)]


def store_in(tmp_path: Path, name: str = "store") -> Store:
    return Store(str(tmp_path / name))


@pytest.mark.core
def test_many_files_are_one_commit_and_merged(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    result = import_released(files(tmp_path), store)
    run = store.run(result.run)
    assert (result.haystacks, result.documents, result.queries) == (MANY, 4 * MANY, 2 * MANY)
    assert (result.summaries, result.judgments, result.failures) == (0, 0, 0)
    assert (run.version(), run.manifest().added, run.has_tables()) == (2, 3, True)
    assert run.table("documents").height == 4 * MANY
    assert api.status(result.run, store.uri).status == "imported"
    assert len(api.score(result.run, store.uri).haystacks) == MANY


FIGURES = {
    "coverage": "coverage_score",
    "citation": "citation_score",
    "citation_precision": "citation_precision",
    "citation_recall": "citation_recall",
    "joint": "joint_score",
    "n_scored": "n_insights",
    "n_covered": "n_covered",
}
"""Figure -> what the release's own script calls it."""


@pytest.mark.core
@pytest.mark.parametrize("compat", [pytest.param("default", marks=pytest.mark.soak), "release"])
def test_the_released_files_score_as_in_the_release(summhay_data: Path, released_run: RunStore, compat: Compat) -> None:
    reference = json.loads((summhay_data / "reference_scores.json").read_text())
    found = api.score(released_run.run_id, released_run.store.uri, compat)
    wanted = {Path(name).stem: scores for name, scores in reference["per_haystack"].items()}
    assert found.haystacks.keys() == wanted.keys()
    for systems, scores in [(found.systems, reference["pooled"]), *((found.haystacks[one], wanted[one]) for one in wanted)]:
        assert {one.system for one in systems} == scores.keys() and len(systems) == 78
        for one in systems:
            for ours, theirs in FIGURES.items():
                assert getattr(one, ours) == pytest.approx(scores[one.system][theirs], rel=0, abs=1e-15), (one.system, ours)


@pytest.mark.core
def test_an_import_again_changes_nothing(tmp_path: Path) -> None:
    store, paths = store_in(tmp_path), files(tmp_path, 3)
    first = import_released(paths, store)
    before = store.run(first.run).version(), store.run(first.run).digests()
    assert import_released(paths, store) == first
    assert (store.run(first.run).version(), store.run(first.run).digests()) == before
    assert import_released(list(reversed(paths)), store).run == first.run


@pytest.mark.core
def test_the_same_content_twice_is_refused_and_both_files_are_named(tmp_path: Path) -> None:
    paths = files(tmp_path, 3)
    copy = tmp_path / "copy.json"
    copy.write_bytes(Path(paths[1]).read_bytes())
    with pytest.raises(InvalidHaystack, match=rf"copy.json: has the same content as .*{Path(paths[1]).name}"):
        import_released([*paths, str(copy)], store_in(tmp_path))
    with pytest.raises(InvalidHaystack, match="has the same content"):
        import_released([paths[0], paths[0]], store_in(tmp_path))
    assert not (tmp_path / "store").exists()


@pytest.mark.core
def test_an_import_that_was_killed_is_no_import_and_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, paths, kept = store_in(tmp_path), files(tmp_path), []

    def dies(*arguments: Any) -> Any:
        if kept:
            raise KeyboardInterrupt
        kept.append(keep_files(*arguments))
        return kept[0]

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(imports, "keep_files", dies)
        import_released(paths, store)
    assert store.run_ids() == []
    again, whole = import_released(paths, store), import_released(paths, store_in(tmp_path, "other"))
    assert again == whole and store.run(again.run).digests() == store_in(tmp_path, "other").run(whole.run).digests()


@pytest.mark.core
def test_a_file_that_changed_after_its_check_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, paths = store_in(tmp_path), files(tmp_path, 2)

    def changed(*arguments: Any) -> Any:
        file = Path(paths[0])
        file.write_text(file.read_text(encoding="ascii").replace("?", "!"), encoding="ascii")
        return keep_files(*arguments)

    monkeypatch.setattr(imports, "keep_files", changed)
    with pytest.raises(UserError, match=f"{Path(paths[0]).name}: was changed since it was read"):
        import_released(paths, store)
    assert store.run_ids() == []
