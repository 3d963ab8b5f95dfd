"""`summhay init` writes a starter spec of every kind that explains each field; five of them run without changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from commands import Said

from summhay_ray.engine import find, spec_class_of
from summhay_ray.engine.registry import kinds

pytestmark = pytest.mark.core

Cli = Callable[..., Said]


@pytest.mark.parametrize("kind", ["summhay", "synth", "ethic", "ethic_build"])
def test_the_starter_runs_as_it_is(kind: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"next     summhay plan {kind}.yaml; summhay run {kind}.yaml" in cli("init", kind).out
    done = cli("run", f"{kind}.yaml", "--store", tmp_path / "store", "--executor", "inline")
    assert done.code == 0 and re.search(r"^status +done$", done.out, re.MULTILINE)
    # The haystacks are made from templates, and the command says so.
    assert ("note      the prose is made from templates (offline/writer)" in done.out) is (kind == "synth")
    for said in (r"/tables \(Parquet\)\n", "\nnext +summhay report ", "\nnext +summhay explain "):
        assert re.search(said, done.out)


@pytest.mark.parametrize("kind", sorted(set(kinds()) - {"import", "recite"}))
def test_every_kind_has_one_with_its_fields_explained(kind: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert cli("init", kind, "--out", path, "--json").document == {"kind": kind, "file": str(path)}
    text = path.read_text()
    content = yaml.safe_load(text)
    fields = spec_class_of(find(kind)).model_fields
    assert content["kind"] == kind and set(content) <= set(fields)
    assert {name for name, one in fields.items() if one.is_required()} <= set(content)
    assert "#" in text and all(len(line) < 400 for line in text.splitlines())


def test_what_is_to_be_filled_in_is_named(cli: Cli, tmp_path: Path) -> None:
    cli("init", "odsum", "--out", tmp_path / "odsum.yaml")
    assert cli("plan", tmp_path / "odsum.yaml").refusal == f"{tmp_path / 'odsum.yaml'}: corpus: to be filled in"


def test_nothing_is_written_over_and_a_kind_without_a_spec_says_so(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("mine")
    assert cli("init", "--out", path).refusal == f"{path} exists; give another file: --out FILE"
    assert path.read_text() == "mine"
    assert "it has no spec" in cli("init", "import", "--out", tmp_path / "b.yaml").refusal
    assert "did you mean 'summhay'?" in cli("init", "sumhay", "--out", tmp_path / "b.yaml").refusal
    assert not (tmp_path / "b.yaml").exists()
