"""The review of a mined haystack: a sheet and a page for a person, and the haystack with that person's decisions."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.mine.check import PAIRS, read_pairs, with_answers
from summhay_ray.benchmarks.mine.files import check_files, read_mined, write_haystack
from summhay_ray.benchmarks.mine.workload import haystack_of, latest_digest
from summhay_ray.benchmarks.summhay.haystacks.metadata import source_bytes
from summhay_ray.benchmarks.summhay.haystacks.reviews import keep_review, reviews_of
from summhay_ray.errors import UserError
from summhay_ray.haystack import FREE_JUDGE, facts_of, health
from summhay_ray.mine import (
    CHECK,
    COLUMNS,
    REVIEW,
    Decision,
    Row,
    check_columns,
    decided,
    decisions_of,
    read_cells,
    review_rows,
    reviewed,
    write_cells,
)

_PAGE, _ROWS = "review.html", "ROWS"
_STATE = 12
"""Number of hex digits in a sheet that identify a state of the review."""


def write_review(run: RunStore, path: Path) -> list[str]:
    """Write the sheet of a run, and a page on which the same rows can be edited in a browser."""
    raw = haystack_of(run, reviewed=False)
    rows = review_rows(raw, decisions_of(haystack_of(run)), f"{run.run_id}@{latest_digest(run)[:_STATE]}")
    write_cells(path, COLUMNS, rows, {place for place, row in enumerate(rows) if row["doubts"]})
    page = path.with_suffix(".html")
    data = json.dumps({"name": f"{path.stem}.csv", "columns": COLUMNS, "rows": rows}, ensure_ascii=True).replace("<", "\\u003c")
    text = resources.files(__package__).joinpath(_PAGE).read_text(encoding="utf-8")
    page.write_text(text.replace(_ROWS, data, 1), encoding="utf-8")
    return [str(path), str(page)]


# --- states --------------------------------------------------------------------------------------------------------------


def _shown(run: RunStore, named: str, file: str) -> list[Decision]:
    """Return the decisions in the state of the review from which a sheet was written."""
    chain = reviews_of(run)
    digests = [latest_digest(run, reviewed=False), *(body["digest"] for n in chain.numbers() if (body := chain.read(n)))]
    for digest in digests:
        if digest[:_STATE] == named:
            return decisions_of(json.loads(run.store.get_object("haystack", digest)))
    raise UserError(f"{file} row 2, column run: {run.run_id}@{named} is not a state of this run; put back what --review wrote")


# --- a person's decisions ------------------------------------------------------------------------------------------------


def accept_sheet(path: Path, run_of: Callable[[str], RunStore], out: Path | None = None, replace: bool = False) -> dict[str, Any]:
    """Accept a sheet that a person has filled in: a review, or confirmed pairs. Makes no call.

    `out`: write the haystack there. `replace`: write even if later decisions are lost. Raises UserError with row and column if
    any cell of the sheet is invalid, and then changes nothing.
    """
    if out is not None:
        check_files(out, None, replace=True)
    held = read_mined(out) if out is not None and out.exists() else None
    columns, rows = read_cells(path)
    if PAIRS[-1] in columns:
        return _accept_pairs(path, columns, rows, out, held, run_of)
    check_columns(str(path), COLUMNS, columns, rows)
    run, named = _run_named(path, rows, run_of)
    own = run.run_id
    if held and not replace and held["topic_metadata"]["mine"]["run"] != own:
        other = held["topic_metadata"]["mine"]["run"]
        raise UserError(f"{out} is of the run {other}, and {path} of {own}; write a new sheet with --review, or give --replace")
    raw, now = haystack_of(run, reviewed=False), haystack_of(run)
    number, _ = reviews_of(run).newest() or (0, None)
    shown = _shown(run, named, str(path))
    decisions = decided(rows, raw, shown, f"{own}@{named}", str(path))
    made = reviewed(raw, decisions)
    for other in (now, *([held] if held else [])) if not replace else ():
        _check_kept(rows, raw, shown, decisions, decisions_of(other))
    checked = [one[CHECK] for source in (now, held or now) if (one := source["topic_metadata"]["mine"]).get(CHECK)]
    if checked:
        made["topic_metadata"]["mine"][CHECK] = max(checked, key=lambda one: len(one["pairs"]))
    if source_bytes(made) != source_bytes(now):
        keep_review(run, made, number)
    if out is not None:
        write_haystack(made, out)
    insights = sum(len(subtopic["insights"]) for subtopic in made["subtopics"])
    sizes = {
        "documents": len(made["documents"]),
        "insights": insights,
        "subtopics": sum(not one.get("absent") for one in made["subtopics"]),
    }
    counts = {name: value for name, value in made["topic_metadata"]["mine"].get(REVIEW, {}).items() if name != "decisions"}
    counts = counts or {"seen": 0, "of": insights, "struck": 0}
    return {"run": own, "path": None if out is None else str(out), **sizes, "reviewed": counts}


def _run_named(path: Path, rows: Sequence[Row], run_of: Callable[[str], RunStore]) -> tuple[RunStore, str]:
    """Return the run in the column `run`, and the state of its review that the sheet shows."""
    if not rows:
        raise UserError(f"{path}: has no rows; give the sheet that --review or --check wrote")
    named = next((text for row in rows if (text := row.text("run"))), "")
    run_id, _, state = named.partition("@")
    if not run_id or not state:
        raise rows[0].wrong("run", f"{named!r} names no run; put back what --review wrote")
    return run_of(run_id), state


def _check_kept(
    rows: Sequence[Row], raw: Mapping[str, Any], shown: Sequence[Decision], made: Sequence[Decision], now: Sequence[Decision]
) -> None:
    """Raise UserError if decisions were made after the sheet was written and the sheet lacks them."""
    before, after, later = ({row["insight_id"]: row for row in review_rows(raw, one, "")} for one in (shown, made, now))
    places = {row.text("insight_id"): row for row in rows}
    for insight_id, row in later.items():
        for column, text in row.items():
            known, new = before.get(insight_id, {}).get(column, ""), after.get(insight_id, {}).get(column, "")
            if text != known and new == known:
                what = f"a later review has {text[:60]!r} for {row['insight'][:40]!r}; write a new sheet, or give --replace"
                raise places.get(insight_id, rows[0]).wrong(column, what)


def _accept_pairs(
    path: Path,
    columns: Sequence[str],
    rows: Sequence[Row],
    out: Path | None,
    held: dict[str, Any] | None,
    run_of: Callable[[str], RunStore],
) -> dict[str, Any]:
    """Accept the pairs that a person confirmed on a sheet, for the haystack in `out`."""
    if out is None or held is None:
        raise UserError(f"{path} holds confirmed pairs; give the file of their haystack: --out HAYSTACK.json")
    return keep_answers(held, read_pairs(columns, rows, held, str(path)), out, run_of)


def keep_answers(
    raw: dict[str, Any], answers: Mapping[tuple[str, str], bool], out: Path, run_of: Callable[[str], RunStore]
) -> dict[str, Any]:
    """Store a person's answers with the haystack: in its file and, if the store has its run, in that run."""
    made = with_answers(raw, answers)
    run_id = made["topic_metadata"]["mine"]["run"]
    try:
        run: RunStore | None = run_of(run_id)
    except UserError:
        # If the haystack comes from another store, only its file gets the answers.
        run = None
    if run is not None:
        now, (number, _) = haystack_of(run), reviews_of(run).newest() or (0, None)
        if decisions_of(now) == decisions_of(made):
            now["topic_metadata"]["mine"][CHECK] = made["topic_metadata"]["mine"][CHECK]
            keep_review(run, now, number)
    write_haystack(made, out)
    check = {name: value for name, value in made["topic_metadata"]["mine"][CHECK].items() if name != "pairs"}
    effect = health([(out.stem, facts_of(made))], len(made["subtopics"]), judge=FREE_JUDGE).lines()
    return {"run": run_id, "path": str(out), **check, "effect": effect}
