"""The current folder may be somebody else's: commands that only read a stored run import nothing from it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import command, write_spec

OWN = """
import asyncio
from summhay_ray.judge import Verdict
from summhay_ray.outcome import Answer
from summhay_ray.retrieve import Ranked
from summhay_ray.summarize.strategies.one_call import Direct

class Retriever:
    whole = True
    def __init__(self, argument, seed): pass
    def rank(self, subtopic, haystack):
        return [Ranked(document.number, 1.0) for document in haystack.documents]

class Strategy(Direct): pass

class Judge:
    async def judge(self, insights, bullets, settings, ask):
        return [Answer(Verdict("NO_COVERAGE", "NA")) for _ in insights]

class Method:
    name = "own"
    def rank(self, document, summary, compat="default"):
        return iter(range(len(document.sentences)))
    def score(self, texts):
        return [0.5 for _ in texts]

def backwards(haystack, subtopic_id, seed):
    return [document.number for document in reversed(haystack.documents)]
"""
OWN_KIND = """
from summhay_ray.benchmark import Benchmark, Item, Model, Spec, Stage, user

class AskedSpec(Spec):
    models: list[Model]

class Asked(Benchmark[AskedSpec]):
    stages = (Stage("ask"),)

    def items(self):
        yield Item("one", model=self.spec.models[0])

    async def answer(self, item, ask):
        raise ValueError("no answer")
"""
HOSTILE = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
raise SystemExit("hostile")
"""
SPECS: dict[str, dict[str, Any]] = {
    "summhay": {
        "haystacks": ["sample/news"],
        "retrievers": ["own:Retriever", "bm25"],
        "orderings": ["own:backwards", "given"],
        "token_budget": 1500,
        "summarizers": [{"model": "offline/lead", "strategy": "own:Strategy"}],
        "judges": ["own:Judge", "offline/judge"],
    },
    "extract_evaluate": {
        "kind": "extract_evaluate",
        "pairs": ["sample/pairs"],
        "methods": ["own:Method"],
        "budgets": [64],
        "full": [],
        "raters": [{"model": "offline/rater", "extract": {"method": "own:Method"}}],
        "metrics": ["own:Method"],
    },
    "retrieval": {"kind": "retrieval", "haystacks": ["sample/news"], "retrievers": ["own:Retriever", "oracle"]},
}


@pytest.mark.parametrize("kind", ["summhay", *(pytest.param(kind, marks=pytest.mark.soak) for kind in list(SPECS)[1:])])
def test_a_stored_run_is_read_without_code_of_ones_own(
    kind: str, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs, store = tmp_path / "mine", tmp_path / "theirs", tmp_path / "store"
    for folder, code in ((mine, OWN), (theirs, HOSTILE)):
        folder.mkdir()
        (folder / "own.py").write_text(code, encoding="ascii")
    # Modules with the name of an installed one, or modules that can be imported from the current folder.
    for name in (
        "json",
        "typer",
        "polars",
        "sitecustomize",
        "usercustomize",
        "yaml",
        "bert_score",
        "uvloop",
        "brotli",
        "matplotlib",
    ):
        (theirs / f"{name}.py").write_text(HOSTILE, encoding="ascii")
    spec = write_spec(mine, {**SPECS[kind], "executor": "inline"})
    monkeypatch.chdir(mine)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        done = cli("run", spec, "--store", store, "--json")
        del sys.modules["own"]
    run = done.document["run"]
    assert (done.code, done.document["status"]) == (0, "done")
    here = cli("score", run, "--store", store, "--json").document
    there = command("score", run, "--store", store, "--json", cwd=theirs)
    assert (there.code, there.document) == (0, here), there.err
    monkeypatch.chdir(theirs)
    assert cli("report", run, "--out", tmp_path / "report", "--store", store).code == 0
    assert not (theirs / "imported").exists()


def test_the_status_of_a_benchmark_of_ones_own_needs_no_code(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs, store = tmp_path / "mine", tmp_path / "theirs", tmp_path / "store"
    for folder, code in ((mine, OWN_KIND), (theirs, HOSTILE)):
        folder.mkdir()
        (folder / "own.py").write_text(code, encoding="ascii")
    spec = write_spec(mine, {"kind": "own:Asked", "models": ["offline/lead"], "executor": "inline"})
    monkeypatch.chdir(mine)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        run = cli("run", spec, "--store", store, "--json").document["run"]
        del sys.modules["own"]
    monkeypatch.chdir(theirs)
    for words in (("status", run), ("runs",)):
        assert cli(*words, "--store", store).code == 0
    assert not (theirs / "imported").exists()


@pytest.mark.soak
def test_workers_on_ray_import_nothing_from_the_folder_of_an_untrusted_spec(tmp_path: Path) -> None:
    for name in ("polars", "httpx", "numpy", "uvloop", "brotli"):
        (tmp_path / f"{name}.py").write_text(HOSTILE, encoding="ascii")
    fields = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25"],
        "summarizers": ["offline/lead"],
        "executor": "ray",
        "workers": 1,
    }
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    done = command("run", "spec.yaml", "--untrusted", "--store", "store", "--json", cwd=tmp_path)
    assert (done.code, done.document["executor"]) == (0, "ray"), done.err
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "SPEC"),
        ("plan", "SPEC"),
        ("doctor", "SPEC"),
        ("retrieve", "SPEC"),
        ("coverage", "SPEC"),
        ("submit", "SPEC", "--address", "http://127.0.0.1:1", "--store", "/nowhere"),
        ("rejudge", "RUN", "--spec", "SPEC"),
        ("judge-bench", "FILE", "--spec", "SPEC"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_takes_a_spec_takes_it_untrusted(
    words: tuple[str, ...], cli: Any, finished: Any, tmp_path: Path
) -> None:
    judge = {"model": "openai/m", "api_key_env": "AWS_SECRET_ACCESS_KEY", "price": 0}
    spec = write_spec(tmp_path, {**SPECS["summhay"], "retrievers": ["own:Retriever"], "orderings": ["given"], "judges": [judge]})
    people = tmp_path / "people.json"
    people.write_text("[]", encoding="ascii")
    given = {"SPEC": spec, "FILE": people, "RUN": finished.run}
    store = () if "--store" in words else ("--store", finished.store if "RUN" in words else tmp_path / "store")
    assert "--untrusted" in cli(*(given.get(word, word) for word in words), "--untrusted", *store).refusal
