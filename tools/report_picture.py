"""Makes docs/pictures/report.png: the first screen of the report on examples/stack.yaml, as a browser shows it.

    python tools/report_picture.py

It needs Chromium (`make browsers` installs it) and takes half a minute. Run it again when the report's first screen has changed.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "pictures" / "report.png"
WIDTH, HEIGHT = 1280, 800
COLORS = 96
"""Number of colours: few enough for a small file, and enough for smooth text."""


def make_report(folder: Path) -> Path:
    """Mine the tickets, run the grid and write its report in `folder`. Return the page."""
    shutil.copytree(ROOT / "examples" / "tickets", folder / "tickets")
    shutil.copy(ROOT / "examples" / "stack.yaml", folder)
    _summhay(folder, "mine", "tickets", "--out", "mine.json", "--executor", "inline")
    printed = _summhay(
        folder, "run", "stack.yaml", "--set", "retrievers=[random, bm25, oracle]", "--executor", "inline", "--json"
    )
    _summhay(folder, "report", json.loads(printed)["run"], "--out", "report")
    return folder / "report" / "index.html"


def _summhay(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["summhay", *words, "--store", "store"], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def take_picture(page: Path) -> bytes:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, offline=True).new_page()
        tab.goto(page.as_uri())
        tab.wait_for_selector("table.dataTable")
        picture: bytes = tab.screenshot()
        browser.close()
    return picture


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        picture = take_picture(make_report(Path(folder)))
    Image.open(io.BytesIO(picture)).quantize(COLORS).save(TARGET, optimize=True)
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
