"""Export a run's results as evaluation logs of Every Eval Ever (https://github.com/evaleval/every_eval_ever), schema 0.3.0.

A log holds the figures of one model: a result for each retriever, ordering and metric. Single answers are not exported.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from summhay_ray.benchmarks.hub_files import HUB
from summhay_ray.publish.figures import public_spec
from summhay_ray.report import ReportedRun, versions

SCHEMA_VERSION = "0.3.0"
_SAMPLING = ("temperature", "top_p", "max_tokens")
_UNNAMED = re.compile(r"[^\w.+-]+")


def evaluation_logs(reported: ReportedRun, figures: pl.DataFrame) -> dict[str, str]:
    """Return the logs as JSON texts, by path: `data/KIND/DEVELOPER/MODEL/UUID.json`, as in the project's repository.

    `figures`: see `figures_of`. The same run always has the same paths.
    """
    logs = {}
    for (model,), rows in figures.group_by("model", maintain_order=True):
        developer, _, name = str(model).rpartition("/")
        digest = hashlib.sha256(f"{reported.run.run_id}/{model}/{reported.judge}".encode()).digest()
        parts = (_UNNAMED.sub("_", part).lstrip(".") or "unknown" for part in (reported.workload.kind, developer, name))
        path = f"data/{'/'.join(parts)}/{uuid.UUID(bytes=digest[:16], version=4)}.json"
        logs[path] = json.dumps(_log(reported, str(model), rows.to_dicts()), indent=1, ensure_ascii=False, allow_nan=False)
    return logs


def _log(reported: ReportedRun, model: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    began = datetime.fromisoformat(reported.now.began)
    developer = model.rpartition("/")[0]
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{reported.workload.kind}/{model}/{began.timestamp()}",
        "evaluation_timestamp": began.isoformat(),
        "retrieved_timestamp": f"{time.time():.0f}",
        "source_metadata": {
            "source_name": reported.title,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "third_party",
            "additional_details": {"run": reported.run.run_id, "status": reported.status},
        },
        "eval_library": {"name": "summhay_ray", "version": versions()["summhay-ray"]},
        "model_info": {
            "name": model,
            "id": model,
            **({"developer": developer} if developer else {}),
            "additional_details": {"deployment_type": "unknown", "model_availability": "unknown"},
        },
        "evaluation_results": [_result(reported, row) for row in rows],
    }


def _result(reported: ReportedRun, row: Mapping[str, Any]) -> dict[str, Any]:
    kind, figure = reported.workload.kind, row["figure"]
    spec = public_spec(reported.run.record.get("spec") or {})
    settings = next(_settings(spec, row["model"]), {})
    share = row["unit"] == "%"
    about = {"system": row["system"], "retriever": row["retriever"], "ordering": row["ordering"], "settings": settings}
    about |= {name: spec.get(name) for name in ("token_budget", "seed")}
    counted = {name: row[name] for name in ("n", "n_expected", "floor", "rank", "usd")}
    interval = {"lower": row["low"], "upper": row["high"], "confidence_level": 0.95}
    judged = {"judge": reported.judge} if reported.judge else {}
    return {
        "evaluation_result_id": "/".join(filter(None, (row["task"], row["system"], figure))),
        "evaluation_name": ".".join(filter(None, (kind, row["task"], row["retriever"], row["ordering"]))),
        "source_data": _source(reported, spec),
        "metric_config": {
            "evaluation_description": f"{figure} of {row['system']}{f', judged by {reported.judge}' if judged else ''}",
            "metric_id": f"{kind}.{figure}",
            "metric_name": figure,
            "metric_unit": "proportion" if share else "points",
            "lower_is_better": False,
            "score_type": "continuous",
            # The schema's words for figures without a bound.
            "min_score": 0 if share else "-Infinity",
            "max_score": 1 if share else "Infinity",
            **({"additional_details": judged} if judged else {}),
        },
        "score_details": {
            "score": row["value"],
            "details": _texts(counted),
            **({"uncertainty": {"confidence_interval": interval}} if row["low"] is not None and row["high"] is not None else {}),
        },
        "generation_config": {
            "generation_args": {name: settings[name] for name in _SAMPLING if name in settings},
            "additional_details": _texts(about),
        },
    }


def _source(reported: ReportedRun, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the evaluation: a dataset of the Hub if all haystacks are from it, else the haystacks' names and
    hashes."""
    entries = spec.get("haystacks") or []
    repos = {str(entry).removeprefix(HUB).partition("@")[0] for entry in entries if str(entry).startswith(HUB)}
    known = reported.run.record.get("haystacks", ())
    details = {str(one["name"]): str(one["haystack_id"]) for one in known} or {"run": reported.run.run_id}
    if len(repos) == 1 and all(str(entry).startswith(HUB) for entry in entries):
        (repo,) = repos
        return {"dataset_name": repo, "source_type": "hf_dataset", "hf_repo": repo, "additional_details": details}
    name = ", ".join(str(one["name"]) for one in known) or reported.title
    return {"dataset_name": name, "source_type": "other", "additional_details": details}


def _settings(spec: Any, model: str) -> Iterator[dict[str, Any]]:
    """Yield the entries of a spec that describe a model."""
    if isinstance(spec, Mapping):
        if model in (spec.get("model"), spec.get("name")) and "model" in spec:
            yield dict(spec)
        for inner in spec.values():
            yield from _settings(inner, model)
    elif isinstance(spec, list):
        for inner in spec:
            yield from _settings(inner, model)


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the known fields as texts, which the schema requires."""
    known = {name: value for name, value in fields.items() if value not in (None, "", {}, [])}
    return {name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for name, value in known.items()}
