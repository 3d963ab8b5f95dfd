"""The report in a real Chromium, from a disk and without a network. `make browsers` installs Chromium."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inline_runs import answered
from reported_runs import EVIL, hostile_file, imported

from summhay_ray.report.make import Report, report
from summhay_ray.report.serve import serve_report

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
SERIOUS = {"serious", "critical"}
RUN = {
    "summarizers": ["offline/lead", "offline/support"],
    "retrievers": ["bm25", "full"],
    "orderings": ["given", "top"],
    "judges": ["offline/judge", {"model": "offline/judge", "name": "one by one", "strategy": "per_insight"}],
}


INCLUDED = """source => new Promise(end => {
    const stolen = [];
    window.summhay = (name, content) => stolen.push(name);
    const script = document.createElement("script");
    script.src = source;
    script.onload = script.onerror = () => end(stolen);
    document.head.append(script);
})"""
"""The names of what a script hands to the page that includes it."""
FETCHED = "source => fetch(source, {mode: 'no-cors'}).then(answer => answer.type, () => 'refused')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; `make browsers` installs it")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        # The name of another site that points to this machine, as in DNS rebinding.
        rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", rules])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report([answered(tmp_path_factory.mktemp("run") / "store", **RUN)[1]])


@pytest.fixture(scope="module")
def folder(made: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("report")
    made.write(str(found))
    return found


class Tab:
    """A page without a network, and all its errors."""

    def __init__(self, browser: Any, width: int = 1400, scheme: str = "light", offline: bool = True) -> None:
        self.context = browser.new_context(offline=offline, viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.told: list[str] = []
        self.page.on("console", lambda message: self.told.append(message.text))
        self.page.on("pageerror", lambda error: self.told.append(str(error)))

    def open(self, folder: Path, address: str = "") -> Any:
        self.page.goto(f"{(folder / 'index.html').as_uri()}{address}")
        return self.page


def amiss(page: Any) -> list[str]:
    """The serious findings of axe-core."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found if one["impact"] in SERIOUS]


def test_the_first_screen_answers_and_leads_to_the_evidence(browser: Any, made: Report, folder: Path) -> None:
    tab = Tab(browser)
    page = tab.open(folder)
    comparison = made.runs[0].comparison
    assert comparison is not None and page.locator(".decision").inner_text() == comparison.decision.text
    tiles = page.locator(".tiles a")
    assert [tile.get_attribute("href") for tile in tiles.all()] == ["#board", "#compare", "#s-money", "#s-failures"]
    rows = page.locator("#board tbody tr:not(.dtrg-group)")
    assert rows.count() == comparison.standings["joint"].height == 6
    assert page.locator("#board .dtrg-group").all_inner_texts() == ["Upper bounds: they see the gold documents"]
    assert page.locator("#charts figure svg[role=img]").count() >= 2
    assert page.evaluate("document.querySelectorAll('a, button, input, select, summary').length") < 100, "few tab stops"
    # A facet, the search, and the choice of figures change the board's rows.
    page.locator("#board .bar").get_by_label("retriever").select_option("bm25")
    assert rows.count() == 2
    page.locator("#board .bar").get_by_label("retriever").select_option("")
    raw = page.locator("#board .bar-cell .number").first.inner_text()
    page.get_by_label("figures").select_option("corrected")
    assert page.locator("#board .bar-cell .number").first.inner_text() != raw
    for tile, there in ((0, "#board"), (1, "#pair .dumbbell svg"), (2, "#s-money table"), (3, "#s-failures")):
        tiles.nth(tile).click()
        page.wait_for_selector(there)
        page.locator("nav a", has_text="Leaderboard").click()
    assert tab.told == []


def test_systems_named_like_colours_are_drawn(browser: Any, tmp_path: Path) -> None:
    names = ("none", "transparent")
    systems = [{"model": f"offline/{kind}", "name": name} for kind, name in zip(("lead", "support"), names, strict=True)]
    _, run = answered(tmp_path / "store", summarizers=systems, retrievers=["bm25", "none"])
    report([run]).write(str(tmp_path / "report"))
    page = Tab(browser).open(tmp_path / "report")
    dots = page.locator("#charts figure:last-of-type svg").last.locator("path[stroke], circle[stroke]")
    assert {dot.get_attribute("stroke") for dot in dots.all()}.isdisjoint(names) and dots.count() >= 2
    # Without retrieval, it is not retrieval that missed documents.
    page = Tab(browser).open(tmp_path / "report", "#samples?retriever=none")
    page.locator("#grid tbody tr a").first.click()
    page.get_by_text("No document was shown.").wait_for()
    assert page.get_by_text("Missed by retrieval").count() == 0


def test_two_systems_are_compared_query_by_query_down_to_the_cited_sentences(browser: Any, folder: Path) -> None:
    tab = Tab(browser)
    page = tab.open(folder, "#compare")
    page.wait_for_selector(".dumbbell svg")
    page.get_by_label("first system").select_option("bm25 + offline/support")
    page.wait_for_function("new URLSearchParams(location.hash.split('?')[1]).get('a') === 'bm25 + offline/support'")
    page.locator("#pair table.dataTable a").first.click()
    page.wait_for_selector("table.both tbody tr")
    heads = page.locator("table.both thead th").all_inner_texts()
    assert heads[1] == "bm25 + offline/support" and heads[2] != heads[1]
    assert page.locator("table.both blockquote").count() > 0 and page.locator("table.both .chip").count() > 2
    assert tab.told == []


def test_from_a_figure_to_a_cited_document_and_back_by_keyboard(browser: Any, folder: Path) -> None:
    tab = Tab(browser)
    page = tab.open(folder)
    page.locator("#s-results summary").first.click()
    cell = page.locator("#s-results td a").first
    cell.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#grid tbody tr a")
    assert "model=" in page.url and "4 of 24" in page.locator("#viewer-h").inner_text()
    page.locator("#grid tbody tr a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".verdict")
    first = page.url
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.wait_for_selector(".verdict")
    page.keyboard.press("k")
    page.wait_for_url(first)
    page.wait_for_selector("ol.bullets a")
    page.locator("ol.bullets a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".document")
    assert len(page.locator(".document").inner_text()) > 100
    page.keyboard.press("Escape")
    page.wait_for_selector(".verdict")
    assert page.url == first
    page.keyboard.press("Escape")
    page.wait_for_selector("#grid tbody tr")
    page.keyboard.press("Escape")
    page.wait_for_selector("#board table", state="visible")
    assert tab.told == []


def test_a_sample_shows_verdicts_prompts_and_answers_and_its_link_is_shared(browser: Any, made: Report, folder: Path) -> None:
    run = made.runs[0].run
    judgment = run.table("judgments").filter(run.table("judgments")["judge"] == "one by one").row(0, named=True)
    tab = Tab(browser)
    page = tab.open(folder, f"#sample/{judgment['cell_id']}")
    page.wait_for_selector(".verdict")
    box = page.locator("details", has_text="What one by one was asked").first
    box.locator("summary").click()
    box.locator("pre").first.wait_for()
    asked = box.locator("pre").first.inner_text()
    told = made.runs[0].workload.explain(run, judgment["key"])["judgments"][0]
    texts = [one.inner_text() for one in box.locator("pre").all()]
    assert texts[-1] == told["raw_answer"]["text"] and asked.strip() == told["prompt"].strip()
    bullet = page.locator(".verdict a", has_text="bullet").first
    bullet.click()
    assert page.locator("li.lit").count() == 1 and tab.told == []


def test_lists_sort_filter_and_search(browser: Any, folder: Path) -> None:
    tab = Tab(browser)
    page = tab.open(folder, "#s-ranking")
    page.wait_for_selector("#s-ranking tbody td")
    joint = page.locator("#s-ranking thead th").all_inner_texts().index("joint (%)")

    def column() -> list[float]:
        return [
            float(text.partition(" ")[0])
            for text in page.locator(f"#s-ranking tbody td:nth-child({joint + 1})").all_inner_texts()
        ]

    for way in (True, False):
        page.locator("#s-ranking thead th").nth(joint).click()
        # The table is sorted after the click has returned.
        order = "descending" if way else "ascending"
        page.wait_for_selector(f"#s-ranking thead th:nth-child({joint + 1})[aria-sort={order}]")
        assert column() == sorted(column(), reverse=way)
    tab.open(folder, "#samples")
    page.wait_for_selector("#grid tbody tr")
    page.locator("#viewer").get_by_label("retriever").first.select_option("bm25")
    page.wait_for_selector("#viewer-h:has-text('8 of 24')")
    page.locator("#viewer").get_by_label("search").fill("support")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer-h:has-text('4 of 24')")
    page.get_by_label("in texts").fill("OFFLINE/SUPPORT")
    page.keyboard.press("Enter")
    page.wait_for_function("location.hash.includes('text=OFFLINE')")
    page.wait_for_selector("#viewer-h:has-text('4 of 24')")
    page.get_by_label("in texts").fill("no summary has these words")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer-h:has-text('0 of 24')")
    page.get_by_label("in texts").fill("")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer-h:has-text('4 of 24')")
    page.locator("#grid thead th", has_text="joint").click()
    page.wait_for_selector("#grid th[aria-sort]")
    page.wait_for_function("location.hash.includes('sort=joint')")
    place = page.locator("#grid thead th").all_inner_texts().index("joint (%)")
    shown = [float(text) for text in page.locator(f"#grid tbody td:nth-child({place + 1})").all_inner_texts()]
    assert shown == sorted(shown) and len(shown) == 4 and tab.told == []


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
def test_everybody_can_use_it(browser: Any, made: Report, folder: Path, width: int, scheme: str) -> None:
    tab = Tab(browser, width, scheme)
    cell = made.runs[0].run.table("summaries")["cell_id"][0]
    for address, there in (
        ("", "#board table"),
        ("#compare", ".dumbbell svg"),
        ("#judge", "#s-judges table"),
        ("#samples", "#grid tbody tr"),
        (f"#sample/{cell}", ".verdict"),
    ):
        page = tab.open(folder, address)
        page.wait_for_selector(there)
        assert amiss(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
    assert tab.told == []


def test_a_page_alone_says_so(browser: Any, folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "index.html", tmp_path)
    page = Tab(browser).open(tmp_path, "#samples")
    page.wait_for_selector("#notice:not([hidden])")
    assert "copy the whole folder" in page.locator("#notice").inner_text()
    assert page.locator("#board table").is_visible()


def test_a_hostile_haystack_stays_text(browser: Any, tmp_path: Path) -> None:
    run = imported(tmp_path / "store", hostile_file(300_000))
    report([run]).write(str(tmp_path / "out"))
    tab = Tab(browser)
    page = tab.open(tmp_path / "out")
    cell = run.table("judgments")["cell_id"][0]
    for address, there in (("#samples", "#grid tbody tr"), (f"#sample/{cell}", ".verdict")):
        tab.open(tmp_path / "out", address)
        page.wait_for_selector(there)
    page.locator(".docs a").first.click()
    page.wait_for_selector(".document")
    assert "<script>window.pwned=1</script>" in page.locator(".document").inner_text()
    # A name with a direction mark reverses only itself, and nothing is wider than the page.
    assert EVIL[:9] in page.locator(".sample .keys bdi").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("window.pwned") is None and tab.told == []


@pytest.fixture(scope="module")
def url(made: Report) -> str:
    """The address of the served report."""
    said: list[str] = []
    there = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        there.set()

    threading.Thread(target=serve_report, args=(lambda: made, "", 0, say), daemon=True).start()
    assert there.wait(60)
    return said[0]


def test_a_served_report_is_live(browser: Any, url: str) -> None:
    tab = Tab(browser, offline=False)
    tab.page.goto(f"{url}#samples")
    tab.page.wait_for_selector("#grid tbody tr")
    assert tab.page.evaluate("document.body.dataset.live") == "1" and json.dumps(tab.told) == "[]"


def test_another_site_reads_nothing_of_a_served_report(browser: Any, url: str, folder: Path) -> None:
    """Even a site that knows the secret path: data files are scripts, which any page may include."""
    tab, others = Tab(browser, offline=False), partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), others) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab.page.goto(f"http://evil.example:{server.server_port}/data/")
        unprotected = f"http://127.0.0.1:{server.server_port}/"
        assert tab.page.evaluate(INCLUDED, f"{unprotected}data/manifest.js") == ["manifest"], "the theft itself works"
        assert tab.page.evaluate(FETCHED, unprotected) == "opaque"
        assert tab.page.evaluate(INCLUDED, f"{url}data/manifest.js") == []
        assert tab.page.evaluate(FETCHED, url) == "refused"
        server.shutdown()


def test_a_name_that_is_made_to_point_here_opens_nothing(browser: Any, url: str) -> None:
    tab = Tab(browser, offline=False)
    answer = tab.page.goto(url.replace("127.0.0.1", "evil.example"))
    assert answer.status == 403 and "summhay" not in answer.text()
