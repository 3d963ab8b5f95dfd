"""`summhay judge-bench` is stopped or killed in the middle, and nothing is paid for twice."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from annotated import TOLD, summary, write
from runs import summhay
from simulated_provider import KEY, SUMMHAY, Simulated, simulated_provider, until

pytestmark = [pytest.mark.core, pytest.mark.timeout(120)]

N_SUMMARIES, N_CALLS, AT_ONCE = 8, 24, 4
PEOPLE = [(1.0, 1), (0.5, 2), (0.0, None)]


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with pytest.MonkeyPatch.context() as patch, simulated_provider("--latency", "0.3") as serving:
        patch.setenv("BENCH_KEY", KEY)
        yield serving


class Bench:
    """A bench of 24 calls, four at once."""

    def __init__(self, folder: Path, provider: Simulated) -> None:
        provider.reset()
        self.provider, self.folder = provider, folder
        # Each summary has other bullets, so that all calls differ.
        rows = [summary(PEOPLE, summary=[f"{text} No. {number}" for text in TOLD]) for number in range(N_SUMMARIES)]
        self.file = write(folder / "annotations.json", rows)
        price = {"input_per_mtok": 2.5, "output_per_mtok": 10.0}
        judge = {"model": "openai/simulated", "api_base": provider.base, "api_key_env": "BENCH_KEY", "price": price}
        fields = {"judges": [judge], "limits": {"openai/simulated": {"concurrency": AT_ONCE}}}
        (folder / "judges.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")

        self.command = ["judge-bench", self.file, "--judge", "openai/simulated", "--spec", self.folder / "judges.yaml"]
        self.command += ["--store", self.folder / "store"]

    def broken_off(self, how: signal.Signals) -> None:
        """Start it, and send a signal when a third of the calls are served."""
        line = [SUMMHAY, *self.command, "--json"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert until(lambda: self.served() >= N_CALLS // 3, 60), process.communicate()
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
        assert process.returncode != 0 and out == "", err

    def finished(self) -> dict[str, Any]:
        """Run it to its end in this process, and return its document."""
        return summhay(*self.command)

    def served(self) -> int:
        return int(self.provider.stats()["served"])


@pytest.mark.soak
def test_a_bench_that_is_stopped_waits_for_what_is_on_its_way(tmp_path: Path, provider: Simulated) -> None:
    bench = Bench(tmp_path, provider)
    bench.broken_off(signal.SIGINT)
    before = bench.served()
    assert before < N_CALLS
    document = bench.finished()
    assert bench.served() == N_CALLS
    assert document["calls"] == {"made": N_CALLS - before, "reused": before, "failed": 0}
    assert document["usd_spent"] == pytest.approx(provider.stats()["micros"] / 1e6, abs=N_CALLS * 1e-6)


@pytest.mark.soak
def test_a_bench_that_is_killed_pays_again_for_no_more_than_was_in_flight(tmp_path: Path, provider: Simulated) -> None:
    bench = Bench(tmp_path, provider)
    bench.broken_off(signal.SIGKILL)
    document = bench.finished()
    assert document["judges"][0]["n_scored"] == N_CALLS
    assert N_CALLS <= bench.served() <= N_CALLS + AT_ONCE
    # The provider may have answered the calls in flight in full.
    assert document["usd_spent"] + document["usd_uncertain"] >= provider.stats()["micros"] / 1e6 - N_CALLS * 1e-6
    assert bench.finished()["calls"]["made"] == 0
