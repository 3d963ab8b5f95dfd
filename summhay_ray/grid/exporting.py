"""Runs out of a store as released files, one haystack at a time. Part of the grid room; no Ray."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.grid.rejudged import all_judgments, check_judged, judges_of
from summhay_ray.grid.sources import read_source
from summhay_ray.grid.synth_audit import person_audits
from summhay_ray.grid.synth_cell import BY_PERSON, SYNTHESIS, synthesis_of
from summhay_ray.grid.synthesizing import KIND as SYNTH
from summhay_ray.grid.synthesizing import sources_of
from summhay_ray.haystack import RELEASED_JUDGE, ReleasedFile, export_run, without_labels
from summhay_ray.problems import Problem
from summhay_ray.store import RunStore, to_records


def export(run: RunStore, folder: Path, judge: str = "", again: bool = False) -> list[Path]:
    """The run as released JSON files, one a haystack: an import and a synthesis as they came, a grid's run with its summaries.

    `judge`: whose judgments, of the run's judges or a rejudge's; the first of them where empty. An import holds its own
    summaries and retriever scores whoever judged. Raises Problem rather than overwrite a file, `again`: but one that holds the
    same; then, and where one haystack cannot be written, nothing is. Raises StoreError for a rejudge's own id.
    """
    record = run.record
    made = record["kind"] == SYNTH
    if not made:
        check_judged(run)
    entries = sources_of(run)
    names = _file_names(entries)
    judges = [] if made else [one.judge for one in judges_of(run)]
    if judge and judge not in judges:
        raise Problem(f"judge {judge!r} did not judge this run; known: {', '.join(judges) or 'none'}")
    imported = record["kind"] == "import"
    if folder.exists() and not folder.is_dir():
        raise Problem(f"{folder} is a file; give a folder")
    there = [name for name in names if (folder / name).exists()]
    if there and not again:
        raise Problem(_taken(folder / there[0]))
    as_it_came = made or (imported and judge in ("", RELEASED_JUDGE))
    rows = None if as_it_came else _Rows(run, judge or judges[0], imported)
    audits = person_audits(run)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    try:
        for entry, name in zip(entries, names, strict=True):
            source = read_source(run.store, entry)
            content = rows.exported(source) if rows else audited(source, audits.get(entry["name"]))
            (part / name).write_text(_released(content), encoding="ascii")
        for name in there:
            if _unaudited(folder / name) != _unaudited(part / name):
                raise Problem(_taken(folder / name))
        return [(part / name).replace(folder / name) for name in names]
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def check_target(path: Path, source: ReleasedFile | None) -> None:
    """Raises Problem where the path holds anything but what `export` would write of the haystack (None: none is known yet).

    What a person said of it may be another.
    """
    if path.exists() and (source is None or _unaudited(path) != json.loads(_released(source.raw))):
        raise Problem(_taken(path))


def _unaudited(path: Path) -> Any:
    """The JSON of a file without what a person's labels say; None where it is none that could be a haystack."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return None
    return without_labels(content) if isinstance(content, dict) else None


def audited(source: ReleasedFile, audit: Mapping[str, Any] | None) -> dict[str, Any]:
    """A synthesized haystack's JSON, with what a person's labels say of it, where they were read."""
    raw, told = source.raw, synthesis_of(source)
    if audit is None or not told:
        return raw
    metadata = raw["topic_metadata"]
    return {**raw, "topic_metadata": {**metadata, SYNTHESIS: {**told, "audit": {**told.get("audit", {}), BY_PERSON: audit}}}}


def _taken(path: Path) -> str:
    return f"{path} exists; give an empty folder"


def _released(content: Any) -> str:
    return json.dumps(content, ensure_ascii=True, indent=2)


def _file_names(entries: Sequence[dict[str, str]]) -> list[str]:
    shared = Counter(entry["name"] for entry in entries)
    return [
        f"{entry['name']}.json" if shared[entry["name"]] == 1 else f"{entry['name']}-{entry['haystack_id']}.json"
        for entry in entries
    ]


class _Rows:
    """What a run holds of each haystack."""

    def __init__(self, run: RunStore, judge: str, imported: bool) -> None:
        self._summaries, self._rankings = map(run.table, ("summaries", "rankings"))
        self._judgments = all_judgments(run).filter(pl.col("judge") == judge)
        self._judge, self._imported = judge, imported

    def exported(self, source: ReleasedFile) -> dict[str, Any]:
        mine = pl.col("haystack_id") == source.haystack.haystack_id
        summaries = self._summaries.filter(mine)
        judgments = self._judgments.join(summaries.select("cell_id"), on="cell_id", how="semi", maintain_order="left")
        rankings = to_records("rankings", self._rankings.filter(mine))
        try:
            written = to_records("summaries", summaries), to_records("judgments", judgments)
            exported = export_run(source.raw, *written, rankings, self._judge)
        except ValueError as error:
            message = f"{source.haystack.name}: {error}; such a run cannot be written in the released format"
            raise Problem(message) from error
        return _judged_again(source.raw, exported) if self._imported else exported


def _judged_again(raw: Mapping[str, Any], exported: Mapping[str, Any]) -> dict[str, Any]:
    """The file as it came, with the judgments of `exported`."""
    pairs = zip(raw["subtopics"], exported["subtopics"], strict=True)
    return {**raw, "subtopics": [{**ours, "eval_summaries": theirs["eval_summaries"]} for ours, theirs in pairs]}
