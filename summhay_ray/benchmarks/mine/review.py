"""The review of a mined haystack: a sheet for a person, and what they wrote in it."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.mine.workload import Review, haystack_of, reviews_of, write_mined
from summhay_ray.benchmarks.summhay.haystacks.metadata import source_bytes
from summhay_ray.errors import UserError
from summhay_ray.inputs import read_file
from summhay_ray.mine import COLUMNS, accepted, doubts_first, read_table
from summhay_ray.text import quoted, unquoted

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}article{border-top:1px solid #888;"
    "padding:.7rem 0}pre{white-space:pre-wrap;font:inherit}small{color:#555}"
)


def write_review(run: RunStore, path: Path) -> list[str]:
    """Write the sheet (CSV in UTF-8, doubts first) and the same as an HTML page beside it. Raises UserError if it exists."""
    if path.exists():
        raise UserError(f"{path} exists and may hold a person's review; give another file")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent} is not a folder; make it first")
    rows = doubts_first(haystack_of(run, reviewed=False), run.run_id)
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    writer.writerows([quoted(row[name]) for name in COLUMNS] for row in rows)
    path.write_text(buffer.getvalue(), encoding="utf-8-sig", errors="replace", newline="")
    page = path.with_suffix(".html")
    page.write_text(_page(run.run_id, rows), encoding="utf-8")
    return [str(path), str(page)]


def _page(run: str, rows: list[dict[str, str]]) -> str:
    articles = "\n".join(
        "<article><h2>{insight}</h2><p><small>{insight_id} · rank {rank} · confidence {confidence}</small></p><p>{doubts}</p>"
        "<pre>{evidence}</pre><p><small>{documents}</small></p></article>".format(
            **{name: html.escape(value) for name, value in row.items()}
        )
        for row in rows
    )
    title = f"Review of {html.escape(run)}: {len(rows)} insights, doubts first"
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>{_STYLE}</style>'
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{title}</h1>\n{articles}\n</body></html>\n'


def accept_sheet(path: Path, run_of: Callable[[str], RunStore], out: Path | None = None) -> dict[str, Any]:
    """Take over a person's review into the run that the sheet names; nothing is asked again. `out`: write the haystack there."""
    rows = _rows(path)
    names = {row["run"] for row in rows}
    if len(names) != 1:
        raise UserError(
            f"{path}: column run names {len(names)} runs; give the sheet of one run, with its first column as written"
        )
    run = run_of(names.pop())
    raw = accepted(haystack_of(run, reviewed=False), rows, str(path))
    digest = run.store.put_object("haystack", source_bytes(raw))
    reviews = reviews_of(run)
    while True:
        number, body = reviews.newest() or (0, Review(digest=""))
        if body["digest"] == digest or reviews.append(number + 1, {"digest": digest}):
            break
    if out is not None:
        write_mined(run, out)
    insights = sum(len(subtopic["insights"]) for subtopic in raw["subtopics"])
    sizes = {
        "documents": len(raw["documents"]),
        "insights": insights,
        "subtopics": sum(not one.get("absent") for one in raw["subtopics"]),
    }
    reviewed = raw["topic_metadata"]["mine"]["reviewed"]
    return {"run": run.run_id, "path": None if out is None else str(out), **sizes, "reviewed": reviewed}


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give the sheet that --review wrote") from error
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} line {row}: is not UTF-8; save the sheet as CSV UTF-8") from error
    reader = read_table(text, COLUMNS[0])
    if lacking := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
        raise UserError(f"{path}: has no column {lacking[0]}; give the sheet that --review wrote, with its columns")
    try:
        return [{name: unquoted(row.get(name) or "") for name in COLUMNS} for row in reader]
    except csv.Error as error:
        raise UserError(f"{path} row {reader.line_num}: is no CSV ({error}); save the sheet as CSV") from error
