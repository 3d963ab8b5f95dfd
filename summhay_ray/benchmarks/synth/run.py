"""Runs a synthesis, and writes its haystacks as released files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from summhay_ray.benchmark import RunResult, RunStore, Store, open_run, run_workload
from summhay_ray.benchmarks.summhay.haystacks.export import released_text, taken
from summhay_ray.benchmarks.summhay.haystacks.metadata import read_source
from summhay_ray.benchmarks.synth.results import export_made, unaudited
from summhay_ray.benchmarks.synth.tables import made_by
from summhay_ray.benchmarks.synth.workload import Synth
from summhay_ray.errors import UserError
from summhay_ray.run_options import RunOptions


def run_synth(workload: Synth, store: Store, options: RunOptions, out: Path | None = None) -> RunResult:
    """Make the haystacks that are not made yet.

    `out`: a folder for the finished ones as released JSON. Raises UserError if it has a different file of the same name.
    """
    if out is not None:
        store.files.check()
        _check_folder(open_run(workload, store), workload, out)
    result = run_workload(workload, store, options)
    run = store.run(result.run)
    files = export_made(run, out, again=True) if out is not None and made_by(run) else []
    written = [str(path) for path in files]
    details, scores = {**result.results.details, "files": written}, replace(result.results.scores, files=written)
    return replace(result, results=replace(result.results, details=details, scores=scores))


def _check_folder(run: RunStore, workload: Synth, out: Path) -> None:
    """Raise UserError before any call for a folder that could not be written to at the end."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; give a folder")
    made = made_by(run) if out.exists() else {}
    for topic in workload.recipe.topics if out.exists() else ():
        done = made.get(workload.recipe.cell_id(topic))
        path, source = out / f"{topic.name}.json", read_source(run.store, done.source()) if done else None
        if path.exists() and (source is None or unaudited(path) != json.loads(released_text(source.raw))):
            raise UserError(taken(path))
