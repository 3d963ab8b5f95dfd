"""User classes that end the process or have a wrong form: one line if the spec is wrong, one row if a cell fails."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inline_runs import N_INSIGHTS, N_QUERIES, answered, loaded, rows

from summhay_ray import api, plugins
from summhay_ray.errors import UserError

pytestmark = pytest.mark.core

ENDS = [
    "SystemExit(0)",
    "KeyboardInterrupt()",
    *(pytest.param(one, marks=pytest.mark.soak) for one in ("Stop('now')", "RuntimeError('ill')")),
]
"""What is raised; `Stop` is a BaseException of the person's own."""

MODULE = """
import sys

class Stop(BaseException):
    pass

class Made:
    whole, name = False, "made"
    def __init__(self, *told):
        raise {ends}
    rank = summarize = judge = None

class Made2(Made):
    def rank(self, *told): pass
    def summarize(self, *told): pass
    def judge(self, *told): pass

class Called:
    whole, name = False, "called"
    def __init__(self, *told): pass
    def rank(self, subtopic, haystack):
        raise {ends}
    async def summarize(self, task, ask):
        raise {ends}
    async def judge(self, insights, bullets, settings, ask):
        raise {ends}

class Plain(Called):
    def summarize(self, task, ask):
        raise {ends}
    def judge(self, insights, bullets, settings, ask):
        raise {ends}

def ordering(haystack, subtopic_id, seed):
    raise {ends}
"""


ILL = """
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


@pytest.fixture(params=ENDS)
def ends(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The exceptions that the classes of `ending` raise, and their names in a row."""
    (tmp_path / "ending.py").write_text(MODULE.replace("{ends}", request.param))
    monkeypatch.syspath_prepend(tmp_path)
    plugins.code_identity.cache_clear()
    yield request.param.partition("(")[0]
    sys.modules.pop("ending", None)
    plugins.code_identity.cache_clear()


def fields(field: str, name: str) -> dict[str, Any]:
    if field in ("retrievers", "orderings"):
        return {"retrievers": ["full"], field: [name]}
    return {field: [{"model": "offline/judge" if field == "judges" else "offline/lead", "strategy": name}]}


@pytest.mark.parametrize("field", ["retrievers", "orderings", "summarizers", "judges"])
@pytest.mark.parametrize("name", ["sys:exit", "os:path", "builtins:int", "sys:nothing", "no_such_module:X", ":", "sys:"])
def test_unusable_classes_are_refused_before_any_call(field: str, name: str) -> None:
    if (field, name) in {("orderings", "sys:exit"), ("orderings", "builtins:int")}:
        # They can be called: their result is a row.
        return
    with pytest.raises(UserError) as refused:
        loaded(**fields(field, name))
    assert "\n" not in str(refused.value) and str(refused.value).startswith("spec: ")


@pytest.mark.parametrize("field", ["retrievers", "summarizers", "judges"])
def test_a_class_that_ends_the_process_when_it_is_made(field: str, ends: str) -> None:
    if ends == "KeyboardInterrupt":
        # Here it cannot be distinguished from Ctrl-C.
        pytest.skip("Ctrl-C ends a command")
    with pytest.raises(UserError, match=f"'ending:Made2' cannot be made .{ends}"):
        loaded(**fields(field, "ending:Made2"))


def test_a_module_that_ends_the_process_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="'exits:X' cannot be imported .SystemExit: 0"):
        loaded(**fields("summarizers", "exits:X"))


def test_what_ends_the_process_in_a_run_is_a_row(ends: str, tmp_path: Path) -> None:
    _, run = answered(
        tmp_path / "store",
        retrievers=["bm25", "full", "ending:Called"],
        orderings=["ending:ordering"],
        summarizers=["offline/lead", {"model": "offline/lead", "strategy": "ending:Called", "name": "called"}],
        judges=[{"model": "offline/judge", "strategy": "ending:Plain"}],
    )
    found = Counter(
        (row["stage"], row["error"], row["message"].split(" (")[0].partition(":")[0]) for row in rows(run, "failures")
    )
    assert found == {
        # A retriever and an ordering, each for two summarizers.
        ("context", "retriever_error", ends): 2 * 2 * N_QUERIES,
        ("summarize", "strategy_error", ends): N_QUERIES,
        ("judge", "judge_error", ends): N_INSIGHTS,
    }


@pytest.mark.parametrize("field", ["summarizers", "judges"])
def test_a_plan_that_a_class_ends_is_a_line(field: str, ends: str, tmp_path: Path) -> None:
    spec = {"haystacks": ["sample/news"], "retrievers": ["bm25"], "summarizers": ["offline/lead"]}
    with pytest.raises(
        UserError, match=f"cannot be planned: 'ending:Called', tried on a first question, raises {ends}"
    ) as refused:
        api.plan({**spec, **fields(field, "ending:Called")}, str(tmp_path / "store"))
    assert refused.value.exit_code == 1


@pytest.fixture
def ill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `ill` of classes that raise, or return wrong values."""
    (tmp_path / "ill.py").write_text(ILL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ill", raising=False)


def failures_of(tmp_path: Path, **fields: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """(failures, judge -> insights that were scored)."""
    _, run = answered(tmp_path / "store", **fields)
    scored = {system.judge: system.n_scored for system in api.score(run.run_id, str(tmp_path / "store")).systems}
    return rows(run, "failures"), scored


WRONG = {
    "value": ("retriever_error", "ValueError: no good"),
    "key": ("retriever_error", "KeyError: 'mine'"),
    "lacks": ("missing_scores", "the haystack lacks my scores"),
    "twice": ("retriever_error", "retriever 'x', query"),
}
"""What `ill:Retriever` is told -> (error, the beginning of its message)."""


def test_a_retriever_that_goes_wrong_is_a_reason_and_stops_nothing(ill: None, tmp_path: Path) -> None:
    result, run = answered(tmp_path / "store", retrievers=["bm25", *(f"ill:Retriever/{argument}" for argument in WRONG)])
    assert dict(result.cells) == {"total": 5 * N_QUERIES, "done": N_QUERIES, "failed": 4 * N_QUERIES}
    measured = {row["retriever"]: (row["n"], row["f1"]) for row in result.to_json()["retrieval"]}
    assert measured["bm25"][0] == N_QUERIES
    for argument, (error, message) in WRONG.items():
        failures = [row for row in rows(run, "failures") if row["message"].startswith(message)]
        assert [(row["stage"], row["error"]) for row in failures] == [("context", error)] * N_QUERIES
        assert measured[f"ill:Retriever/{argument}"] == (0, None)
    assert {row["retriever"] for row in rows(run, "contexts")} == {"bm25"} == {row["retriever"] for row in rows(run, "summaries")}


def test_a_strategy_that_gives_nothing_is_a_failure_a_cell(ill: None, tmp_path: Path) -> None:
    found, scored = failures_of(tmp_path, summarizers=[{"model": "offline/lead", "strategy": "ill:Strategy"}])
    assert [(row["stage"], row["error"]) for row in found] == [("summarize", "strategy_error")] * N_QUERIES
    assert scored == {"offline/judge": 0}


def test_a_judge_that_goes_wrong_is_a_failure_an_insight_and_the_other_judge_counts(ill: None, tmp_path: Path) -> None:
    messages = {"Judge": "the judge returned a list of 1; expected a list of ", "Raising": "RuntimeError: judge is ill"}
    others = [{"model": "offline/judge", "name": name, "strategy": f"ill:{name}"} for name in messages]
    found, scored = failures_of(tmp_path, judges=["offline/judge", *others])
    for name, message in messages.items():
        mine = [row for row in found if row["judge"] == name]
        assert [(row["stage"], row["error"]) for row in mine] == [("judge", "judge_error")] * N_INSIGHTS
        assert mine[0]["message"].startswith(message)
    assert scored == {"offline/judge": N_INSIGHTS, "Judge": 0, "Raising": 0}
