"""Released files into a store, and runs out of it as released files. Part of the grid room; no Ray."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summhay_ray.grid.cells import read_source, source_bytes
from summhay_ray.haystack import RELEASED_JUDGE, InvalidHaystack, ReleasedFile, export_run, imported_rows, read_released
from summhay_ray.problems import Problem
from summhay_ray.records import Failure, Judgment, Score
from summhay_ray.score import score_summary
from summhay_ray.store import RunStore, Store, to_records


@dataclass(frozen=True)
class ImportResult:
    """What an import kept."""

    run: str
    haystacks: int
    documents: int
    queries: int
    summaries: int
    judgments: int
    failures: int
    """Judgments without their summary, or that cannot be used: kept, and listed as failures."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The JSON document of `summhay import`."""
        return {
            name: getattr(self, name)
            for name in ("run", "haystacks", "documents", "queries", "summaries", "judgments", "failures")
        }


def import_released(paths: Sequence[str], store: Store) -> ImportResult:
    """Keep released files as one run. Every file is checked before anything is written. Raises InvalidHaystack."""
    sources = [_read(path) for path in paths]
    ids = [source.haystack.haystack_id for source in sources]
    for index, haystack_id in enumerate(ids):
        if haystack_id in ids[:index]:
            raise InvalidHaystack(f"{paths[index]}: has the same content as {paths[ids.index(haystack_id)]}; leave one out")
    run_id = "i" + hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:12]
    haystacks = [
        {"haystack_id": s.haystack.haystack_id, "name": s.haystack.name, "object": store.put_object("haystack", source_bytes(s))}
        for s in sources
    ]
    run = store.create_run(run_id, {"kind": "import", "haystacks": haystacks})
    counted = {"summaries": 0, "judgments": 0, "failures": 0}
    rows: dict[str, list[Any]] = {}
    for source in sources:
        for table, records in {**haystack_rows(source), **_imported(source)}.items():
            rows.setdefault(table, []).extend(records)
    # One commit for all files: an import that is killed is no import.
    run.commit("haystack", 1, rows, {source.haystack.haystack_id: False for source in sources})
    for table in counted:
        counted[table] = len(rows[table])
    return ImportResult(
        run=run_id,
        haystacks=len(sources),
        documents=sum(len(source.haystack.documents) for source in sources),
        queries=sum(len(source.haystack.subtopics) for source in sources),
        warnings=tuple(warning for source in sources for warning in source.warnings),
        **counted,
    )


def _read(path: str) -> ReleasedFile:
    try:
        return read_released(Path(path).read_bytes(), path)
    except OSError as error:
        raise InvalidHaystack(f"{path}: cannot be read ({error.strerror}); expected a released JSON file") from error


def haystack_rows(source: ReleasedFile) -> dict[str, list[Any]]:
    """A haystack's own tables."""
    haystack = source.haystack
    return {
        "haystacks": [haystack],
        "subtopics": list(haystack.subtopics),
        "insights": list(haystack.insights),
        "documents": list(haystack.documents),
    }


def _imported(source: ReleasedFile) -> dict[str, list[Any]]:
    rows = imported_rows(source)
    gold = source.haystack.gold()
    judged: dict[str, list[Judgment]] = {}
    for judgment in rows.judgments:
        judged.setdefault(judgment.cell_id, []).append(judgment)
    scored = [row for one in rows.summaries for row in score_summary(judged.get(one.cell_id, []), one.bullets, gold)]
    return {
        "summaries": list(rows.summaries),
        "judgments": list(rows.judgments),
        "scores": [row for row in scored if isinstance(row, Score)],
        "failures": [*rows.failures, *(row for row in scored if isinstance(row, Failure))],
    }


def export(run: RunStore, folder: Path, judge: str = "") -> list[Path]:
    """The run as released JSON files, one a haystack: an import as it came, a grid's run with its own summaries.

    `judge`: whose judgments; the first of the spec where empty. Raises Problem rather than overwrite a file.
    """
    record = run.record
    sources = [read_source(run.store, entry) for entry in record["haystacks"]]
    names = _file_names(sources)
    _check_judge(record, judge)
    if folder.exists() and not folder.is_dir():
        raise Problem(f"{folder} is a file; give a folder")
    for name in names:
        if (folder / name).exists():
            raise Problem(f"{folder / name} exists; give an empty folder")
    imported = record["kind"] == "import"
    contents = [source.raw if imported else _exported(run, source, judge or _judges(record)[0]) for source in sources]
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for content, name in zip(contents, names, strict=True):
        path = folder / name
        path.write_text(json.dumps(content, ensure_ascii=True, indent=2), encoding="ascii")
        written.append(path)
    return written


def _file_names(sources: Sequence[ReleasedFile]) -> list[str]:
    plain = [source.haystack.name for source in sources]
    return [
        f"{source.haystack.name}.json"
        if plain.count(source.haystack.name) == 1
        else f"{source.haystack.name}-{source.haystack.haystack_id}.json"
        for source in sources
    ]


def _judges(record: dict[str, Any]) -> list[str]:
    if record["kind"] == "import":
        return [RELEASED_JUDGE]
    return [str(judge["name"] or judge["model"]) for judge in record["spec"]["judges"]]


def _check_judge(record: dict[str, Any], judge: str) -> None:
    judges = _judges(record)
    if judge and judge not in judges:
        raise Problem(f"judge {judge!r} did not judge this run; known: {', '.join(judges)}")


def _exported(run: RunStore, source: ReleasedFile, judge: str) -> dict[str, Any]:
    haystack_id = source.haystack.haystack_id
    tables = {name: to_records(name, run.table(name)) for name in ("summaries", "judgments", "rankings")}
    summaries = [summary for summary in tables["summaries"] if summary.haystack_id == haystack_id]
    cells = {summary.cell_id for summary in summaries}
    judgments = [judgment for judgment in tables["judgments"] if judgment.cell_id in cells]
    rankings = [ranking for ranking in tables["rankings"] if ranking.haystack_id == haystack_id]
    try:
        return export_run(source.raw, summaries, judgments, rankings, judge)
    except ValueError as error:
        raise Problem(f"{source.haystack.name}: {error}; such a run cannot be written in the released format") from error
