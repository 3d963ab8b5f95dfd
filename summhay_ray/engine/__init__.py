"""Plans, runs, resumes, watches and explains any workload, inline or on Ray. For benchmarks, cli and api.

Folders: `spec`, `plan` (before a run), `run` (runs and resumes), `ray` (on a cluster), `read` (status, scores), `jobs`.
Only this package uses Ray. It imports no benchmark. To write a benchmark, import from `summhay_ray.benchmark`.
Importing this package starts nothing and does not load Ray.
"""

from summhay_ray.engine.ask import Ask, NoReply, Unreadable, read_json
from summhay_ray.engine.contract import (
    ByQuery,
    Results,
    Workload,
    open_run,
    spec_class_of,
)
from summhay_ray.engine.items import (
    FAILURES,
    RAW_ANSWERS,
    Counted,
    Failure,
    Item,
    Prepared,
    Queue,
    ReadOptions,
    Rows,
    RunTables,
    Stage,
    Tables,
    all_tables,
)
from summhay_ray.engine.jobs.jobs import JobEnd, JobLost, RayJob
from summhay_ray.engine.jobs.submit import JobOrder, submit
from summhay_ray.engine.plan.plan import PlanResult, plan
from summhay_ray.engine.ray.tasks import map_in_tasks, ray_tasks
from summhay_ray.engine.read.doctor import Check, examine, examine_runs, key_check, missing_keys
from summhay_ray.engine.read.expected import ITEM_ID, expected_rows
from summhay_ray.engine.read.explain import calls_of, explained, first_request
from summhay_ray.engine.read.item_samples import answers_of, item_samples
from summhay_ray.engine.read.release import ReleaseResult, release
from summhay_ray.engine.read.scoring import results_of, scored, scores_by_query
from summhay_ray.engine.read.status import RunEntry, StatusResult, entries, left_of_going, status, stop
from summhay_ray.engine.registry import (
    check_record,
    find,
    kinds,
    load_workload,
    reading_tables,
    stored_workload,
    workload_of,
)
from summhay_ray.engine.run.execution import Stopped
from summhay_ray.engine.run.progress import ModelProgress, Progress
from summhay_ray.engine.spec.inputs import Inputs
from summhay_ray.engine.spec.models import RunModels
from summhay_ray.engine.spec.own_code import BadBenchmark
from summhay_ray.engine.spec.spec import (
    FILL_IN,
    LimitsSpec,
    Model,
    ModelSpec,
    Reach,
    ResourcesSpec,
    Spec,
    Strict,
    Text,
)
from summhay_ray.engine.start import RunFailed, RunResult, Start
from summhay_ray.engine.start import run as run_workload
from summhay_ray.engine.state.items_left import ITEM
from summhay_ray.errors import SpecError
from summhay_ray.run_options import Compat
from summhay_ray.sections import Chart, Facet, Pivot, SampleRecord, Samples, Section

__all__ = [
    "FAILURES",
    "FILL_IN",
    "ITEM",
    "ITEM_ID",
    "RAW_ANSWERS",
    "Ask",
    "BadBenchmark",
    "ByQuery",
    "Chart",
    "Check",
    "Compat",
    "Counted",
    "Facet",
    "Failure",
    "Inputs",
    "Item",
    "JobEnd",
    "JobLost",
    "JobOrder",
    "LimitsSpec",
    "Model",
    "ModelProgress",
    "ModelSpec",
    "NoReply",
    "Pivot",
    "PlanResult",
    "Prepared",
    "Progress",
    "Queue",
    "RayJob",
    "Reach",
    "ReadOptions",
    "ReleaseResult",
    "ResourcesSpec",
    "Results",
    "Rows",
    "RunEntry",
    "RunFailed",
    "RunModels",
    "RunResult",
    "RunTables",
    "SampleRecord",
    "Samples",
    "Section",
    "Spec",
    "SpecError",
    "Stage",
    "Start",
    "StatusResult",
    "Stopped",
    "Strict",
    "Tables",
    "Text",
    "Unreadable",
    "Workload",
    "all_tables",
    "answers_of",
    "calls_of",
    "check_record",
    "entries",
    "examine",
    "examine_runs",
    "expected_rows",
    "explained",
    "find",
    "first_request",
    "item_samples",
    "key_check",
    "kinds",
    "left_of_going",
    "load_workload",
    "map_in_tasks",
    "missing_keys",
    "open_run",
    "plan",
    "ray_tasks",
    "read_json",
    "reading_tables",
    "release",
    "results_of",
    "run_workload",
    "scored",
    "scores_by_query",
    "spec_class_of",
    "status",
    "stop",
    "stored_workload",
    "submit",
    "workload_of",
]
