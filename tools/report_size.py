"""Measures the time and memory of a report for runs with different numbers of judgments. With Chromium, it also measures the time
to open the page.

    python tools/report_size.py --judgments 10000 100000 1000000 --data FOLDER

`FOLDER` has the released `topic_news1.json` and `topic_news2.json`. Summaries and judgments are artificial, and each size is
measured in a separate process. It prints the rows of the table in docs/how-to/report.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from summhay_ray import api
from summhay_ray.benchmarks.summhay import SummHay
from summhay_ray.engine import ITEM, open_run
from summhay_ray.store import Store

TOGETHER = 2000
RETRIEVERS = ("random", "keywords", "bm25", "oracle", "full")
MODELS = 10


def make(folder: Path, data: Path, judgments: int) -> str:
    """Make a run of about this many judgments. Return its id."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "benchmarks"))
    from made_up import finished

    spec = {
        "haystacks": [str(data / f"topic_news{number}.json") for number in (1, 2)],
        "retrievers": list(RETRIEVERS),
        "token_budget": 2000,
        "summarizers": [{"model": "offline/lead", "name": f"model {number}"} for number in range(MODELS)],
        "judges": ["offline/judge"],
    }
    once = api.load(spec, store=str(folder))
    insights = sum(item.size for item in once.items())
    grid = api.load({**spec, "repeats": max(1, round(judgments / insights))}, store=str(folder))
    assert isinstance(grid, SummHay)
    run = open_run(grid, Store(str(folder)))
    cells = iter(grid.items())
    while part := list(itertools.islice(cells, TOGETHER)):
        found = []
        for cell in part:
            haystack, topic = str(cell.data["unit"][0]), cell.data["unit"][1]
            found.append(finished(grid, cell, grid.grid.haystacks[haystack].insights_of(topic), random.Random(cell.id)))
        run.commit(ITEM, found)
    return run.run_id


def report_of(folder: Path, run: str, out: Path) -> dict[str, float]:
    """Return the seconds and the peak MiB of a report, in this process."""
    begin = time.perf_counter()
    api.make_report(run, str(folder)).write(str(out))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 2**20
    return {"seconds": time.perf_counter() - begin, "peak_mib": peak, "size_mib": size}


def time_opening(out: Path) -> tuple[float, float] | None:
    """Return the seconds until the page is shown, and until its list of samples is shown."""
    if shutil.which("chromium") is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        begin = time.perf_counter()
        page.goto((out / "index.html").as_uri())
        there = time.perf_counter()
        page.goto(f"{(out / 'index.html').as_uri()}#samples")
        page.wait_for_selector("#grid tbody tr", timeout=60_000)
        return there - begin, time.perf_counter() - there


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judgments", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--of", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.of:
        store, run, out = arguments.of
        print(json.dumps(report_of(Path(store), run, Path(out))))
        return
    for judgments in arguments.judgments:
        with tempfile.TemporaryDirectory() as folder:
            store, out = Path(folder) / "store", Path(folder) / "report"
            run = make(store, arguments.data, judgments)
            command = [sys.executable, __file__, "--data", str(arguments.data), "--of", str(store), run, str(out)]
            found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            page = time_opening(out)
            opens = "- | -" if page is None else f"{page[0]:.1f} | {page[1]:.1f}"
            row = f"| {judgments:,} | {found['seconds']:.0f} | {found['peak_mib']:,.0f} | {found['size_mib']:,.0f} | {opens} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
