"""Odd haystacks and prompts give a warning or a clear line, and an import is complete or absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_runs import N_INSIGHTS, answered, loaded

from summhay_ray import api
from summhay_ray.errors import UserError
from summhay_ray.haystack import load_sample
from summhay_ray.store import Store

pytestmark = pytest.mark.core


def test_an_import_is_one_commit_and_its_tables_merged(tmp_path: Path) -> None:
    for name in ("news", "conversation"):
        (tmp_path / f"{name}.json").write_text(json.dumps(load_sample(name)), encoding="utf-8")
    result = api.import_released([tmp_path / "news.json", tmp_path / "conversation.json"], str(tmp_path / "store"))
    run = Store(str(tmp_path / "store")).run(result.run)
    assert (run.version(), run.table("haystacks").height) == (2, 2)


def test_documents_that_are_absent_or_moved_are_a_warning(tmp_path: Path) -> None:
    raw = load_sample("news")
    del raw["documents"][3]
    (tmp_path / "cut.json").write_text(json.dumps(raw), encoding="utf-8")
    result = api.import_released(tmp_path / "cut.json", str(tmp_path / "store"))
    assert any("documents[3].idx is 4: documents are missing or moved" in warning for warning in result.warnings)


def test_a_prompt_that_the_offline_judge_cannot_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bare.txt").write_text("Insight: [[INSIGHT]]\nBullets: [[BULLETS]]\n", encoding="utf-8")
    Path("good.txt").write_text("Reference Insight:\n[[INSIGHT]]\n\nBullet Points:\n[[BULLETS]]\n", encoding="utf-8")
    with pytest.raises(UserError, match="offline/judge reads the section under a line 'Reference Insight:'"):
        loaded(judges=[{"model": "offline/judge", "prompt": "bare.txt"}])
    result, run = answered(tmp_path / "store", judges=[{"model": "offline/judge", "prompt": "good.txt"}])
    assert run.table("scores").height == N_INSIGHTS and result.status == "done"
