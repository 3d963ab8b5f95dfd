"""`summhay clean --answers` removes the texts from the store, and nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import Said, write_spec
from s3_servers import Bucket, s3_bucket, s3_server  # noqa: F401
from simulated_provider import Simulated, in_thread

import summhay_ray
from summhay_ray.store import LocalFiles, begin_session, open_files

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
KEY_ENV, KEY = "DELETING_TEST_KEY", "sk-0123456789-deleting"
PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 2.0}


def words(prompt: str) -> str:
    """A text that the answer to no other prompt has."""
    return f"Naïve Zoë {hashlib.sha256(prompt.encode()).hexdigest()[:12]} rode the “tram”"


def reply(model: str, prompt: str) -> str:
    if model.endswith("judge"):
        return json.dumps({"coverage": "NO_COVERAGE", "bullet_id": "NA"})
    return f"- {words(prompt)} [1]\n"


@dataclass(frozen=True)
class Asked:
    """A finished run whose answers were paid for, and its provider."""

    spec: Path
    store: str
    run: str
    provider: Simulated
    cli: Cli

    def __call__(self, *arguments: str) -> dict[str, Any]:
        """Run a command on the store, which must succeed, and return its document."""
        said = self.cli(*arguments, "--store", self.store, "--json")
        assert said.code == 0, said
        return said.document

    def summaries(self, run: str = "") -> pl.DataFrame:
        """The answers of the summarizer, by key."""
        return self.table("raw_answers", run).filter(pl.col("model") == "openai/writer").sort("key")

    def table(self, name: str, run: str = "") -> pl.DataFrame:
        return summhay_ray.table(run or self.run, name, self.store)

    def again(self) -> int:
        """Run the spec again, and return the number of calls."""
        before = len(self.provider.calls())
        self("run", str(self.spec))
        return len(self.provider.calls()) - before


def rows_of(status: dict[str, Any]) -> dict[str, Any]:
    """The hashes of a run's tables, except for the table with the provider's cached tokens."""
    return {name: table for name, table in status["tables"].items() if name != "raw_answers"}


def holds(store: str, text: str) -> list[str]:
    """The files of the store that contain the text: as plain text, as JSON, or in a Parquet table."""
    files, found = open_files(store), []
    for entry in files.entries("", deep=True):
        content = files.read(entry.name)
        if entry.name.endswith(".parquet"):
            content += json.dumps(pl.read_parquet(io.BytesIO(content)).to_dicts(), ensure_ascii=False).encode()
        if any(form.encode() in content for form in (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])):
            found.append(entry.name)
    return found


@pytest.fixture(scope="module")
def provider() -> Iterator[Simulated]:
    with in_thread(reply) as found:
        yield found


def make_run(provider: Simulated, folder: Path, store: str) -> tuple[Path, str]:
    """A spec and the id of its finished run."""
    entry = {"api_base": provider.base, "api_key_env": KEY_ENV, "price": PRICE}
    fields = {
        "haystacks": ["sample/news"],
        "retrievers": ["bm25"],
        "token_budget": 1500,
        "summarizers": [{"model": "openai/writer", **entry}],
        "judges": [{"model": "openai/judge", "strategy": "per_insight", **entry}],
        "budget_usd": 5,
        "executor": "inline",
    }
    spec = write_spec(folder, fields)
    done = summhay_ray.run(spec, store)
    assert done.status == "done"
    return spec, done.run


@pytest.fixture(scope="module")
def paid_run(provider: Simulated, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("paid")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_ENV, KEY)
        return make_run(provider, folder, str(folder / "store"))


@pytest.fixture
def asked(
    request: pytest.FixtureRequest, provider: Simulated, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> Asked:
    """The run in a separate store: a copy of the folder of one run, or a run in a bucket if the test's parameter asks for it."""
    monkeypatch.setenv(KEY_ENV, KEY)
    if getattr(request, "param", "folder") == "bucket":
        bucket: Bucket = request.getfixturevalue("s3_bucket")
        store = bucket.uri()
        spec, run = make_run(provider, tmp_path, store)
    else:
        spec, run = request.getfixturevalue("paid_run")
        store = str(shutil.copytree(spec.with_name("store"), tmp_path / "store"))
    return Asked(spec, store, run, provider, cli)


@pytest.mark.parametrize("asked", ["folder", pytest.param("bucket", marks=pytest.mark.s3)], indirect=True)
def test_a_text_is_gone_and_the_run_goes_on_without_it(asked: Asked) -> None:
    before, rows = asked("status", asked.run), asked.summaries()
    lost, *others = [text.splitlines()[0][2:-4] for text in rows["text"]]
    assert len(holds(asked.store, lost)) >= 3, "the log and two tables"
    n_items = before["cells"]["total"]

    planned = asked("clean", "--answers", "--matching", lost)
    assert planned["dry_run"] and planned["answers"] == 1 and holds(asked.store, lost)
    assert asked("status", asked.run) == before
    deleted = asked("clean", "--answers", "--matching", lost, "--yes")
    assert deleted == {**planned, "dry_run": False}
    usd = rows["usd_micros"][0] / 1e6
    assert deleted["runs"] == [{"run": asked.run, "answers": 1, "usd": usd, "items": 1}] and deleted["usd_again"] == usd

    assert holds(asked.store, lost) == [] and all(holds(asked.store, text) for text in others)
    after = asked("status", asked.run)
    assert after["usd"] == before["usd"] and after["usage"] == before["usage"] and after["warnings"] == []
    assert after["cells"] == {"total": n_items, "done": n_items - 1, "failed": 0} and after["damaged"] == 0
    checks = asked("doctor")["checks"]
    assert all(check["ok"] for check in checks if check["needed"]), checks
    asked("score", asked.run)

    assert asked.again() == 1, "only the deleted answer is asked again"
    final = asked("status", asked.run)
    assert rows_of(final) == rows_of(before) and final["usd"]["spent"] > before["usd"]["spent"]
    assert asked.again() == 0


@pytest.mark.parametrize("by", ["run", "before"])
def test_all_answers_of_a_run_are_deleted(asked: Asked, by: str) -> None:
    before, texts = asked("status", asked.run), asked.summaries()["text"].to_list()
    n_answers = asked.table("raw_answers").height
    assert asked("clean", "--answers", "--before", "2020-01-01", "--yes")["answers"] == 0
    chosen = ["--run", asked.run[:6]] if by == "run" else ["--before", "2999-01-01T00:00:00+01:00"]
    assert asked("clean", "--answers", *chosen, "--matching", "no such text", "--yes")["answers"] == 0
    deleted = asked("clean", "--answers", *chosen, "--yes")
    assert deleted["answers"] == n_answers and deleted["usd_again"] == pytest.approx(before["usd"]["spent"])
    assert not any(holds(asked.store, text.splitlines()[0][2:]) for text in texts)
    after = asked("status", asked.run)
    assert after["usd"] == before["usd"] and after["cells"]["done"] == 0
    assert asked.again() == n_answers
    assert rows_of(asked("status", asked.run)) == rows_of(before)


class Killed(BaseException):
    """Ends the process here."""


def test_a_kill_anywhere_leaves_a_store_that_the_same_command_finishes(
    asked: Asked, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, lost = asked("status", asked.run), asked.summaries()["text"][0].splitlines()[0][2:-4]
    real = {name: getattr(LocalFiles, name) for name in ("create", "move", "delete")}
    replace, left = Path.replace, 0

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            step()
            return operation(*arguments, **options)

        return run

    whole, spent = tmp_path / "whole", before["usd"]
    shutil.copytree(asked.store, whole)

    def steps_left(kill_at: int) -> int:
        """Delete the text from a copy of the store, kill the process at this step, and return the steps that were left."""
        nonlocal left
        shutil.rmtree(asked.store)
        shutil.copytree(whole, asked.store)
        left = kill_at
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            for name, operation in real.items():
                patch.setattr(LocalFiles, name, counted(operation))
            patch.setattr(Path, "replace", counted(replace))
            cli("clean", "--answers", "--matching", lost, "--store", asked.store, "--yes")
        return left

    n_steps = 1000 - steps_left(1000)
    assert n_steps > 8, n_steps
    # The last steps delete replaced files, one by one.
    for kill_at in {0, 2, 5, n_steps // 2, n_steps - 1}:
        assert steps_left(kill_at) == -1, "it is killed"
        during = asked("status", asked.run)
        assert during["usd"] == spent and during["damaged"] == 0 and during["problems"] == []
        asked("clean", "--answers", "--matching", lost, "--yes")
        assert holds(asked.store, lost) == [] and asked("status", asked.run)["usd"] == spent
        assert all(check["ok"] for check in asked("doctor")["checks"] if check["needed"])


def test_answers_stay_unless_a_person_confirms_and_while_a_run_is_running(asked: Asked, cli: Cli) -> None:
    lost = asked.summaries()["text"][0].splitlines()[0][2:-4]
    there, options = holds(asked.store, lost), ("--answers", "--matching", lost, "--store", asked.store)
    said = cli("clean", *options)
    assert said.code == 0 and "would delete" in said.out and "nothing was deleted" in said.err
    assert cli("clean", *options, "--yes", "--dry-run").code == 0
    assert "give a run, a date, or a text" in cli("clean", "--answers", "--yes", "--store", asked.store).refusal
    assert "give --answers" in cli("clean", *options[1:]).refusal
    assert "'soon': expected a date" in cli("clean", "--answers", "--before", "soon", "--store", asked.store).refusal
    assert "has no run 'r0'" in cli("clean", "--answers", "--run", "r0", "--store", asked.store).refusal
    session = begin_session(open_files(asked.store), "other", paying=False)
    assert "run other is running" in cli("clean", *options, "--yes").refusal
    session.end("done")
    assert holds(asked.store, lost) == there


def test_what_other_runs_made_of_the_text_goes_and_their_inputs_are_named(asked: Asked) -> None:
    lost = asked.summaries()["text"][0].splitlines()[0][2:-4]
    rejudge = asked("rejudge", asked.run, "--judge", "offline", "--executor", "inline")
    support = asked("support", asked.run, "--executor", "inline")["run"]
    deleted = asked("clean", "--answers", "--matching", lost, "--yes")
    assert {row["run"]: row["items"] for row in deleted["runs"]} == dict.fromkeys((asked.run, support, rejudge["run"]), 1)
    n_left = rejudge["cells"]["total"] - 1
    assert asked("status", rejudge["run"])["cells"] == {"total": n_left, "done": n_left, "failed": 0}
    kept = holds(asked.store, lost)
    assert kept and all(name.startswith("objects/") for name in kept)
    assert [name for name in kept if not any(name in line for line in deleted["warnings"])] == []
    assert any(support in line for line in deleted["warnings"])
