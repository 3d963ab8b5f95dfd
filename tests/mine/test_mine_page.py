"""The page of a review in a real Chromium saves a sheet with its edits. `make browsers` installs Chromium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import summhay_ray

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
TICKETS = Path(__file__).resolve().parents[2] / "examples" / "tickets"


def test_the_page_saves_a_sheet_with_its_edits(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; `make browsers` installs it")
    playwright = pytest.importorskip("playwright.sync_api")
    out, store = tmp_path / "mine.json", str(tmp_path / "store")
    summhay_ray.mine(TICKETS, out, store, review=tmp_path / "sheet.csv")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = opened.new_page()
        page.goto((tmp_path / "sheet.html").as_uri())
        first = page.locator("article").first
        first.get_by_label("insight", exact=True).fill('Edited, in "the page".')
        page.get_by_role("button", name="Add an insight").click()
        added = page.locator("article").last
        for name, text in (("insight", "=Added."), ("subtopic", "Page"), ("query", "What?"), ("documents", "ticket-01.txt")):
            added.get_by_label(name, exact=True).fill(text)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the sheet").click()
        saved.value.save_as(tmp_path / "saved.csv")
        opened.close()
    summhay_ray.accept(tmp_path / "saved.csv", out, store)
    texts = {one["insight"] for part in json.loads(out.read_text())["subtopics"] for one in part["insights"]}
    assert {'Edited, in "the page".', "=Added."} <= texts and len(texts) == 10
