"""The table of exports. Each format is one function, from a run to the files or pages that it wrote."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from summhay_ray import benchmarks
from summhay_ray.engine import ReadOptions, Workload, reading_tables
from summhay_ray.errors import UserError
from summhay_ray.inputs import write_new
from summhay_ray.publish.every_eval_ever import evaluation_logs
from summhay_ray.publish.figures import figures_of
from summhay_ray.publish.hub import write_dataset
from summhay_ray.publish.trackers import log_to_mlflow, log_to_wandb
from summhay_ray.report import ReportedRun, reported_run, results_json
from summhay_ray.store import RunStore


@dataclass(frozen=True)
class Export:
    """An export: the run, the target and the options."""

    workload: Workload[Any]
    run: RunStore
    folder: Path
    """The folder for the files. Trackers do not use it."""
    judge: str = ""
    """The judge whose judgments to export; empty for the run's own."""
    with_texts: bool = False
    """Whether to export the texts of documents, too."""

    @functools.cached_property
    def reported_run(self) -> ReportedRun:
        """The run with the sections of its report."""
        with reading_tables(self.run):
            return reported_run(self.workload, self.run, ReadOptions(judge=self.judge))

    @functools.cached_property
    def figures(self) -> pl.DataFrame:
        """The figures of the run's systems (`figures_of`). Raises UserError if it has none."""
        figures = figures_of(self.reported_run)
        if figures.is_empty():
            mend = f"export its tables: summhay export {self.run.run_id} --tables FOLDER"
            raise UserError(f"{self.run.run_id}, a run of {self.workload.kind}, has no figures of models; {mend}")
        return figures


def _lm_eval(export: Export) -> list[Path]:
    content = json.dumps(results_json(export.reported_run), indent=1, allow_nan=False)
    return write_new(export.folder, {"results.json": content})


EXPORTERS: Mapping[str, Callable[[Export], Sequence[Path | str]]] = {
    "released": lambda export: export.workload.export(export.run, export.folder, export.judge),
    "trec-rag": lambda export: benchmarks.support.export_rag_answers(export.run, export.folder),
    "lm-eval": _lm_eval,
    "every-eval-ever": lambda export: write_new(export.folder, evaluation_logs(export.reported_run, export.figures)),
    "hub": lambda export: write_dataset(export.reported_run, figures_of(export.reported_run), export.folder, export.with_texts),
    "wandb": lambda export: log_to_wandb(export.reported_run, export.figures),
    "mlflow": lambda export: log_to_mlflow(export.reported_run, export.figures),
}
"""Format -> the function that exports a run in this format, and returns the paths or addresses of its output. All raise
UserError."""
