"""Write a stored run as JSON files in the released format, one haystack at a time."""

import contextlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME, read_source
from summhay_ray.benchmarks.summhay.results.judges import all_rows, judge_of_record
from summhay_ray.errors import UserError
from summhay_ray.haystack import RELEASED_JUDGE, ReleasedFile, export_run


def export(run: RunStore, folder: Path, judge: str = "") -> list[Path]:
    """Write the run as released JSON files, one per haystack. An import is written unchanged, any other run with its summaries.

    `judge`: whose judgments to write, from the run or a rejudge; by default, the judge of record. An import keeps its summaries
    and retriever scores whichever judge is chosen. Raises UserError instead of overwriting a file. If any haystack cannot be
    written, none is.
    """
    judge = judge_of_record(run, judge)
    imported, entries = "spec" not in run.record, run.record["haystacks"]
    sources = (read_source(run.store, entry) for entry in entries)
    if imported and judge == RELEASED_JUDGE:
        return write_files(folder, zip(file_names(entries), (source.raw for source in sources), strict=True))
    all_summaries, all_rankings = map(run.table, ("summaries", "rankings"))
    by_judge = all_rows(run, "judgments").filter(pl.col("judge") == judge)

    def exported(source: ReleasedFile) -> dict[str, Any]:
        mine = pl.col("haystack_id") == source.haystack.haystack_id
        summaries = all_summaries.filter(mine)
        judgments = by_judge.join(summaries.select("cell_id"), on="cell_id", how="semi", maintain_order="left")
        rankings = BY_NAME["rankings"].records(all_rankings.filter(mine))
        try:
            written = BY_NAME["summaries"].records(summaries), BY_NAME["judgments"].records(judgments)
            whole = export_run(source.raw, *written, rankings, judge)
        except ValueError as error:
            message = f"{source.haystack.name}: {error}; such a run cannot be written in the released format"
            raise UserError(message) from error
        if not imported:
            return whole
        # An import is written unchanged, except for its judgments.
        pairs = zip(source.raw["subtopics"], whole["subtopics"], strict=True)
        subtopics = [{**ours, "eval_summaries": theirs["eval_summaries"]} for ours, theirs in pairs]
        return {**source.raw, "subtopics": subtopics}

    return write_files(folder, zip(file_names(entries), map(exported, sources), strict=True))


def write_files(
    folder: Path, contents: Iterable[tuple[str, Any]], again: Callable[[Path, Path], bool] | None = None
) -> list[Path]:
    """Write (name, content) pairs as JSON files into a folder, all or none. Raises UserError instead of overwriting a file.

    `again`: (existing file, new file) -> whether the existing file may be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder")
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}); give another folder") from error
    try:
        names = []
        for name, content in contents:
            if (folder / name).exists() and again is None:
                raise UserError(exists_message(folder / name))
            (part / name).write_text(released_text(content), encoding="ascii")
            if again is not None and (folder / name).exists() and not again(folder / name, part / name):
                raise UserError(exists_message(folder / name))
            names.append(name)
        return [(part / name).replace(folder / name) for name in names]
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def exists_message(path: Path) -> str:
    """Return the message for a file that already exists."""
    return f"{path} exists; give an empty folder"


def released_text(content: Any) -> str:
    """Return the text of a released file."""
    return json.dumps(content, ensure_ascii=True, indent=2)


def file_names(entries: Sequence[Mapping[str, str]]) -> list[str]:
    """Return file names of the haystacks: NAME.json, with the haystack_id added if two share a name."""
    shared = Counter(entry["name"] for entry in entries)
    names = [
        f"{entry['name']}.json" if shared[entry["name"]] == 1 else f"{entry['name']}-{entry['haystack_id']}.json"
        for entry in entries
    ]
    # A record may come from somebody else. Nothing is written outside the folder.
    return ["".join(char if char.isprintable() and char != "/" else "_" for char in name) for name in names]
