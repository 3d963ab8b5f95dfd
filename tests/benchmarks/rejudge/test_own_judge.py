"""A user's own judge, and rejudges without results: both are read back without the user's code, and leave nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from annotated import summary, write
from inline_runs import SAMPLE, answered
from rejudged_runs import N_INSIGHTS, judged_again, rejudging, source_run

from summhay_ray import api, plugins
from summhay_ray.benchmarks.summhay import judges_of
from summhay_ray.engine import SpecError, open_run
from summhay_ray.errors import UserError
from summhay_ray.judge import Verdict
from summhay_ray.store import RunStore, StoreError

pytestmark = pytest.mark.core

CODE = """
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer

class Mine:
    name = "mine"
    bullet_id, more = 1, {}
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("FULL_COVERAGE", self.bullet_id, **self.more)) for _ in insights]

class Object(Mine):
    bullet_id = object()

class Word(Mine):
    more = {"value": "high"}

class Nan(Mine):
    more = {"value": float("nan")}

class Naked(Mine):
    async def judge(self, insights, bullets, settings, ask):
        return [Answer("FULL_COVERAGE") for _ in insights]

class Sync(Mine):
    def judge(self, insights, bullets, settings, ask):
        raise KeyError("at once")

class Init(Mine):
    def __init__(self, words):
        pass
"""

Forget = Callable[[], None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    return source_run(tmp_path_factory.mktemp("source"))


@pytest.fixture
def forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forget:
    """Make the module `mine_judges` importable; call the result to remove it again."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "mine_judges.py").write_text(CODE, encoding="utf-8")

    def forget() -> None:
        monkeypatch.delitem(sys.modules, "mine_judges", raising=False)
        plugins.code_identity.cache_clear()

    forget()
    monkeypatch.syspath_prepend(str(tmp_path / "code"))

    def away() -> None:
        monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(tmp_path / "code")])
        forget()

    return away


def read_back(run: RunStore, judges: tuple[str, str], out: Path) -> tuple[Any, ...]:
    """The output of `score`, `compare`, `export` and similar commands."""
    store = run.store.uri
    [path] = api.export(run.run_id, out, store, judges[0])
    scores = {one.judge: one.coverage for one in api.score(run.run_id, store).systems}
    compared = api.compare(run.run_id, judges, store)
    return scores, compared.n_scored, path.read_bytes(), api.failures(run.run_id, store), api.status(run.run_id, store).cells


def test_what_ones_own_judge_said_is_read_without_its_code(tmp_path: Path, forget: Forget) -> None:
    mine = {"model": "offline/judge", "strategy": "mine_judges:Mine", "name": "own"}
    run = source_run(tmp_path, judges=["offline", mine])
    later, _ = judged_again(run, "mine_judges:Mine")
    judges = "mine_judges:Mine", "own"
    here = read_back(run, judges, tmp_path / "out")
    assert here[0].keys() == {"offline/judge", *judges} and here[0]["own"] == 1.0
    forget()
    with pytest.raises(plugins.UnknownName):
        plugins.load("mine_judges:Mine")
    assert read_back(run, judges, tmp_path / "again") == here
    assert api.failures(later.run_id, run.store.uri) == []
    assert api.status(later.run_id, run.store.uri).status == "done"


def test_a_rejudge_without_a_judgment_is_none_of_the_runs_judges(run: RunStore) -> None:
    open_run(rejudging(run, "openai/gpt-4o"), run.store)
    assert [one.judge for one in judges_of(run)] == ["offline/judge"]
    assert {one.judge for one in api.score(run.run_id, run.store.uri).systems} == {"offline/judge"}
    judged_again(run, "replay/gpt-4o")
    with pytest.raises(UserError, match="has offline/judge"):
        api.compare(run.run_id, store=run.store.uri)
    assert [one.judge for one in judges_of(run)] == ["offline/judge"]
    later, _ = judged_again(run, "offline")
    # If only two have judged, their names need not be given.
    assert api.compare(run.run_id, store=run.store.uri).judges == ("offline/judge", f"offline/judge ({later.run_id})")
    with pytest.raises(StoreError, match="give that run"):
        api.compare(later.run_id, store=run.store.uri)


def test_a_judge_is_the_one_that_it_was_when_it_judged(run: RunStore, tmp_path: Path, forget: Forget) -> None:
    first, _ = judged_again(run, "mine_judges:Mine")
    before = judges_of(run)
    code = tmp_path / "code" / "mine_judges.py"
    code.write_text(CODE.replace("bullet_id, more = 1", "bullet_id, more = 2") + "# other bullets\n", encoding="utf-8")
    forget()
    sys.path.insert(0, str(code.parent))
    second, _ = judged_again(run, "mine_judges:Mine")
    assert first.run_id != second.run_id and judges_of(run)[: len(before)] == before
    assert judges_of(run)[-1].judge == f"mine_judges:Mine ({second.run_id})"


ODD = {
    "Mine": ("", ""),
    "Object": ("judge_error", "TypeError: Verdict: bullet_id is <object object"),
    "Word": ("judge_error", "TypeError: Verdict: value is 'high'; expected a number or None"),
    "Nan": ("unusable_value", "the judge's value is nan; expected 0 to 1"),
    "Naked": ("judge_error", "the judge returned an Answer with 'FULL_COVERAGE'"),
    "Sync": ("judge_error", "KeyError: 'at once'"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "Mine" else pytest.mark.soak) for name in ODD])
@pytest.mark.usefixtures("forget")
def test_an_odd_verdict_is_read_alike_in_a_run_and_in_the_bench(name: str, tmp_path: Path) -> None:
    error, message = ODD[name]
    run = answered(tmp_path / "store", judges=[f"mine_judges:{name}"])[1]
    failures = run.table("failures").to_dicts()
    assert (run.table("scores").height, len(failures)) == ((0, N_INSIGHTS) if error else (N_INSIGHTS, 0))
    assert all(row["error"] == error and message in row["message"] for row in failures)
    path = write(tmp_path / "people.json", [summary([(1.0, 1), (0.0, None)]), summary([(0.5, 2), (0.0, None)])])
    [row] = api.judge_bench(path, [f"mine_judges:{name}"], str(tmp_path / "bench")).judges
    assert (row.failures, row.figures.n_scored) == (({error: 4}, 0) if error else ({}, 4))
    assert message in row.messages.get(error, "")
    if error == "judge_error":
        assert row.missing == f"4 judge_error ({row.messages[error]})"


def test_a_verdict_has_its_bullet_as_json_text() -> None:
    assert Verdict("FULL_COVERAGE", 1) == Verdict("FULL_COVERAGE", "1")  # type: ignore[arg-type]
    assert Verdict("NO_COVERAGE", None).bullet_id == "null"  # type: ignore[arg-type]
    assert Verdict("FULL_COVERAGE", True).bullet_id == "true"  # type: ignore[arg-type]
    assert Verdict("FULL_COVERAGE", np.int64(2), np.float32(0.5)) == Verdict("FULL_COVERAGE", "2", 0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="coverage is 1.0"):
        Verdict(1.0, "1")  # type: ignore[arg-type]


@pytest.mark.usefixtures("forget")
def test_a_class_that_cannot_be_made_is_refused_in_one_line(run: RunStore, tmp_path: Path) -> None:
    path = write(tmp_path / "people.json", [summary([(1.0, 1)])])
    told = r"judge 'mine_judges:Init' cannot be made \(TypeError: .*'words'\); its class is called without arguments"
    with pytest.raises(SpecError, match=told):
        api.load({**SAMPLE, "judges": [{"model": "offline/judge", "strategy": "mine_judges:Init"}]})
    with pytest.raises(plugins.UnknownName, match=told):
        api.judge_bench(path, ["mine_judges:Init"], str(tmp_path / "bench"))
    with pytest.raises(SpecError, match=told):
        rejudging(run, "mine_judges:Init")


@pytest.mark.usefixtures("forget")
def test_a_spec_names_ones_own_judge_as_a_command_does() -> None:
    def judges(*entries: Any) -> list[tuple[str, str, str]]:
        spec = api.load({**SAMPLE, "judges": list(entries)}).spec
        return [(one.model, one.strategy, one.label) for one in spec.judges]

    text = "mine_judges:Mine"
    own = ("offline/judge", text, text)
    assert judges(text) == judges({"model": text}) == [own]
    assert judges({"model": text, "name": "words"}) == [("offline/judge", text, "words")]
    at_home = {"model": "mistral:latest", "api_base": "http://127.0.0.1:9/v1", "price": 0}
    assert judges("offline", at_home)[1] == ("mistral:latest", "per_insight", "mistral:latest")
    tuned = {"model": "ft:gpt-4o:me:x", "price": 0}
    assert judges(tuned) == [("ft:gpt-4o:me:x", "per_insight", "ft:gpt-4o:me:x")]
