"""The README's commands and program run, its printed table is what is printed, the notebook runs, and the pages build a site."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs_commands import PAGES, ROOT, blocks_of, run_blocks, said_by, summhay

import summhay_ray

README = ROOT / "README.md"


def test_the_readmes_commands_and_its_program_run(tmp_path: Path) -> None:
    program = next(block.text for block in blocks_of(README) if block.info == "python")
    assert len(program.splitlines()) <= 12
    run_blocks(README, tmp_path, ("sh", "python"))


def test_the_readme_prints_what_is_printed(tmp_path: Path) -> None:
    command = ["run", str(ROOT / "jobs" / "quickstart.yaml"), "--executor", "inline", "--store", str(tmp_path)]
    shown = next(block.text for block in blocks_of(README) if block.text.startswith("Joint (%)"))
    assert shown in said_by(summhay, command)


@pytest.mark.core
@pytest.mark.parametrize("name", ["README.md", "AGENTS.md", "llms.txt", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_the_links_of_the_entries_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_notebook_runs(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="the notebook needs the extra dev")
    client = pytest.importorskip("nbclient", reason="the notebook needs the extra dev")
    pytest.importorskip("ipykernel", reason="the notebook needs the extra dev")
    book = nbformat.read(ROOT / "examples" / "first_look.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "without outputs: they would age"
    client.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ()) if "text/html" in output.get("data", {})]
    assert len(shown) >= 3 and "joint_low" in shown[1]["data"]["text/html"]


@pytest.mark.core
def test_the_pages_build_a_site_that_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the site needs the extra docs")
    pytest.importorskip("material", reason="the site needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES}
    for name in names:
        built = (tmp_path / "site" / f"{name}.html").read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', built), name
        assert "<h1" in built
    listed = re.findall(r"([\w/-]+)\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(names), "every page is once in the navigation"
    functions = (tmp_path / "site" / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f'id="summhay_ray.api.{name}"' in functions for name in summhay_ray.__all__)
