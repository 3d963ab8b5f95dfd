"""Log a run's figures in experiment trackers. Each system becomes a run of the tracker, with its parameters and metrics.

The libraries are imported only here, and only when they are used. Their own environment variables and files determine the
server, the project and the account. The same system of the same run is logged once: a later export updates it.
"""

import hashlib
import importlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.errors import UserError
from summhay_ray.report import ReportedRun

PROJECT = "summhay"
"""The default project of Weights & Biases, and the default experiment of MLflow. Their environment variables can change both."""


@dataclass(frozen=True)
class _System:
    """A system's entry in a tracker."""

    identity: str
    name: str
    parameters: dict[str, str]
    metrics: dict[str, float]


def _systems(reported: ReportedRun, figures: pl.DataFrame) -> Iterator[_System]:
    run = {"run": reported.run.run_id, "kind": reported.workload.kind, "judge": reported.judge}
    for (system,), rows in figures.group_by("system", maintain_order=True):
        metrics: dict[str, float] = {}
        for row in rows.iter_rows(named=True):
            name = re.sub(r"[^\w./ -]", "_", "/".join(filter(None, (row["task"], row["figure"]))))
            known = {"": row["value"], **{f"_{end}": row[end] for end in ("low", "high", "floor", "n", "n_expected")}}
            metrics |= {f"{name}{end}": float(value) for end, value in known.items() if value is not None}
            metrics |= {"usd_per_query": row["usd"]} if row["usd"] is not None else {}
        first = rows.row(0, named=True)
        parameters = {"system": str(system), **{name: first[name] for name in ("model", "retriever", "ordering")}, **run}
        identity = hashlib.sha256(f"{reported.run.run_id}/{system}/{reported.judge}".encode()).hexdigest()[:16]
        yield _System(identity, str(system), {name: value for name, value in parameters.items() if value}, metrics)


def log_to_wandb(reported: ReportedRun, figures: pl.DataFrame) -> list[str]:
    """Log every system to Weights & Biases. Returns the addresses, or the folders of an offline run. Raises UserError."""
    wandb, logged = _library("wandb"), []
    project = os.environ.get("WANDB_PROJECT", PROJECT)
    try:
        for system in _systems(reported, figures):
            about = {"id": system.identity, "name": system.name, "group": reported.run.run_id, "config": system.parameters}
            with wandb.init(project=project, resume="allow", **about) as run:
                run.summary.update(system.metrics)
                logged.append(str(run.url or run.dir))
    except wandb.Error as error:
        raise _tracker_error("wandb", "wandb login, or WANDB_MODE=offline", error) from error
    return logged


def log_to_mlflow(reported: ReportedRun, figures: pl.DataFrame) -> list[str]:
    """Log every system to MLflow. Returns the addresses of the runs. Raises UserError."""
    mlflow, logged = _library("mlflow"), []
    try:
        experiment = mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)).experiment_id
        for system in _systems(reported, figures):
            same = f"tags.summhay_system = '{system.identity}'"
            earlier = mlflow.search_runs([experiment], same, max_results=1, output_format="list")
            began = {"run_id": earlier[0].info.run_id} if earlier else {"run_name": system.name}
            with mlflow.start_run(**began, tags={"summhay_system": system.identity}) as run:
                mlflow.log_params(system.parameters)
                mlflow.log_metrics(system.metrics)
                logged.append(f"{mlflow.get_tracking_uri()} run {run.info.run_id}")
    except mlflow.exceptions.MlflowException as error:
        raise _tracker_error("mlflow", "MLFLOW_TRACKING_URI", error) from error
    return logged


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"{name} is not installed ({error}); pip install 'summhay-ray[{name}]'") from error


def _tracker_error(name: str, mend: str, error: Exception) -> UserError:
    return UserError(f"{name}: {' '.join(str(error).split())}; see {mend}")
