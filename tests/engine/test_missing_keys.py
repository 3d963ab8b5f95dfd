"""A model without its key is reported by name before any call."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from inline_runs import answered, loaded
from simulated_provider import KEY, in_thread

from summhay_ray import api
from summhay_ray.engine import missing_keys
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core


def test_a_model_whose_key_is_absent_is_refused_before_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUMMHAY_ABSENT_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    named = {"model": "openai/mine", "price": 0, "api_base": "http://127.0.0.1:1", "api_key_env": "SUMMHAY_ABSENT_KEY"}
    for model, variable in ((named, "SUMMHAY_ABSENT_KEY"), ({"model": "openai/gpt-4o"}, "OPENAI_API_KEY")):
        with pytest.raises(UserError, match=f"{variable} is not set.*nothing was asked"):
            answered(tmp_path / "store", summarizers=[model])
    assert not (tmp_path / "store" / "log").exists()


def test_a_key_under_the_providers_other_name_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = loaded(summarizers=[{"model": "gemini/mine", "price": 0}])
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    mend = "export it, or the path of a file that holds it as GEMINI_API_KEY_FILE, where the workers run"
    assert missing_keys(grid) == [f"gemini/mine: GEMINI_API_KEY is not set; {mend}"]
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    assert missing_keys(grid) == []


def test_making_rows_again_takes_the_keys_and_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> list[str]:
        return [check.message for check in api.doctor(store=str(tmp_path)) if not check.ok and check.name.startswith("run ")]

    monkeypatch.setenv("SUMMHAY_LOST_KEY", KEY)
    with in_thread() as provider:
        model = {"model": "openai/mine", "price": 0, "api_base": provider.base, "api_key_env": "SUMMHAY_LOST_KEY"}
        done, run = answered(tmp_path, summarizers=[model])
        monkeypatch.delenv("SUMMHAY_LOST_KEY")
        shutil.rmtree(tmp_path / "runs" / run.run_id / "commits")
        assert told()
        with pytest.raises(UserError, match="SUMMHAY_LOST_KEY is not set"):
            answered(tmp_path, summarizers=[model])
        monkeypatch.setenv("SUMMHAY_LOST_KEY", KEY)
        again, _ = answered(tmp_path, summarizers=[model])
        assert (again.status, again.calls["made"], told()) == (done.status, 0, [])
