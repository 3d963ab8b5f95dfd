"""The spec of support judging, from the names on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.benchmark import Reach, RunStore
from summhay_ray.benchmarks.support.spec import models_of, named_judge
from summhay_ray.citations import SUPPORT_JUDGE


@dataclass(frozen=True, slots=True)
class SupportRequest:
    """The run or files to judge, and the judge."""

    judge: str = SUPPORT_JUDGE
    per: str = "citation"
    run: RunStore | None = None
    answers: str = ""
    documents: str = ""


def support_fields(request: SupportRequest) -> dict[str, Any]:
    """The fields of the spec. Endpoints, prices and limits of models come from the judged run. Raises BadName, UnknownName."""
    fields: dict[str, Any] = {"kind": "support", "judge": request.judge, "per": request.per}
    if request.run is None:
        return {**fields, "answers": request.answers, "documents": request.documents, "name": f"support of {request.answers}"}
    run = request.run
    written = run.record.get("spec", {})
    models = models_of(named_judge(request.judge))
    entries = [one for name in ("summarizers", "judges") for one in written.get(name, []) if isinstance(one, Mapping)]
    known = {one["model"]: one for one in reversed(entries) if one.get("model") in models}
    reach = [
        {"model": model, "max_tokens": 400, **{part: one[part] for part in Reach.model_fields if one.get(part) is not None}}
        for model, one in known.items()
    ]
    limits = {model: one for model, one in written.get("limits", {}).items() if model in models}
    shared = {name: written[name] for name in ("workers", "executor", "endpoint_url", "seed") if written.get(name) is not None}
    return {**fields, **shared, "of": run.run_id, "name": f"support of {run.run_id}", "models": reach, "limits": limits}
