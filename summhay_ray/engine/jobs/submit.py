"""Submits a run as a Ray job to a cluster, or finds the job if it is running already.

Everything is checked here before anything is sent. The job is `summhay run` on the cluster, which resumes from the store, so a
job that died can be submitted again. Keys are not sent: they must be in the nodes' environment or files. A job takes 100 MiB of
files; if the store is a bucket that this machine can write, large inputs go there instead.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.jobs.jobs import RayJob, asking, job_client, one_line, reach
from summhay_ray.engine.jobs.package import SPEC, Package, pack
from summhay_ray.errors import UserError
from summhay_ray.logs import asked_level
from summhay_ray.store import NoCredentials, Store

STOP_WAIT_S = 25
"""Seconds that Ray gives a job to stop. Its default of 3 s is too short: a run takes up to 20 s to finish the calls in flight."""
_HERE = {"127.0.0.1", "::1", "localhost"}
_TRIES = 5


@dataclass(frozen=True, slots=True)
class JobOrder:
    """The options of a job in addition to its spec."""

    store_uri: str
    budget_usd: float | None = None
    """Overrides the spec's budget; None: the spec's."""
    compat: str = "default"
    untrusted: bool = False
    """Whether the spec is somebody else's. The job runs it with the same restrictions."""

    def entrypoint(self) -> str:
        """The shell command that the job runs in the package's folder; it starts or resumes the run."""
        words = ["python", "-m", "summhay_ray.cli", "run", SPEC, "--address", "auto", "--store", self.store_uri]
        if self.budget_usd is not None:
            words += ["--budget", repr(self.budget_usd)]
        if self.compat != "default":
            words += ["--compat", self.compat]
        if self.untrusted:
            words.append("--untrusted")
        if (level := asked_level()) is not None:
            words += ["--log-level", logging.getLevelName(level).lower()]
        return shlex.join(words)


def submit(workload: Workload[Any], order: JobOrder, address: str) -> RayJob:
    """Send a run to the cluster at `address`, or find it there. Raises UserError, StoreError, before anything is sent."""
    if workload.spec.executor == "inline":
        raise UserError("executor: inline runs in one process, and a job on a cluster; leave it out, or set executor: ray")
    url = job_url(address)
    uri, bucket, notes = store_for_job(order.store_uri, url)
    order = replace(order, store_uri=uri)
    package = pack(workload, workload.by_store() if bucket else {})
    notes = [*notes, *package.notes, *reach(url)]
    client = job_client(url)
    metadata = _metadata(workload, order)
    for _ in range(_TRIES):
        with asking(url):
            jobs = client.list_jobs()
        for job in jobs:
            if job.submission_id and not job.status.is_terminal() and _same(job.metadata, metadata):
                return RayJob(job.submission_id, workload.run_id, url, uri, True, tuple(notes), client)
        if bucket is not None:
            workload.keep_by_store(bucket)
        # Ray accepts a name only once: the second of two simultaneous submissions finds the job of the first.
        taken = {job.submission_id for job in jobs}
        number = next(n for n in range(1, len(taken) + 2) if f"{workload.run_id}-{n}" not in taken)
        if _send(client, f"{workload.run_id}-{number}", package, (order.entrypoint(), metadata)):
            return RayJob(
                f"{workload.run_id}-{number}", workload.run_id, url, uri, False, (*notes, *_rivals(jobs, metadata)), client
            )
    raise UserError(f"--address {url}: the job server gave the names of {_TRIES} jobs of this run to others; submit again")


def job_url(address: str) -> str:
    """The URL of a head's dashboard, which is its job server: http://HOST:8265. Raises UserError for an invalid address."""
    url = (address if "://" in address else f"http://{address}").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable or parts.query or not re.fullmatch(r"[!-~]+", url):
        raise UserError("--address: expected the URL of the head's dashboard, without credentials, such as http://HEAD:8265")
    return url


def store_for_job(uri: str, url: str) -> tuple[str, Store | None, list[str]]:
    """(The store's URI for the cluster's nodes, the store if it is a bucket that this machine can write (else None), notes.)

    A bucket is checked here, so that a wrong name is reported before anything is sent. Raises UserError, StoreError.
    """
    if "://" in uri and not uri.startswith("file://"):
        try:
            bucket = Store(uri)
            bucket.files.check()
        except NoCredentials:
            note = "no credentials for the store here, so it was not checked, and the spec's files go with the job"
            return uri, None, [f"{note}; the nodes must find their own: none are sent"]
        return bucket.files.uri, bucket, []
    here = urlsplit(url).hostname in _HERE
    path = Path(uri.removeprefix("file://")).expanduser()
    if not path.is_absolute() and not here:
        raise UserError(
            f"store {uri!r} is a folder of this machine; give one that the cluster's nodes see, from / on, or s3://BUCKET/PREFIX"
        )
    note = f"the job keeps its results in {path.absolute()}: every node must see that folder as its own"
    return str(path.absolute()), None, [note]


def _metadata(workload: Workload[Any], order: JobOrder) -> dict[str, str]:
    """The metadata that identifies the job. The dashboard shows it to everybody."""
    budget = workload.spec.budget_usd if order.budget_usd is None else order.budget_usd
    return {
        "summhay_run": workload.run_id,
        "summhay_name": workload.spec.name,
        "summhay_store": order.store_uri,
        "summhay_budget": "" if budget is None else repr(float(budget)),
        "summhay_compat": order.compat,
    }


def _same(found: Mapping[str, str] | None, asked: Mapping[str, str]) -> bool:
    names = ("summhay_run", "summhay_store", "summhay_budget", "summhay_compat")
    return found is not None and all(found.get(name) == asked[name] for name in names)


def _rivals(jobs: list[Any], asked: Mapping[str, str]) -> list[str]:
    """A note for each running job of this run in this store with other options. The new job takes over the run."""
    alike = ("summhay_run", "summhay_store")
    return [
        f"job {job.submission_id} runs this run with another budget or compat; the new job takes the run over from it"
        for job in jobs
        if not job.status.is_terminal() and all((job.metadata or {}).get(name) == asked[name] for name in alike)
    ]


def _send(client: Any, name: str, package: Package, asked: tuple[str, dict[str, str]]) -> bool:
    """Submit the job; returns False if its name is taken. `asked`: the job's command and metadata."""
    import summhay_ray

    entrypoint, metadata = asked
    with tempfile.TemporaryDirectory(prefix="summhay-job-") as folder:
        package.write(Path(folder))
        runtime_env = {
            "working_dir": folder,
            # The cluster may have an older version of this package; the job must run the code that checked the spec.
            "py_modules": [str(Path(summhay_ray.__file__).parent)],
            "excludes": ["__pycache__", "*.pyc"],
            "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_WAIT_S)},
        }
        try:
            client.submit_job(entrypoint=entrypoint, submission_id=name, runtime_env=runtime_env, metadata=metadata)
        except (RuntimeError, OSError, ValueError) as error:
            with contextlib.suppress(RuntimeError, OSError):
                if any(job.submission_id == name for job in client.list_jobs()):
                    return False
            raise UserError(f"the job server took no job: {one_line(error)}") from error
    return True
