"""The HTML page of a report: the page has tables and figures, and files in its folder have the samples.

Text from documents, models, specs and names is never markup: jinja2 escapes it, and the page's content security policy allows
only the page's own script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from summhay_ray.engine import Section
from summhay_ray.errors import printable
from summhay_ray.report.cells import Links, grids_of
from summhay_ray.report.figures import drawable, page_svg
from summhay_ray.report.sections import names, notes, plain

if TYPE_CHECKING:
    from markupsafe import Markup

_PARTS_OF_NAMES = re.compile(r"(?<=[_/,])(?=\S)")


@dataclass(frozen=True)
class PageRun:
    """A run as shown on a page."""

    id: str
    kind: str
    title: str
    status: str
    sections: Sequence[Section]


@dataclass(frozen=True, slots=True)
class PageData:
    """The data files in the page's folder."""

    n_samples: int = 0
    facets: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Text columns that can filter samples -> their values."""
    version: str = ""
    """Identifies the shown state of the runs."""
    live: bool = False
    """Whether the page is served, and checks for a newer version."""


def page(runs: Sequence[PageRun], data: PageData | None = None) -> str:
    """The HTML of the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    data = data or PageData()
    files = resources.files("summhay_ray.report").joinpath("page")
    css, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = Environment(
        loader=PackageLoader("summhay_ray.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        title=" + ".join(dict.fromkeys(plain(run.title) for run in runs)) or "Report",
        runs=[_run(run, place if len(runs) > 1 else None, data) for place, run in enumerate(runs)],
        n_samples=data.n_samples,
        version=data.version,
        live=data.live,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        package=version("summhay-ray"),
        css=css,
        script=script,
        script_hash=f"sha256-{digest}",
    )


def breakable(text: str) -> Markup:
    """A name that may break after `_`, `/` and `,`, escaped."""
    from markupsafe import Markup

    return Markup("<wbr>").join(_PARTS_OF_NAMES.split(text))


def _run(run: PageRun, place: int | None, data: PageData) -> dict[str, Any]:
    begin, links = ("s", Links(data.facets)) if place is None else (f"s{place}", Links(data.facets, run.id))
    return {
        "id": run.id,
        "kind": run.kind,
        "title": plain(run.title),
        "status": run.status,
        "status_class": run.status
        if run.status in ("done", "imported")
        else "bad"
        if run.status in ("partial", "damaged")
        else "",
        "sections": [
            _section(section, f"{begin}-{name}", links) for name, section in zip(names(run.sections), run.sections, strict=True)
        ],
    }


def _section(section: Section, name: str, links: Links) -> dict[str, Any]:
    return {
        "id": name,
        "title": plain(section.title),
        "text": [plain(part) for part in section.text.split("\n\n") if part],
        "warnings": [plain(note) for note in section.notes],
        "notes": [plain(note) for note in notes(section)[len(section.notes) :]],
        "svg": page_svg(section, name) if drawable(section) else "",
        "tables": grids_of(section, links),
        "listing": printable(section.listing, keep="\n", instead=" "),
    }
