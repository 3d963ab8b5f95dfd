"""The plan of a large grid comes from a stratified sample with a stated error; `exact` counts every item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import summhay_ray
from summhay_ray.cli.app import app

OWN = """
from dataclasses import dataclass
from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Rows, Spec, Stage, Table, user

class LettersSpec(Spec):
    models: list[Model]
    inputs: int = 0

@dataclass(frozen=True)
class Letter:
    number: int

class Letters(Benchmark[LettersSpec]):
    kind = "letters"
    stages = (Stage("answer", output_tokens=10),)
    tables = (Table("letters", Letter, key=("number",)),)

    def items(self):
        spec = self.spec
        for number in range(2400):
            # The last model has few items, which no estimate may miss.
            model = spec.models[-1] if number % 400 == 7 else spec.models[number % (len(spec.models) - 1)]
            reads = f"file {number // 12}" if spec.inputs else ""
            yield Item(str(number), model=model, data={"n": number}, reads=reads, source=reads)

    async def answer(self, item: Item, ask: Ask) -> Rows:
        n = item.data["n"]
        reply = await ask("answer", [user(f"{n}: " + "word " * (20 + n * 7919 % 200))])
        return {"letters": [Letter(n)]}
"""
PRICE = {"input_per_mtok": 10.0, "output_per_mtok": 20.0}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "letters_of_mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    models = [{"model": f"openai/{name}", "price": PRICE, "max_tokens": 50} for name in ("one", "two", "rare")]
    return {"kind": "letters_of_mine:Letters", "name": "letters", "models": models}


@pytest.mark.parametrize("inputs", [0, 1], ids=["items", "inputs"])
def test_the_drawn_plan_agrees_with_the_exact_one_within_its_error(spec: dict[str, Any], inputs: int) -> None:
    drawn = summhay_ray.plan({**spec, "inputs": inputs})
    exact = summhay_ray.plan({**spec, "inputs": inputs}, exact=True)
    assert exact.drawn is None
    assert drawn.drawn is not None
    assert 1000 <= drawn.drawn.items < 2000 < drawn.drawn.of == drawn.cells == exact.cells == 2400
    assert 0 < drawn.drawn.error < 0.1
    # Twice the error: a seeded sample may miss its 95 % interval, but not by much.
    expected = exact.usd["expected"]
    assert abs(drawn.usd["expected"] - expected) <= 2 * drawn.drawn.error * expected
    assert drawn.usd["min"] <= drawn.usd["expected"] <= drawn.usd["max"]
    calls = {stage.model: stage.calls for stage in exact.stages}
    found = {stage.model: stage.calls for stage in drawn.stages}
    assert found.keys() == calls.keys()
    assert found == pytest.approx(calls, rel=0.5)
    assert summhay_ray.plan({**spec, "inputs": inputs}).to_json() == drawn.to_json()


def test_the_command_reports_the_sample_and_counts_all_with_exact(spec: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "letters.yaml").write_text(json.dumps(spec))
    documents = []
    for options in ([], ["--exact"]):
        done = CliRunner().invoke(app, ["plan", "letters.yaml", "--json", *options])
        assert done.exit_code == 0, done.output
        documents.append(json.loads(done.stdout))
    assert documents[0]["drawn"]["of"] == 2400
    assert documents[1]["drawn"] is None
    assert documents[1]["left"]["calls"] == 2400
