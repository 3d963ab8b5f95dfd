"""Fixtures of the command line's tests: a command in this process, and one real run that several tests read."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import Said, on_terminal, write_spec

from summhay_ray.cli import main

SPEC = {
    "name": "quick",
    "haystacks": ["sample/news", "sample/conversation"],
    "retrievers": ["bm25", "oracle"],
    "token_budget": 1500,
    # Models have a price, so that a budget can stop the run: a prompt of about 1,900 tokens costs 0.0019 dollars.
    "summarizers": [{"model": "offline/lead", "price": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}}],
    "judges": [{"model": "offline/judge", "strategy": "per_insight"}],
    "executor": "inline",
    "seed": 7,
}
TINY_BUDGET = 0.02


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command in this process."""

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return Said(stop.value.code, said.out, said.err)

    return run


@dataclass(frozen=True)
class Finished:
    """A run that stopped at its budget and then continued to its end; stderr was first a pipe and then a terminal."""

    spec: Path
    store: Path
    stopped: Said
    done: Said

    @property
    def run(self) -> str:
        """The run's id."""
        return str(self.done.document["run"])


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The one run, made by the command line; a small run is inline on this machine."""
    folder = tmp_path_factory.mktemp("finished")
    spec, store = write_spec(folder, SPEC), folder / "store"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        main(["run", str(spec), "--store", str(store), "--budget", str(TINY_BUDGET), "--json"])
    stopped = Said(int(stop.value.code or 0), out.getvalue(), err.getvalue())
    return Finished(spec, store, stopped, on_terminal("run", spec, "--store", store, "--json"))
