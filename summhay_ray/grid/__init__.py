"""Spec, cells, plan, run: the only room that knows Ray. For report and cli; importing it starts nothing and loads no Ray."""

from summhay_ray.grid.cells import Cell, Grid, Unit, load_grid
from summhay_ray.grid.doctor import Check, examine
from summhay_ray.grid.exporting import export
from summhay_ray.grid.imports import ImportResult, import_files, import_released
from summhay_ray.grid.inspect import Place, StatusResult, explain, failures, places, status
from summhay_ray.grid.jobs import Job, JobEnd, JobError, JobLost
from summhay_ray.grid.plan import PlanResult, plan_grid
from summhay_ray.grid.progress import ModelProgress, Progress
from summhay_ray.grid.run import RunResult, run_grid
from summhay_ray.grid.scoring import ScoreResult, score_run
from summhay_ray.grid.sources import in_store
from summhay_ray.grid.spec import RunSpec, SpecError, parse_spec, read_spec
from summhay_ray.grid.submit import JobOrder, submit_grid

__all__ = [
    "Cell",
    "Check",
    "Grid",
    "ImportResult",
    "Job",
    "JobEnd",
    "JobError",
    "JobLost",
    "JobOrder",
    "ModelProgress",
    "Place",
    "PlanResult",
    "Progress",
    "RunResult",
    "RunSpec",
    "ScoreResult",
    "SpecError",
    "StatusResult",
    "Unit",
    "examine",
    "explain",
    "export",
    "failures",
    "import_files",
    "import_released",
    "in_store",
    "load_grid",
    "parse_spec",
    "places",
    "plan_grid",
    "read_spec",
    "run_grid",
    "score_run",
    "status",
    "submit_grid",
]
