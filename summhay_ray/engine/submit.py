"""Submits a run to a cluster as a Ray job, or finds the job if it is already running.

Everything is checked here before anything is sent. The job is `summhay run` on the cluster, which resumes from the store. So a
job that died can be submitted again. Keys are not sent: they must be in the nodes' environment or files. A job may contain 100
MiB of files. If the store is a bucket that this machine can write, large inputs are put there instead.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import logging
import os
import re
import shlex
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from summhay_ray.engine.contract import Workload
from summhay_ray.engine.package import SPEC, Package, pack
from summhay_ray.errors import UserError
from summhay_ray.logs import asked_level
from summhay_ray.loops import run_loop
from summhay_ray.routes import NoRoute, route_to
from summhay_ray.store import NoCredentials, Store

STOP_WAIT_S = 25
"""Seconds that Ray gives a job to stop. Ray's default of 3 s is too short: a run needs up to 20 s to finish its calls in
flight."""
_HERE = {"127.0.0.1", "::1", "localhost"}
_TRIES = 5


@dataclass(frozen=True, slots=True)
class JobOrder:
    """The options of a job in addition to its spec."""

    store_uri: str
    budget_usd: float | None = None
    """Overrides the spec's budget; None: keep it."""
    compat: str = "default"
    untrusted: bool = False
    """Whether the spec is somebody else's. The job then has the restrictions of `--untrusted`."""

    def entrypoint(self) -> str:
        """Return the job's shell command. It starts or resumes the run in the package's folder."""
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
    """Submit a run to the cluster at `address`, or find its job there. Raises UserError or StoreError before anything is sent."""
    if workload.spec.executor == "inline":
        raise UserError("executor: inline runs in one process, but a job runs on a cluster; leave it out, or set executor: ray")
    url = job_url(address)
    uri, bucket, notes = store_for_job(order.store_uri, url)
    order = replace(order, store_uri=uri)
    package = pack(workload, workload.by_store() if bucket else {})
    notes = [*notes, *package.notes, *reach(url)]
    client = job_client(url)
    # Do not put secrets here: Ray's dashboard shows the metadata to everybody.
    budget = workload.spec.budget_usd if order.budget_usd is None else order.budget_usd
    metadata = {
        "summhay_run": workload.run_id,
        "summhay_name": workload.spec.name,
        "summhay_store": uri,
        "summhay_budget": "" if budget is None else repr(float(budget)),
        "summhay_compat": order.compat,
    }
    for _ in range(_TRIES):
        with asking(url):
            jobs = client.list_jobs()
        notes_now = [*notes]
        for job in jobs:
            known = job.metadata or {}
            if job.status.is_terminal() or any(known.get(name) != metadata[name] for name in ("summhay_run", "summhay_store")):
                continue
            if job.submission_id and all(known.get(name) == metadata[name] for name in ("summhay_budget", "summhay_compat")):
                return RayJob(job.submission_id, workload.run_id, url, uri, True, tuple(notes), client)
            notes_now.append(
                f"job {job.submission_id} runs this run with another budget or compat; the new job takes the run over from it"
            )
        if bucket is not None:
            workload.keep_by_store(bucket)
        # Ray accepts each name once, so the second of two simultaneous submissions finds the job of the first one.
        taken = {job.submission_id for job in jobs}
        name = next(name for n in itertools.count(1) if (name := f"{workload.run_id}-{n}") not in taken)
        if _send(client, name, package, order.entrypoint(), metadata):
            return RayJob(name, workload.run_id, url, uri, False, tuple(notes_now), client)
    raise UserError(f"--address {url}: the job server gave the names of {_TRIES} jobs of this run to others; submit again")


def job_url(address: str) -> str:
    """Return the URL of a head's dashboard, which is also its job server: http://HOST:8265. Raises UserError for an invalid
    address."""
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
    """Return (the store's URI for the cluster's nodes, the store or None, notes). The store is returned if it is a bucket that
    this machine can write.

    Checks a bucket, so that a wrong name is reported before anything is sent. Raises UserError, StoreError.
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


def _send(client: Any, name: str, package: Package, entrypoint: str, metadata: Mapping[str, str]) -> bool:
    """Submit the job. Returns False if its name is taken."""
    import summhay_ray

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


OLDEST_RAY = (2, 50)
REACH_S = 10.0
LOST_S = 60.0
"""Seconds without the job server (a broken port forward, a restarting head) after which following a job fails."""
POLL_S = 1.0
_EXIT_CODES = range(5)
"""Exit codes of the command line, 0 (done) to 4 (with failures). With any other code, the process died."""
_GUARDED = (401, 403)
_TOKEN = "the cluster wants a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or the file ~/.ray/auth_token, as on its head"


class JobLost(UserError):
    """Raised if the job server stops answering. The job may still be running, or it may be gone with its cluster."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended."""

    status: str
    """Ray's status: SUCCEEDED, FAILED or STOPPED."""
    exit_code: int
    """The run's exit code (0 done, 2 spec, 3 budget, 4 failures listed); 1 if the job was killed, was stopped, or never
    started."""
    message: str = ""
    """The reason, if the run itself could not report it."""


@dataclass(frozen=True)
class RayJob:
    """A Ray job that executes a run."""

    job: str
    """Ray's submission id."""
    run: str
    address: str
    """URL of the job server."""
    store: str
    attached: bool
    """True if the job was already running, so that nothing was submitted."""
    notes: tuple[str, ...]
    client: Any = field(repr=False, compare=False)

    def look(self) -> str:
        """Return the commands that show the run's status and the job's log."""
        at = f"{self.job} --address {self.address}"
        return f"summhay status {self.run} --store {shlex.quote(self.store)}; its log: ray job logs {at} --follow"

    def stop(self) -> str:
        """Return the command that stops the job."""
        return f"ray job stop {self.job} --address {self.address}"

    def follow(self, tell: Callable[[str], None]) -> JobEnd:
        """Pass the job's log to `tell` piece by piece, from its beginning, until the job ends. Raises JobLost."""
        import aiohttp

        n_passed = 0
        lost_since: float | None = None

        async def read_log() -> None:
            # Every new connection sends the log from its beginning.
            nonlocal n_passed
            received = 0
            async for text in self.client.tail_job_logs(self.job):
                received += len(text)
                if received > n_passed:
                    tell(text[n_passed - received :])
                    n_passed = received

        while True:
            try:
                run_loop(read_log)
                details = self.client.get_job_info(self.job)
                if details.status.is_terminal():
                    run_loop(read_log)
                    break
                lost_since = None
            except (RuntimeError, OSError, aiohttp.ClientError, TimeoutError) as error:
                lost_since = time.monotonic() if lost_since is None else lost_since
                if time.monotonic() - lost_since > LOST_S:
                    raise JobLost(
                        f"no word of job {self.job} for {LOST_S:.0f} s ({one_line(error)}); look: {self.look()}"
                    ) from error
            time.sleep(POLL_S)
        status, code = str(details.status.value), details.driver_exit_code
        if status == "SUCCEEDED":
            return JobEnd(status, 0)
        if status == "STOPPED":
            return JobEnd(status, 1, f"job {self.job} was stopped; submit again to go on where it was")
        if code in _EXIT_CODES:
            return JobEnd(status, int(code))
        # Ray's message repeats the job's log after its first sentence.
        message = one_line((details.message or "").partition(", last available logs")[0])
        return JobEnd(status, 1, f"job {self.job} ended {status}: {message}; what was answered is kept, submit again to go on")


def reach(url: str) -> list[str]:
    """Check that a usable job server answers at `url`. Returns notes about it. Raises UserError."""
    where = f"--address {url}"
    mend = "give the URL of the head's dashboard, such as http://HEAD:8265"
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(_proxies(url)))
        with opener.open(f"{url}/api/version", timeout=REACH_S) as answer:
            found = json.loads(answer.read())
        version = str(found["ray_version"])
        numbers = tuple(int(part) for part in version.split(".")[:2])
    except urllib.error.HTTPError as error:
        if error.code in _GUARDED:
            return []
        raise UserError(f"{where}: what answers there is not a Ray dashboard (HTTP {error.code}); {mend}") from error
    except (ValueError, KeyError, TypeError, http.client.HTTPException, ConnectionResetError) as error:
        raise UserError(f"{where}: what answers there is not a Ray dashboard ({type(error).__name__}); {mend}") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ConnectionResetError | http.client.HTTPException):
            raise UserError(f"{where}: what answers there is not a Ray dashboard ({type(reason).__name__}); {mend}") from error
        raise UserError(
            f"{where}: no job server answers there ({one_line(reason)}); {mend}, and a port that is open here"
        ) from error
    import ray

    if numbers < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        raise UserError(f"{where}: the cluster runs Ray {version}; a run needs {oldest} or later there")
    if version != ray.__version__:
        return [f"the cluster runs Ray {version}, this machine {ray.__version__}: the job runs with the cluster's"]
    return []


def _proxies(url: str) -> dict[str, str]:
    """Return the proxies for requests to the job server. Raises UserError if the environment names an unusable proxy."""
    try:
        return route_to(url).proxies
    except NoRoute as error:
        raise UserError(f"--address {url}: {error}") from error


def job_client(url: str) -> Any:
    """Return Ray's client of the job server at `url`. Raises UserError."""
    from ray.job_submission import JobSubmissionClient

    # An empty proxy keeps `requests` from reading the environment.
    proxies = {"http": "", "https": "", **_proxies(url)}

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def _do_request(self, *of: Any, **options: Any) -> Any:
            return super()._do_request(*of, **options, proxies=proxies)

    # Ray's loggers set their levels when they are imported, so change the levels after the import.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("ray."):
            logging.getLogger(name).setLevel(logging.ERROR)
    # These variables would override the given address.
    names = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        with asking(url):
            return Client(url)
    finally:
        os.environ.update(kept)


@contextlib.contextmanager
def asking(url: str) -> Iterator[None]:
    """Return a context for a request to the job server, in which errors become UserError."""
    from ray.exceptions import AuthenticationError

    try:
        yield
    except AuthenticationError as error:
        raise UserError(f"--address {url}: {_TOKEN}") from error
    except (RuntimeError, OSError) as error:
        raise UserError(f"--address {url}: the job server does not answer as one: {one_line(error)}") from error


def one_line(error: BaseException | str) -> str:
    """Return an error's text in one line of at most 300 characters."""
    line = " ".join(str(error).split())[:300]
    return line if line or isinstance(error, str) else type(error).__name__
