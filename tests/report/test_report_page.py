"""The report as files: complete, safe, and with the same figures in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import polars as pl
import pytest
from inline_runs import answered
from reported_runs import EVIL, hostile_file, imported, unfinished, with_failures

from summhay_ray import api
from summhay_ray.engine import Chart, RunResult, Section, open_run, workload_of
from summhay_ray.errors import UserError
from summhay_ray.report.figures import draw, figure_bytes
from summhay_ray.report.formats import csv_text, latex_document, paper_grids
from summhay_ray.report.make import Report, report
from summhay_ray.sections import Pivot
from summhay_ray.store import Store

pytestmark = pytest.mark.core

SCRIPTS = 4
"""The page's data, two libraries, and its own script."""
GRID = {"summarizers": ["offline/lead", "offline/support"], "retrievers": ["bm25", "full"], "orderings": ["top"]}


class Page(HTMLParser):
    """The elements of a page in a browser: its tags, addresses and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.content: Any = None
        """The data block: leaderboard, charts and tables."""
        self._is_content = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action", "data", "xlink:href")]
        self._is_content = ("id", "content") in attrs

    def handle_data(self, data: str) -> None:
        if self._is_content:
            self.content, self._is_content = json.loads(data), False

    def sample_links(self) -> set[str]:
        """The addresses of samples in the links of the leaderboard and the tables."""
        tables = [one["table"] for one in self.content["sections"].values() if one["table"]]
        rows = self.content["board"]["rows"] if self.content["board"] else []
        return {*(row["link"] for row in rows), *(link for table in tables for link in table["links"])} - {""}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Report]:
    result, run = answered(tmp_path_factory.mktemp("done") / "store", **GRID)
    return result, report([run])


@pytest.fixture(scope="module")
def finished_report(finished: tuple[RunResult, Report]) -> Report:
    return finished[1]


def scripts(folder: Path, name: str) -> dict[str, object]:
    """The data that the data scripts of a kind pass to the page."""
    found = {}
    for path in sorted((folder / "data").glob(f"{name}*.js")):
        call = re.fullmatch(r'summhay\("([\w-]+)",(.*)\);\n', path.read_text(encoding="ascii"), re.DOTALL)
        assert call is not None, path.name
        found[call[1]] = json.loads(call[2])
    return found


def test_a_report_holds_every_sample_and_what_it_stands_on(finished_report: Report, tmp_path: Path) -> None:
    assert finished_report.write(str(tmp_path)) == ["index.html"]
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == SCRIPTS and page.handlers == []
    assert all(link.startswith("#") for link in page.links)
    manifest = scripts(tmp_path, "manifest")["manifest"]
    assert isinstance(manifest, dict)
    samples = [one for chunk in scripts(tmp_path, "samples").values() for one in chunk]  # type: ignore[attr-defined]
    run = finished_report.runs[0].run
    assert {one["id"] for one in samples} == set(run.table("summaries")["cell_id"])
    verdicts = [row for one in samples for part in one["parts"] if part["kind"] == "verdicts" for row in part["verdicts"]]
    assert len(verdicts) == run.table("judgments").height
    answers = {key for chunk in scripts(tmp_path, "answers").values() for key in chunk}  # type: ignore[attr-defined]
    assert answers == set(run.table("raw_answers")["key"]) >= {row["key"] for row in verdicts}
    assert "[[BULLETS]]" in next(iter(manifest["prompts"].values()))
    assert "Content-Security-Policy" in (tmp_path / "index.html").read_text() and sum(manifest["index"]) == len(samples)
    # Every link of a table leads to samples.
    words: Any = manifest["dictionaries"]
    columns: Any = scripts(tmp_path, "index")["index-0"]["columns"]  # type: ignore[index]
    links = page.sample_links()
    assert any("ordering=top" in link for link in links) and any("system=" in link for link in links)
    for link in links:
        wanted = [(columns[name], words[name].index(value)) for name, value in parse_qsl(link.partition("?")[2])]
        assert any(all(column[row] == code for column, code in wanted) for row in range(len(columns["system"]))), link


def test_the_page_shows_the_command_that_repeats_the_run(finished_report: Report, tmp_path: Path) -> None:
    [run] = finished_report.runs
    listing = finished_report.section("made").listing
    assert listing.endswith("\nEND OF SPEC")
    _, command, spec = listing.partition(f"cat > {run.run.run_id}.yaml <<'END OF SPEC' && summhay run {run.run.run_id}.yaml\n")
    assert command
    (tmp_path / "again.yaml").write_text(spec.removesuffix("END OF SPEC"))
    assert api.plan(tmp_path / "again.yaml", str(tmp_path / "store")).run == run.run.run_id


def test_a_single_file_holds_the_samples_and_a_card_the_decision(finished_report: Report, tmp_path: Path) -> None:
    finished_report.write(str(tmp_path / "one"), single_file=True)
    assert [path.name for path in (tmp_path / "one").rglob("*")] == ["index.html"]
    text = (tmp_path / "one" / "index.html").read_text(encoding="utf-8")
    assert {"manifest", "index-0", "samples-0", "documents-0"} <= set(re.findall(r'data-file="([\w-]+)"', text))
    [name] = finished_report.write(str(tmp_path / "card"), "card")
    card = ElementTree.parse(tmp_path / "card" / name).getroot()
    said = " ".join(one.text or "" for one in card.iter("{http://www.w3.org/2000/svg}text"))
    comparison = finished_report.runs[0].comparison
    assert comparison is not None and comparison.decision.text[:60] in said


def test_every_format_has_the_same_figures(finished_report: Report, tmp_path: Path) -> None:
    for kind in ("md", "latex", "csv", "json"):
        finished_report.write(str(tmp_path), kind)
    [run] = finished_report.runs
    Report([replace(run, sections=[finished_report.section("results")])]).write(str(tmp_path), "csv", ["pdf"])
    results = json.loads((tmp_path / "results.json").read_text())
    table = finished_report.section("results").table
    assert table is not None
    [best], name = table.filter(model="offline/support", retriever="full top").to_dicts(), "results/offline/support/full top"
    task = results["results"][name]
    assert task["joint,none"] == best["joint"] and results["n-samples"][name]["effective"] == best["n"]
    # The sample has four queries.
    assert (best["joint_low"], task["joint_ci95,none"]) == (None, None)
    assert task["joint_ci95_reason,none"] == best["joint_reason"] == "too few queries: 4, an interval needs 6"
    assert all("too few" in (tmp_path / written).read_text() for written in ("report.md", "report.tex"))
    assert results["higher_is_better"][name] == {"coverage": True, "citation": True, "joint": True}
    assert results["hashes"].keys() >= {"haystack news", "judge offline/judge"} and results["versions"]["summhay-ray"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert str(best["joint"]) in {row["joint"] for row in rows}
    told = f"{100 * best['joint']:.1f}"
    assert told in (tmp_path / "report.md").read_text() and told in (tmp_path / "report.tex").read_text()
    assert (tmp_path / "figures" / "results.pdf").read_bytes().startswith(b"%PDF")
    assert b"/FontFile2" in (tmp_path / "figures" / "results.pdf").read_bytes()
    assert b"<text" not in figure_bytes(finished_report.section("results")), "letters are outlines"


def test_nothing_of_a_hostile_haystack_is_more_than_text(tmp_path: Path) -> None:
    found = report([imported(tmp_path / "store", hostile_file(2_000_000))])
    for kind in ("html", "md", "latex", "csv", "json"):
        found.write(str(tmp_path / "out"), kind)
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("script") == SCRIPTS and "img" not in page.tags and page.handlers == []
    assert all(link.startswith("#") for link in page.links)
    assert "\x1b" not in text and "\x00" not in text and "\u202e" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
    for path in (tmp_path / "out" / "data").glob("*.js"):
        assert "<" not in path.read_text(encoding="ascii"), path.name
    documents = [one for chunk in scripts(tmp_path / "out", "documents").values() for one in chunk.values()]  # type: ignore[attr-defined]
    assert any(one["text"].endswith("(2,000,000 letters in all)") for one in documents)
    for path in (tmp_path / "out").glob("*.csv"):
        cells = [cell for row in csv.reader(io.StringIO(path.read_text())) for cell in row]
        assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.])", cell)], path.name
    for name in ("report.md", "report.tex"):
        assert not {"\x1b", "\x00", "\u202e"} & set((tmp_path / "out" / name).read_text(encoding="utf-8")), name


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    run = unfinished(tmp_path / "store")
    found = report([run])
    assert found.runs[0].status != "done"
    assert "The run is not finished" in found.section("overview").notes[0]
    results = found.section("results").table
    assert results is not None and results["n"].drop_nulls().sum() == results["n_expected"].drop_nulls().sum()
    assert "cells so far: the figures are of these" in found.section("results").notes[0]
    found.write(str(tmp_path / "out"))
    assert "unfinished" in (tmp_path / "out" / "index.html").read_text()
    nothing = report([open_run(api.load({**run.record["spec"], "name": "empty", "seed": 99}), Store(str(tmp_path / "store")))])
    nothing.write(str(tmp_path / "none"))
    assert {"overview", "failures", "money", "made"} <= {one.slug for one in nothing.sections}
    assert "results" not in {one.slug for one in nothing.sections}


def test_failures_are_shown_and_never_scored(summhay_data: Path, tmp_path: Path) -> None:
    file = json.loads((summhay_data / "topic_news1.json").read_text())
    for topic in file["subtopics"]:
        for part in ("summaries", "eval_summaries"):
            topic[part] = dict(sorted(topic[part].items())[:4])
    found = report([with_failures(tmp_path / "store", file)])
    failures = found.section("failures").table
    assert failures is not None and failures["n"].sum() == found.runs[0].run.table("failures").height > 50
    results = found.section("results").table
    assert results is not None and (results["n"] < results["n_expected"]).any()
    found.write(str(tmp_path / "out"))
    samples = [one for chunk in scripts(tmp_path / "out", "samples").values() for one in chunk]  # type: ignore[attr-defined]
    assert any(part["title"] == "Failures" for one in samples for part in one["parts"])


def test_a_cell_that_failed_shows_what_it_was_asked_and_what_retrieval_missed(tmp_path: Path) -> None:
    run = answered(tmp_path / "store", summarizers=["offline/lead", "replay/gpt-4o"], retrievers=["bm25"])[1]
    lost = [one for one in workload_of(run).samples(run).samples if one.facets["failed"]]
    assert {one.facets["model"] for one in lost} == {"replay/gpt-4o"} and len(lost) == run.table("failures").height > 0
    for one in lost:
        [prompt] = [part["text"] for part in one.parts if part["kind"] == "prompt"]
        assert one.facets["query"] in prompt and one.facets["retriever"] == "bm25"
        [documents] = [part for part in one.parts if part["kind"] == "retrieval"]
        assert documents["context"] in set(run.table("contexts")["context_id"]) and documents["gold"]


def test_a_result_draws_its_figures(finished: tuple[RunResult, Report]) -> None:
    figure = finished[0].figure("cost_quality")
    assert figure.axes[0].get_xlabel() == "tokens a query"
    assert figure._repr_png_().startswith(b"\x89PNG"), "a notebook shows it"


def test_several_runs_of_any_kind_are_one_report(
    finished_report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples"
    monkeypatch.syspath_prepend(str(examples))
    store: Store = finished_report.runs[0].run.store
    other = api.run(str(examples / "needle.yaml"), store.uri, executor="inline")
    both = api.make_report([finished_report.runs[0].run.run_id, other.run], store.uri)
    both.write(str(tmp_path))
    manifest = scripts(tmp_path, "manifest")["manifest"]
    assert isinstance(manifest, dict) and manifest["dictionaries"]["run"] == [finished_report.runs[0].run.run_id, other.run]
    assert {"depth", "system"} <= {one["name"] for one in manifest["facets"]}
    sections = [one.title for reported in both.runs for one in reported.sections]
    assert any("The needle is found" in title for title in sections) and not any("Position" in title for title in sections)
    page = Page((tmp_path / "index.html").read_text())
    assert page.content["board"] is None, "runs of other queries share no leaderboard"
    shown = api.make_report(other.run, store.uri)._repr_html_()
    assert "<iframe" in shown and "srcdoc=" in shown


def test_a_figure_is_drawn_of_any_section_with_a_chart(finished_report: Report) -> None:
    assert finished_report.figure("results").get_figwidth() == pytest.approx(3.35)
    with pytest.raises(UserError, match="the report has no section 'nothing'"):
        finished_report.figure("nothing")
    with pytest.raises(UserError, match="section 'made' has no chart"):
        finished_report.figure("made")
    kinds = [
        Chart.line("x", "y", "s"),
        Chart.bar("x", "y", "s"),
        Chart.bar("x", "y"),
        Chart.scatter("y", "z", "s", front=True),
        Chart.forest("y", "x"),
        Chart.matrix("x", "s", "y", sure="z"),
    ]
    table = pl.DataFrame(
        {"x": ["a$b$", EVIL, "c"], "s": ["1", "2", "1"], "y": [0.1, -0.5, None], "z": [0.01, 0.2, 0.3], "n": [1, 2, 3]}
    )
    for chart in kinds:
        svg = figure_bytes(Section("A", table=table, units={"y": "%"}, chart=chart))
        assert b"<svg" in svg and b"<script" not in svg
    with pytest.raises(UserError, match="no figure is there"):
        draw(Section("A", table=table.clear(), chart=kinds[0]))


def test_a_wide_table_is_set_as_the_paper_sets_it() -> None:
    table = pl.DataFrame({"m": ["a_b", "a_b", "c&d"], "r": ["x", "y", "x"], "joint": [0.5, 0.25, 0.75], "n": [8, 8, 7]})
    section = Section("Wide", table=table, units={"joint": "%"}, pivot=Pivot("m", "r", ("joint",)))
    text = latex_document("T", {"wide": section})
    assert r"a\_b & 50.0 & \textbf{25.0} & 16 \\" in text and r"c\&d & \textbf{75.0} &  & 7 \\" in text
    assert r"\multicolumn{2}{c}{joint (\%)}" in text and text.count("{") == text.count("}")
    assert (
        csv_text(Section("Formulas", table=pl.DataFrame({"x": ["=1", "-a", "b"], "n": [1, -2, 3]})))
        == "x,n\n'=1,1\n'-a,-2\nb,3\n"
    )


def test_a_long_table_is_whole_in_latex_and_its_labels_are_its_own(tmp_path: Path) -> None:
    table = pl.DataFrame({"name": [f"row{place}" for place in range(95)], "n": range(95)})
    text = latex_document("T", {"r1_a": Section("Long", table=table, name="a"), "r2_a": Section("Long", table=table, name="a")})
    assert all(text.count(f"row{place} &") == 2 for place in range(95))
    labels = re.findall(r"\\label{(.*?)}", text)
    assert labels == ["tab:r1-a", "tab:r1-a-2", "tab:r1-a-3", "tab:r2-a", "tab:r2-a-2", "tab:r2-a-3"]
    more = latex_document("T", {"a": Section("Long", table=pl.DataFrame({"name": ["x"] * 401, "n": [1] * 401}))})
    assert "The first 400 of 401 rows" in more and more.count("x & 1") == 400


def test_the_figures_of_people_are_not_the_best_system() -> None:
    table = pl.DataFrame({"m": ["a", "People"], "r": ["x", "x"], "joint": [0.2, 0.9], "n": [8, None]})
    section = Section("R", table=table, units={"joint": "%"}, pivot=Pivot("m", "r", ("joint",), reference=("People",)))
    best = [[cell.is_best for cell in row] for row in paper_grids(section)[0].rows]
    assert best[0][1] and not best[1][1]


def test_a_figure_leaves_nothing_out_in_silence() -> None:
    many = pl.DataFrame(
        {"x": [f"{'same beginning ' * 4}{place}" for place in range(60)], "y": [0.5 - place / 100 for place in range(60)]}
    )
    table = many.with_columns(s=pl.col("x"), cost=pl.Series([60.0 - place for place in range(60)]), n=pl.lit(1))

    def drawn(chart: Chart) -> Any:
        return draw(Section("A", table=table, chart=chart)).axes[0]

    bars, forest = drawn(Chart.bar("x", "y")), drawn(Chart.forest("y", "x"))
    shown = "A\n40 of 60 shown; the table has all"
    assert bars.figure.get_suptitle() == forest.figure.get_suptitle() == shown, "its title is a figure's first line"
    assert len(bars.get_yticks()) == 40 and len({one.get_text() for one in bars.get_yticklabels()}) == 40
    for chart in (Chart.scatter("cost", "y", "s", front=True), Chart.line("x", "y", "s")):
        axes = drawn(chart)
        assert axes.get_legend_handles_labels()[1][-1] == "44 more"
    points = drawn(Chart.scatter("cost", "y", "s", front=True)).lines
    assert sum(len(line.get_xdata()) for line in points[:-1]) == 60 and len(points[-1].get_xdata()) == 60, "the front is whole"


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex here")
def test_pdflatex_compiles_the_report(finished_report: Report, tmp_path: Path) -> None:
    evil = report([imported(tmp_path / "store", hostile_file(1000))])
    for number, found in enumerate((finished_report, Report([*finished_report.runs, *evil.runs]))):
        out = tmp_path / str(number)
        found.write(str(out), "latex")
        made = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "report.tex"], cwd=out, capture_output=True, check=False
        )
        log = (out / "report.log").read_text(encoding="latin-1")
        assert made.returncode == 0 and "multiply defined" not in log and "Float too large" not in log, log[-2000:]
        assert "Overfull" not in log


def test_a_matrix_has_its_own_columns_where_they_are_no_rows() -> None:
    rows = {"fifth": [1, 2, 3], "shown": ["a", "a", "b"], "off": [0.5, -0.5, 0.25], "n": [1, 1, 1]}
    [axes, _] = draw(Section("t", table=pl.DataFrame(rows), chart=Chart.matrix("fifth", "shown", "off"))).axes
    assert [[label.get_text() for label in labels] for labels in (axes.get_xticklabels(), axes.get_yticklabels())] == [
        ["1", "2", "3"],
        ["a", "b"],
    ]
    assert axes.collections[0].get_array().count() == 3
