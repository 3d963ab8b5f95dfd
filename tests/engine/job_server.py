"""A stand-in for Ray's client of a job server. `from job_server import server` imports the fixture."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.job_submission import JobDetails, JobStatus

from summhay_ray.engine import package

submit = importlib.import_module("summhay_ray.engine.submit")
"""The module: the engine's door offers a function of the same name."""


def details(job: str, status: str = "RUNNING", **fields: Any) -> JobDetails:
    """A job in the form that the server reports."""
    return JobDetails(type="SUBMISSION", submission_id=job, status=JobStatus(status), entrypoint="true", **fields)


@dataclass
class Server:
    """Keeps the requests; a submitted job is running."""

    jobs: list[JobDetails] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """Of the latest job's package."""
    first: Any = None
    """What happens just before the first job is taken."""

    def list_jobs(self) -> list[JobDetails]:
        return list(self.jobs)

    def submit_job(self, **order: Any) -> None:
        if self.first:
            happens, self.first = self.first, None
            happens(order)
        if any(job.submission_id == order["submission_id"] for job in self.jobs):
            raise RuntimeError("already exists")
        self.sent.append(order)
        self.jobs.append(details(order["submission_id"], metadata=order["metadata"]))
        folder = Path(order["runtime_env"]["working_dir"])
        self.files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load(self.files[package.SPEC])
        return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """The job server that `submit` finds at any address."""
    found = Server()
    monkeypatch.setattr(submit, "reach", lambda url: [])
    monkeypatch.setattr(submit, "job_client", lambda url: found)
    return found
