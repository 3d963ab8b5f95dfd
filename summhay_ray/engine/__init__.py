"""The engine plans, runs, resumes, monitors and explains workloads, in this process or on Ray. For `benchmark.py`, cli and api.

`contract.py` defines a benchmark, `plan.py` counts calls, and `start.py` starts a run. The folder `spec` parses specs, `state`
reads what a run has stored, `run` executes a run, `ray` does so on a cluster, and `read` computes status and scores. Only this
package uses Ray. It imports no benchmark. To write a benchmark, import from `summhay_ray.benchmark`. Importing this package
starts nothing and does not load Ray.
"""

from summhay_ray.engine.ask import Ask, NoReply, Unreadable, read_json
from summhay_ray.engine.contract import ByQuery, Results, Workload, open_run, spec_class_of
from summhay_ray.engine.items import (
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
from summhay_ray.engine.plan import PlanResult, plan
from summhay_ray.engine.ray.session import Cluster
from summhay_ray.engine.read.control import ReleaseResult, release, reported_work_left, stop
from summhay_ray.engine.read.doctor import Check, examine, examine_runs
from summhay_ray.engine.read.explain import answers_of, calls_of, explain_item, first_request, item_samples
from summhay_ray.engine.read.scoring import ITEM_ID, compute_results, expected_rows, results_of, scores_by_query
from summhay_ray.engine.read.status import RunEntry, StatusResult, entries, status
from summhay_ray.engine.registry import check_record, find, load_workload, reading_tables, workload_of
from summhay_ray.engine.run.execution import Stopped
from summhay_ray.engine.run.progress import ModelProgress, Progress
from summhay_ray.engine.spec.inputs import Inputs, RunModels
from summhay_ray.engine.spec.spec import FILL_IN, Model, ModelSpec, Reach, Spec, Strict, Text
from summhay_ray.engine.start import RunResult, missing_keys
from summhay_ray.engine.start import run as run_workload
from summhay_ray.engine.state.items_left import ITEM
from summhay_ray.engine.submit import JobOrder, RayJob, submit
from summhay_ray.errors import SpecError
from summhay_ray.run_options import Compat, Over
from summhay_ray.sections import Chart, Facet, SampleRecord, Samples, Section

__all__ = [
    "FILL_IN",
    "ITEM",
    "ITEM_ID",
    "Ask",
    "ByQuery",
    "Chart",
    "Check",
    "Cluster",
    "Compat",
    "Counted",
    "Facet",
    "Failure",
    "Inputs",
    "Item",
    "JobOrder",
    "Model",
    "ModelProgress",
    "ModelSpec",
    "NoReply",
    "Over",
    "PlanResult",
    "Prepared",
    "Progress",
    "Queue",
    "RayJob",
    "Reach",
    "ReadOptions",
    "ReleaseResult",
    "Results",
    "Rows",
    "RunEntry",
    "RunModels",
    "RunResult",
    "RunTables",
    "SampleRecord",
    "Samples",
    "Section",
    "Spec",
    "SpecError",
    "Stage",
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
    "compute_results",
    "entries",
    "examine",
    "examine_runs",
    "expected_rows",
    "explain_item",
    "find",
    "first_request",
    "item_samples",
    "load_workload",
    "missing_keys",
    "open_run",
    "plan",
    "read_json",
    "reading_tables",
    "release",
    "reported_work_left",
    "results_of",
    "run_workload",
    "scores_by_query",
    "spec_class_of",
    "status",
    "stop",
    "submit",
    "workload_of",
]
