"""`summhay report`: an HTML page with samples, or the same tables in other formats."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from summhay_ray import engine
from summhay_ray.engine import Compat, Over, ReadOptions, Section
from summhay_ray.errors import UserError
from summhay_ray.report.face import card_svg, chart_data
from summhay_ray.report.figures import FigureFormat, figure_bytes
from summhay_ray.report.formats import csv_text, latex_document, results_json
from summhay_ray.report.html import PageData, blocks_of, folder_of, page, write_data
from summhay_ray.report.run_sections import ReportedRun, reported_run
from summhay_ray.report.sections import markdown, names
from summhay_ray.store import Files, RunStore, open_files

ReportFormat = Literal["html", "md", "latex", "csv", "json", "card"]


@dataclass(frozen=True)
class Report:
    """A report on one or more runs. Notebooks display it; `write` saves it."""

    runs: Sequence[ReportedRun]

    @property
    def sections(self) -> list[Section]:
        """All sections, run by run."""
        return [section for reported in self.runs for section in reported.sections]

    def section(self, name: str) -> Section:
        """Return the first section with this name. Raises UserError, which lists the sections, if there is none."""
        section = next((section for section in self.sections if section.slug == name), None)
        if section is None:
            raise UserError(f"the report has no section {name!r}; it has: {', '.join(section.slug for section in self.sections)}")
        return section

    def figure(self, name: str) -> Any:
        """Return the chart of a section as a matplotlib figure, one column of a paper wide. Raises UserError if the section
        has none."""
        from summhay_ray.report.figures import draw

        return draw(self.section(name))

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame that cannot access the surrounding notebook."""
        from html import escape

        look, text = "width:100%;height:640px;border:1px solid #ccc", page(self.runs)
        return f'<iframe title="summhay report" style="{look}" sandbox="allow-scripts" srcdoc="{escape(text)}"></iframe>'

    def write(
        self, out: str, kind: ReportFormat = "html", figures: Sequence[FigureFormat] = (), single_file: bool = False
    ) -> list[str]:
        """Write the report into a folder or `s3://...`. Returns the names of the files to open. `single_file`: the page holds
        its samples itself, if they take at most SINGLE_FILE_MB.

        Raises OSError, StoreError, UserError.
        """
        with engine.reading_tables(*(reported.run for reported in self.runs)):
            files, made = open_files(out), dict[str, bytes]()
            several = len(self.runs) > 1
            begins = [f"{reported.run.run_id}_" if several else "" for reported in self.runs]
            named = [
                (f"{begin}{name}", section)
                for begin, reported in zip(begins, self.runs, strict=True)
                for name, section in zip(names(reported.sections), reported.sections, strict=True)
            ]
            for name, section in named if figures else ():
                if chart_data(section) is not None:
                    made |= {f"figures/{name}.{ending}": figure_bytes(section, ending) for ending in figures}
            if kind == "html":
                self.write_page(files, single_file=single_file)
            elif kind == "card":
                made["card.svg"] = card_svg(" + ".join(dict.fromkeys(one.title for one in self.runs)), self.runs).encode()
            elif kind == "md":
                heads = [f"{reported.title} ({reported.run.run_id}, {reported.status})" for reported in self.runs]
                text = "\n".join(markdown(one.sections, head) for head, one in zip(heads, self.runs, strict=True))
                made["report.md"] = text.encode()
            elif kind == "latex":
                title = " + ".join(dict.fromkeys(reported.title for reported in self.runs))
                made["report.tex"] = latex_document(title, dict(named)).encode()
            elif kind == "csv":
                made |= {f"{name}.csv": csv_text(section).encode() for name, section in named if section.table is not None}
            else:
                results = [results_json(reported) for reported in self.runs]
                whole = results if len(results) > 1 else results[0]
                made["results.json"] = json.dumps(whole, indent=1, allow_nan=False).encode()
            for name, content in made.items():
                files.put(name, content)
            in_order = sorted(made, key=lambda name: name.startswith("figures/"))
            return ["index.html", *in_order] if kind == "html" else in_order

    def write_page(self, files: Files, live: bool = False, single_file: bool = False) -> None:
        """Write the page and its data. `live`: the page is served, and checks for a newer version of itself. `single_file`:
        the page holds its data itself."""
        blocks = dict[str, str]()
        put = blocks_of(blocks) if single_file else folder_of(files)
        found = [(reported.run.run_id, reported.workload.samples(reported.run, reported.options.judge)) for reported in self.runs]
        n, facets = write_data(put, found)
        version = state_of([reported.run for reported in self.runs])
        text = page(self.runs, PageData(n, facets, version, live, blocks))
        # The page is written last, so that its data files exist when it is opened.
        files.put("index.html", text.encode("utf-8"))
        put("version", json.dumps(version))


def state_of(runs: Sequence[RunStore]) -> str:
    """Return a short text that changes whenever one of the runs does."""
    versions = [(run.run_id, run.version()) for run in runs]
    return hashlib.sha256(json.dumps(versions).encode()).hexdigest()[:16]


def report(
    runs: Sequence[RunStore],
    compat: Compat = "default",
    judge: str = "",
    labels: str = "",
    over: Over | None = None,
) -> Report:
    """Return a report on the current state of the runs; later commits do not change it. `judge`, `labels`, `over`: see
    `ReadOptions`.

    Raises UserError, StoreError.
    """
    options = ReadOptions(compat, judge, labels, over)
    return Report([reported_run(engine.workload_of(still), still, options) for still in (run.at() for run in runs)])
