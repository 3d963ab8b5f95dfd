"""The locks in requirements/ pin each package that pyproject.toml requires, by version and hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ASKED = {
    "build": ["setuptools>=77", "uv"],
    "core": PROJECT["dependencies"],
    "image": PROJECT["dependencies"] + EXTRAS["embed"],
    "dev": PROJECT["dependencies"] + EXTRAS["dev"] + EXTRAS["embed"] + EXTRAS["documents"],
}


def entries(lock: str) -> list[str]:
    """Each requirement of a lock with its hashes, as one line."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.parametrize("lock", ASKED)
def test_a_lock_pins_and_hashes_what_the_project_asks_for(lock: str) -> None:
    pins: dict[str, list[Version]] = {}
    for entry in entries(lock):
        assert re.match(r"[\w.-]+==\S+ ", entry) and re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry
        pin = Requirement(entry.partition(" --hash")[0])
        pins.setdefault(pin.name, []).append(Version(str(pin.specifier).removeprefix("==")))
    for asked in map(Requirement, ASKED[lock]):
        if asked.name != "torch":
            assert all(version in asked.specifier for version in pins[asked.name.lower()]), asked


def test_locks_agree() -> None:
    found = [dict(entry.split("==", 1) for entry in entries(lock) if " ; " not in entry) for lock in ASKED]
    for one in found:
        assert one.items() <= found[-1].items() | {("uv", one.get("uv"))}
