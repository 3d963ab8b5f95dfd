"""Spec, cells, plan, run: the only room that knows Ray. For report and cli; importing it starts nothing and loads no Ray."""

from summhay_ray.grid.asked import Choice
from summhay_ray.grid.bench import BenchOptions, BenchResult, BenchRow, bench_judges
from summhay_ray.grid.cells import Cell, Grid, Unit, load_grid
from summhay_ray.grid.compare import CompareResult, Difference, SystemMove, compare_judges
from summhay_ray.grid.doctor import Check, examine
from summhay_ray.grid.exporting import export
from summhay_ray.grid.importing import import_files
from summhay_ray.grid.imports import ImportResult, import_released
from summhay_ray.grid.inspect import Place, explain, failures, places
from summhay_ray.grid.jobs import Job, JobEnd, JobError, JobLost
from summhay_ray.grid.plan import PlanResult, plan_grid
from summhay_ray.grid.progress import ModelProgress, Progress
from summhay_ray.grid.rejudge import JudgeCounts, RejudgeResult, plan_rejudge, rejudge_run
from summhay_ray.grid.rejudged import JudgedBy, all_failures, all_judgments, all_scores, judges_of
from summhay_ray.grid.rejudging import Wish
from summhay_ray.grid.run import RunResult, run_grid
from summhay_ray.grid.run_status import StatusResult, status
from summhay_ray.grid.scoring import ScoreResult, read_biases, score_run
from summhay_ray.grid.sources import in_store
from summhay_ray.grid.spec import RunSpec, SpecError, parse_spec, read_spec
from summhay_ray.grid.submit import JobOrder, submit_grid
from summhay_ray.grid.synth import FailedTopic, MadeHaystack, SynthResult, run_synth
from summhay_ray.grid.synth_audit import Sample, read_sheet, write_sheet
from summhay_ray.grid.synth_entries import is_synth_file, names_synth, with_synthesized
from summhay_ray.grid.synth_plan import plan_synth
from summhay_ray.grid.synth_spec import SynthSpec, is_synth
from summhay_ray.grid.synthesizing import Synthesizing, load_synth
from summhay_ray.grid.verifying import VerifiedFile, verify_files, write_checks

__all__ = [
    "BenchOptions",
    "BenchResult",
    "BenchRow",
    "Cell",
    "Check",
    "Choice",
    "CompareResult",
    "Difference",
    "FailedTopic",
    "Grid",
    "ImportResult",
    "Job",
    "JobEnd",
    "JobError",
    "JobLost",
    "JobOrder",
    "JudgeCounts",
    "JudgedBy",
    "MadeHaystack",
    "ModelProgress",
    "Place",
    "PlanResult",
    "Progress",
    "RejudgeResult",
    "RunResult",
    "RunSpec",
    "Sample",
    "ScoreResult",
    "SpecError",
    "StatusResult",
    "SynthResult",
    "SynthSpec",
    "Synthesizing",
    "SystemMove",
    "Unit",
    "VerifiedFile",
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
    "is_synth",
    "is_synth_file",
    "judges_of",
    "load_grid",
    "load_synth",
    "names_synth",
    "parse_spec",
    "places",
    "plan_grid",
    "plan_rejudge",
    "plan_synth",
    "read_biases",
    "read_sheet",
    "read_spec",
    "rejudge_run",
    "run_grid",
    "run_synth",
    "score_run",
    "status",
    "submit_grid",
    "verify_files",
    "with_synthesized",
    "write_checks",
    "write_sheet",
]
