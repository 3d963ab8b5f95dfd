"""`plan` and `run` find contradictions in a spec before the first call, for every kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulated_provider import Simulated, in_thread

import summhay_ray
from summhay_ray.errors import UserError
from summhay_ray.simulator.start import offline_answer

pytestmark = pytest.mark.core

ROOT = Path(__file__).resolve().parents[2]
PRICE = {"input_per_mtok": 2.5, "output_per_mtok": 10}


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with in_thread(offline_answer()) as provider:
        yield provider


def paid(provider: Simulated, model: str, **more: Any) -> dict[str, Any]:
    return {"model": f"openai/{model}", "api_base": provider.base, "api_key_env": "SIMULATED_KEY", "price": PRICE, **more}


# There is no model in this folder, so no judge can get its extracts.
LEVER = {"method": "own_extractors:Absent", "tokens": 16}


def specs(provider: Simulated, folder: Path) -> dict[str, dict[str, Any]]:
    (folder / "prompt.txt").write_text("Rate {{Summary}}.", encoding="utf-8")
    answerer, judge = paid(provider, "answerer"), paid(provider, "judge")
    scale = {"name": "wit", "scale": [0, 100], "prompt": str(ROOT / "summhay_ray/judge/rating/prompts/relevance.txt")}
    council = {"kind": "odsum", "corpus": str(ROOT / "jobs" / "council"), "k": [1], "strategies": ["truncate-all"]}
    pairs = {"kind": "extract_evaluate", "pairs": ["sample/pairs"], "methods": [], "full": ["whole"]}
    several = paid(provider, "judge", samples=5, temperature=0)
    return {
        "own": {"kind": "contradicting:Twice", "models": [judge, answerer], "others": [{**answerer, "max_tokens": 7}]},
        "ethic, prompt": {
            "kind": "ethic",
            "models": [answerer],
            "judges": [judge],
            "criteria": {"con": str(folder / "prompt.txt")},
        },
        "ethic, reach": {
            "kind": "ethic",
            "models": [answerer],
            "judges": [{**answerer, "price": {**PRICE, "output_per_mtok": 9}}],
        },
        "ethic, lever": {"kind": "ethic", "models": [answerer], "judges": [{**judge, "extract": LEVER}], "domains": ["Books"]},
        "extract_evaluate, samples": {**pairs, "raters": [judge, several]},
        "extract_evaluate, scale": {**pairs, "raters": [paid(provider, "judge", logprobs=5)], "criteria": [scale]},
        "extract_evaluate, lever": {**pairs, "raters": [answerer, {**judge, "extract": LEVER}]},
        "odsum, samples": {
            **council,
            "retrievers": ["oracle"],
            "summarizers": [answerer],
            "metrics": [{"geval": judge, "samples": 1, "criteria": []}],
        },
        "odsum, lever": {
            **council,
            "retrievers": ["oracle"],
            "summarizers": [answerer],
            "metrics": [{"geval": judge, "extract": LEVER}],
        },
        "odsum, retriever": {**council, "retrievers": ["oracle", {"embed": "./nothing"}], "summarizers": [answerer]},
        "summhay, lever": {
            "haystacks": ["sample/news"],
            "retrievers": ["bm25"],
            "summarizers": [answerer],
            "judges": [{**judge, "extract": LEVER}],
        },
    }


KINDS = (
    "own",
    "ethic, prompt",
    "ethic, reach",
    "ethic, lever",
    "extract_evaluate, samples",
    "extract_evaluate, scale",
    "extract_evaluate, lever",
    "odsum, samples",
    "odsum, lever",
    "odsum, retriever",
    "summhay, lever",
)


@pytest.mark.parametrize("name", KINDS)
def test_a_spec_is_refused_before_the_first_call(
    provider: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SIMULATED_KEY", "sk-simulated-0123456789")
    (tmp_path / "own_extractors.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = specs(provider, tmp_path)[name]
    told = []
    for start in (summhay_ray.plan, summhay_ray.run):
        with pytest.raises(UserError) as refused:
            start({**spec, "executor": "inline"}, store=str(tmp_path / "store"))
        told.append(str(refused.value))
    assert told[0] == told[1] and "\n" not in told[0]
    assert provider.stats()["requests"] == 0


OWN = """
from summhay_ray.extract import WithWeights


class Absent(WithWeights):
    name = ""
    own_model = "./no-such-folder"

    def rank(self, document, summary, compat="default"):
        raise AssertionError("not asked")
"""


def test_a_model_may_be_its_own_judge(provider: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMULATED_KEY", "sk-simulated-0123456789")
    line = next(line for line in SAMPLE.read_text(encoding="utf-8").splitlines() if json.loads(line)["task"] == "Summarizing")
    (tmp_path / "one.jsonl").write_text(line, encoding="utf-8")
    models = [paid(provider, "other", max_tokens=500), paid(provider, "same", max_tokens=500)]
    spec = {"kind": "ethic", "data": [str(tmp_path / "one.jsonl")], "models": models, "judges": [paid(provider, "same")]}
    found = summhay_ray.run({**spec, "executor": "inline"}, store=str(tmp_path / "store"))
    assert found.status == "done"
    assert sorted(found.scores["tasks"].drop_nulls("score")["model"]) == ["openai/other", "openai/same"]


SAMPLE = ROOT / "summhay_ray" / "benchmarks" / "ethic" / "sample" / "ethic.jsonl"
