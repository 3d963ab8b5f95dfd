"""`summhay submit` on the command line, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Said, write_spec
from typer.main import get_command
from typer.testing import CliRunner

from summhay_ray.cli.app import app
from summhay_ray.engine import RayJob
from summhay_ray.engine.submit import JobEnd

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
NOWHERE = "http://127.0.0.1:9"
SPEC = {"haystacks": ["sample/news"], "retrievers": ["keywords"], "summarizers": ["offline/lead"]}


def test_the_spec_is_checked_before_anything_is_sent(tmp_path: Path, cli: Cli) -> None:
    wrong = write_spec(tmp_path, SPEC | {"retriever": ["bm25"]})
    assert cli("submit", wrong, "--address", NOWHERE).refusal.endswith("did you mean retrievers?")
    missing = cli("submit", tmp_path / "no.yaml", "--address", NOWHERE)
    assert "no such file" in missing.refusal


def test_nothing_listens_there(tmp_path: Path, cli: Cli) -> None:
    said = cli("submit", write_spec(tmp_path, SPEC), "--address", NOWHERE, "--store", tmp_path / "store")
    assert said.refusal.startswith(f"--address {NOWHERE}: no job server answers there (")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--address", "head:8265"], "store './summhay-store' is a folder of this machine"),
        (["--address", "gs://head"], "--address: expected the URL of the head's dashboard"),
        (["--address", NOWHERE, "--set", "budget_usd"], "--set budget_usd: expected a.b=c"),
        ([], "Missing option '--address'"),
    ],
)
def test_refusals(tmp_path: Path, cli: Cli, options: list[str], said: str) -> None:
    assert said in cli("submit", write_spec(tmp_path, SPEC), *options).refusal


class FakeJob(RayJob):
    """A job with a given end."""

    def follow(self, tell: Any) -> JobEnd:
        tell("cells 1/2\x1b[2J\n")
        if self.client is KeyboardInterrupt:
            raise KeyboardInterrupt
        found: JobEnd = self.client
        return found


def ended(monkeypatch: pytest.MonkeyPatch, end: Any, *options: str, attached: bool = False) -> Any:
    from summhay_ray import api

    job = FakeJob("r1-1", "r1", NOWHERE, "s3://b/p", attached, ("the nodes must find their own",), end)
    monkeypatch.setattr(api, "submit", lambda *_, **__: job)
    return CliRunner().invoke(app, ["submit", "spec.yaml", "--address", NOWHERE, *options])


@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_the_exit_code_is_the_runs(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    found = ended(monkeypatch, JobEnd("SUCCEEDED" if code == 0 else "FAILED", code, "why" if code == 1 else ""))
    assert found.exit_code == code
    assert found.stdout == "cells 1/2\\x1b[2J\n"
    assert "note: the nodes must find their own\njob r1-1 of run r1 is sent\n" in found.stderr
    assert ("summhay: why" in found.stderr) == (code == 1)
    assert ("to go on: summhay submit spec.yaml with a larger --budget" in found.stderr) == (code == 3)


def test_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ended(monkeypatch, JobEnd("FAILED", 3), "--json", attached=True)
    assert json.loads(found.stdout) == {
        "run": "r1",
        "job": "r1-1",
        "address": NOWHERE,
        "store": "s3://b/p",
        "attached": True,
        "status": "FAILED",
        "exit_code": 3,
    }
    assert "cells 1/2" in found.stderr and "is already running; this is its log" in found.stderr


def test_interrupted_or_not_waited_for_the_job_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    look = "look: summhay status r1 --store s3://b/p; its log: "
    look += "ray job logs r1-1 --address http://127.0.0.1:9 --follow; stop: ray job stop r1-1"
    left = ended(monkeypatch, KeyboardInterrupt)
    assert left.exit_code == 1 and f"job r1-1 runs on; {look}" in left.stderr
    sent = ended(monkeypatch, None, "--no-wait")
    assert sent.exit_code == 0 and look in sent.stderr and "job    r1-1" in sent.stdout


def test_run_and_submit_report_shared_facts_alike() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    run, send = ({one.name: one for one in commands[name].params} for name in ("run", "submit"))
    for name in ("spec", "budget", "overrides", "compat", "as_json"):
        assert (run[name].opts, run[name].default) == (send[name].opts, send[name].default)
        assert getattr(run[name], "help", name) == getattr(send[name], "help", name)
    assert run["store"].opts == send["store"].opts and "as the nodes see it" in send["store"].help
