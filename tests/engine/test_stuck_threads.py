"""A run ends at once on request, even while a thread computes in code that ignores signals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from paid_runs import said
from runs import SUMMHAY, log_records
from simulated_provider import until

OWN = """
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from summhay_ray.benchmark import Ask, Benchmark, Item, Model, Prepared, Request, Rows, Spec, Stage, Table


@dataclass(frozen=True)
class Said:
    number: int
    text: str


class StuckSpec(Spec):
    model: Model
    stuck: str


class Thinker:
    name = "offline/thinker"
    revision = "1"

    def answer(self, request: Request) -> str:
        if "stuck" in request.prompt:
            Path("stuck").touch()
            time.sleep(300)
        return "said"


class Stuck(Benchmark[StuckSpec]):
    stages = (Stage("think"),)
    tables = (Table("said", Said, key=("number",)),)
    own_models = (Thinker,)

    def items(self) -> Iterator[Item]:
        for number in range(3):
            yield Item(str(number), model=self.spec.model, data={"number": number}, source=str(number))

    def prepare(self, source: str, items: list[Item]) -> Prepared:
        if self.spec.stuck == "prepare" and source == "2":
            Path("stuck").touch()
            time.sleep(300)
        return Prepared()

    async def answer(self, item: Item, ask: Ask) -> Rows:
        number = item.data["number"]
        stuck = self.spec.stuck == "answer" and number == 2
        reply = await ask("think", f"{number} {'stuck' if stuck else ''}")
        return {"said": [Said(number, reply.text)]}
"""


@pytest.mark.parametrize(
    ("stuck", "number", "n_signals", "code"),
    [
        ("answer", signal.SIGTERM, 2, 143),
        ("prepare", signal.SIGINT, 1, 130),
    ],
)
def test_no_signal_waits_for_a_thread_that_computes(
    tmp_path: Path, stuck: str, number: signal.Signals, n_signals: int, code: int
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(f"kind: own:Stuck\nmodel: offline/thinker\nstuck: {stuck}\n", encoding="utf-8")
    command = [str(SUMMHAY), "run", "spec.yaml", "--store", "store", "--executor", "inline"]
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert until((tmp_path / "stuck").exists)
    assert until(lambda: len(log_records(tmp_path / "store")) == 2)
    began = time.monotonic()
    for _ in range(n_signals):
        process.send_signal(number)
        time.sleep(0.5)
    ended, lines = said(process)
    assert ended == code and time.monotonic() - began < 15 and "run the same command again to resume" in lines[-1]
