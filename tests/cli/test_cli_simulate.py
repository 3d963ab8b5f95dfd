"""`summhay simulate`: a provider in a separate process, started from the command line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from commands import SUMMHAY, Said
from simulated_provider import KEY, Simulated, fingerprint, recorded, simulated_provider

from summhay_ray import simulator
from summhay_ray.judge import OfflineJudge
from summhay_ray.llm import Request, find_price
from summhay_ray.summarize import local_models

pytestmark = pytest.mark.core

JUDGMENT = """How far do the bullets cover the insight?

Bullet Points:
{"bullets": [{"bullet_id": 1, "text": "The harbour toll was doubled in May."}, {"bullet_id": 2, "text": "A crane broke."}]}

Reference Insight:
The harbour toll was doubled.

Answer as JSON.
"""
SUMMARY = """Article 1:
The harbour toll was doubled in May after a long debate. Fishermen protested against the higher toll.

Article 2:
In May the harbour toll was doubled, after a debate that was long. The crane at the northern pier broke down.

Write 1 insight on the following topic: the harbour toll
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    folder = tmp_path_factory.mktemp("simulated")
    keys = folder / "keys"
    keys.write_text(KEY + "\n", encoding="ascii")
    options = ["--keys", str(keys), "--unknown-model", "gone", "--input-price", "1", "--quality", "good=0.8,poor=0.3"]
    with simulated_provider(*options, record=folder / "record.jsonl") as provider:
        yield provider


def test_it_judges_and_summarizes_as_the_offline_models(served: Simulated) -> None:
    verdict = served.chat(JUDGMENT).text
    assert verdict == OfflineJudge().answer(Request("m", JUDGMENT))
    found = json.loads(verdict)
    assert (found["coverage"], found["bullet_id"]) == ("FULL_COVERAGE", 1) and found["value"] > 0.75
    summary = served.chat(SUMMARY).text
    assert summary == local_models()["offline/support"]().answer(Request("m", SUMMARY))
    assert "toll" in summary and "[1][2]" in summary.replace("[1, 2]", "[1][2]")
    assert served.chat("Good morning!").text == simulator.NOTHING_TO_SAY


def test_options_reach_the_provider(served: Simulated) -> None:
    assert served.chat(JUDGMENT, key="sk-stranger").status == 401
    assert served.chat(JUDGMENT, model="gone").status == 404
    cheap = served.chat(JUDGMENT, model="cheap", max_tokens=1).body["usage"]
    assert served.tally("cheap")["micros"] == cheap["prompt_tokens"] * 1 + 1 * 10


@pytest.mark.soak
def test_the_record_outlives_a_kill(tmp_path: Path) -> None:
    with simulated_provider("--answers", "short", "--hangs", "0.5", record=tmp_path / "record") as provider:
        for n in range(8):
            try:
                provider.chat(f"prompt {n}", timeout_s=1.0)
            except TimeoutError:
                continue
        calls = provider.calls()
        assert provider.pid is not None
        os.kill(provider.pid, signal.SIGKILL)
    written = recorded(tmp_path / "record")
    assert [call["micros"] for call in written] == [call["micros"] for call in calls]
    assert {call["fault"] for call in written} == {"", "hangs"}
    assert {call["key"] for call in written} == {fingerprint(KEY)}
    assert KEY not in (tmp_path / "record").read_text(encoding="ascii")


def test_one_line_prints_its_local_address_and_a_signal_ends_it() -> None:
    command = [str(SUMMHAY), "simulate", "--port", "0", "--answers", "short", "--cached-price", "0.5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    base = re.search(r"http://127\.0\.0\.1:\d+/v1", line)
    assert base is not None
    model = yaml.safe_load(line[line.index("{") : line.rindex("}") + 1])
    assert (model["model"], model["api_base"], model["api_key_env"]) == ("openai/simulated", base[0], "SIMULATED_API_KEY")
    price = find_price(model["model"], model["price"])
    assert (price.input_per_mtok, price.output_per_mtok, price.cached_input_per_mtok) == (2.5, 10.0, 0.5)
    assert Simulated(base[0]).chat("a toll").text.startswith("- The documents say so")
    listening = [one.laddr.ip for one in psutil.Process(process.pid).net_connections() if one.status == psutil.CONN_LISTEN]
    assert listening == ["127.0.0.1"]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "")
    assert re.fullmatch(r"served 1 of 1 requests for 0\.\d{6} dollars\n", err)


def test_help_names_every_option(cli: Callable[..., Said]) -> None:
    settings = [field.name for field in dataclasses.fields(simulator.Settings) if field.name not in ("unknown_models", "models")]
    shown = cli("simulate", "--help").out
    for name in [*settings, "port", "host", "answers", "keys", "record", "limit", "unknown_model", "json"]:
        assert f"--{name.replace('_', '-')} " in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--errors", "1.5"], "errors is 1.5; expected a fraction from 0 to 1"),
        (["--limit", "m:rpn=3"], "no setting of a model is named 'rpn'; did you mean 'rpm'?"),
        (["--limit", "rpm=3"], "limit 'rpm=3' cannot be read; expected MODEL:setting=number,... as in simulated:rpm=60"),
        (["--keys", "/nowhere"], "/nowhere: the keys cannot be read (FileNotFoundError); expected a text file, one key a line"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cli: Callable[..., Said], options: list[str], said: str) -> None:
    assert cli("simulate", "--port", "0", *options).refusal == said


def test_a_taken_port_is_named(cli: Callable[..., Said]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = cli("simulate", "--port", str(port))
    assert (refused.code, refused.out) == (1, "")
    assert str(port) in refused.err and refused.err.count("\n") == 1


def test_limits_of_a_model_add_up() -> None:
    settings = simulator.make_settings({"rpm": 100.0}, ["m:rpm=5", "m:latency=2", "n:errors=0.5"])
    assert settings.of("m") == simulator.Settings(rpm=5, latency=2)
    assert settings.of("n") == simulator.Settings(rpm=100, errors=0.5)


@pytest.mark.parametrize(
    ("host", "beyond"),
    [
        ("127.0.0.1", False),
        ("127.8.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("0.0.0.0", True),
        ("::", True),
        ("", True),
    ],
)
def test_a_host_that_other_machines_reach_is_known(host: str, beyond: bool) -> None:
    assert simulator.Serving(host=host).beyond_this_machine is beyond


def test_it_warns_where_other_machines_reach_it(cli: Callable[..., Said], served: Simulated) -> None:
    # The port is taken, so no server starts.
    said = cli("simulate", "--host", "0.0.0.0", "--port", served.root.rpartition(":")[2]).err.splitlines()
    assert said[0] == "warning: --host 0.0.0.0 lets other machines in; --host 127.0.0.1 keeps them out" and len(said) == 2


def test_models_of_different_quality_have_an_order_that_is_the_same_each_time(
    tmp_path: Path, cli: Callable[..., Said], served: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def joints(base: str, store: str) -> dict[str, float]:
        models = ("best", "good", "poor")
        entries = [{"model": f"openai/{one}", "api_base": base, "price": 0, "api_key_env": "SIMULATED_API_KEY"} for one in models]
        spec = {"haystacks": ["sample/news"], "retrievers": ["oracle"], "summarizers": entries, "judges": ["offline/judge"]}
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump({"name": "order", "token_budget": 2000, "executor": "inline", **spec}))
        run = cli("run", tmp_path / "spec.yaml", "--store", tmp_path / store, "--json").document["run"]
        rows = cli("score", run, "--store", tmp_path / store, "--json").document["systems"]
        return {row["model"].removeprefix("openai/"): row["joint"] for row in rows}

    monkeypatch.setenv("SIMULATED_API_KEY", KEY)
    first, second = (joints(served.base, store) for store in ("one", "two"))
    assert first["best"] > first["good"] > first["poor"] >= 0
    assert first == second


@pytest.mark.parametrize(
    ("quality", "shares"),
    [
        ("", {"big": 1.0}),
        ("big=0.5, openai/small=0.25", {"big": 0.5, "small": 0.25, "other": 1.0}),
        ("big=0.5,0.75", {"big": 0.5, "other": 0.75}),
        ("spread,big=1", {"big": 1.0}),
    ],
)
def test_a_quality_names_models_or_all_others(quality: str, shares: dict[str, float]) -> None:
    assert {model: simulator.Quality(quality).share(model) for model in shares} == shares


def test_a_spread_differs_by_name() -> None:
    drawn = [simulator.Quality("spread").share(f"model-{n}") for n in range(50)]
    assert len(set(drawn)) == 50 and min(drawn) < 0.4 and max(drawn) > 0.9


@pytest.mark.parametrize("options", [["--quality", "big=2"], ["--quality", "big"], ["--answers", "short", "--quality", "0.5"]])
def test_a_wrong_quality_is_refused_in_one_line(options: list[str], cli: Callable[..., Said]) -> None:
    said = cli("simulate", "--port", "0", *options)
    assert said.code == 2 and said.err.count("\n") == 1 and "quality" in said.err
