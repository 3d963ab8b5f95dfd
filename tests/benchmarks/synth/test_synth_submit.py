"""A synthesis as a job, and a run on its haystacks, sent to a job server that the test starts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from job_server import Server, server

from summhay_ray import api
from summhay_ray.benchmarks.synth import Synth
from summhay_ray.engine import SpecError, package

__all__ = ["server"]
pytestmark = pytest.mark.core

URL = "http://127.0.0.1:8265"
ROOT = Path(__file__).resolve().parents[3]
DOMAIN = "name: minutes\ngenre: the minutes of a town council\nwords: 120\n"
SMALL: Mapping[str, Any] = {
    "topics": ["the new tram line in Calaford"],
    "subtopics": 2,
    "insights": 2,
    "documents": 6,
    "words": 120,
    "difficulty": {"least": 2, "documents_per_insight": 3},
}
RUN = {"retrievers": ["keywords"], "summarizers": ["offline/lead"]}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Text files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def named(context: str | Path, name: str) -> dict[str, Any]:
    return {"topic": f"the new bridge, {name}", "name": name, "context": [str(context)]}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec with files as people name them: in its folder, in a parent folder, by an absolute path, and two with the same
    name."""
    here = tmp_path / "specs"
    write_files(here / "sample", {"seed.txt": "The bridge was closed."})
    write_files(tmp_path, {"seed.txt": "The bridge was opened.", "minutes.yaml": DOMAIN})
    write_files(tmp_path / "far", {"seed.txt": "There was no bridge."})
    topics = [named("sample/seed.txt", "one"), named("../seed.txt", "two"), named(tmp_path / "far" / "seed.txt", "three")]
    write_files(here, {"synth.yaml": yaml.safe_dump({**SMALL, "domain": "../minutes.yaml", "topics": topics})})
    return here / "synth.yaml"


def unpacked(server: Server, folder: Path) -> Path:
    """Unpack the package of the latest job, as a node does, and return its spec."""
    for name, content in server.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / package.SPEC


def test_a_job_is_summhay_run_with_all_that_its_spec_names(
    server: Server, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = api.load(spec)
    job = api.submit(spec, URL, str(tmp_path / "store"), budget=0.5, overrides=["seed=3"])
    (sent,) = server.sent
    words = shlex.split(sent["entrypoint"])
    assert words[:5] == ["python", "-m", "summhay_ray.cli", "run", "summhay-spec.yaml"]
    assert words[5:] == ["--address", "auto", "--store", str(tmp_path / "store"), "--budget", "0.5"]
    assert sorted(server.files) == [
        "files/0/minutes.yaml",
        "files/0/seed.txt",
        "files/1/seed.txt",
        *sorted(["sample/seed.txt", package.SPEC]),
    ]
    assert (job.job, sent["metadata"]["summhay_run"]) == (f"{job.run}-1", job.run)

    # A node without the user's files unpacks the package.
    (tmp_path / "far").rename(tmp_path / "gone")
    there = unpacked(server, tmp_path / "there")
    monkeypatch.chdir(there.parent)
    found = api.load(package.SPEC)
    assert found.run_id == job.run != here.run_id, "another seed"
    assert isinstance(found, Synth) and isinstance(here, Synth)
    assert [topic.context for topic in found.recipe.topics] == [topic.context for topic in here.recipe.topics]
    assert found.recipe.domain == here.recipe.domain and found.spec.seed == 3


def test_a_run_on_a_synth_spec_is_sent_with_what_it_made(server: Server, tmp_path: Path) -> None:
    write_files(
        tmp_path, {"mine.yaml": yaml.safe_dump(dict(SMALL)), "run.yaml": yaml.safe_dump({**RUN, "haystacks": ["mine.yaml"]})}
    )
    store = str(tmp_path / "store")
    with pytest.raises(SpecError, match=r"mine\.yaml: its haystacks are not in the store .*; make them first: summhay "):
        api.submit(tmp_path / "run.yaml", URL, store)
    assert server.sent == []
    made = api.run(tmp_path / "mine.yaml", store, executor="inline")
    job = api.submit(tmp_path / "run.yaml", URL, store)
    assert " run summhay-spec.yaml " in server.sent[0]["entrypoint"] and list(server.files) == [package.SPEC]
    assert server.spec()["haystacks"] == [one.entry for one in made.scores.haystacks]
    assert api.load(unpacked(server, tmp_path / "there"), store=store).run_id == job.run
