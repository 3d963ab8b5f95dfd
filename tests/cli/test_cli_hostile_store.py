"""A store from somebody else: whatever is in place of its files, no command hangs on it or leaves the store's folder."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import Said, files_below, write_spec

from summhay_ray import api
from summhay_ray.errors import UserError
from summhay_ray.store import with_hash

pytestmark = [pytest.mark.core, pytest.mark.timeout(60)]

Cli = Callable[..., Said]
SPEC = {
    "haystacks": ["sample/news"],
    "retrievers": ["oracle"],
    "token_budget": 500,
    "summarizers": ["offline/lead"],
    "judges": ["offline/judge"],
    "executor": "inline",
}
RECORDS = ["commits/*.json", "money/*.json", "starts/*.json"]
FILES = [
    *("format.json", "cleaned", "answers/*.jsonl", "objects/haystack/*"),
    *(f"drivers/00000001.{ending}" for ending in ("json", "beat", "end.json")),
    *(f"runs/RUN/{name}" for name in ("run.json", *RECORDS, "parts/_units-*.parquet", "tables/judgments/*.parquet")),
]
FOLDERS = [
    *("answers", "drivers", "objects", "objects/haystack", "runs", "runs/RUN"),
    *(f"runs/RUN/{name}" for name in ("commits", "money", "starts", "parts", "tables", "tables/judgments")),
]
NOT_READ = {"cleaned", "drivers/00000001.beat", "drivers/00000001.end.json"}
"""Files whose content `doctor` does not read."""


@dataclass(frozen=True)
class Made:
    """A copy of a store with two runs, and a separate folder of the reader."""

    folder: Path
    run: str
    other: str
    cell: str

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    def place(self, pattern: str) -> Path:
        """The last file or folder of the store that matches a pattern."""
        return sorted(self.store.glob(pattern.replace("RUN", self.run)))[-1]

    def commands(self) -> dict[str, tuple[str | Path, ...]]:
        """The commands that read a store, except the slow ones, `report` and `compare`."""
        out = self.folder / "out"
        return {
            "doctor": ("doctor",),
            "status": ("status", self.run),
            "clean": ("clean", "--older-than", "0s"),
            "runs": ("runs",),
            "score": ("score", self.run),
            "failures": ("failures", self.run),
            "explain": ("explain", self.run, self.cell),
            "export": ("export", self.run, "--out", out / "json"),
            "tables": ("export", self.run, "--tables", out / "tables", "--format", "jsonl"),
            "run": ("run", self.folder / "spec.yaml"),
            "rejudge": ("rejudge", self.run, "--judge", "offline/judge"),
        }


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("original")
    write_spec(folder, SPEC)
    first, other = (api.run({**SPEC, "seed": seed}, str(folder / "store")).run for seed in (0, 1))
    # The commands read the files that are left.
    api.clean(str(folder / "store"), older_s=0.0)
    return Made(folder, first, other, api.table(first, "scores", str(folder / "store"))["cell_id"][0])


@pytest.fixture
def made(original: Made, tmp_path: Path) -> Made:
    copied = Made(tmp_path, original.run, original.other, original.cell)
    shutil.copytree(original.store, copied.store)
    shutil.copy(original.folder / "spec.yaml", tmp_path)
    for name in ("mine.parquet", "deep/mine.parquet", "00000001.json", "00000002.json", "00000003.json"):
        path = copied.outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        os.utime(path, (1e9, 1e9))
    return copied


def outside(made: Made, path: Path) -> None:
    """A link to the original content, which is now in the reader's folder."""
    target = made.outside / path.name
    path.rename(target)
    path.symlink_to(target)


def mine(made: Made, path: Path) -> None:
    """A link to the reader's folder."""
    shutil.rmtree(path)
    path.symlink_to(Path(os.path.relpath(made.outside, path.parent)))


def sideways(made: Made, path: Path) -> None:
    """A link to the same file or folder of the other run; from other places, to that run."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    same = Path(str(path).replace(made.run, made.other))
    path.symlink_to(same if same != path and same.exists() else made.store / "runs" / made.other)


def itself(made: Made, path: Path) -> None:
    outside(made, path)
    path.unlink()
    path.symlink_to(path.name)


def up(made: Made, path: Path) -> None:
    """A link to the store, which contains the link itself."""
    sideways(made, path)
    path.unlink()
    path.symlink_to(made.store)


def pipe(made: Made, path: Path) -> None:
    itself(made, path)
    path.unlink()
    os.mkfifo(path)


def zero(made: Made, path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def huge(made: Made, path: Path) -> None:
    """A sparse file of a terabyte."""
    os.truncate(path, 2**40)


CASES = [
    *zip(FILES, itertools.cycle([pipe, outside, sideways, zero, huge, itself])),
    *zip(FOLDERS, itertools.cycle([outside, pipe, up, mine, itself, sideways])),
]
"""Each place -> the trap in it."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("place", "trap"), CASES)
def test_a_trap_is_named_and_leads_no_command_out_of_the_store(
    cli: Cli, made: Made, place: str, trap: Callable[[Made, Path], None], every: bool
) -> None:
    """`doctor` and half of the other commands; the next place gets the other half."""
    path = made.place(place)
    trap(made, path)
    before = files_below(made.outside)
    doctor, *others = made.commands().items()
    for name, line in [doctor, *(others if every else others[CASES.index((place, trap)) % 2 :: 2])]:
        said = cli(*line, "--store", made.store)
        assert said.code in (0, 1), (name, said)
        if said.code and name != "doctor":
            # Damaged answers are counted, and `doctor` names their files.
            assert str(path) in said.err + said.out or "summhay doctor --store" in said.out, (name, said)
        if name == "doctor" and not (trap is huge and place in NOT_READ):
            assert said.code == 1 and str(path) in said.out + said.err, said
        assert files_below(made.outside) == before, name
    with contextlib.suppress(UserError):
        assert api.table(made.run, "judgments", str(made.store)).height


def forged(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a record and its hash, as an attacker can."""
    body = json.loads(path.read_bytes())
    del body["sha256"]
    change(body)
    path.write_bytes(with_hash(body))


NAMES = ["../../../../outside/mine.parquet", "/etc/passwd", "", "a\0b", 7]
MANIFEST, RECORD = "runs/RUN/commits/*.json", "runs/RUN/run.json"
FORGED: Mapping[str, tuple[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "a part": (MANIFEST, lambda name, body: body["parts"][0]["tables"]["checks"].update(name=name)),
    "a part of units": (MANIFEST, lambda name, body: body["parts"][0]["units"].update(name=name)),
    "a part of an unknown table": (
        MANIFEST,
        lambda name, body: body["parts"][0]["tables"].update(zzz={**body["parts"][0]["tables"]["checks"], "name": name}),
    ),
    "a table": (RECORD, lambda name, body: body["tables"][0].update(name=name)),
    "an unknown table": (RECORD, lambda name, body: body["tables"].append({**body["tables"][0], "name": name})),
    "a run": ("drivers/00000001.json", lambda name, body: body.update(run=name)),
}


@pytest.mark.parametrize(
    ("what", "name"), [("a part", name) for name in NAMES] + list(zip(list(FORGED)[1:], NAMES, strict=True)), ids=repr
)
def test_a_name_in_a_record_that_is_none_is_damage(cli: Cli, made: Made, what: str, name: Any) -> None:
    place, change = FORGED[what]
    path = made.place(place)
    forged(path, lambda body: change(name, body))
    before = files_below(made.folder)
    assert str(path) in (line := cli("doctor", "--store", made.store)).out and line.code == 1
    # Only `doctor` reads the record of a driver that has ended.
    for command in ("tables", "run") if what != "a run" else ():
        said = cli(*made.commands()[command], "--store", made.store)
        assert (said.code, said.out) == (1, "") and said.err.count("\n") == 1 and str(path) in said.err
    after = files_below(made.folder)
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {
        f"store/drivers/00000003.{ending}" for ending in ("json", "beat", "end.json")
    }


def test_a_part_of_a_table_that_the_run_does_not_have_is_moved_only_if_it_is_whole(cli: Cli, made: Made) -> None:
    def with_units(body: dict[str, Any]) -> None:
        tables = body["parts"][0]["tables"]
        tables["zzz"] = {**tables["checks"], "name": body["parts"][0]["units"]["name"]}

    forged(made.place(MANIFEST), with_units)
    said = cli(*made.commands()["run"], "--store", made.store)
    assert said.code == 1 and f"run {made.run} is damaged (" in said.err and "is not as it was written" in said.err
    assert made.place("runs/RUN/parts/_units-*.parquet").exists() and not (made.store / f"runs/{made.run}/tables/zzz").exists()


def test_a_linked_store_is_a_store(cli: Cli, made: Made) -> None:
    (made.folder / "link").symlink_to(made.store)
    for name, line in made.commands().items():
        said = cli(*line, "--store", made.folder / "link")
        assert said.code == 0, (name, said)


def test_what_is_hidden_or_has_another_name_is_not_of_the_store(cli: Cli, made: Made) -> None:
    for folder in ("", "answers", f"runs/{made.run}/commits", f"runs/{made.run}/starts"):
        (made.store / folder / ".#lock").symlink_to("nobody@nowhere")
        (made.store / folder / "²").touch()
        (made.store / folder / "²²²²²²²².json").touch()
        (made.store / folder / "my notes.txt").symlink_to("/dev/zero")
    for name in ("doctor", "runs", "status", "clean", "run"):
        said = cli(*made.commands()[name], "--store", made.store)
        assert said.code == 0, (name, said)


@pytest.mark.parametrize("name", ["../../planted", "/planted", "..", "a\0b", "a\n\x1b[2J", "\ud800"], ids=repr)
def test_an_export_writes_into_its_folder_alone(cli: Cli, made: Made, name: str) -> None:
    forged(made.place(RECORD), lambda body: body["haystacks"][0].update(name=name))
    before = files_below(made.folder)
    said = cli(*made.commands()["export"], "--store", made.store)
    new = [one for one in files_below(made.folder) if one not in before]
    if name == "\ud800":
        # No record can contain half a character.
        assert said.code == 1 and "is damaged" in said.err and not new
    else:
        assert said.code == 0 and [Path(one).parent for one in new] == [Path("out/json")] and new[0].isprintable()
