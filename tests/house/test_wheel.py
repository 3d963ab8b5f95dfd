"""People install a wheel, not this folder. The wheel has every file that the package reads, and a first run works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300
LEAST_SETUPTOOLS = 77
"""The minimum in `build-system.requires`. Without network access, the installed version must suffice."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and the packages of this environment."""
    if int(version("setuptools").partition(".")[0]) < LEAST_SETUPTOOLS:
        pytest.skip(f"setuptools {LEAST_SETUPTOOLS} or later builds the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    shutil.copytree(ROOT / "summhay_ray", source / "summhay_ray", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    # pip would take 3 s more processor time for the same.
    uv = (sys.executable, "-m", "uv", "--offline")
    _run(*uv, "build", "--wheel", source, "--no-build-isolation", "--python", sys.executable, "--out-dir", folder)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv" / "bin" / "python"
    # Python does not process the .pth files of this folder, so this checkout is not found through them.
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    [wheel] = folder.glob("*.whl")
    _run(*uv, "pip", "install", "--python", python, "--no-deps", "--no-index", wheel)
    return folder


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SUMMHAY_STORE")}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=cwd, env=environment
    )
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    return done.stdout


def test_what_is_installed_has_every_file_and_runs(installed: Path) -> None:
    binaries, elsewhere = installed / "venv" / "bin", installed / "elsewhere"
    shutil.copytree(ROOT / "jobs", elsewhere / "jobs")
    package = Path(
        _run(binaries / "python", "-c", "import summhay_ray; print(summhay_ray.__file__)", cwd=elsewhere).strip()
    ).parent
    assert package.is_relative_to(installed)
    wanted = {path.relative_to(ROOT / "summhay_ray") for path in (ROOT / "summhay_ray").rglob("*.*") if path.suffix != ".md"}
    assert {path for path in wanted if "__pycache__" not in path.parts and not (package / path).exists()} == set()
    assert "Leaderboard by" in _run(binaries / "summhay", "run", "jobs/quickstart.yaml", "--executor", "inline", cwd=elsewhere)
