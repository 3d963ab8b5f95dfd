"""The engine room: plans, runs, resumes, watches and explains any workload, inline or on Ray. For benchmarks, cli and api.

Sub-rooms: `spec`, `plan` (before a run), `run` (runs and resumes), `ray` (on a cluster), `read` (status, scores), `jobs`.
It is the only room that knows Ray, and it knows no benchmark. To write a benchmark, import from `summhay_ray.benchmark`.
Importing this package starts nothing and does not load Ray.
"""

from summhay_ray.engine.ask import Ask, NoReply, Unreadable, read_json
from summhay_ray.engine.contract import (
    BaseReader,
    ByQuery,
    Computation,
    Part,
    Planner,
    Results,
    Storage,
    Workload,
    WorkloadPart,
    open_run,
    semantic_hash,
    spec_class_of,
)
from summhay_ray.engine.items import (
    FAILURES,
    RAW_ANSWERS,
    Compat,
    Counted,
    Failure,
    Item,
    Prepared,
    Queue,
    Rows,
    Size,
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
from summhay_ray.engine.read.explain import Replay, first_request
from summhay_ray.engine.read.reader import RunReader, answers_of
from summhay_ray.engine.read.release import ReleaseResult, release
from summhay_ray.engine.read.scoring import run_of, scored, scores_by_query, table_pieces
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
from summhay_ray.engine.samples import Facet, SampleRecord, Samples
from summhay_ray.engine.sections import Chart, Pivot, Section
from summhay_ray.engine.spec.inputs import Inputs
from summhay_ray.engine.spec.models import RunModels
from summhay_ray.engine.spec.own_code import BadBenchmark, planning
from summhay_ray.engine.spec.spec import (
    FILL_IN,
    LimitsSpec,
    Model,
    ModelSpec,
    NoAnswers,
    Reach,
    ResourcesSpec,
    Spec,
    SpecError,
    Strict,
    Text,
    check_spec,
    model_entry,
    model_settings,
    read_fields,
    validated,
)
from summhay_ray.engine.stage_plan import StagePlan
from summhay_ray.engine.start import RunFailed, RunResult, Start
from summhay_ray.engine.start import run as run_workload
from summhay_ray.engine.state.items_left import ITEM

__all__ = [
    "FAILURES",
    "FILL_IN",
    "ITEM",
    "ITEM_ID",
    "RAW_ANSWERS",
    "Ask",
    "BadBenchmark",
    "BaseReader",
    "ByQuery",
    "Chart",
    "Check",
    "Compat",
    "Computation",
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
    "NoAnswers",
    "NoReply",
    "Part",
    "Pivot",
    "PlanResult",
    "Planner",
    "Prepared",
    "Progress",
    "Queue",
    "RayJob",
    "Reach",
    "ReleaseResult",
    "Replay",
    "ResourcesSpec",
    "Results",
    "Rows",
    "RunEntry",
    "RunFailed",
    "RunModels",
    "RunReader",
    "RunResult",
    "SampleRecord",
    "Samples",
    "Section",
    "Size",
    "Spec",
    "SpecError",
    "Stage",
    "StagePlan",
    "Start",
    "StatusResult",
    "Stopped",
    "Storage",
    "Strict",
    "Tables",
    "Text",
    "Unreadable",
    "Workload",
    "WorkloadPart",
    "all_tables",
    "answers_of",
    "check_record",
    "check_spec",
    "entries",
    "examine",
    "examine_runs",
    "expected_rows",
    "find",
    "first_request",
    "key_check",
    "kinds",
    "left_of_going",
    "load_workload",
    "map_in_tasks",
    "missing_keys",
    "model_entry",
    "model_settings",
    "open_run",
    "plan",
    "planning",
    "ray_tasks",
    "read_fields",
    "read_json",
    "reading_tables",
    "release",
    "run_of",
    "run_workload",
    "scored",
    "scores_by_query",
    "semantic_hash",
    "spec_class_of",
    "status",
    "stop",
    "stored_workload",
    "submit",
    "table_pieces",
    "validated",
    "workload_of",
]
