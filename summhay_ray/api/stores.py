"""Shows a store's runs, tables and files, and cleans it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

from summhay_ray import engine, plugins
from summhay_ray import store as storage
from summhay_ray.api.arguments import checked, opened_run, store_uri, stored_run
from summhay_ray.engine import Compat, ReleaseResult, RunEntry, StatusResult
from summhay_ray.errors import UserError
from summhay_ray.outcome import MICROS

ExportFormat = Literal["released", "trec-rag", "lm-eval", "every-eval-ever", "hub", "wandb", "mlflow"]
"""The formats of `export`; see `publish.EXPORTERS`."""


@checked
def runs(store: str | None = None) -> list[RunEntry]:
    """Return all runs of the store, latest first."""
    with plugins.own_code_allowed(False):
        return engine.entries(storage.Store(store_uri(store)))


@checked
def full_id(run_id: str, store: str | None = None) -> str:
    """Return the full id of the run whose id begins with `run_id`. Raise StoreError if none or several match."""
    return opened_run(run_id, store).run_id


@checked
def status(run_id: str, store: str | None = None) -> StatusResult:
    """Return the state of a run: progress, cost, failures, damage. Imports no user code."""
    with plugins.own_code_allowed(False):
        return engine.status(opened_run(run_id, store))


@checked
def stop(run_id: str, store: str | None = None, *, cancel_batches: bool = False) -> str:
    """Stop the run's driver, on any machine, and wait until its calls in flight are stored. Returns `on HOST, pid N`.

    `cancel_batches`: also cancel the run's batches; store and charge what they have answered. Then a run without a driver gives
    an empty string. Raises UserError if the run has no live driver, and no batches to cancel.
    """
    return engine.stop(opened_run(run_id, store), cancel_batches=cancel_batches)


@checked
def release(run_id: str, store: str | None = None) -> ReleaseResult:
    """Free the run's uncertain money, so that the run may spend it. Raises UserError while the run's driver is running."""
    return engine.release(opened_run(run_id, store))


@checked
def failures(run_id: str, store: str | None = None) -> list[dict[str, Any]]:
    """Return all failures of a run. Each has the model that was asked, and its location, such as the cell or haystack, if the
    benchmark knows it."""
    stored = opened_run(run_id, store)
    frame = stored.table("failures")
    with plugins.own_code_allowed(False):
        try:
            places = engine.workload_of(stored).places(stored, frame[frame.columns[0]].unique().to_list())
        except plugins.UnknownName:
            # A user-defined kind.
            places = {}
    rows = [{**row, **places.get(row[frame.columns[0]], {})} for row in frame.to_dicts()]
    # For a failed judgment, `places` has the model whose answer was judged. Report the model that was asked, the judge, instead.
    return [{**row, "model": own.get("model") or row.get("model", "")} for row, own in zip(rows, frame.to_dicts(), strict=True)]


@checked
def explain(run_id: str, key: str, store: str | None = None, compat: Compat = "default") -> dict[str, Any]:
    """Return everything that led to an item or answer. `key`: an id or key; in a synth run also NAME (haystack) or NAME/ID."""
    workload, stored = stored_run(run_id, store)
    return workload.explain(stored, key, compat)


WHOSE = ("system", "label", "retriever", "ordering", "model", "haystack_id", "subtopic_id", "repeat")
"""The columns of `summaries` that identify the system of a summary, and its input."""


@checked
def table(run_id: str, name: str, store: str | None = None) -> pl.DataFrame:
    """Return a table of a run as a polars frame, sorted by its primary key. `name`: see schemas/*.json. Raise UserError if
    unknown.

    `scores` and `judgments` also get their summary's columns WHOSE.
    """
    stored = opened_run(run_id, store)
    if name not in stored.declared:
        raise plugins.unknown("table", name, stored.declared)
    frame = stored.table(name)
    if name not in ("scores", "judgments") or "summaries" not in stored.declared or "cell_id" not in frame.columns:
        return frame
    summaries = stored.table("summaries")
    frame = frame.drop(column for column in WHOSE if column in frame.columns)
    whose = [column for column in WHOSE if column in summaries.columns]
    joined = frame.join(summaries.select("cell_id", *whose), on="cell_id", how="left", maintain_order="left")
    return joined.select(pl.col("cell_id"), *map(pl.col, whose), pl.exclude("cell_id", *whose))


@checked
def export(
    run_id: str,
    out: str | Path = "",
    store: str | None = None,
    judge: str = "",
    kind: ExportFormat = "released",
    *,
    with_texts: bool = False,
) -> list[Path | str]:
    """Write the run into the folder `out`, and return the paths of the files. `judge`: the judge whose judgments are written, by
    default the run's own.

    - released: SummHay JSON files.
    - trec-rag: the answers alone, in the format of the TREC tracks for RAG, if they cite documents. Each system gets a JSON lines
      file.
    - lm-eval: the figures as `results.json`. every-eval-ever: the figures as evaluation logs, one for each model.
    - hub: a dataset for the Hugging Face Hub, with the texts of documents if `with_texts`.
    - wandb, mlflow: log the figures in this tracker, and return the addresses instead of paths.

    Raises StoreError, UserError.
    """
    from summhay_ray.publish import EXPORTERS, Export

    if not out and kind not in ("wandb", "mlflow"):
        raise UserError(f"out: give the folder to write {kind} into")
    workload, stored = stored_run(run_id, store)
    return [*EXPORTERS[kind](Export(workload, stored.at(), Path(out), judge, with_texts))]


@checked
def export_tables(
    run_id: str, target: str | Path, store: str | None = None, kind: storage.TableFormat = "parquet"
) -> dict[str, str]:
    """Write the committed rows of each table of the run into a folder or `s3://...`; return table -> path or URI.

    A table is one file, `<table>/part-0.<kind>`, sorted by key; in CSV, lists are JSON. A file ATTRIBUTION in the same folder
    gives the texts' source and licence, if the run has them. Raises UserError.
    """
    run = opened_run(run_id, store)
    if Path(target).is_file():
        raise UserError(f"{target} is a file; give a folder, or s3://BUCKET/PREFIX")
    files = storage.open_files(str(target))
    try:
        written = storage.write_tables(run, files, kind=kind)
        if attribution := run.record.get(storage.ATTRIBUTION):
            files.put("ATTRIBUTION", f"{attribution}\n".encode())
    except OSError as error:
        # An error of the target names its folder, a path in it, or one of its parents. Any other error is the store's.
        if files.folder is None or error.filename is None:
            raise
        path, folder = Path(os.fsdecode(error.filename)).absolute(), files.folder.absolute()
        if not (path.is_relative_to(folder) or folder.is_relative_to(path)):
            raise
        why = error.strerror or type(error).__name__
        raise UserError(f"{target}: no table can be written there ({why}); give another folder, or s3://BUCKET/PREFIX") from error
    return {table: files.where(name) for table, name in written.items()}


@dataclass(frozen=True)
class CleanResult:
    """The unneeded files of a store: number and bytes, in total and by kind."""

    files: int
    bytes: int
    kinds: Mapping[str, Mapping[str, int]]
    dry_run: bool
    warnings: Sequence[str] = ()
    """A line for each damaged run, which is left alone, and for each damaged driver record."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay clean`."""
        return asdict(self)


@checked
def clean(store: str | None = None, older_s: float = storage.RETENTION_S, dry_run: bool = False) -> CleanResult:
    """Delete unneeded files of the store that are older than `older_s` seconds. Answers are kept; `delete_answers` deletes them.

    Runs do this themselves once a day. `dry_run`: only report what would be freed. Raises StoreError, for example if there is no
    store, and OSError.
    """
    opened = storage.Store(store_uri(store))
    files = opened.files
    if opened.is_new:
        raise storage.StoreError(f"there is no store at {files.uri}; another one is given by --store or $SUMMHAY_STORE")
    kinds: dict[str, dict[str, int]] = {}
    damaged: list[str] = []
    for file in storage.unneeded(files, older_s, damaged=damaged):
        if not dry_run:
            files.delete(file.name)
        kind = kinds.setdefault(file.what, {"files": 0, "bytes": 0})
        kind["files"] += 1
        kind["bytes"] += file.size
    total = {name: sum(kind[name] for kind in kinds.values()) for name in ("files", "bytes")}
    return CleanResult(**total, kinds=kinds, dry_run=dry_run, warnings=damaged)


@dataclass(frozen=True)
class DeletionResult:
    """The answers that were deleted, or would be."""

    runs: Sequence[Mapping[str, Any]]
    """For each run concerned: `run`; `answers`, the number of these answers that it paid for; `usd`, their cost, which still
    counts as spent; `items`, the number of items that are removed from its tables."""
    answers: int
    """Number of answers of all runs together."""
    usd_again: float
    """Maximum dollars that later runs must pay for asking the same questions again."""
    dry_run: bool
    warnings: Sequence[str] = ()
    """A line for each damaged run, and for each run and file that may hold copies of the texts."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay clean --answers`."""
        return asdict(self)


@checked
def delete_answers(
    store: str | None = None, run: str = "", before: str = "", matching: str = "", dry_run: bool = True
) -> DeletionResult:
    """Delete stored answers. Also remove the items that used them from the tables of all runs. `dry_run`: only report them.

    An answer is selected if `run` paid for it, if a run started before `before` (ISO 8601; UTC if it has no offset) stored it,
    and if it contains the text `matching`. At least one of the three must be given; an answer must match all given ones. The
    answers' cost still counts as spent. Later runs ask again. After any interruption, the same call continues. Raises OSError,
    and UserError, for example while a driver is running.
    """
    if not (run or before or matching):
        raise UserError("no answers are selected: give a run, a date, or a text")
    try:
        date = datetime.fromisoformat(before) if before else None
    except ValueError:
        raise UserError(f"{before!r}: expected a date such as 2026-01-31, or 2026-01-31T12:00:00+01:00") from None
    time = math.inf if date is None else (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    opened = storage.Store(store_uri(store))
    if opened.is_new:
        raise storage.StoreError(f"there is no store at {opened.uri}; another one is given by --store or $SUMMHAY_STORE")
    # The run's own folder may have been deleted.
    run_id = run if not run or opened.log().totals(run) else opened.run(run).run_id
    deletion = storage.forget(opened, storage.Selection(run_id, time, matching), engine.ITEM, dry_run)
    rows = [
        {
            "run": one,
            "answers": deletion.answers[one],
            "usd": deletion.usd_micros[one] / MICROS,
            "items": deletion.items[one],
        }
        for one in sorted(deletion.answers | deletion.items)
    ]
    n_answers = sum(deletion.answers.values())
    return DeletionResult(rows, n_answers, deletion.again_micros / MICROS, dry_run, deletion.warnings)
