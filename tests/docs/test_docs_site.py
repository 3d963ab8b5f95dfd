"""The README's commands and program run, its printed table is what is printed, the notebook runs, and the pages build a site."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    shown = next(block.text for block in blocks_of(README) if block.text.startswith("Leaderboard"))
    assert shown in said_by(summhay, command)


@pytest.mark.core
@pytest.mark.parametrize("name", ["README.md", "AGENTS.md", "llms.txt", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_the_links_of_the_entries_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_cells_of_the_notebook_run_and_show_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: a kernel takes seconds to start."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cells = json.loads((ROOT / "examples" / "first_look.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "without outputs: they would age"
    names: dict[str, Any] = {}
    tables = []
    for cell in cells:
        if cell["cell_type"] == "code":
            names["shown"], program = None, ast.parse("".join(cell["source"]))
            if isinstance(last := program.body[-1], ast.Expr):
                program.body[-1] = ast.Assign([ast.Name("shown", ast.Store())], last.value)
            exec(compile(ast.fix_missing_locations(program), "first_look", "exec"), names)
            tables += [names["shown"]._repr_html_()] if hasattr(names["shown"], "_repr_html_") else []
    assert len(tables) >= 3 and "joint_low" in tables[1]


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
