"""`summhay verify`: its output, files and refusals; many files are checked on Ray."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from summhay_ray import api
from summhay_ray.api import haystacks
from summhay_ray.benchmarks.synth.verify import COLUMNS
from summhay_ray.cli import main
from summhay_ray.errors import UserError
from summhay_ray.haystack import load_sample


def sample(folder: Path, name: str = "news", file: str = "", **changes: Any) -> str:
    path = folder / f"{file or name}.json"
    path.write_text(json.dumps({**load_sample(name), **changes}), encoding="utf-8")
    return str(path)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["verify", *arguments])
    said = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, said.out, said.err


@pytest.mark.core
def test_what_is_otherwise_is_counted_and_listed_the_sure_ones_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = load_sample("news")
    # An insight that no document contains, although the first one is annotated with it.
    raw["subtopics"][0]["insights"][0]["insight"] = "Zora Quimby of Vexley paid 7,777 dollars on 3 March 1987."
    path = sample(tmp_path, subtopics=raw["subtopics"])
    code, out, err = command(capsys, path)
    assert (code, err) == (4, "")
    assert [line.strip() for line in out.splitlines()[:2]] == [path, "Checks without a model"]
    listed = out.partition("Otherwise than stated, or unsure")[2].splitlines()
    places = [line.split()[1] for line in listed if line.startswith(("│ yes ", "│ unsure "))]
    assert places == sorted(places, reverse=True) and "yes" in places and "unsure" in places
    assert any("Zora Quimby" in line for line in listed)


@pytest.mark.core
def test_one_json_document_and_every_check_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, sheet = sample(tmp_path), tmp_path / "checks.csv"
    code, out, err = command(capsys, path, "--json", "--out", str(sheet))
    (found,) = json.loads(out)["files"]
    assert (code, err, found["file"]) == (4, "", path) and len(found["haystack_id"]) > 8
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(kind["checks"] for kind in found["kinds"]) and set(rows[0]) == set(COLUMNS)
    otherwise = [row for row in rows if row["found"] != row["expected"]]
    assert len(otherwise) == len(found["otherwise"]) == sum(kind["otherwise"] for kind in found["kinds"])
    assert all(
        kind["checks"] == kind["as_stated"] + kind["otherwise"] == kind["as_stated"] + kind["surely"] + kind["unsure"]
        for kind in found["kinds"]
    )
    code, out, err = command(capsys, path, "--out", str(sheet))
    assert (code, out, err) == (2, "", f"summhay: {sheet} exists; give another file\n")


@pytest.mark.core
def test_what_is_no_haystack_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sample(tmp_path, file="broken", subtopics=[])
    code, out, err = command(capsys, sample(tmp_path, "conversation"), path)
    assert (code, out) == (
        2,
        "",
    ) and err == f"summhay: {path}: subtopics: expected a list of at least one subtopic, found an empty list\n"
    code, out, err = command(capsys, str(tmp_path / "none.json"))
    assert (code, out) == (2, "") and "none.json: cannot be read" in err and err.count("\n") == 1


@pytest.mark.soak
@pytest.mark.ray
def test_many_files_go_over_ray_and_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [sample(tmp_path), sample(tmp_path, "conversation")]
    alone = api.verify(paths)
    assert [one.file for one in alone] == paths
    monkeypatch.setattr(haystacks, "MANY_VERIFIED", 1)
    assert api.verify(paths) == alone
    with pytest.raises(UserError, match=r"broken\.json: subtopics"):
        api.verify([*paths, sample(tmp_path, file="broken", subtopics=[])])
