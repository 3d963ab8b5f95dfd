"""What goes wrong in a person's own code, refusals in words, two payers: a row or a clear line each."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inprocess import answer_all, grid_of_fields, rows_of

from summhay_ray.grid import import_released, score_run
from summhay_ray.haystack import load_sample
from summhay_ray.problems import Problem
from summhay_ray.store import Store
from summhay_ray.summarize import bullets_of, refuses

pytestmark = pytest.mark.core

N_QUERIES, N_INSIGHTS = 4, 22

PLUGINS = """
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer
from summhay_ray.retrieve import Ranked


class Retriever:
    name, whole = "x", False

    def __init__(self, argument="", seed=0):
        self.argument = argument

    def rank(self, subtopic, haystack):
        if self.argument == "value":
            raise ValueError("no good")
        if self.argument == "key":
            raise KeyError("mine")
        if self.argument == "lacks":
            raise LookupError("the haystack lacks my scores")
        return [Ranked(1, 1.0), Ranked(1, 1.0)]


class Strategy:
    name = "y"

    async def summarize(self, task, ask):
        return None


class Judge:
    name = "z"

    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("FULL_COVERAGE", 1))]


class Raising:
    name = "w"

    async def judge(self, insights, bullets, settings, ask):
        raise RuntimeError("judge is ill")
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "border_plugins.py").write_text(PLUGINS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield


def failures_of(tmp_path: Path, **fields: Any) -> tuple[list[Any], dict[str, int]]:
    run, answered, _ = answer_all(grid_of_fields(**fields), Store(str(tmp_path / "store")))
    rows = rows_of(answered)
    scored = {score.judge: score.n_scored for score in score_run(run).systems}
    return rows.get("failures", []), scored


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ("value", "retriever_error", "ValueError: no good"),
        ("key", "retriever_error", "KeyError: 'mine'"),
        ("lacks", "missing_scores", "the haystack lacks my scores"),
        ("twice", "retriever_error", "ValueError"),
    ],
)
def test_a_retriever_that_goes_wrong_is_a_reason_and_stops_nothing(
    plugins: None, tmp_path: Path, argument: str, error: str, message: str
) -> None:
    from summhay_ray.grid.contexts import make_context, rank

    grid = grid_of_fields(retrievers=["bm25", f"border_plugins:Retriever/{argument}"])
    haystack = grid.haystacks[grid.sources[0].haystack_id]
    found = [
        make_context(grid, haystack, unit, lambda _, query, name: rank(grid, haystack, query, name)) for unit in grid.units()
    ]
    good, bad = found[:N_QUERIES], found[N_QUERIES:]
    assert all(context is not None and problem is None for context, _, problem in good)
    assert all(context is None and problem is not None and problem[0] == error for context, _, problem in bad)
    assert bad[0][2] is not None and bad[0][2][1].startswith(message)


def test_a_strategy_that_gives_nothing_is_a_failure_a_cell(plugins: None, tmp_path: Path) -> None:
    found, scored = failures_of(tmp_path, summarizers=[{"model": "offline/lead", "strategy": "border_plugins:Strategy"}])
    assert [(row.stage, row.error) for row in found] == [("summarize", "strategy_error")] * N_QUERIES
    assert scored == {"offline/judge": 0}


@pytest.mark.parametrize(
    ("name", "message"), [("Judge", "the judge gave 1 outcomes for"), ("Raising", "RuntimeError: judge is ill")]
)
def test_a_judge_that_goes_wrong_is_a_failure_an_insight_and_the_other_judge_counts(
    plugins: None, tmp_path: Path, name: str, message: str
) -> None:
    ill = {"model": "offline/judge", "name": "ill", "strategy": f"border_plugins:{name}"}
    found, scored = failures_of(tmp_path, judges=["offline/judge", ill])
    assert len(found) == N_INSIGHTS and {(row.stage, row.judge, row.error) for row in found} == {("judge", "ill", "judge_error")}
    assert found[0].message.startswith(message)
    assert scored == {"offline/judge": N_INSIGHTS, "ill": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot provide a summary of these documents.", True),
        ("Unfortunately, I am unable to assist with this request.", True),
        ("<think>easy</think>\nI can't assist with that.", True),
        ("- I cannot help but notice that the tram reopened in May. [3]", False),
        ("- The council will not provide new trams. [1][2]", False),
        ("- Sorry states of repair were found on 12 bridges.", False),
        ("- The tram reopened in May.\n" * 60, False),
    ],
)
def test_a_refusal_in_words_is_told_from_a_summary(text: str, expected: bool) -> None:
    assert refuses(text) is expected


def test_thinking_is_no_bullet() -> None:
    assert bullets_of("<think>\nfirst\nsecond\n</think>\n- one [1]\n\n- two [2]\n") == ("- one [1]", "- two [2]")


def test_an_import_is_one_commit(tmp_path: Path) -> None:
    for name in ("news", "conversation"):
        (tmp_path / f"{name}.json").write_text(json.dumps(load_sample(name)), encoding="utf-8")
    store = Store(str(tmp_path / "store"))
    result = import_released([str(tmp_path / "news.json"), str(tmp_path / "conversation.json")], store)
    assert store.run(result.run).version() == 1
    assert store.run(result.run).table("haystacks").height == 2


def test_an_address_where_nobody_answers_is_said_at_once() -> None:
    from summhay_ray.grid.pipeline import ray_session
    from summhay_ray.grid.placing import PlacementError

    with pytest.raises(PlacementError, match="--address 127.0.0.1:1: no Ray head answers there"), ray_session("127.0.0.1:1"):
        pass


def test_a_ray_that_does_not_come_up_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    from summhay_ray.grid.pipeline import RayMissing, ray_session

    def late(**_: object) -> None:
        raise OSError("The current node timed out during startup.\nIt may be busy.")

    monkeypatch.setattr(ray, "init", late)
    message = "^Ray does not start: The current node timed out during startup. It may be busy.; "
    with pytest.raises(RayMissing, match=message), ray_session("local"):
        pass


def test_ctrl_c_while_ray_comes_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import ray

    from summhay_ray.grid.pipeline import ray_session

    ended: list[bool] = []

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray, "init", interrupted)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    with pytest.raises(KeyboardInterrupt), ray_session("local"):
        pass
    assert ended == [True] and list(tmp_path.iterdir()) == []


def test_what_ray_prints_of_workers_that_end_with_their_driver_is_not_heard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import ray

    from summhay_ray.grid.pipeline import ray_session

    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: print("(raylet) Task CellWorker.answer failed. There are infinite retries"))
    with pytest.raises(KeyboardInterrupt), ray_session("local"):
        print("(raylet) while it works it is")
        raise KeyboardInterrupt
    assert capsys.readouterr().out == "(raylet) while it works it is\n"


@pytest.mark.parametrize(
    ("cpus", "fields", "message"),
    [
        (2.0, {"workers": 7}, ""),
        (2.0, {"workers": 8}, "9 workers need 2.25 CPUs and the cluster has 2; set workers: 7 or less"),
        # One kind of worker for the model that is called, another for the one that computes.
        (2.0, {"workers": 4, "both": True}, "9 workers need 2.25 CPUs and the cluster has 2; set workers: 3 or less"),
        (1.0, {"both": True}, ""),
        (0.25, {"workers": 1}, "2 workers need 0.5 CPUs and the cluster has 0.25; start more nodes"),
    ],
)
def test_workers_that_have_no_room_are_refused(
    monkeypatch: pytest.MonkeyPatch, cpus: float, fields: dict[str, Any], message: str
) -> None:
    from summhay_ray.grid import placing as pipeline

    monkeypatch.setattr(pipeline.ray, "cluster_resources", lambda: {"CPU": cpus})
    monkeypatch.setattr(pipeline.ray, "nodes", lambda: [{"Alive": True}, {"Alive": False}])
    called = {"model": "openai/mine", "price": 0, "api_base": "http://127.0.0.1:1/v1"}
    models = ["offline/lead", *([called] if fields.pop("both", False) else [])]
    grid = grid_of_fields(summarizers=models, **fields)
    left = {unit: list(grid.cells_of(unit)) for unit in grid.units()}
    if message:
        with pytest.raises(pipeline.PlacementError, match=message):
            pipeline.place(grid, left)
    else:
        work = pipeline.place(grid, left)
        assert (len(work.lanes), work.contexts) == (len(models), 1)
        assert sum(work.seats.values()) == sum({lane.kind: lane.workers for lane in work.lanes.values()}.values())


def test_a_plan_that_a_persons_own_code_spoils_is_a_warning() -> None:
    from summhay_ray.grid.run import _Planning

    def ill() -> Any:
        raise RuntimeError("judge is\nill")

    def full() -> Any:
        raise OSError(28, "no space left on device")

    assert _Planning(ill).result() == "the run cannot be planned: RuntimeError: judge is ill"
    with pytest.raises(OSError, match="no space left"):
        _Planning(full).result()


def test_a_model_whose_key_is_absent_is_refused_before_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from summhay_ray.grid import run_grid

    monkeypatch.delenv("SUMMHAY_ABSENT_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    named = {"model": "openai/mine", "price": 0, "api_base": "http://127.0.0.1:1", "api_key_env": "SUMMHAY_ABSENT_KEY"}
    for model, variable in ((named, "SUMMHAY_ABSENT_KEY"), ({"model": "openai/gpt-4o"}, "OPENAI_API_KEY")):
        with pytest.raises(Problem, match=f"{variable} is not set"):
            run_grid(grid_of_fields(summarizers=[model]), Store(str(tmp_path / "store")), None)
    assert not (tmp_path / "store" / "log").exists()


def test_a_prompt_that_the_offline_judge_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.txt").write_text("Insight: [[INSIGHT]]\nBullets: [[BULLETS]]\n", encoding="utf-8")
    (tmp_path / "good.txt").write_text("Reference Insight:\n[[INSIGHT]]\n\nBullet Points:\n[[BULLETS]]\n", encoding="utf-8")
    with pytest.raises(Problem, match="offline/judge reads the section under a line 'Reference Insight:'"):
        grid_of_fields(tmp_path, judges=[{"model": "offline/judge", "prompt": "bare.txt"}])
    own = grid_of_fields(tmp_path, judges=[{"model": "offline/judge", "prompt": "good.txt"}])
    rows = rows_of(answer_all(own, Store(str(tmp_path / "store")))[1])
    assert len(rows["scores"]) == N_INSIGHTS and "failures" not in rows


def test_documents_that_are_absent_or_moved_are_a_warning(tmp_path: Path) -> None:
    raw = load_sample("news")
    del raw["documents"][3]
    (tmp_path / "cut.json").write_text(json.dumps(raw), encoding="utf-8")
    result = import_released([str(tmp_path / "cut.json")], Store(str(tmp_path / "store")))
    assert any("documents[3].idx is 4: documents are absent or moved" in warning for warning in result.warnings)


def test_a_key_under_the_providers_other_name_is_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from summhay_ray.grid.doctor import missing_keys

    grid = grid_of_fields(summarizers=[{"model": "gemini/mine", "price": 0}])
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    mend = "export it, or the path of a file that holds it as GEMINI_API_KEY_FILE, where the workers run"
    assert missing_keys(grid) == [f"gemini/mine: GEMINI_API_KEY is not set; {mend}"]
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    assert missing_keys(grid) == []
