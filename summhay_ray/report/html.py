"""The HTML page of a report, and its data files: samples, their shared contents, and their index.

The data files are scripts that the page loads on demand, or data blocks of the page itself. They are written in one pass, with
one chunk in memory at a time. Text from documents, models, specs and names is never markup: jinja2 escapes it, data is JSON,
and the page's content security policy allows only the page's own scripts. Tables are drawn by DataTables (package itables),
charts by Observable Plot (package pyobsplot).
"""

from __future__ import annotations

import base64
import functools
import hashlib
import heapq
import importlib.metadata
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from summhay_ray.engine import Facet, Samples
from summhay_ray.errors import UserError, printable
from summhay_ray.report import face
from summhay_ray.report.sections import names, notes
from summhay_ray.sections import plain
from summhay_ray.store import Files

if TYPE_CHECKING:
    from summhay_ray.report.run_sections import ReportedRun

CHUNK_BYTES = 400_000
"""Size of a file of samples or of shared contents."""
ROWS_A_LIST = 50_000
"""Number of samples in one index file."""
LONGEST = 200_000
"""Maximum characters of a text in a report. Longer texts are cut, and their length is noted."""
TABS = {
    "leaderboard": "Leaderboard",
    "compare": "Compare two",
    "samples": "Samples",
    "failures": "Failures",
    "judge": "Judge",
    "method": "Method",
}
LIBRARIES = {"tables": ("itables", "itables/html/dt_bundle.js"), "plots": ("pyobsplot", "pyobsplot/static/static-widget.js")}
"""Name in the page's script -> the installed package, and its file, which is a JavaScript module."""
TABLE_STYLE = ("itables", "itables/html/dt_bundle.css")
SINGLE_FILE_MB = 10
"""Maximum size of the samples in a page that holds them itself."""
Put = Callable[[str, str], None]
"""A function that writes a data file, given its name and its JSON."""
_EXPORTS = re.compile(r"export\s*\{([^{}]*)\};?")


@dataclass(frozen=True, slots=True)
class PageData:
    """The samples of the page."""

    n_samples: int = 0
    facets: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Text columns that can filter samples -> their values."""
    version: str = ""
    """Identifies the state of the runs that the page shows."""
    live: bool = False
    """Whether the page is served and checks for a newer version."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    """Data file -> its JSON, for a page that holds its samples itself."""


def page(runs: Sequence[ReportedRun], data: PageData | None = None) -> str:
    """Return the HTML of the page."""
    data = data or PageData()
    files = resources.files("summhay_ray.report").joinpath("page")
    css, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    several = len(runs) > 1
    sections, tables, ids = list[dict[str, Any]](), dict[str, Any](), dict[str, str]()
    for place, reported in enumerate(runs):
        for name, section in zip(names(reported.sections), reported.sections, strict=True):
            # The first screen has the decision and the leaderboard of a single run.
            if section.name == "decision" or (section.name == "board" and not several):
                continue
            shown: dict[str, Any] = {
                "id": f"s{place if several else ''}-{name}",
                "tab": section.tab,
                "run": plain(reported.title if several else ""),
                "title": plain(section.title),
                "text": [plain(part) for part in section.text.split("\n\n") if part],
                "warnings": [plain(note) for note in section.notes],
                "notes": [plain(note) for note in notes(section)[len(section.notes) :]],
                "listing": printable(section.listing, keep="\n", instead=" "),
            }
            table = face.table_data(section, data.facets, reported.run.run_id if several else "")
            tables[shown["id"]] = {"table": table, "chart": face.chart_data(section)}
            sections.append(shown)
            ids.setdefault(name, shown["id"])
    comparison = face.shared_comparison(runs)
    content = {
        "board": None if comparison is None else face.board_data(comparison, data.facets),
        "charts": [] if comparison is None else face.front_charts(runs, comparison),
        "sections": tables,
    }
    limits = {note: None for run in runs for one in run.sections if one.name in ("decision", "overview") for note in one.notes}
    warnings = dict.fromkeys((*limits, *(() if comparison is None else comparison.warnings)))
    if comparison is not None:
        warnings = {note: None for note in warnings if note not in comparison.decision.reasons}
    scripts = [*map(_library, LIBRARIES), script]
    return face.page_template("page.html.j2").render(
        title=" + ".join(dict.fromkeys(plain(run.title) for run in runs)) or "Report",
        runs=[{"id": one.run.run_id, "kind": str(one.run.record["kind"]), "status": one.status} for one in runs],
        tabs={
            name: title
            for name, title in TABS.items()
            if name in ("leaderboard", "compare", "samples") or any(one["tab"] == name for one in sections)
        },
        banner=[plain(line) for line in face.banner(runs, comparison)],
        decision=None if comparison is None else plain(comparison.decision.text),
        judge="" if comparison is None else plain(comparison.figure_title(comparison.decision.figure)),
        warnings=[plain(note) for note in warnings],
        tiles=face.tiles(runs, comparison, ids),
        sections=sections,
        content=_json(content),
        blocks=data.blocks,
        n_samples=data.n_samples,
        version=data.version,
        live=data.live,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        package=importlib.metadata.version("summhay-ray"),
        libraries={package: importlib.metadata.version(package) for package, _ in LIBRARIES.values()},
        css=f"{_file_of(*TABLE_STYLE)}\n{css}".replace("</style", "<\\/style"),
        scripts=scripts,
        hashes=" ".join(f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts),
    )


@functools.cache
def _file_of(package: str, name: str) -> str:
    """Return a file of an installed package, after checking its content against the hash recorded at installation.

    The package is not imported. Raises UserError.
    """
    try:
        file = next(one for one in importlib.metadata.files(package) or () if str(one) == name)
    except (importlib.metadata.PackageNotFoundError, StopIteration) as error:
        raise UserError(f"the report page needs {name} of the package {package}; install it: pip install {package}") from error
    content = file.read_binary()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    if file.hash is None or digest != file.hash.value:
        mend = f"pip install --force-reinstall --no-deps {package}"
        raise UserError(
            f"{name} is not as {package} {importlib.metadata.version(package)} installed it; install it again: {mend}"
        )
    return content.decode("utf-8")


@functools.cache
def _library(name: str) -> str:
    """Return a library as an inline script. What its module exports becomes `window.NAME`, since inline scripts cannot import."""
    text = _file_of(*LIBRARIES[name])
    last = [*_EXPORTS.finditer(text)][-1]
    pairs = (one.strip().partition(" as ") for one in last[1].split(",") if one.strip())
    fields = ", ".join(f"{(public or own).strip()}: {own.strip()}" for own, _, public in pairs)
    text = f"{text[: last.start()]}window.{name} = {{{fields}}};{text[last.end() :]}"
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def write_data(put: Put, runs: Sequence[tuple[str, Samples]]) -> tuple[int, Mapping[str, Collection[str]]]:
    """Write the samples of the runs, given as (run id, samples). Returns their number, and the values of each text facet."""
    several = len(runs) > 1
    every = [*([Facet("run")] if several else []), *(facet for _, found in runs for facet in found.facets)]
    facets = list({one.name: one for one in every}.values())
    dictionaries: dict[str, dict[str, int]] = {one.name: {} for one in facets if one.kind == "text"}
    lists: list[int] = []

    def samples() -> Iterator[tuple[int, str]]:
        """Yield the index and the JSON of each sample. Writes the index files at the same time."""
        rows: list[tuple[str, list[Any]]] = []
        for place, (run_id, sample) in enumerate((run_id, sample) for run_id, one in runs for sample in one.samples):
            name = f"{run_id}/{sample.id}" if several else sample.id
            rows.append((name, [_code(facet, {"run": run_id, **sample.facets}, dictionaries) for facet in facets]))
            yield place, _json({"id": name, "parts": sample.parts})
            if len(rows) >= ROWS_A_LIST:
                end_list(rows)
        if rows:
            end_list(rows)

    def end_list(rows: list[tuple[str, list[Any]]]) -> None:
        columns = {facet.name: [codes[place] for _, codes in rows] for place, facet in enumerate(facets)}
        put(f"index-{len(lists)}", _json({"ids": [name for name, _ in rows], "columns": columns}))
        lists.append(len(rows))
        rows.clear()

    starts = _write_chunks(put, "samples", samples(), "[]")
    shelves = {}
    for shelf in sorted({shelf for _, one in runs for shelf in one.shelves}):
        found = heapq.merge(*(one.shelves.get(shelf, ()) for _, one in runs), key=itemgetter(0))
        distinct = ((key, next(same)[1]) for key, same in itertools.groupby(found, key=itemgetter(0)))
        shelves[shelf] = _write_chunks(put, shelf, ((key, f"{_json(key)}:{_json(one)}") for key, one in distinct), "{}")
    manifest = {
        "facets": [{"name": one.name, "kind": one.kind, "unit": one.unit} for one in facets],
        "dictionaries": {name: list(words) for name, words in dictionaries.items()},
        "index": lists,
        "samples": starts,
        "shelves": shelves,
        "prompts": {judge: text for _, one in runs for judge, text in one.prompts.items()},
    }
    put("manifest", _json(manifest))
    return sum(lists), dictionaries


def _code(facet: Facet, facts: Mapping[str, Any], dictionaries: Mapping[str, dict[str, int]]) -> Any:
    """Return what the index stores as a sample's value of a facet. A text is stored as its number in the facet's dictionary."""
    value = facts.get(facet.name)
    if value is None:
        return None
    if facet.kind == "text":
        words = dictionaries[facet.name]
        return words.setdefault(_bounded(str(value)), len(words))
    return int(bool(value)) if facet.kind == "flag" else _bounded(value)


def _write_chunks(put: Put, name: str, entries: Iterable[tuple[Any, str]], brackets: str) -> list[Any]:
    """Write JSON entries, given with their keys, in files of about CHUNK_BYTES. Returns the first key of each file."""
    firsts, chunk, size = list[Any](), list[str](), 0
    for key, text in entries:
        if not chunk:
            firsts.append(key)
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_BYTES:
            put(f"{name}-{len(firsts) - 1}", f"{brackets[0]}{','.join(chunk)}{brackets[1]}")
            chunk, size = [], 0
    if chunk:
        put(f"{name}-{len(firsts) - 1}", f"{brackets[0]}{','.join(chunk)}{brackets[1]}")
    return firsts


def folder_of(files: Files) -> Put:
    """Return a function that writes data as scripts in the folder `data`, which a page on a disk may load."""

    def put(name: str, text: str) -> None:
        files.put(f"data/{name}.js", f'summhay("{name}",{text});\n'.encode("ascii"))

    return put


def blocks_of(blocks: dict[str, str]) -> Put:
    """Return a function that keeps data in memory for `PageData.blocks`. It raises UserError if the data exceed
    SINGLE_FILE_MB."""

    def put(name: str, text: str) -> None:
        blocks[name] = text
        if (size := sum(map(len, blocks.values()))) > SINGLE_FILE_MB * 1_000_000:
            raise UserError(
                f"the samples take more than {size / 1e6:.0f} MB, and a single file holds {SINGLE_FILE_MB} MB; leave "
                "--single-file out, and copy the whole folder"
            )

    return put


def _json(content: Any) -> str:
    """Return JSON for use in a script: ASCII only, with `<` escaped so that it can neither start nor end a tag."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), default=str)
    if "NaN" in text or "Infinity" in text or len(text) > LONGEST:
        text = json.dumps(_bounded(content), ensure_ascii=True, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c")


def _bounded(content: Any) -> Any:
    """Cut long texts in the content to LONGEST, and replace NaN and infinities by None."""
    if isinstance(content, str):
        return content if len(content) <= LONGEST else f"{content[:LONGEST]}\n… ({len(content):,} letters in all)"
    if isinstance(content, Mapping):
        return {name: _bounded(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_bounded(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
