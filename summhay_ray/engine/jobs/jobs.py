"""A client for Ray jobs: reaches the job server, follows a job's log, and reads how it ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import shlex
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.loops import run_loop
from summhay_ray.routes import NoRoute, route_to

OLDEST_RAY = (2, 50)
REACH_S = 10.0
LOST_S = 60.0
"""Seconds without the job server (a broken port forward, a restarting head) after which following a job fails."""
POLL_S = 1.0
_EXIT_CODES = range(5)
"""Exit codes of the command line: 0 (done) to 4 (with failures). Any other code means that the process died."""
_GUARDED = (401, 403)
_TOKEN = "the cluster wants a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or the file ~/.ray/auth_token, as on its head"


class JobLost(UserError):
    """The job server stopped answering. The job may still be running, or may be gone with its cluster."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended."""

    status: str
    """Ray's status: SUCCEEDED, FAILED or STOPPED."""
    exit_code: int
    """The run's exit code (0 done, 2 spec, 3 budget, 4 failures listed); 1 if it was killed, stopped, or never started."""
    message: str = ""
    """The reason, if the run itself could not report it."""


@dataclass(frozen=True)
class RayJob:
    """A job that carries out a run."""

    job: str
    """Ray's submission id."""
    run: str
    address: str
    """URL of the job server."""
    store: str
    attached: bool
    """True if the job was already running and nothing was submitted."""
    notes: tuple[str, ...]
    client: Any = field(repr=False, compare=False)

    def look(self) -> str:
        """The commands that show the run's status and the job's log."""
        at = f"{self.job} --address {self.address}"
        return f"summhay status {self.run} --store {shlex.quote(self.store)}; its log: ray job logs {at} --follow"

    def stop(self) -> str:
        """The command that stops the job."""
        return f"ray job stop {self.job} --address {self.address}"

    def follow(self, tell: Callable[[str], None]) -> JobEnd:
        """Pass the job's log to `tell` in pieces, from its beginning, until the job ends. Raises JobLost."""
        log = _Log(self.client, self.job, tell)
        lost_since: float | None = None
        while True:
            try:
                log.read()
                details = self.client.get_job_info(self.job)
                if details.status.is_terminal():
                    log.read()
                    return _end(details, self)
                lost_since = None
            except _lost_errors() as error:
                lost_since = time.monotonic() if lost_since is None else lost_since
                if time.monotonic() - lost_since > LOST_S:
                    raise JobLost(
                        f"no word of job {self.job} for {LOST_S:.0f} s ({one_line(error)}); look: {self.look()}"
                    ) from error
            time.sleep(POLL_S)


class _Log:
    """Passes on each character of a job's log once, although every new connection sends it from the beginning."""

    def __init__(self, client: Any, job: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._job = job
        self._tell = tell
        self._told = 0

    def read(self) -> None:
        """Pass on new text until the connection ends."""
        run_loop(self._read)

    async def _read(self) -> None:
        received = 0
        async for text in self._client.tail_job_logs(self._job):
            received += len(text)
            if received > self._told:
                self._tell(text[self._told - received :])
                self._told = received


def _end(details: Any, job: RayJob) -> JobEnd:
    status, code = str(details.status.value), details.driver_exit_code
    if status == "SUCCEEDED":
        return JobEnd(status, 0)
    if status == "STOPPED":
        return JobEnd(status, 1, f"job {job.job} was stopped; submit again to go on where it was")
    if code in _EXIT_CODES:
        return JobEnd(status, int(code))
    # Ray's message repeats the job's log after its first sentence.
    message = (details.message or "").partition(", last available logs")[0]
    return JobEnd(status, 1, f"job {job.job} ended {status}: {_line(message)}; what was answered is kept, submit again to go on")


def reach(url: str) -> list[str]:
    """Check that a usable job server answers at `url`; returns notes about it. Raises UserError."""
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
            f"{where}: no job server answers there ({_line(str(reason))}); {mend}, and a port that is open here"
        ) from error
    return _check_version(version, numbers, where)


def _check_version(version: str, numbers: tuple[int, ...], where: str) -> list[str]:
    import ray

    if numbers < OLDEST_RAY:
        oldest = ".".join(map(str, OLDEST_RAY))
        raise UserError(f"{where}: the cluster runs Ray {version}; a run needs {oldest} or later there")
    if version != ray.__version__:
        return [f"the cluster runs Ray {version}, this machine {ray.__version__}: the job runs with the cluster's"]
    return []


def _proxies(url: str) -> dict[str, str]:
    """The proxies for requests to the job server. Raises UserError if the one that the environment names cannot be used."""
    try:
        return route_to(url).proxies
    except NoRoute as error:
        raise UserError(f"--address {url}: {error}") from error


def job_client(url: str) -> Any:
    """Ray's client of the job server at `url`. Raises UserError."""
    from ray.job_submission import JobSubmissionClient

    # An empty proxy keeps `requests` from reading the environment.
    proxies = {"http": "", "https": "", **_proxies(url)}

    class Client(JobSubmissionClient):  # type: ignore[misc]
        def _do_request(self, *of: Any, **options: Any) -> Any:
            return super()._do_request(*of, **options, proxies=proxies)

    # Ray's loggers set their level when they are imported, so it is set here, after the import.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("ray."):
            logging.getLogger(name).setLevel(logging.ERROR)
    with asking(url), _without("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        return Client(url)


@contextlib.contextmanager
def _without(*names: str) -> Iterator[None]:
    """A context without these environment variables, which override the address given to Ray."""
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


@contextlib.contextmanager
def asking(url: str) -> Iterator[None]:
    """A context for a request to the job server: errors become UserError."""
    from ray.exceptions import AuthenticationError

    try:
        yield
    except AuthenticationError as error:
        raise UserError(f"--address {url}: {_TOKEN}") from error
    except (RuntimeError, OSError) as error:
        raise UserError(f"--address {url}: the job server does not answer as one: {one_line(error)}") from error


def _lost_errors() -> tuple[type[Exception], ...]:
    import aiohttp

    return (RuntimeError, OSError, aiohttp.ClientError, TimeoutError)


def one_line(error: BaseException) -> str:
    """An error's text in one line of at most 300 characters."""
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
