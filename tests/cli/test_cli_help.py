"""`--help` explains every command quickly: it loads nothing heavy."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer
from commands import Said, command

from summhay_ray import api
from summhay_ray.cli.app import app
from summhay_ray.run_options import RunOptions, StartOptions

pytestmark = pytest.mark.core

GROUPS = {
    "Run": ["run", "plan", "retrieve", "stop", "release", "submit"],
    "Read": ["runs", "status", "failures", "explain", "export", "report"],
    "Judge": ["score", "compare", "coverage", "rejudge", "support", "recite", "judge-bench", "label"],
    "Make": ["import", "init", "mine", "synth", "audit", "verify"],
    "Serve and check": ["clean", "doctor", "simulate"],
}
COMMANDS = [name for names in GROUPS.values() for name in names]
HEAVY = {
    "ray",
    "litellm",
    "torch",
    "polars",
    "nltk",
    "tiktoken",
    "numpy",
    "pyarrow",
    "rank_bm25",
    "aiohttp",
    "matplotlib",
    "jinja2",
    "scipy",
}
EVERY_HELP = """
import json, sys
import summhay_ray
package = sorted(sys.modules)
from summhay_ray.cli import main
for command in sys.argv[1:]:
    try:
        main([*command.split(), "--help"])
    except SystemExit as stop:
        assert stop.code == 0, command
sys.stderr.write(json.dumps([package, sorted(sys.modules)]))
"""


def test_neither_the_package_nor_any_help_loads_heavy_libraries() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_HELP, "", *COMMANDS], capture_output=True, text=True, timeout=60, check=True
    )
    package, loaded = ({name.split(".")[0] for name in names} for names in json.loads(done.stderr))
    assert package & {*HEAVY, "typer", "pydantic"} == set() and "typer" in loaded
    assert loaded & HEAVY == set()
    for name in COMMANDS:
        assert f"Usage: summhay {name} " in done.stdout


def test_the_first_help_names_every_command(cli: Callable[..., Said]) -> None:
    said = cli("--help")
    assert (said.code, said.err) == (0, "")
    found: dict[str, list[str]] = {}
    for line in said.out.partition("--help")[2].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            names = found.setdefault(line[:-1], [])
        elif line.startswith("  ") and line[2] != " " and found:
            names.append(line.split()[0])
    assert found == GROUPS
    assert "..." not in said.out.partition("Run:")[2], "no summary is cut off"


def test_every_command_has_a_group() -> None:
    assert {one.name for one in app.registered_commands} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_mentions_json_and_store(cli: Callable[..., Said], name: str) -> None:
    said = cli(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert "--json" in said.out
    assert ("--store" in said.out) == (name not in ("init", "simulate", "verify"))


def test_the_script_completes_in_silence() -> None:
    asked = {"_SUMMHAY_COMPLETE": "complete_bash", "COMP_WORDS": "summhay re", "COMP_CWORD": "1"}
    assert command(env={**os.environ, **asked}) == Said(0, "retrieve\nrelease\nreport\nrejudge\nrecite\n", "")


@pytest.mark.parametrize("name", ["run", "retrieve", "coverage", "rejudge", "support", "synth", "mine"])
def test_the_options_of_a_run_are_those_of_the_python_api(name: str) -> None:
    of = RunOptions if name == "run" else StartOptions
    function = getattr(api, name, None) or api.specs.retrieve
    keywords = inspect.signature(function).parameters
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    options = {one.name for one in command.params}
    assert set(of.__annotations__) <= keywords.keys()
    assert {one for one in of.__annotations__ if one not in ("watch", "note")} <= options
    assert keywords["budget"].default is None and keywords["untrusted"].default is False
