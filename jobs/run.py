"""The command of a Ray job that was not sent by `summhay submit` (KubeRay, `ray job submit`): `summhay run` on the job's cluster.

    python jobs/run.py SPEC [--store s3://BUCKET/PREFIX] [--budget USD] [--set a.b=c]... [--settle]

SPEC is of any kind. All options of `summhay run`, with `--address auto`. It resumes: work in the store is neither asked nor paid
for again. Whatever restarts it after a failure (KubeRay's backoffLimit makes a new cluster and starts from scratch) therefore
resumes it.

`--settle` leaves Ray's status FAILED, after which KubeRay starts the job again, to what another start may change. A run that
finished with failures listed (exit code 4) ends SUCCEEDED, unless another start would try some of them again. One that stopped at
its budget (3), or that another driver took over (6), ends STOPPED. stdout is then the JSON document of the run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from summhay_ray.cli import main

FINISHED_WITH_FAILURES = 4
NOT_MENDED_BY_A_RESTART = frozenset({3, 6})
"""Exit codes of a run: its budget is used up, another driver took it over."""
SETTLE = "--settle"
STOP_S = 60.0
"""Seconds that Ray has to stop this job."""


def job(arguments: Sequence[str]) -> int:
    """Run the spec; returns the exit code of the job."""
    given = [argument for argument in arguments if argument != SETTLE]
    if SETTLE not in arguments:
        return _run(given)
    with contextlib.redirect_stdout(io.StringIO()) as document:
        code = _run([*given, "--json"])
    sys.stdout.write(document.getvalue())
    sys.stdout.flush()
    if code == FINISHED_WITH_FAILURES and not json.loads(document.getvalue())["tried_again"]:
        sys.stderr.write("settled: finished with failures listed (exit code 4), which starting it again would not change\n")
        return 0
    if code in NOT_MENDED_BY_A_RESTART:
        sys.stderr.write(f"settled: stops its job (exit code {code}), which starting it again would not change\n")
        _stop_this_job()
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        main(["run", *arguments, "--address", "auto"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _stop_this_job() -> None:
    """Have Ray stop the job of this process; returns if there is none, or if Ray does not do it."""
    # Ray gives it to a job's process.
    config = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    name = config.get("metadata", {}).get("job_submission_id")
    if name is None:
        return
    # Ray ends this process and what it started by SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if subprocess.run(["ray", "job", "stop", "--no-wait", name], stdout=sys.stderr).returncode == 0:
        time.sleep(STOP_S)


if __name__ == "__main__":
    sys.exit(job(sys.argv[1:]))
