"""Spec, cells, plan, run: the only room that knows Ray. For report and cli; importing it starts nothing and loads no Ray."""

from summhay_ray.grid.asked import Choice
from summhay_ray.grid.bench import BenchOptions, BenchResult, BenchRow, bench_judges
from summhay_ray.grid.cells import Cell, Grid, Unit, load_grid
from summhay_ray.grid.compare import CompareResult, Difference, SystemMove, compare_judges
from summhay_ray.grid.doctor import Check, examine
from summhay_ray.grid.exporting import export
from summhay_ray.grid.imports import ImportResult, import_files, import_released
from summhay_ray.grid.inspect import Place, StatusResult, explain, failures, places, status
from summhay_ray.grid.jobs import Job, JobEnd, JobError, JobLost
from summhay_ray.grid.plan import PlanResult, plan_grid
from summhay_ray.grid.progress import ModelProgress, Progress
from summhay_ray.grid.rejudge import JudgeCounts, RejudgeResult, plan_rejudge, rejudge_run
from summhay_ray.grid.rejudged import JudgedBy, all_failures, all_judgments, all_scores, judges_of
from summhay_ray.grid.rejudging import Wish
from summhay_ray.grid.run import RunResult, run_grid
from summhay_ray.grid.scoring import ScoreResult, read_biases, score_run
from summhay_ray.grid.sources import in_store
from summhay_ray.grid.spec import RunSpec, SpecError, parse_spec, read_spec
from summhay_ray.grid.submit import JobOrder, submit_grid

__all__ = [
    "BenchOptions",
    "BenchResult",
    "BenchRow",
    "Cell",
    "Check",
    "Choice",
    "CompareResult",
    "Difference",
    "Grid",
    "ImportResult",
    "Job",
    "JobEnd",
    "JobError",
    "JobLost",
    "JobOrder",
    "JudgeCounts",
    "JudgedBy",
    "ModelProgress",
    "Place",
    "PlanResult",
    "Progress",
    "RejudgeResult",
    "RunResult",
    "RunSpec",
    "ScoreResult",
    "SpecError",
    "StatusResult",
    "SystemMove",
    "Unit",
    "Wish",
    "all_failures",
    "all_judgments",
    "all_scores",
    "bench_judges",
    "compare_judges",
    "examine",
    "explain",
    "export",
    "failures",
    "import_files",
    "import_released",
    "in_store",
    "judges_of",
    "load_grid",
    "parse_spec",
    "places",
    "plan_grid",
    "plan_rejudge",
    "read_biases",
    "read_spec",
    "rejudge_run",
    "run_grid",
    "score_run",
    "status",
    "submit_grid",
]
