"""The README's commands, program and table are right, the notebook runs, and the pages build a site."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_docs_commands import PAGES, ROOT, blocks_of, in_examples, run_blocks, said_by, summhay

import summhay_ray

README = ROOT / "README.md"
GENERATED = frozenset(["benchmark-door", "commands", "environment", "json", "python", "spec-fields", "tables"])


def test_the_readmes_commands_and_its_program_run(tmp_path: Path) -> None:
    program = next(block.text for block in blocks_of(README) if block.info == "python")
    assert len(program.splitlines()) <= 12
    with in_examples(tmp_path):
        run_blocks(README, ("sh", "python"))


def test_the_readme_shows_the_real_output(tmp_path: Path) -> None:
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
    assert len(tables) >= 3 and "joint (%)" in tables[1]


@pytest.mark.core
def test_the_score_by_hand_is_what_the_code_computes(tmp_path: Path) -> None:
    rows = re.findall(r"^\| ([\w ]+) \| .* \| ([\d.]+) \|$", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.MULTILINE)
    with in_examples(tmp_path):
        run = json.loads(said_by(summhay, ["import", "one_score.json", "--json"]))["run"]
        [computed] = json.loads(said_by(summhay, ["score", run, "--json"]))["by_query"]
    by_hand = {("citation" if name == "citation F1" else name.replace(" ", "_")): float(value) for name, value in rows}
    assert list(by_hand) == ["coverage", "citation_precision", "citation_recall", "citation", "joint"]
    assert by_hand == {name: round(computed[name], 3) for name in by_hand}


@pytest.mark.core
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_line_of_prose_is_at_most_150_characters_long(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$|^(?:\||>|!|\[!)[^\n]*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert page.stem in GENERATED or [line for line in prose.splitlines() if len(line) > 150] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as a site."""
    pytest.importorskip("mkdocs", reason="the site needs the extra docs")
    pytest.importorskip("material", reason="the site needs the extra docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


NAMES = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES}


@pytest.mark.core
def test_every_page_is_once_in_the_navigation() -> None:
    listed = re.findall(r"([\w/-]+)\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(NAMES)


@pytest.mark.soak
def test_the_pages_build_a_site_that_needs_no_network(site: Path) -> None:
    for name in NAMES:
        built = (site / f"{name}.html").read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', built), name
        assert "<h1" in built
    functions = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f'id="summhay_ray.api.{name}"' in functions for name in summhay_ray.__all__)


@pytest.mark.browser
@pytest.mark.parametrize("start", ["index.html", "how-to/money.html"])
def test_the_site_is_searched_from_disk(site: Path, start: str) -> None:
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("there is no chromium here; `make browsers` installs it")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(offline=True).new_page()
        tab.goto((site / start).as_uri())
        tab.locator("input[name=query]").click()
        tab.locator("input[name=query]").press_sequentially("bonferroni")
        found = tab.locator(".md-search-result__link").first
        found.click(timeout=30_000)
        tab.wait_for_url("**/explanation/differences.html*", timeout=30_000)
        browser.close()
